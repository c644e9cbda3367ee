"""Faults, as they strike a world at a moment of chance.

In: a world, its plan, chance. Out: the world afterwards, in which time may have passed, and what was done where
(`Struck`). The rule that must hold: a fault does what its kind says and nothing else; what becomes of it is the
cluster's business, and what is left of it on the disks is `seen`'s.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from kafka_log.types import TopicPartition
from sim_engine import actions
from sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    DoubleMarker,
    EndTransaction,
    LoseMarkers,
    SendInTransaction,
    WriteUnverified,
)
from sim_engine.engine import run_for, scheduled_all, step
from sim_engine.faults.disk_actions import HurtDisk, RestoreCheckpoint, RestoreDisk
from sim_engine.faults.disk_faults import CheckpointFile, FaultKind
from sim_engine.log.stored_batch import NewRecord, StoredBatch, add_sequence
from sim_engine.network import CONTROLLER, broker_node
from sim_engine.random_worlds.chance import Chance
from sim_engine.random_worlds.fault_kinds import WorldFault
from sim_engine.random_worlds.plan import Plan
from sim_engine.world import Disk, World

_SESSION_OVER_MS: Final = 12_000
_CHECKPOINTED_MS: Final = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """What was done. Offsets are those of the batch, segment or transaction that it was done to."""

    kind: WorldFault
    at_ms: int
    broker_id: int | None = None
    partition: TopicPartition | None = None
    topic_id: str | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    detail: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    """Those that it may have cost something, if they are not one."""

    @property
    def where(self) -> str:
        """Broker and partition, as far as they are told."""
        broker = broker_node(self.broker_id) if self.broker_id is not None else None
        return " ".join(text for text in (broker, str(self.partition or "")) if text)


Blow = tuple[World, tuple[Struck, ...]]
Strike = Callable[[World, Plan, Chance], Blow]


def strike(kind: WorldFault, world: World, plan: Plan, chance: Chance) -> Blow:
    """One fault of this kind, if there is anything for it to strike."""
    return STRIKES[kind](world, plan, chance) if _partitions(world) else (world, ())


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
    can = [p for p in _partitions(world) if 1 < len(_replicas(world, p)) <= 3 and _leader(world, p) is not None]
    if not can:
        return world, ()
    partition = chance.one_of(can)
    at_ms = world.now_ms
    for name, value in (("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1")):
        world = step(world, actions.AlterConfig(partition.topic, name, value))
    leader = _leader(world, partition)
    assert leader is not None
    followers = [b for b in _replicas(world, partition) if b != leader]
    for broker_id in followers:
        world = run_for(step(world, actions.Stop(broker_id)), 3_000)
    world = _written(run_for(world, _SESSION_OVER_MS), plan, partition, count=chance.between(1, 6))
    world = run_for(world, chance.one_of((1_000, _CHECKPOINTED_MS)))
    if _leader(world, partition) != leader:
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
        topic_id=_topic_id(world, partition),
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
        can = [p for p in _data(world, broker_id) if _can_be_hurt(damage, replicas[p].log.segments)]
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
            struck = (_struck(world, kind, broker_id, partition, at_ms, batch),)
        return _perhaps_back(world, chance), struck

    return hit


def _can_be_hurt(damage: FaultKind, segments: tuple[object, ...]) -> bool:
    held = [b for s in segments for b in getattr(s, "batches", ())]
    return len(segments) > 1 and bool(held) if damage is FaultKind.LOST_SEGMENT else bool(held)


def _bit_flip(kind: WorldFault, first_byte: int, end_byte: int | None) -> Strike:
    """A bit of some batch, of bytes that its checksum covers or is."""

    def hit(world: World, plan: Plan, chance: Chance) -> Blow:
        found = _some_batch(world, chance, lambda b: not b.is_control)
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
        struck = _struck(world, kind, broker_id, partition, world.now_ms, batch, detail=f"byte {byte}")
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
    can = [p for p in _partitions(world) if plan.is_keyed(p.topic) and len(_replicas(world, p)) > 1]
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
    away = chance.one_of([b for b in _replicas(world, partition) if b != _leader(world, partition)])
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
        partition = chance.one_of(_partitions(world))
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
    struck = _struck(world, WorldFault.SAME_EPOCH_REWRITE, broker_id, partition, world.now_ms, batch)
    return step(world, hurt), (struck,)


def _some_batch(
    world: World, chance: Chance, wanted: Callable[[StoredBatch], bool]
) -> tuple[int, TopicPartition, StoredBatch] | None:
    can = []
    for broker_id in sorted(world.brokers):
        for partition in _data(world, broker_id):
            log = world.brokers[broker_id].disk.replicas[partition].log
            can += [(broker_id, partition, b) for s in log.segments for b in s.batches if wanted(b) and not b.damaged]
    return chance.one_of(can) if can else None


# --------------------------------------------------------------------------------------------------------- transactions


def _lost_marker(world: World, plan: Plan, chance: Chance) -> Blow:
    """From now on coordinators take markers for a partition as written, until brokers are started anew."""
    if not plan.transactional:
        return world, ()
    partition = chance.one_of(_partitions(world))
    struck = Struck(
        kind=WorldFault.LOST_MARKER,
        at_ms=world.now_ms,
        partition=partition,
        topic_id=_topic_id(world, partition),
    )
    return step(world, LoseMarkers(partition)), (struck,)


def _doubled_marker(world: World, plan: Plan, chance: Chance) -> Blow:
    marked = [p for p in _partitions(world) if _newest_marker(world, p) is not None]
    if not marked:
        return world, ()
    partition = chance.one_of(marked)
    struck = Struck(kind=WorldFault.DOUBLED_MARKER, at_ms=world.now_ms, partition=partition)
    return step(world, DoubleMarker(partition)), (struck,)


def _hanging_transaction(world: World, plan: Plan, chance: Chance) -> Blow:
    marked = [p for p in _partitions(world) if _newest_marker(world, p) is not None]
    if not marked:
        return world, ()
    partition = chance.one_of(marked)
    marker = _newest_marker(world, partition)
    assert marker is not None
    record = NewRecord(timestamp=-1, key=b"key 1", value=f"late {world.now_ms}".encode())
    late = WriteUnverified(partition=partition, producer_id=marker.producer_id, records=(record,))
    struck = Struck(
        kind=WorldFault.HANGING_TRANSACTION,
        at_ms=world.now_ms,
        partition=partition,
        topic_id=_topic_id(world, partition),
        detail=f"producer {marker.producer_id}",
    )
    return step(world, late), (struck,)


def _zombie_producer(world: World, plan: Plan, chance: Chance) -> Blow:
    """A second instance takes over while the first is in a transaction; then the first goes on."""
    if not plan.transactional:
        return world, ()
    first = chance.one_of(plan.transactional)
    again = replace(first, client=f"{first.client}-again")
    partition = chance.one_of(_partitions(world))

    def sent(client: str) -> SendInTransaction:
        record = NewRecord(timestamp=-1, key=b"key 1", value=f"{client} {world.now_ms}".encode())
        return SendInTransaction(client=client, partition=partition, records=(record,))

    at_ms = world.now_ms
    for client, then_ms in ((first.client, 500), (again.client, 3_000)):
        if client == again.client:
            world = run_for(step(world, again), 1_500)
        world = run_for(step(step(world, BeginTransaction(client)), sent(client)), then_ms)
    world = step(step(world, sent(first.client)), EndTransaction(first.client, commit=True))
    world = step(world, EndTransaction(again.client, commit=chance.percent(50)))
    return world, (Struck(kind=WorldFault.ZOMBIE_PRODUCER, at_ms=at_ms, partition=partition, detail=first.client),)


def _unchecked(kind: WorldFault) -> Strike:
    """The leader takes the producer's last batch a second time, or one that leaves sequences out."""

    def hit(world: World, plan: Plan, chance: Chance) -> Blow:
        can = [(p, b) for p in _partitions(world) if not plan.is_keyed(p.topic) for b in _last_of_producers(world, p)]
        if not can:
            return world, ()
        partition, last = chance.one_of(can)
        again = kind is WorldFault.SEQUENCE_DUPLICATE
        base_sequence = last.base_sequence if again else add_sequence(last.last_sequence, 1 + chance.between(1, 50))
        count = len(last.records) if again else chance.between(1, 4)
        records = tuple(NewRecord(timestamp=-1, key=None, value=b"unchecked %d" % n) for n in range(count))
        end = _log_end(world, partition)
        write = WriteUnverified(
            partition=partition,
            producer_id=last.producer_id,
            producer_epoch=last.producer_epoch,
            base_sequence=base_sequence,
            records=records,
            transactional=False,
        )
        struck = Struck(
            kind=kind,
            at_ms=world.now_ms,
            partition=partition,
            topic_id=_topic_id(world, partition),
            start_offset=end,
            end_offset=end + count,
            detail=f"producer {last.producer_id}",
        )
        return step(world, write), (struck,)

    return hit


def _last_of_producers(world: World, partition: TopicPartition) -> list[StoredBatch]:
    """The newest batch of each idempotent producer, as the partition's leader holds it."""
    leader = _leader(world, partition)
    if leader is None or world.brokers[leader].running is None:
        return []
    replica = world.brokers[leader].disk.replicas.get(partition)
    batches = [b for s in replica.log.segments for b in s.batches] if replica is not None else []
    whole = [b for b in batches if b.producer_id >= 0 and len(b.records) == b.last_offset - b.base_offset + 1]
    newest = {b.producer_id: b for b in whole}
    return [b for b in newest.values() if b.base_sequence >= 0 and not b.is_transactional]


def _log_end(world: World, partition: TopicPartition) -> int:
    leader = _leader(world, partition)
    assert leader is not None
    return world.brokers[leader].disk.replicas[partition].log.log_end_offset


def _newest_marker(world: World, partition: TopicPartition) -> StoredBatch | None:
    leader = _leader(world, partition)
    if leader is None or world.brokers[leader].running is None:
        return None
    replica = world.brokers[leader].disk.replicas.get(partition)
    if replica is None:
        return None
    held = [b for s in replica.log.segments for b in s.batches if b.is_marker]
    return held[-1] if held else None


# ---------------------------------------------------------------------------------------------- what there is to strike


def _struck(
    world: World,
    kind: WorldFault,
    broker_id: int,
    partition: TopicPartition,
    at_ms: int,
    batch: StoredBatch,
    *,
    detail: str = "",
) -> Struck:
    return Struck(
        kind=kind,
        at_ms=at_ms,
        broker_id=broker_id,
        partition=partition,
        topic_id=world.brokers[broker_id].disk.replicas[partition].topic_id,
        start_offset=batch.base_offset,
        end_offset=batch.last_offset + 1,
        detail=detail,
    )


def _partitions(world: World) -> list[TopicPartition]:
    """Those of users' topics that there are now."""
    topics = world.controller.image.topics
    return [TopicPartition(n, p) for n, t in sorted(topics.items()) if not n.startswith("__") for p in t.partitions]


def _data(world: World, broker_id: int) -> list[TopicPartition]:
    """The users' partitions on a broker's disk that hold something."""
    replicas = world.brokers[broker_id].disk.replicas
    return sorted(
        p for p, r in replicas.items() if not p.topic.startswith("__") and any(s.batches for s in r.log.segments)
    )


def _replicas(world: World, partition: TopicPartition) -> tuple[int, ...]:
    return tuple(world.controller.image.topics[partition.topic].partitions[partition.partition].replicas)


def _leader(world: World, partition: TopicPartition) -> int | None:
    leader = world.controller.image.topics[partition.topic].partitions[partition.partition].leader
    return leader if leader >= 0 else None


def _topic_id(world: World, partition: TopicPartition) -> str | None:
    topic = world.controller.image.topics.get(partition.topic)
    return topic.topic_id if topic is not None else None


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
        WorldFault.LOST_MARKER: _lost_marker,
        WorldFault.DOUBLED_MARKER: _doubled_marker,
        WorldFault.HANGING_TRANSACTION: _hanging_transaction,
        WorldFault.ZOMBIE_PRODUCER: _zombie_producer,
        WorldFault.SEQUENCE_GAP: _unchecked(WorldFault.SEQUENCE_GAP),
        WorldFault.SEQUENCE_DUPLICATE: _unchecked(WorldFault.SEQUENCE_DUPLICATE),
        WorldFault.COMPACTION_RACE: _compaction_race,
        WorldFault.OLD_PROTOCOL: _old_protocol,
        WorldFault.STALE_CHECKPOINT: _stale_checkpoint,
    }
)
