"""What the clients of a random world do, from its beginning to its end.

In: a plan, when it begins and ends. Out: events for the queue. Every value is another one, so that a record in the
wrong place is seen; some keys are deleted.
"""

from collections.abc import Iterator
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import ProduceCall, StopClient
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    LeaveGroup,
    SendInTransaction,
    SendOffsetsInTransaction,
    StartTransactionalProducer,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.plan import Plan

Events = Iterator[tuple[int, object]]
_KEYS: Final = 6


def traffic(plan: Plan, *, seed: int, begin_ms: int, end_ms: int) -> Events:
    """When, from the world's first moment on, and what."""
    yield from _calls(plan, Chance(seed, "calls"), begin_ms, end_ms)
    for producer in plan.transactional:
        yield from _transactions(plan, producer, Chance(seed, f"transactions {producer.client}"), begin_ms, end_ms)
    yield from _readers(plan, Chance(seed, "readers"), begin_ms, end_ms)


def _calls(plan: Plan, chance: Chance, begin_ms: int, end_ms: int) -> Events:
    yield from ((begin_ms, producer) for producer in plan.producers)
    for at_ms in _moments(chance, begin_ms, end_ms, 900):
        client, partition = chance.one_of(plan.producers).client, chance.one_of(plan.partitions)
        records = _records(plan, chance, partition, f"{client} {at_ms}")
        yield at_ms, ProduceCall(client=client, partition=partition, records=records)


def _transactions(
    plan: Plan, producer: StartTransactionalProducer, chance: Chance, begin_ms: int, end_ms: int
) -> Events:
    yield begin_ms, producer
    name = producer.client
    for at_ms in _moments(chance, begin_ms, end_ms, 6_000):
        yield at_ms, BeginTransaction(name)
        for number in range(chance.between(1, 3)):
            partition = chance.one_of(plan.partitions)
            records = _records(plan, chance, partition, f"{name} {at_ms} {number}")
            yield at_ms, SendInTransaction(client=name, partition=partition, records=records)
        if chance.percent(30):
            offsets = {chance.one_of(plan.partitions): 0}
            yield at_ms, SendOffsetsInTransaction(client=name, group="copiers", offsets=offsets)
        if chance.percent(90):
            yield at_ms + chance.one_of((0, 50, 400, 1_500)), EndTransaction(name, chance.percent(70))
        else:
            # It is abandoned, and another instance takes over: it fences the old one, and ends what that left open.
            yield at_ms + 500, StopClient(name)
            yield at_ms + 2_000, producer


def _readers(plan: Plan, chance: Chance, begin_ms: int, end_ms: int) -> Events:
    yield from ((begin_ms, consumer) for consumer in plan.consumers)
    for member in plan.members:
        yield begin_ms + chance.below(5_000), member
        if chance.percent(40):
            leave_ms = chance.between(begin_ms + 10_000, max(end_ms, begin_ms + 10_000))
            yield leave_ms, LeaveGroup(member.client)
            if chance.percent(50):
                yield leave_ms + chance.between(2_000, 8_000), member


def _moments(chance: Chance, begin_ms: int, end_ms: int, every_ms: int) -> Iterator[int]:
    at_ms = begin_ms + 1 + chance.below(every_ms * 2)
    while at_ms < end_ms:
        yield at_ms
        at_ms += 1 + chance.below(every_ms * 2)


def _records(plan: Plan, chance: Chance, partition: TopicPartition, name: str) -> tuple[NewRecord, ...]:
    return tuple(_record(plan, chance, partition, f"{name} {n}") for n in range(chance.one_of((1, 1, 2, 4, 8))))


def _record(plan: Plan, chance: Chance, partition: TopicPartition, text: str) -> NewRecord:
    value = f"{text} {'.' * chance.below(60)}".encode()
    if not plan.is_keyed(partition.topic):
        key = b"key %d" % chance.below(_KEYS) if chance.percent(30) else None
        return NewRecord(timestamp=-1, key=key, value=value, headers=(("trace", text.encode()),))
    key = b"key %d" % chance.below(_KEYS)
    return NewRecord(timestamp=-1, key=key, value=None if chance.percent(15) else value)
