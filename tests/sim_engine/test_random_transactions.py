"""Random transactions through random faults: whatever happens, told = decided = in the logs."""

import random

import pytest

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import CreateTopic, Cut, Heal, Kill, Pause, Resume, SetLink, Start, Stop, StopClient
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    SendInTransaction,
    SendOffsetsInTransaction,
    StartGroupConsumer,
    StartTransactionalProducer,
)
from tidegauge.sim_engine.engine import new_world, run, scheduled_all
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch
from tidegauge.sim_engine.network import Link, broker_node
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.transaction_notes import Decided, TransactionTold
from tidegauge.sim_engine.world import World

BROKERS = (1, 2, 3)
PARTITIONS = [TopicPartition("orders", n) for n in range(3)]
FAULTS_END_MS = 25_000
SETTLED_MS = 70_000


def traffic(chance: random.Random) -> list[tuple[int, object]]:
    """Four producers with few transactional ids: they fence one another, are abandoned, and come back."""
    events: list[tuple[int, object]] = []
    for number in range(4):
        name, at_ms = f"p{number}", 5_000 + chance.randrange(1_500)
        alone = number % 2 == 0
        while at_ms < FAULTS_END_MS:
            transactional_id = f"own-{name}" if alone else chance.choice(("tx-a", "tx-b"))
            start = StartTransactionalProducer(
                client=name,
                transactional_id=transactional_id,
                version=chance.choice((1, 2)),
                timeout_ms=chance.choice((4_000, 12_000)),
                delivery_timeout_ms=8_000,
            )
            events.append((at_ms, start))
            for _ in range(chance.randrange(3, 8)):
                at_ms += chance.randrange(20, 900)
                events.append((at_ms, BeginTransaction(name)))
                for _ in range(chance.randrange(1, 4)):
                    records = (NewRecord(timestamp=-1, key=None, value=f"{name}@{at_ms}".encode()),)
                    send = SendInTransaction(client=name, partition=chance.choice(PARTITIONS), records=records)
                    events.append((at_ms, send))
                if chance.random() < 0.3:
                    offsets = SendOffsetsInTransaction(client=name, group="g", offsets={PARTITIONS[0]: 0})
                    events.append((at_ms, offsets))
                at_ms += chance.choice((0, 5, 60, 400))
                events.append((at_ms, EndTransaction(name, chance.random() < 0.7)))
            at_ms += chance.choice((0, 300, 3_000))
            events.append((at_ms, StopClient(name)))
    return events


def faults(chance: random.Random) -> list[tuple[int, object]]:
    """Brokers die, stop, stand still and do not hear one another; later all is well."""
    rough = Link(delay_ms=2, jitter_ms=10, lost=100, doubled=200, reordered=300)
    events: list[tuple[int, object]] = [(6_000, SetLink(None, None, rough))] if chance.random() < 0.5 else []
    at_ms = 6_000
    while at_ms < FAULTS_END_MS:
        broker, for_ms = chance.choice(BROKERS), chance.randrange(500, 7_000)
        other = chance.choice([b for b in BROKERS if b != broker])
        link = (broker_node(broker), broker_node(other))
        kinds = [(Kill(broker), Start(broker)), (Stop(broker), Start(broker)), (Pause(broker), Resume(broker))]
        begins, ends = chance.choice([*kinds, (Cut(*link), Heal(*link))])
        events += [(at_ms, begins), (at_ms + for_ms, ends)]
        # Brokers that died one after the other too quickly may leave a partition that nobody may lead.
        at_ms += for_ms + chance.randrange(3_000, 8_000)
    events.append((FAULTS_END_MS + 10_000, SetLink(None, None, Link())))
    for broker in BROKERS:
        events += [(FAULTS_END_MS + 10_000, Resume(broker)), (FAULTS_END_MS + 10_001, Start(broker))]
        events += [(FAULTS_END_MS + 10_000, Heal(broker_node(broker), broker_node(other))) for other in BROKERS]
    return events


def world_of(seed: int) -> World:
    chance = random.Random(seed)
    world = new_world(seed=seed, settings=Settings(broker_config={"min.insync.replicas": "2"}))
    begun_ms = world.now_ms
    everywhere = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    compacted = {"cleanup.policy": "compact"}
    events: list[tuple[int, object]] = [
        (3_000, CreateTopic(name="__transaction_state", assignment=everywhere, config=compacted)),
        (3_000, CreateTopic(name="__consumer_offsets", assignment=everywhere, config=compacted)),
        (3_000, CreateTopic(name="orders", assignment=everywhere)),
    ]
    for client, protocol in (("c1", "classic"), ("c2", "classic"), ("k1", "consumer"), ("k2", "consumer")):
        group = StartGroupConsumer(
            client=client, group=protocol, topics=("orders",), protocol=protocol, read_committed=True
        )
        events.append((5_000 + chance.randrange(9_000), group))
    events += traffic(chance) + faults(chance)
    world = scheduled_all(world, [(begun_ms + at_ms, action) for at_ms, action in events])
    return run(world, begun_ms + SETTLED_MS)


def batches(world: World, partition: TopicPartition) -> list[StoredBatch]:
    leader = world.controller.image.topics[partition.topic].partitions[partition.partition].leader
    return world.brokers[leader].disk.replicas[partition].log.batches_from(0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_told_is_what_was_decided_and_what_is_in_the_logs(seed: int) -> None:
    world = world_of(seed)
    decided = [n for n in world.truth.transactions if isinstance(n, Decided)]
    told = [n for n in world.truth.transactions if isinstance(n, TransactionTold)]
    assert any(d.committed for d in decided)
    known = {(d.producer_id, d.producer_epoch, d.marker_epoch, d.committed) for d in decided}
    for note in told:
        if note.written and note.outcome in ("committed", "aborted"):
            same = [d for d in decided if (d.producer_id, d.producer_epoch) == (note.producer_id, note.producer_epoch)]
            assert any(d.committed == (note.outcome == "committed") for d in same), note
    committed_offsets: dict[TopicPartition, set[int]] = {}
    for partition in PARTITIONS + [TopicPartition("__consumer_offsets", n) for n in range(3)]:
        open_: dict[int, list[StoredBatch]] = {}
        for batch in batches(world, partition):
            if batch.is_marker:
                said = (batch.producer_id, batch.producer_epoch, batch.committed)
                assert said in {(p, marker, outcome) for p, _, marker, outcome in known}, (partition, batch.base_offset)
                for data in open_.pop(batch.producer_id, []):
                    epochs = (data.producer_epoch, batch.producer_epoch)
                    assert (data.producer_id, *epochs, batch.committed) in known, (partition, data.base_offset)
                    if batch.committed:
                        committed_offsets.setdefault(partition, set()).add(data.base_offset)
            elif batch.is_transactional:
                open_.setdefault(batch.producer_id, []).append(batch)
        assert not open_, "every transaction has ended"
        assert world.truth.last_stable_offset(partition) == world.truth.high_watermark(partition)
    for protocol, members in (("classic", ("c1", "c2")), ("consumer", ("k1", "k2"))):
        for partition in PARTITIONS:
            read = {n.base_offset for n in world.truth.consumed if n.client in members and n.partition == partition}
            assert read == committed_offsets.get(partition, set()), (protocol, partition)
    assert not world.truth.losses
