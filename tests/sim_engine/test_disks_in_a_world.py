"""Disks in a world: cleaners at work, brokers that start on what is left, and the ledger of what was done."""

from dataclasses import replace

import pytest

from tests.sim_engine.clusters import ORDERS, batches, cluster, said
from tidegauge.kafka_log.batch import DELETE_HORIZON_BIT
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.disks.disk_actions import HurtDisk, RestoreCheckpoint, RestoreDisk
from tidegauge.sim_engine.disks.disk_faults import CheckpointFile, FaultKind
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.world import World

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.1"}
SMALL = {"segment.bytes": "400"}


def written(world: World, count: int = 40, *, keys: int = 4) -> World:
    """One record a batch, again and again under the same few keys."""
    world = step(world, actions.StartProducer(client="writer", idempotent=True))
    for at in range(count):
        record = NewRecord(timestamp=-1, key=b"key %d" % (at % keys), value=b"value %d" % at)
        world = step(world, actions.ProduceCall(client="writer", partition=ORDERS, records=(record,)))
        world = run_for(world, 50)
    return run_for(world, 2_000)


def test_each_replica_is_cleaned_and_its_checkpoint_says_so() -> None:
    world = run_for(written(cluster(config=COMPACTED)), 60_000)
    for broker in world.brokers.values():
        log = broker.disk.replicas[ORDERS].log
        checkpoint = broker.disk.cleaner_offsets[ORDERS]
        assert 0 < checkpoint <= log.active.base_offset
        clean = [r.key for s in log.segments if s.base_offset < checkpoint for b in s.batches for r in b.records]
        assert len(clean) == len(set(clean)) == 4
        assert log.log_end_offset == 40
        assert not any(b.attributes & DELETE_HORIZON_BIT for s in log.segments for b in s.batches)
    assert not world.truth.losses


def dead(world: World, broker_id: int = 2) -> World:
    """Checkpoints were written, then a follower died."""
    return run_for(step(run_for(world, 6_000), actions.Kill(broker_id)), 1_000)


@pytest.mark.parametrize(
    "kind", [FaultKind.TORN_WRITE, FaultKind.LOST_FLUSH, FaultKind.LOST_SEGMENT, FaultKind.DAMAGED_INDEX]
)
def test_a_follower_that_starts_on_a_hurt_disk_catches_up(kind: FaultKind) -> None:
    world = dead(written(cluster(config=SMALL)))
    whole = batches(world, 1)
    hurt = step(world, HurtDisk(broker_id=2, kind=kind, partition=ORDERS, offset=39))
    assert hurt.brokers[2].disk != world.brokers[2].disk
    (fault,) = [f for f in hurt.truth.faults if f.kind == kind.value]
    assert fault.partition == ORDERS
    back = run_for(step(hurt, actions.Start(2)), 60_000)
    assert batches(back, 2) == whole == batches(back, 1)
    assert not back.truth.losses


def test_a_hurt_that_needs_a_dead_broker_does_nothing_to_one_that_runs() -> None:
    world = written(cluster(config=SMALL))
    assert step(world, HurtDisk(broker_id=2, kind=FaultKind.TORN_WRITE, partition=ORDERS)).truth == world.truth


def test_a_flipped_bit_is_cut_off_when_its_broker_starts_unclean() -> None:
    world = written(cluster(config=SMALL))
    end = world.brokers[2].disk.replicas[ORDERS].log.log_end_offset
    flip = HurtDisk(broker_id=2, kind=FaultKind.BIT_FLIP, partition=ORDERS, offset=end - 1, byte=70)
    world = step(world, flip)
    assert world.brokers[2].disk.replicas[ORDERS].log.log_end_offset == end
    assert batches(world, 2)[-1].damaged
    back = run_for(step(run_for(step(world, actions.Kill(2)), 1_000), actions.Start(2)), 60_000)
    assert batches(back, 2) == batches(back, 1)
    assert not batches(back, 2)[-1].damaged


def test_a_damaged_batch_gets_to_nobody() -> None:
    world = written(cluster(config=SMALL))
    world = step(world, HurtDisk(broker_id=1, kind=FaultKind.BIT_FLIP, partition=ORDERS, offset=20, byte=70))
    world = run_for(step(step(world, actions.Kill(2)), actions.Wipe(broker_id=2)), 1_000)
    world = run_for(step(world, actions.Start(2)), 30_000)
    assert batches(world, 2) == batches(world, 1)[:20]


def test_a_rewritten_batch_stays() -> None:
    world = step(
        written(cluster(config=SMALL)),
        HurtDisk(broker_id=2, kind=FaultKind.SAME_EPOCH_REWRITE, partition=ORDERS, offset=5),
    )
    world = run_for(world, 10_000)
    assert batches(world, 2)[5].data != batches(world, 1)[5].data
    assert len(batches(world, 2)) == len(batches(world, 1))
    assert world.truth.faults[-1].on_disk is False


def test_a_disk_of_an_earlier_moment_returns_and_a_checkpoint_of_one() -> None:
    world = written(cluster(config=SMALL))
    older = world.brokers[2].disk
    later = dead(said(world, "writer", "more"))
    restored = step(later, RestoreDisk(broker_id=2, older=older))
    assert restored.brokers[2].disk == older
    assert [f.kind for f in restored.truth.faults][-1] == "stale-disk"
    back = run_for(step(restored, actions.Start(2)), 60_000)
    assert batches(back, 2) == batches(back, 1)
    before = replace(older, high_watermarks={ORDERS: 3})
    action = RestoreCheckpoint(broker_id=2, older=before, file=CheckpointFile.HIGH_WATERMARKS)
    stale = step(later, action)
    assert stale.brokers[2].disk.high_watermarks == {ORDERS: 3}
    assert batches(run_for(step(stale, actions.Start(2)), 60_000), 2) == batches(back, 1)


def test_the_same_seed_hurts_the_same_way() -> None:
    action = HurtDisk(broker_id=2, kind=FaultKind.BIT_FLIP, partition=ORDERS)
    worlds = [step(written(cluster(config=SMALL, seed=seed), 10), action) for seed in (1, 1, 2)]
    details = [w.truth.faults[-1].detail for w in worlds]
    assert details[0] == details[1] != details[2]
