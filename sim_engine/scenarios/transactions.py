"""Transactions that are fenced, that hang, and that end on one partition and not on the other.

In: a seed. Out: the story's moments. Source: KIP-98, KIP-890; Kafka TransactionCoordinator, KAFKA-14402.
"""

from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import CreateTopic
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    LoseMarkers,
    SendInTransaction,
    StartTransactionalProducer,
    WriteUnverified,
)
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import CHECKPOINTED_MS, ORDERS, SETTLED_MS, A, B, C, cluster, found, values
from tidegauge.sim_engine.transaction_notes import Decided
from tidegauge.sim_engine.world import World

ORDERS_1: Final = TopicPartition("orders", 1)
_MINUTE_MS: Final = 60_000


def hanging_transaction(seed: int) -> Played:
    """A transactional producer of the time before KIP-890 writes two records to orders-0 and commits. Then a batch of
    its that had been on its way for long arrives, after the commit: the leader of orders-0 takes it, and it begins a
    transaction of which no coordinator knows. Other producers go on.

    Truth: the transaction that begins at offset 3 is open for ever; the last stable offset of orders-0 stays at 3
    while the high watermark rises. Nothing is lost, but who reads committed records reads nothing more of orders-0.

    An audit finds an open transaction that no coordinator knows (F09).
    """
    world = _transaction(_with_coordinators(seed, version=1), "app", "paid", "sent")
    producer_id = _producer_id(world)
    late = WriteUnverified(partition=ORDERS, producer_id=producer_id, records=values("late"))
    world = run_for(step(world, late), SETTLED_MS)
    world = _transaction(_with_transactional(world, "other", "other-tx", version=1), "other", "paid", "sent")
    stuck = Moment(
        name="hanging",
        what="The last stable offset of orders-0 stays at 3.",
        world=run_for(world, CHECKPOINTED_MS),
        findings=(found("F09", start_offset=3, end_offset=4),),
    )
    return Played((stuck,))


def zombie_producer(seed: int) -> Played:
    """An application with a transactional id writes to both partitions, and stands still before it commits. Another
    instance takes its place: the coordinator fences the first one and aborts its transaction. The new one writes and
    commits. The first wakes up, sends one more record and commits.

    Truth: the first transaction is aborted, the second committed; what the zombie sends is refused, and it is told
    that it was fenced. Nothing of it is in the log behind its abort marker.

    An audit finds nothing wrong.
    """
    world = _with_coordinators(seed, version=2)
    world = step(world, BeginTransaction("app"))
    world = run_for(_sent(world, "app", "first life"), SETTLED_MS)
    world = _transaction(_with_transactional(world, "app-again", "tx", version=2), "app-again", "second life")
    world = run_for(_sent(world, "app", "zombie"), SETTLED_MS)
    world = run_for(step(world, EndTransaction("app", commit=True)), 2 * _MINUTE_MS)
    return Played((Moment(name="fenced", what="The zombie was refused.", world=world),))


def lost_marker(seed: int) -> Played:
    """A transaction writes to orders-0 and orders-1 and commits. The coordinator takes the marker for orders-1 as
    written, and it is not; the transaction is complete for it.

    Truth: the producer was told that it committed. orders-0 has its marker; on orders-1 the transaction is open for
    ever, its last stable offset stays at 0, and who reads committed records sees one half of the transaction.

    An audit finds that the coordinator has completed a transaction of which orders-1 has no end marker (F10); so a
    transaction is open there that nobody will end (F09).
    """
    world = step(_with_coordinators(seed, version=2), LoseMarkers(ORDERS_1))
    world = _transaction(world, "app", "paid", "sent")
    half = Moment(
        name="half-committed",
        what="orders-0 is committed, orders-1 waits for ever.",
        world=run_for(world, CHECKPOINTED_MS),
        findings=(
            found("F10", start_offset=0, partition=ORDERS_1),
            found("F09", start_offset=0, end_offset=2, partition=ORDERS_1),
        ),
    )
    return Played((half,))


def _with_coordinators(seed: int, *, version: int) -> World:
    """A cluster with the topic of transactions' states, and a transactional producer."""
    states = CreateTopic(
        name="__transaction_state", assignment=((A, B, C), (B, C, A)), config={"cleanup.policy": "compact"}
    )
    world = cluster(seed, assignment=((A, B, C), (B, C, A)), config={"min.insync.replicas": "2"}, others=(states,))
    return _with_transactional(world, "app", "tx", version=version)


def _with_transactional(world: World, client: str, transactional_id: str, *, version: int) -> World:
    call = StartTransactionalProducer(client=client, transactional_id=transactional_id, version=version)
    return run_for(step(world, call), 5_000)


def _sent(world: World, client: str, *texts: str) -> World:
    for partition in (ORDERS, ORDERS_1):
        world = step(world, SendInTransaction(client=client, partition=partition, records=values(*texts)))
    return world


def _transaction(world: World, client: str, *texts: str) -> World:
    """A transaction with these values, to both partitions, committed."""
    world = _sent(step(world, BeginTransaction(client)), client, *texts)
    return run_for(step(world, EndTransaction(client, commit=True)), 5_000)


def _producer_id(world: World) -> int:
    return next(note.producer_id for note in world.truth.transactions if isinstance(note, Decided))


SCENARIOS: Final = (
    Scenario(
        name="hanging-transaction",
        about="a late batch begins a transaction that nobody will end",
        play=hanging_transaction,
    ),
    Scenario(
        name="zombie-producer", about="a fenced instance of a transactional application writes on", play=zombie_producer
    ),
    Scenario(
        name="lost-marker", about="a transaction is committed on one partition and open on the other", play=lost_marker
    ),
)
