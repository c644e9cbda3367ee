"""A consumer without a group: it reads its partitions from their leaders, in order.

In: polls, brokers' answers. Out: requests, and in the ledger what it was given and told. It is given nothing at or
above the high watermark, or the last stable offset if it reads committed data only; aborted transactions are left out
then; when its offset is out of range it is told so and goes on as auto.offset.reset says.

Source: Kafka FetchCollector, CompletedFetch, SubscriptionState.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import ClientTick, Poll, StartConsumer
from tidegauge.sim_engine.clients import client_metadata
from tidegauge.sim_engine.clients.client_metadata import Leaders
from tidegauge.sim_engine.log.stored_batch import StoredBatch
from tidegauge.sim_engine.messages import NONE, ClientMetadataResponse, ConsumeRequest, ConsumeResponse
from tidegauge.sim_engine.network import broker_node, client_node
from tidegauge.sim_engine.turn import Turn

_ANSWER_TIMEOUT_MS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer. `positions`: the next offset; a partition without one has yet to be reset."""

    call: StartConsumer
    leaders: Leaders = field(default_factory=Leaders)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    waiting: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """(correlation, sent at) of the request that is under way."""


def start(turn: Turn, call: StartConsumer) -> None:
    """A consumer begins."""
    consumer = Consumer(call=call, positions={p: call.start_offsets.get(p, 0) for p in call.partitions})
    turn.put_client(call.client, replace(consumer, leaders=client_metadata.ask(turn, call.client, consumer.leaders)))
    if call.poll_interval_ms is not None:
        turn.after(call.poll_interval_ms, ClientTick(call.client, "poll", 0))


def poll(turn: Turn, call: Poll) -> None:
    """Asks for what comes next in each partition."""
    consumer = turn.client(call.client)
    if not isinstance(consumer, Consumer):
        return
    waiting = dict(consumer.waiting)
    unknown = False
    for partition, position in consumer.positions.items():
        leader = consumer.leaders.leader(partition)
        if leader is None:
            unknown = True
            continue
        asked = waiting.get(partition)
        if asked is not None and turn.now_ms - asked[1] < _ANSWER_TIMEOUT_MS:
            continue
        unknown = unknown or asked is not None
        turn.sequence += 1
        waiting[partition] = (turn.sequence, turn.now_ms)
        request = ConsumeRequest(
            correlation=turn.sequence,
            partition=partition,
            fetch_offset=position,
            current_leader_epoch=consumer.leaders.epoch(partition),
            read_committed=consumer.call.read_committed,
        )
        turn.send(client_node(call.client), broker_node(leader), request)
    consumer = replace(consumer, waiting=waiting)
    if unknown:
        consumer = replace(consumer, leaders=client_metadata.ask(turn, call.client, consumer.leaders))
    turn.put_client(call.client, consumer)


def answered(turn: Turn, client: str, response: ConsumeResponse) -> None:
    """Batches, or an error."""
    consumer = turn.client(client)
    assert isinstance(consumer, Consumer)
    partition = response.partition
    if consumer.waiting.get(partition, (-1, -1))[0] != response.correlation:
        return
    consumer = replace(consumer, waiting={p: w for p, w in consumer.waiting.items() if p != partition})
    if response.error == "OFFSET_OUT_OF_RANGE":
        position = consumer.positions[partition]
        turn.tell(client, response.error, partition=partition, offset=position, detail=consumer.call.reset)
        anew = {"earliest": response.log_start_offset, "latest": response.high_watermark}.get(consumer.call.reset)
        left = {p: o for p, o in consumer.positions.items() if p != partition or anew is not None}
        if anew is not None:
            left[partition] = anew
        consumer = replace(consumer, positions=left)
    elif response.error != NONE:
        consumer = replace(consumer, leaders=client_metadata.ask(turn, client, consumer.leaders))
    elif response.batches:
        position = consumer.positions[partition]
        given = visible(response.batches, response.aborted if consumer.call.read_committed else ())
        ledger.consumed(turn, client, partition, (b for b in given if b.last_offset >= position))
        position = max(position, response.batches[-1].last_offset + 1)
        consumer = replace(consumer, positions={**consumer.positions, partition: position})
    turn.put_client(client, consumer)


def visible(batches: tuple[StoredBatch, ...], aborted: tuple[tuple[int, int], ...]) -> list[StoredBatch]:
    """The batches that an application gets: no control batches, nothing of the aborted transactions."""
    waiting = sorted(aborted, key=lambda entry: entry[1])
    gone: set[int] = set()
    given = []
    for batch in batches:
        while waiting and waiting[0][1] <= batch.base_offset:
            gone.add(waiting.pop(0)[0])
        if batch.is_control:
            gone.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in gone):
            given.append(batch)
    return given


def ticked(turn: Turn, tick: ClientTick) -> None:
    """It polls, again and again."""
    consumer = turn.client(tick.client)
    if isinstance(consumer, Consumer) and consumer.call.poll_interval_ms is not None:
        poll(turn, Poll(tick.client))
        turn.after(consumer.call.poll_interval_ms, tick)


def metadata_answered(turn: Turn, client: str, response: ClientMetadataResponse) -> None:
    """A broker says who leads what."""
    consumer = turn.client(client)
    assert isinstance(consumer, Consumer)
    turn.put_client(client, replace(consumer, leaders=client_metadata.learned(consumer.leaders, response.image)))
