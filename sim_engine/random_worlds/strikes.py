"""Faults, as they strike a world at a moment of chance.

In: a world, its plan, chance. Out: the world afterwards, in which time may have passed, and what was done where
(`Struck`). A fault does what its kind says and nothing else. What becomes of it is up to the cluster, and `seen` says
what is left of it on the disks.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.disks.disk_actions import HurtDisk, RestoreCheckpoint, RestoreDisk
from tidegauge.sim_engine.disks.disk_faults import CheckpointFile, FaultKind
from tidegauge.sim_engine.engine import run_for, scheduled_all, step
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch
from tidegauge.sim_engine.network import CONTROLLER, broker_node
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.client_strikes import (
    doubled_marker,
    hanging_transaction,
    lost_marker,
    unchecked,
    zombie_producer,
)
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.plan import Plan
from tidegauge.sim_engine.random_worlds.storage_strikes import (
    full_disk,
    lost_remote_segment,
    remote_tier_gap,
    wrong_remote_deletion,
)
from tidegauge.sim_engine.random_worlds.struck import (
    Blow,
    Strike,
    Struck,
    leader_of,
    partitions_of_users,
    partitions_with_data,
    replicas_of,
    struck_batch,
    topic_id_of,
)
from tidegauge.sim_engine.world import Disk, World

_SESSION_OVER_MS: Final = 12_000
_CHECKPOINTED_MS: Final = 6_000


def strike(kind: WorldFault, world: World, plan: Plan, chance: Chance) -> Blow:
    """One fault of this kind, if there is anything for it to strike."""
    return STRIKES[kind](world, plan, chance) if partitions_of_users(world) else (world, ())


# ----------------------------------------------------------------------------------------------- processes and machines


def _kills(world: World, plan: Plan, chance: Chance) -> Blow:
    at_ms, struck = world.now_ms, []
    for broker_id in chance.some_of(plan.brokers, chance.between(2, len(plan.brokers))):
        world = run_for(step(world, actions.Kill(broker_id)), chance.one_of((0, 0, 300, 4_000)))
        struck.append(Struck(kind=WorldFault.KILLS, at_ms=world.now_ms, broker_id=broker_id))
    return _all_back(world, chance, since_ms=at_ms), tuple(struck)


def _power_cut(world: World, plan: Plan, chance: Chance) -> Blow:
    count = chance.one_of((1, 1, 2, len(plan.brokers)))
    dark = chance.some_of(plan.brokers, count)
    held = {b: world.brokers[b].disk.replicas for b in dark}
    at_ms = world.now_ms
    for broker_id in dark:
        world = step(world, actions.PowerCut(broker_id))
    struck = tuple(
        Struck(kind=WorldFault.POWER_CUT, at_ms=at_ms, broker_id=b, partitions=tuple(sorted(held[b]))) for b in dark
    )
    return _perhaps_back(world, chance), struck


def _network_cut(world: World, plan: Plan, chance: Chance) -> Blow:
    return _cut(world, plan, chance, kind=WorldFault.NETWORK_CUT)


def _one_way_cut(world: World, plan: Plan, chance: Chance) -> Blow:
    return _cut(world, plan, chance, kind=WorldFault.ONE_WAY_CUT)


def _cut(world: World, plan: Plan, chance: Chance, *, kind: WorldFault) -> Blow:
    """Between two brokers, or a broker and the controller; later all is whole again."""
    one = chance.one_of(plan.brokers)
    other = chance.one_of((CONTROLLER, *(broker_node(b) for b in plan.brokers if b != one)))
    ways = [(broker_node(one), other), (other, broker_node(one))]
    if kind is WorldFault.ONE_WAY_CUT:
        ways = [chance.one_of(ways)]
    for way in ways:
        world = step(world, actions.Cut(*way))
    for_ms = chance.between(2_000, 40_000)
    world = scheduled_all(world, [(world.now_ms + for_ms, actions.Heal(*way)) for way in ways])
    detail = " and ".join(f"{source} -> {target}" for source, target in ways)
    return world, (Struck(kind=kind, at_ms=world.now_ms, broker_id=one, detail=detail),)


def _all_back(world: World, chance: Chance, *, since_ms: int) -> World:
    """Every broker is started again, each at its time."""
    starts = [(world.now_ms + chance.between(200, 15_000), actions.Start(b)) for b in sorted(world.brokers)]
    return scheduled_all(world, starts)


def _perhaps_back(world: World, chance: Chance) -> World:
    return _all_back(world, chance, since_ms=world.now_ms) if chance.percent(50) else world


# ------------------------------------------------------------------------------------------------------------ elections


def _unclean_election(world: World, plan: Plan, chance: Chance) -> Blow:
    """All followers of a partition stop, its leader goes on alone and dies; a follower comes back and is elected."""
    can = [
        p for p in partitions_of_users(world) if 1 < len(replicas_of(world, p)) <= 3 and leader_of(world, p) is not None
    ]
    if not can:
        return world, ()
    partition = chance.one_of(can)
    at_ms = world.now_ms
    for name, value in (("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1")):
        world = step(world, actions.AlterConfig(partition.topic, name, value))
    leader = leader_of(world, partition)
    assert leader is not None
    followers = [b for b in replicas_of(world, partition) if b != leader]
    for broker_id in followers:
        world = run_for(step(world, actions.Stop(broker_id)), 3_000)
    world = _written(run_for(world, _SESSION_OVER_MS), plan, partition, count=chance.between(1, 6))
    world = run_for(world, chance.one_of((1_000, _CHECKPOINTED_MS)))
    if leader_of(world, partition) != leader:
        return _all_back(world, chance, since_ms=at_ms), ()
    world = run_for(step(world, actions.Kill(leader)), _SESSION_OVER_MS)
    back = chance.one_of(followers)
    world = run_for(step(world, actions.Start(back)), 5_000)
    if chance.percent(30):
        world = _all_back(world, chance, since_ms=at_ms)
    struck = Struck(
        kind=WorldFault.UNCLEAN_ELECTION,
        at_ms=at_ms,
        broker_id=back,
        partition=partition,
        topic_id=topic_id_of(world, partition),
    )
    return world, (struck,)


def _written(world: World, plan: Plan, partition: TopicPartition, *, count: int) -> World:
    """Something more than what the clients write anyway, so that a lone leader has something to lose."""
    client = plan.producers[0].client
    for number in range(count):
        record = NewRecord(timestamp=-1, key=b"key 1", value=f"alone {world.now_ms} {number}".encode())
        call = actions.ProduceCall(client=client, partition=partition, records=(record,))
        world = run_for(step(world, call), 50)
    return world


# ---------------------------------------------------------------------------------------------------------------- disks


def _wiped_disk(world: World, plan: Plan, chance: Chance) -> Blow:
    broker_id = chance.one_of(plan.brokers)
    world = run_for(step(world, actions.Kill(broker_id)), chance.one_of((100, _SESSION_OVER_MS)))
    held = [p for p in world.brokers[broker_id].disk.replicas if not p.topic.startswith("__")]
    partition = chance.one_of(sorted(held)) if held and chance.percent(40) else None
    at_ms = world.now_ms
    gone = (partition,) if partition is not None else tuple(sorted(world.brokers[broker_id].disk.replicas))
    struck = Struck(kind=WorldFault.WIPED_DISK, at_ms=at_ms, broker_id=broker_id, partition=partition, partitions=gone)
    world = step(world, actions.Wipe(broker_id, partition))
    return _perhaps_back(world, chance), (struck,)


def _stale_disk(world: World, plan: Plan, chance: Chance) -> Blow:
    """An image of a broker's machine is taken; later the broker dies, perhaps with others, and gets it back."""
    broker_id = chance.one_of(plan.brokers)
    image: Disk = world.brokers[broker_id].disk
    world = run_for(world, chance.between(4_000, 20_000))
    others = [b for b in plan.brokers if b != broker_id]
    for other in chance.some_of(others, chance.one_of((0, 0, 1, len(others)))):
        world = run_for(step(world, actions.Kill(other)), chance.one_of((0, _SESSION_OVER_MS)))
    world = run_for(step(world, actions.Kill(broker_id)), chance.one_of((100, _SESSION_OVER_MS)))
    at_ms, held = world.now_ms, tuple(sorted(world.brokers[broker_id].disk.replicas))
    world = step(world, RestoreDisk(broker_id=broker_id, older=image))
    world = run_for(step(world, actions.Start(broker_id)), 8_000) if chance.percent(70) else world
    struck = Struck(kind=WorldFault.STALE_DISK, at_ms=at_ms, broker_id=broker_id, partitions=held)
    return _perhaps_back(world, chance), (struck,)


def _of_a_dead_broker(kind: WorldFault, damage: FaultKind) -> Strike:
    """A broker dies, and something is wrong with one of its logs."""

    def hit(world: World, plan: Plan, chance: Chance) -> Blow:
        broker_id = chance.one_of(plan.brokers)
        world = run_for(world, chance.one_of((0, _CHECKPOINTED_MS)))
        world = run_for(step(world, actions.Kill(broker_id)), chance.one_of((100, _SESSION_OVER_MS)))
        replicas = world.brokers[broker_id].disk.replicas
        can = [p for p in partitions_with_data(world, broker_id) if _can_be_hurt(damage, replicas[p].log.segments)]
        if not can:
            return _all_back(world, chance, since_ms=world.now_ms), ()
        partition = chance.one_of(can)
        log = replicas[partition].log
        batch = chance.one_of([b for s in log.segments for b in s.batches])
        hurt = HurtDisk(broker_id=broker_id, kind=damage, partition=partition, offset=batch.base_offset)
        at_ms, before = world.now_ms, log
        world = step(world, hurt)
        after = world.brokers[broker_id].disk.replicas[partition].log
        struck: tuple[Struck, ...] = ()
        if after is not before:
            struck = (struck_batch(world, kind, broker_id, partition, at_ms, batch),)
        return _perhaps_back(world, chance), struck

    return hit


def _can_be_hurt(damage: FaultKind, segments: tuple[object, ...]) -> bool:
    held = [b for s in segments for b in getattr(s, "batches", ())]
    return len(segments) > 1 and bool(held) if damage is FaultKind.LOST_SEGMENT else bool(held)


def _bit_flip(kind: WorldFault, first_byte: int, end_byte: int | None) -> Strike:
    """A bit of some batch, of bytes that its checksum covers or is."""

    def hit(world: World, plan: Plan, chance: Chance) -> Blow:
        # A cleaner leaves batches that are nothing but a header.
        found = _some_batch(world, chance, lambda b: not b.is_control and b.size_bytes > first_byte)
        if found is None:
            return world, ()
        broker_id, partition, batch = found
        byte = chance.between(first_byte, (end_byte if end_byte is not None else batch.size_bytes) - 1)
        hurt = HurtDisk(
            broker_id=broker_id,
            kind=FaultKind.BIT_FLIP,
            partition=partition,
            offset=batch.base_offset,
            byte=byte,
        )
        struck = struck_batch(world, kind, broker_id, partition, world.now_ms, batch, detail=f"byte {byte}")
        return step(world, hurt), (struck,)

    return hit


def _stale_checkpoint(world: World, plan: Plan, chance: Chance) -> Blow:
    """A broker dies, and one of its checkpoint files is the one of some seconds before."""
    broker_id = chance.one_of(plan.brokers)
    older: Disk = world.brokers[broker_id].disk
    world = run_for(world, chance.between(6_000, 15_000))
    world = run_for(step(world, actions.Kill(broker_id)), chance.one_of((100, _SESSION_OVER_MS)))
    file = chance.one_of(tuple(CheckpointFile))
    at_ms, held = world.now_ms, tuple(sorted(world.brokers[broker_id].disk.replicas))
    world = step(world, RestoreCheckpoint(broker_id=broker_id, older=older, file=file))
    struck = Struck(
        kind=WorldFault.STALE_CHECKPOINT, at_ms=at_ms, broker_id=broker_id, detail=str(file), partitions=held
    )
    return _perhaps_back(world, chance), (struck,)


def _compaction_race(world: World, plan: Plan, chance: Chance) -> Blow:
    """A follower of a compacted partition is away while a key is deleted, and its tombstone with it."""
    can = [p for p in partitions_of_users(world) if plan.is_keyed(p.topic) and len(replicas_of(world, p)) > 1]
    if not can:
        return world, ()
    partition = chance.one_of(can)
    for name, value in (
        ("delete.retention.ms", "0"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("segment.bytes", "700"),
        ("min.insync.replicas", "1"),
    ):
        world = step(world, actions.AlterConfig(partition.topic, name, value))
    away = chance.one_of([b for b in replicas_of(world, partition) if b != leader_of(world, partition)])
    at_ms = world.now_ms
    world = run_for(step(world, actions.Stop(away)), 5_000)
    tombstone = NewRecord(timestamp=-1, key=b"key 1", value=None)
    client = plan.producers[0].client
    world = step(world, actions.ProduceCall(client=client, partition=partition, records=(tombstone,)))
    world = run_for(world, chance.between(20_000, 40_000))
    world = run_for(step(world, actions.Start(away)), 5_000)
    return world, (Struck(kind=WorldFault.COMPACTION_RACE, at_ms=at_ms, broker_id=away, partition=partition),)


def _old_protocol(world: World, plan: Plan, chance: Chance) -> Blow:
    """Leaders and followers die and come back quickly, before followers know the newest high watermark."""
    at_ms = world.now_ms
    for _ in range(chance.between(1, 3)):
        one, other = chance.some_of(plan.brokers, 2)
        partition = chance.one_of(partitions_of_users(world))
        world = _written(world, plan, partition, count=chance.between(0, 2))
        world = run_for(step(world, actions.Kill(one)), chance.one_of((0, 200, 4_000, _SESSION_OVER_MS)))
        world = run_for(step(world, actions.Kill(other)), chance.one_of((0, 500, _SESSION_OVER_MS)))
        world = run_for(step(world, actions.Start(chance.one_of((one, other)))), chance.one_of((600, 3_000, 8_000)))
        world = step(step(world, actions.Start(one)), actions.Start(other))
        world = run_for(world, chance.one_of((1_000, 8_000)))
    return world, (Struck(kind=WorldFault.OLD_PROTOCOL, at_ms=at_ms, detail=world.settings.generation.name),)


def _rewritten(world: World, plan: Plan, chance: Chance) -> Blow:
    found = _some_batch(world, chance, lambda b: not b.is_control and b.codec == 0 and any(r.value for r in b.records))
    if found is None:
        return world, ()
    broker_id, partition, batch = found
    hurt = HurtDisk(
        broker_id=broker_id, kind=FaultKind.SAME_EPOCH_REWRITE, partition=partition, offset=batch.base_offset
    )
    struck = struck_batch(world, WorldFault.SAME_EPOCH_REWRITE, broker_id, partition, world.now_ms, batch)
    return step(world, hurt), (struck,)


def _some_batch(
    world: World, chance: Chance, wanted: Callable[[StoredBatch], bool]
) -> tuple[int, TopicPartition, StoredBatch] | None:
    can = []
    for broker_id in sorted(world.brokers):
        for partition in partitions_with_data(world, broker_id):
            log = world.brokers[broker_id].disk.replicas[partition].log
            can += [(broker_id, partition, b) for s in log.segments for b in s.batches if wanted(b) and not b.damaged]
    return chance.one_of(can) if can else None


STRIKES: Final[Mapping[WorldFault, Strike]] = MappingProxyType(
    {
        WorldFault.KILLS: _kills,
        WorldFault.POWER_CUT: _power_cut,
        WorldFault.NETWORK_CUT: _network_cut,
        WorldFault.ONE_WAY_CUT: _one_way_cut,
        WorldFault.UNCLEAN_ELECTION: _unclean_election,
        WorldFault.WIPED_DISK: _wiped_disk,
        WorldFault.STALE_DISK: _stale_disk,
        WorldFault.TORN_WRITE: _of_a_dead_broker(WorldFault.TORN_WRITE, FaultKind.TORN_WRITE),
        WorldFault.LOST_FLUSH: _of_a_dead_broker(WorldFault.LOST_FLUSH, FaultKind.LOST_FLUSH),
        WorldFault.RECORDS_BIT_FLIP: _bit_flip(WorldFault.RECORDS_BIT_FLIP, 61, None),
        WorldFault.HEADER_BIT_FLIP: _bit_flip(WorldFault.HEADER_BIT_FLIP, 17, 61),
        WorldFault.LOST_SEGMENT: _of_a_dead_broker(WorldFault.LOST_SEGMENT, FaultKind.LOST_SEGMENT),
        WorldFault.SAME_EPOCH_REWRITE: _rewritten,
        WorldFault.LOST_MARKER: lost_marker,
        WorldFault.DOUBLED_MARKER: doubled_marker,
        WorldFault.HANGING_TRANSACTION: hanging_transaction,
        WorldFault.ZOMBIE_PRODUCER: zombie_producer,
        WorldFault.SEQUENCE_GAP: unchecked(WorldFault.SEQUENCE_GAP),
        WorldFault.SEQUENCE_DUPLICATE: unchecked(WorldFault.SEQUENCE_DUPLICATE),
        WorldFault.COMPACTION_RACE: _compaction_race,
        WorldFault.OLD_PROTOCOL: _old_protocol,
        WorldFault.STALE_CHECKPOINT: _stale_checkpoint,
        WorldFault.FULL_DISK: full_disk,
        WorldFault.REMOTE_TIER_GAP: remote_tier_gap,
        WorldFault.LOST_REMOTE_SEGMENT: lost_remote_segment,
        WorldFault.WRONG_REMOTE_DELETION: wrong_remote_deletion,
    }
)
