"""Whole worlds: nothing is lost where nothing breaks, the same seed gives the same bytes, and chance finds no hole.

`TIDEGAUGE_WORLDS` (260 by default) says how many.
"""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.derivation.pipeline import derived
from tests.sampling import one_in
from tests.sim_engine.clusters import (
    batches,
    cluster,
    promises_broken,
    quiet,
    random_faults,
    random_traffic,
    replicas_differ,
    said_twice,
    with_events,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.clients.producer import ProducerClient
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.files.render import render_broker
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.settings import Generation, Settings
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.manifest import Consistency

ROOT = Path(__file__).parents[2]
DURATION_MS = 60_000
WORLDS = int(os.environ.get("TIDEGAUGE_WORLDS", "260"))
WORLDS_A_TEST = 5
CONSUMERS = ("reader", "committed-reader")
PRODUCERS = ("idempotent", "one", "plain")


def busy(world: World) -> World:
    """Producers of every kind, and consumers."""
    partitions = partitions_of(world)
    world = step(world, actions.StartProducer(client="idempotent", idempotent=True))
    world = step(world, actions.StartProducer(client="one", acks=1))
    world = step(world, actions.StartProducer(client="plain"))
    world = step(world, actions.StartConsumer(client="reader", partitions=partitions))
    return step(world, actions.StartConsumer(client="committed-reader", partitions=partitions, read_committed=True))


def partitions_of(world: World) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", n) for n in sorted(world.controller.image.topics["orders"].partitions))


def broken_world(seed: int) -> World:
    """A world in which much goes wrong, and which then comes to rest."""
    rng = random.Random(seed)
    settings = Settings(generation=rng.choice(list(Generation)))
    config = {
        "min.insync.replicas": rng.choice(["1", "2"]),
        "unclean.leader.election.enable": rng.choice(["true", "false"]),
    }
    assignment = [(1, 2, 3), (2, 3, 1), (3, 1), (2,)][: rng.randrange(1, 5)]
    world = busy(cluster(seed=seed, assignment=assignment, config=config, settings=settings))
    events = random_traffic(rng, world, duration_ms=DURATION_MS, clients=PRODUCERS, partitions=partitions_of(world))
    events += random_faults(rng, world, duration_ms=DURATION_MS, clients=PRODUCERS, lossy=True)
    return quiet(run_for(with_events(world, events), DURATION_MS + 20_000))


def check(world: World) -> None:
    """What holds of every world that came to rest."""
    assert not promises_broken(world)
    if world.settings.generation >= Generation.KIP_279:
        assert not replicas_differ(world)
    image = world.controller.image.topics["orders"]
    for number, partition in image.partitions.items():
        assert set(partition.isr) == set(partition.replicas)
        key = TopicPartition("orders", number)
        ends = {world.brokers[b].disk.replicas[key].log.log_end_offset for b in partition.replicas}
        assert ends == {world.truth.high_watermark(key)}
    for note in world.truth.elections:
        assert note.kind != "unclean" or note.leader not in note.isr_before
    producer = world.clients["idempotent"]
    # A leader that restarted knows one batch of a producer: an older one that is sent again is out of order, and the
    # producer goes on under a new epoch, in which nothing is recognised. Real ones do that too.
    if isinstance(producer, ProducerClient) and producer.producer_epoch == 0:
        twice = [text for p in partitions_of(world) for text in said_twice(world, p)]
        assert not [text for text in twice if text.startswith("idempotent")]


@pytest.mark.parametrize("first", one_in(12, range(0, 60, WORLDS_A_TEST)))
def test_replicas_agree_below_the_true_high_watermark_and_only_told_losses_happen(first: int) -> None:
    for seed in range(first, first + WORLDS_A_TEST):
        check(broken_world(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, WORLDS, 50))
def test_and_so_they_do_in_many_more_worlds(first: int) -> None:
    for seed in range(first, min(first + 50, WORLDS)):
        check(broken_world(seed))


def rolling_restarts(seed: int) -> World:
    """Four minutes without a fault: each broker is stopped in good order and started again."""
    assignment = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3)]
    config = {"min.insync.replicas": "2", "internal.segment.bytes": "4096"}
    world = busy(cluster(seed=seed, assignment=assignment, config=config))
    rng = random.Random(seed)
    events = random_traffic(rng, world, duration_ms=240_000, clients=PRODUCERS, partitions=partitions_of(world))
    events += random_traffic(rng, world, duration_ms=240_000, clients=PRODUCERS, partitions=partitions_of(world))
    for number, broker_id in enumerate((1, 2, 3)):
        at_ms = world.now_ms + 30_000 + 60_000 * number
        events += [(at_ms, actions.Stop(broker_id)), (at_ms + 15_000, actions.Start(broker_id))]
    return run_for(with_events(world, events), 270_000)


@pytest.mark.slow
def test_rolling_restarts_lose_nothing_and_the_files_say_what_is_true(tmp_path: Path) -> None:
    world = rolling_restarts(7)
    assert not list(world.truth.losses)
    assert {e.kind for e in world.truth.elections} == {"first", "clean"}
    assert not promises_broken(world)
    assert not replicas_differ(world)
    producers = [c for c in world.clients.values() if isinstance(c, ProducerClient)]
    assert not [b for producer in producers for batches_of in producer.pending.values() for b in batches_of]
    for partition in partitions_of(world):
        for broker_id in world.controller.image.topics["orders"].partitions[partition.partition].replicas:
            assert batches(world, broker_id, partition) == list(world.truth.lineage(partition).committed)
    write_snapshot(
        tmp_path / "snapshot",
        snapshot_of(world),
        cluster="simulated",
        snapshot_id="s1",
        consistency=Consistency.ATOMIC,
        truth=world.truth.to_json(),
    )
    facts = derived(tmp_path / "snapshot")
    for partition in partitions_of(world):
        lineage = world.truth.lineage(partition)
        row = facts.one("partitions", topic=partition.topic, partition=partition.partition)
        assert row["high_watermark_lower"] <= lineage.high_watermark <= row["high_watermark_upper"]
        assert row["high_watermark_lower"] == lineage.high_watermark
        assert row["last_stable_offset"] == lineage.last_stable_offset
        assert (row["leader_id"], row["leader_epoch"]) == (lineage.leader, lineage.leader_epoch)
        starts: dict[int, int] = {}
        for batch in lineage.committed:
            starts.setdefault(batch.leader_epoch, batch.base_offset)
        for broker_id in row["replicas"]:
            at = {"topic": partition.topic, "partition": partition.partition, "broker_id": broker_id}
            spans = facts.all("epoch_spans", **at)
            found = {s["leader_epoch"]: s["start_offset"] for s in spans if s["start_offset"] is not None}
            assert found == starts
            for span in spans:
                elected = [e for e in world.truth.elections if e.partition == partition]
                leaders = {e.leader_epoch: e.leader for e in elected}
                assert span["elected_leader_id"] == leaders[span["leader_epoch"]]


def digest(world: World) -> str:
    """Of every rendered file and of the ledger."""
    found = hashlib.sha256(repr(world.truth.to_json()).encode())
    for disk in snapshot_of(world):
        for name, file in render_broker(disk):
            found.update(f"{disk.broker_id}/{name}/{file.size_bytes}\n".encode())
            found.update(file.data)
    return found.hexdigest()


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_in_every_process() -> None:
    script = "from tests.sim_engine.test_worlds import broken_world, digest; print(digest(broken_world(3)))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "4711")
    }
    assert told == {digest(broken_world(3)) + "\n"}
    assert digest(broken_world(4)) + "\n" not in told


def test_a_step_leaves_the_world_it_began_with_as_it_was() -> None:
    world = busy(cluster(seed=9))
    before = digest(world), world.sequence, world.queue
    later = run_for(step(world, actions.Kill(1)), 30_000)
    assert (digest(world), world.sequence, world.queue) == before
    assert digest(later) != before[0]
    assert digest(run_for(step(world, actions.Kill(1)), 30_000)) == digest(later)
