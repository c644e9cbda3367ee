"""Faults of producers, transactions and their coordinators.

In: a world, its plan, chance. Out: the world afterwards and what was done (`Struck`). The rule of `strikes` holds here
too.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    DoubleMarker,
    EndTransaction,
    LoseMarkers,
    SendInTransaction,
    WriteUnverified,
)
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch, add_sequence
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.plan import Plan
from tidegauge.sim_engine.random_worlds.struck import (
    Blow,
    Strike,
    Struck,
    leader_of,
    partitions_of_users,
    topic_id_of,
)
from tidegauge.sim_engine.world import World


def lost_marker(world: World, plan: Plan, chance: Chance) -> Blow:
    """From now on coordinators take markers for a partition as written, until brokers are started anew."""
    if not plan.transactional:
        return world, ()
    partition = chance.one_of(partitions_of_users(world))
    struck = Struck(
        kind=WorldFault.LOST_MARKER,
        at_ms=world.now_ms,
        partition=partition,
        topic_id=topic_id_of(world, partition),
    )
    return step(world, LoseMarkers(partition)), (struck,)


def doubled_marker(world: World, plan: Plan, chance: Chance) -> Blow:
    """A coordinator sends the newest marker of a partition once more."""
    marked = _marked(world)
    if not marked:
        return world, ()
    partition, _ = chance.one_of(marked)
    struck = Struck(kind=WorldFault.DOUBLED_MARKER, at_ms=world.now_ms, partition=partition)
    return step(world, DoubleMarker(partition)), (struck,)


def hanging_transaction(world: World, plan: Plan, chance: Chance) -> Blow:
    """A leader takes a transactional write that its coordinator knows nothing of."""
    marked = _marked(world)
    if not marked:
        return world, ()
    partition, marker = chance.one_of(marked)
    record = NewRecord(timestamp=-1, key=b"key 1", value=f"late {world.now_ms}".encode())
    late = WriteUnverified(partition=partition, producer_id=marker.producer_id, records=(record,))
    struck = Struck(
        kind=WorldFault.HANGING_TRANSACTION,
        at_ms=world.now_ms,
        partition=partition,
        topic_id=topic_id_of(world, partition),
        detail=f"producer {marker.producer_id}",
    )
    return step(world, late), (struck,)


def zombie_producer(world: World, plan: Plan, chance: Chance) -> Blow:
    """A second instance takes over while the first is in a transaction; then the first goes on."""
    if not plan.transactional:
        return world, ()
    first = chance.one_of(plan.transactional)
    again = replace(first, client=f"{first.client}-again")
    partition = chance.one_of(partitions_of_users(world))

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


def unchecked(kind: WorldFault) -> Strike:
    """The leader takes the producer's last batch a second time, or one that leaves sequences out."""

    def hit(world: World, plan: Plan, chance: Chance) -> Blow:
        can = [
            (p, b)
            for p in partitions_of_users(world)
            if not plan.is_keyed(p.topic)
            for b in _last_of_producers(world, p)
        ]
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
            topic_id=topic_id_of(world, partition),
            start_offset=end,
            end_offset=end + count,
            detail=f"producer {last.producer_id}",
        )
        return step(world, write), (struck,)

    return hit


def _last_of_producers(world: World, partition: TopicPartition) -> list[StoredBatch]:
    """The newest batch of each idempotent producer, as the partition's leader holds it."""
    whole = [
        b
        for b in _led_batches(world, partition)
        if b.producer_id >= 0 and len(b.records) == b.last_offset - b.base_offset + 1
    ]
    newest = {b.producer_id: b for b in whole}
    return [b for b in newest.values() if b.base_sequence >= 0 and not b.is_transactional]


def _log_end(world: World, partition: TopicPartition) -> int:
    leader = leader_of(world, partition)
    assert leader is not None
    return world.brokers[leader].disk.replicas[partition].log.log_end_offset


def _marked(world: World) -> list[tuple[TopicPartition, StoredBatch]]:
    """Partitions whose leader holds end markers, each with the newest."""
    markers = ((p, [b for b in _led_batches(world, p) if b.is_marker]) for p in partitions_of_users(world))
    return [(partition, held[-1]) for partition, held in markers if held]


def _led_batches(world: World, partition: TopicPartition) -> list[StoredBatch]:
    """What the partition's leader holds, if it runs."""
    leader = leader_of(world, partition)
    if leader is None or world.brokers[leader].running is None:
        return []
    replica = world.brokers[leader].disk.replicas.get(partition)
    return [b for s in replica.log.segments for b in s.batches] if replica is not None else []
