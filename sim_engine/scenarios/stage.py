"""What the stories are told with: a cluster that is up, records with numbers, links that are cut, brokers that die.

In: worlds. Out: worlds. A story is the same for every seed, so what it waits for is waited for longer than chance can
delay it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import new_world, run_for, scheduled_all, step
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange
from tidegauge.sim_engine.settings import Generation, Settings
from tidegauge.sim_engine.world import World

A, B, C = 1, 2, 3
ORDERS: Final = TopicPartition("orders", 0)
SESSION_OVER_MS: Final = 12_000
"""The controller has noticed a death, and chosen another leader."""
LAGGING_MS: Final = 60_000
"""A follower that does not fetch is out of the ISR."""
NEXT_PRODUCER_MS: Final = 10_000
"""A producer has found a broker that is up, has its id and knows who leads."""
CHECKPOINTED_MS: Final = 6_000
"""Each broker has written its high watermarks."""
GIVEN_UP_MS: Final = 130_000
"""A producer that waits two minutes for its records to get through waits no longer."""
SETTLED_MS: Final = 1_000


def cluster(
    seed: int,
    *,
    assignment: Sequence[Sequence[int]] = ((A, B, C),),
    generation: Generation = Generation.ELR,
    config: Mapping[str, str] | None = None,
    others: Sequence[actions.CreateTopic] = (),
) -> World:
    """Brokers A, B and C, and the topic `orders`; the first replica of a partition leads it."""
    world = run_for(new_world(seed=seed, settings=Settings(generation=generation)), 5_000)
    for topic in (*others, actions.CreateTopic(name="orders", assignment=assignment, config=config or {})):
        world = run_for(step(world, topic), SETTLED_MS)
    return world


def with_producer(world: World, client: str, *, acks: int = -1, idempotent: bool = False) -> World:
    """A producer that asks again after two seconds."""
    call = actions.StartProducer(client=client, acks=acks, idempotent=idempotent, request_timeout_ms=2_000)
    return run_for(step(world, call), SETTLED_MS)


def with_next_producer(world: World, client: str) -> World:
    """Another producer, for what is written after leaders changed: it writes each record once, and soon knows whom to
    ask.

    The one before may still wait for an answer, and an idempotent one's sequences may go on from where a new leader
    has not got to.
    """
    return run_for(with_producer(world, client, idempotent=True), NEXT_PRODUCER_MS)


def said(world: World, client: str, *texts: str, partition: TopicPartition = ORDERS) -> World:
    """A client is told to send these values as one batch; nothing has happened yet."""
    return step(world, actions.ProduceCall(client=client, partition=partition, records=values(*texts)))


def numbered(
    world: World, client: str, start: int, end: int, *, per_batch: int = 10, partition: TopicPartition = ORDERS
) -> World:
    """A client sends records [start, end), a batch each 20 ms, and a second passes."""
    for first in range(start, end, per_batch):
        texts = (f"order {number}" for number in range(first, min(first + per_batch, end)))
        world = run_for(said(world, client, *texts, partition=partition), 20)
    return run_for(world, SETTLED_MS)


def values(*texts: str) -> tuple[NewRecord, ...]:
    """Records with these values, written at the moment of the call."""
    return tuple(NewRecord(timestamp=-1, key=None, value=text.encode()) for text in texts)


def cut(world: World, left: int, right: int) -> World:
    """Nothing gets from one broker to the other, either way."""
    for source, target in ((left, right), (right, left)):
        world = step(world, actions.Cut(broker_node(source), broker_node(target)))
    return world


def healed(world: World) -> World:
    """All links are whole."""
    for source, target in sorted(world.network.cuts):
        world = step(world, actions.Heal(source, target))
    return world


def killed(world: World, *broker_ids: int, wait_ms: int = SESSION_OVER_MS) -> World:
    """Processes die at once, and the controller notices."""
    for broker_id in broker_ids:
        world = step(world, actions.Kill(broker_id))
    return run_for(world, wait_ms)


def started(world: World, *broker_ids: int, wait_ms: int = 40_000) -> World:
    """Brokers come back, catch up, and are let into the ISR."""
    for broker_id in broker_ids:
        world = step(world, actions.Start(broker_id))
    return run_for(world, wait_ms)


def later(world: World, events: Sequence[tuple[int, object]], *, wait_ms: int) -> World:
    """Things happen in so many milliseconds, and time passes."""
    return run_for(scheduled_all(world, [(world.now_ms + at_ms, action) for at_ms, action in events]), wait_ms)


def found(
    code: str,
    broker_id: int | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    *,
    partition: TopicPartition = ORDERS,
) -> Finding:
    """An expected breach; None where the invariant names no broker, or tells no offset."""
    return Finding(
        code=code, partition=partition, broker_id=broker_id, start_offset=start_offset, end_offset=end_offset
    )


def lost(start_offset: int, end_offset: int, *, committed: bool = True) -> LostRange:
    """Records of orders-0 that are lost."""
    return LostRange(partition=ORDERS, start_offset=start_offset, end_offset=end_offset, committed=committed)
