"""A producer: plain, or idempotent with up to five requests in flight, retries and timeouts.

In: an application's calls, brokers' answers, its timers. Out: requests, and what it was told, in the ledger. An
idempotent producer's batches reach a partition in the order of their sequences; after an error only the first one of a
partition is sent until it is through, and a batch that was given up after it was sent is followed by a new epoch
(KIP-360).

Source: Kafka Sender, RecordAccumulator#shouldStopDrainBatchesForPartition, TransactionManager.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import ClientTick, ProduceCall, RestartProducer, StartProducer
from tidegauge.sim_engine.clients import client_metadata
from tidegauge.sim_engine.clients.client_metadata import Leaders
from tidegauge.sim_engine.log.stored_batch import NO_SEQUENCE, NewRecord, Producer, add_sequence
from tidegauge.sim_engine.messages import (
    NONE,
    ClientMetadataResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidegauge.sim_engine.network import broker_node, client_node
from tidegauge.sim_engine.truth import Acknowledged, digest_of
from tidegauge.sim_engine.turn import Turn

_REMEMBERED: Final = 5
"""Batches of a producer whose sequences a broker remembers (ProducerStateEntry#NUM_BATCHES_TO_RETAIN)."""
_MAX_EPOCH: Final = 32_767
_RETRIABLE: Final = frozenset(
    {
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "KAFKA_STORAGE_ERROR",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingBatch:
    """A batch that is not through. `sequence` and `epoch` are given when it is first sent."""

    number: int
    partition: TopicPartition
    records: tuple[NewRecord, ...]
    called_at_ms: int
    sequence: int = NO_SEQUENCE
    epoch: int = -1
    attempts: int = 0
    in_flight: int | None = None
    sent_at_ms: int = -1
    retry_at_ms: int = 0
    nth: int = 0
    """The how manieth batch of its partition it was when it was first sent; 0 if it never was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerClient:
    """A producer. `pending` holds each partition's batches in the order of their calls."""

    call: StartProducer
    leaders: Leaders = field(default_factory=Leaders)
    producer_id: int = -1
    producer_epoch: int = -1
    next_number: int = 0
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)
    first_sends: Mapping[TopicPartition, int] = field(default_factory=dict)
    pending: Mapping[TopicPartition, tuple[PendingBatch, ...]] = field(default_factory=dict)
    bump_epoch: bool = False
    asked_id_at_ms: int = -1
    retry_due_ms: int = -1
    """When the next timer fires that is set; -1 if none is."""

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer."""
        return sum(1 for batches in self.pending.values() for b in batches if b.in_flight is not None)

    @property
    def ready(self) -> bool:
        """Whether it has what it needs to send."""
        return not self.call.idempotent or self.producer_id >= 0


def start(turn: Turn, call: StartProducer) -> None:
    """A producer begins."""
    producer = ProducerClient(call=call)
    if call.producer_id is not None:
        producer = replace(producer, producer_id=call.producer_id, producer_epoch=call.producer_epoch)
    producer = replace(producer, leaders=client_metadata.ask(turn, call.client, producer.leaders))
    turn.put_client(call.client, producer)
    _drive(turn, call.client)


def restart(turn: Turn, call: RestartProducer) -> None:
    """The application comes back with the same id and the next epoch; what it had not sent through is forgotten."""
    producer = turn.client(call.client)
    assert isinstance(producer, ProducerClient)
    anew = replace(producer, producer_epoch=producer.producer_epoch + 1, sequences={}, pending={}, bump_epoch=False)
    anew = replace(anew, call=replace(anew.call, first_sequence=0))
    turn.tell(call.client, "restarted", detail=f"epoch {anew.producer_epoch}")
    turn.put_client(call.client, anew)


def produce(turn: Turn, call: ProduceCall) -> None:
    """The application hands over a batch."""
    producer = turn.client(call.client)
    if not isinstance(producer, ProducerClient):
        return
    now = turn.now_ms
    records = tuple(r if r.timestamp >= 0 else replace(r, timestamp=now) for r in call.records)
    batch = PendingBatch(number=producer.next_number, partition=call.partition, records=records, called_at_ms=now)
    queued = (*producer.pending.get(call.partition, ()), batch)
    turn.put_client(
        call.client,
        replace(producer, next_number=producer.next_number + 1, pending={**producer.pending, call.partition: queued}),
    )
    _drive(turn, call.client)


def _drive(turn: Turn, client: str, only: TopicPartition | None = None) -> None:
    """Sends what may be sent."""
    producer = turn.client(client)
    assert isinstance(producer, ProducerClient)
    if not producer.ready:
        _ask_for_id(turn, client, producer)
        return
    if producer.bump_epoch:
        if producer.in_flight:
            return
        producer = _bumped(producer)
        turn.put_client(client, producer)
    for partition in [only] if only is not None else list(producer.pending):
        producer = _drive_partition(turn, client, producer, partition)
    turn.put_client(client, producer)


def _drive_partition(turn: Turn, client: str, producer: ProducerClient, partition: TopicPartition) -> ProducerClient:
    batches = producer.pending.get(partition, ())
    if not batches:
        return producer
    leader = producer.leaders.leader(partition)
    if leader is None:
        return _scheduled(turn, producer, producer.call.retry_backoff_ms)
    flying = sum(1 for b in batches if b.in_flight is not None)
    sent = list(batches)
    for at, batch in enumerate(batches):
        if flying >= producer.call.max_in_flight:
            break
        if batch.in_flight is not None:
            continue
        if batch.retry_at_ms > turn.now_ms:
            break
        if producer.call.idempotent and batch.attempts > 0 and at > 0:
            # Only the first batch of the partition is sent again; those behind it wait for its answer.
            break
        if producer.call.idempotent and at > 0 and (sent[0].attempts > 1 or _is_far_ahead(producer, sent[0])):
            break
        producer, sent[at] = _send(turn, client, producer, batch, leader)
        flying += 1
    kept = tuple(b for b in sent if producer.call.acks != 0 or b.in_flight is None)
    return replace(producer, pending={**producer.pending, partition: kept})


def _is_far_ahead(producer: ProducerClient, oldest: PendingBatch) -> bool:
    """So many batches were sent since one that waits for its answer that the broker would forget that one's sequence.

    A client's connection brings answers in order, so where one is missing, those behind it are, too. Here each message
    goes its own way.
    """
    return oldest.nth > 0 and producer.first_sends.get(oldest.partition, 0) - oldest.nth >= _REMEMBERED - 1


def _send(
    turn: Turn, client: str, producer: ProducerClient, batch: PendingBatch, leader: int
) -> tuple[ProducerClient, PendingBatch]:
    call = producer.call
    if call.idempotent and batch.sequence == NO_SEQUENCE:
        sequence = producer.sequences.get(batch.partition, call.first_sequence)
        following = add_sequence(sequence, len(batch.records))
        producer = replace(producer, sequences={**producer.sequences, batch.partition: following})
        batch = replace(batch, sequence=sequence, epoch=producer.producer_epoch)
    turn.sequence += 1
    if batch.attempts == 0:
        nth = producer.first_sends.get(batch.partition, 0) + 1
        producer = replace(producer, first_sends={**producer.first_sends, batch.partition: nth})
        batch = replace(batch, nth=nth)
    batch = replace(batch, attempts=batch.attempts + 1, in_flight=turn.sequence, sent_at_ms=turn.now_ms)
    who = None
    if call.idempotent:
        who = Producer(producer_id=producer.producer_id, producer_epoch=batch.epoch, base_sequence=batch.sequence)
    request = ProduceRequest(
        correlation=turn.sequence,
        partition=batch.partition,
        records=batch.records,
        acks=call.acks,
        timeout_ms=call.request_timeout_ms,
        producer=who,
        codec=CompressionType(call.codec),
    )
    turn.send(client_node(client), broker_node(leader), request)
    if call.acks != 0:
        turn.after(call.request_timeout_ms + 1_000, ClientTick(client, "unanswered", request.correlation))
    return producer, batch


def answered(turn: Turn, client: str, response: ProduceResponse) -> None:
    """A broker's answer to a batch."""
    producer = turn.client(client)
    assert isinstance(producer, ProducerClient)
    batches = producer.pending.get(response.partition, ())
    batch = next((b for b in batches if b.in_flight == response.correlation), None)
    if batch is None:
        return
    if response.error == NONE:
        _acknowledged(turn, client, producer, batch, response)
        _drive(turn, client, response.partition if not producer.bump_epoch else None)
    else:
        _failed(turn, client, producer, batch, response.error)


def _acknowledged(
    turn: Turn, client: str, producer: ProducerClient, batch: PendingBatch, response: ProduceResponse
) -> None:
    note = Acknowledged(
        at_ms=turn.now_ms,
        client=client,
        partition=batch.partition,
        base_offset=response.base_offset,
        last_offset=response.base_offset + len(batch.records) - 1,
        leader_epoch=response.leader_epoch,
        acks=producer.call.acks,
        digests=tuple(digest_of(r.value) for r in batch.records),
        producer_id=producer.producer_id,
        producer_epoch=batch.epoch,
        base_sequence=batch.sequence,
    )
    ledger.acknowledged(turn, note)
    _put(turn, client, producer, batch, None)


def _put(
    turn: Turn, client: str, producer: ProducerClient, batch: PendingBatch, now: PendingBatch | None
) -> ProducerClient:
    batches = producer.pending[batch.partition]
    if now is None:
        left = tuple(b for b in batches if b.number != batch.number)
    else:
        left = tuple(now if b.number == batch.number else b for b in batches)
    producer = replace(producer, pending={**producer.pending, batch.partition: left})
    turn.put_client(client, producer)
    return producer


def _failed(turn: Turn, client: str, producer: ProducerClient, batch: PendingBatch, error: str) -> None:
    call = producer.call
    late = turn.now_ms - batch.called_at_ms >= call.delivery_timeout_ms
    tried = call.retries is not None and batch.attempts > call.retries
    first = producer.pending[batch.partition][0].number == batch.number
    # A gap before a batch that is not the first means that one before it failed: it will be sent again too.
    again = error in _RETRIABLE or (error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and not first)
    if again and not late and not tried:
        retry_at_ms = turn.now_ms + call.retry_backoff_ms
        producer = _put(turn, client, producer, batch, replace(batch, in_flight=None, retry_at_ms=retry_at_ms))
        if error in ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION"):
            producer = replace(producer, leaders=_ask(turn, client, producer))
        turn.put_client(client, _scheduled(turn, producer, call.retry_backoff_ms))
        return
    turn.tell(client, error if not late else "TimeoutException", partition=batch.partition, offset=batch.sequence)
    producer = _put(turn, client, producer, batch, None)
    if call.idempotent and batch.attempts > 0 and batch.epoch == producer.producer_epoch:
        turn.put_client(client, replace(producer, bump_epoch=True))
    _drive(turn, client)


def _bumped(producer: ProducerClient) -> ProducerClient:
    """The next epoch: every partition's sequences start again, what waits is numbered anew."""
    pending = {
        partition: tuple(replace(b, sequence=NO_SEQUENCE, epoch=-1, attempts=0) for b in batches)
        for partition, batches in producer.pending.items()
    }
    producer = replace(
        producer,
        bump_epoch=False,
        sequences={},
        pending=pending,
        call=replace(producer.call, first_sequence=0),
        producer_epoch=producer.producer_epoch + 1,
    )
    # A producer without a transactional id that has used up its epochs asks for another id.
    return producer if producer.producer_epoch <= _MAX_EPOCH else replace(producer, producer_id=-1, producer_epoch=-1)


def _ask(turn: Turn, client: str, producer: ProducerClient) -> Leaders:
    """Asks who leads, but not more often than retry.backoff.ms."""
    leaders = producer.leaders
    if leaders.asked_at_ms >= 0 and turn.now_ms - leaders.asked_at_ms < producer.call.retry_backoff_ms:
        return leaders
    return client_metadata.ask(turn, client, leaders)


def _scheduled(turn: Turn, producer: ProducerClient, delay_ms: int) -> ProducerClient:
    """Tries again in a while: one timer at a time, or each would set the next ones."""
    if turn.now_ms < producer.retry_due_ms <= turn.now_ms + delay_ms:
        return producer
    turn.after(delay_ms, ClientTick(producer.call.client, "retry", 0))
    return replace(producer, retry_due_ms=turn.now_ms + delay_ms)


def ticked(turn: Turn, tick: ClientTick) -> None:
    """A request was not answered in time, or a pause is over."""
    producer = turn.client(tick.client)
    if not isinstance(producer, ProducerClient):
        return
    if tick.kind == "unanswered":
        for batches in producer.pending.values():
            for batch in batches:
                if batch.in_flight == tick.number:
                    _failed(turn, tick.client, producer, batch, "REQUEST_TIMED_OUT")
                    return
        return
    for batches in producer.pending.values():
        for batch in batches:
            late = turn.now_ms - batch.called_at_ms >= producer.call.delivery_timeout_ms
            if late and batch.in_flight is None:
                _failed(turn, tick.client, producer, batch, "REQUEST_TIMED_OUT")
                return
    waiting = [p for p, batches in producer.pending.items() if batches]
    if any(producer.leaders.leader(p) is None for p in waiting):
        turn.put_client(tick.client, replace(producer, leaders=_ask(turn, tick.client, producer)))
    _drive(turn, tick.client)


def metadata_answered(turn: Turn, client: str, response: ClientMetadataResponse) -> None:
    """A broker says who leads what."""
    producer = turn.client(client)
    assert isinstance(producer, ProducerClient)
    turn.put_client(client, replace(producer, leaders=client_metadata.learned(producer.leaders, response.image)))
    _drive(turn, client)


def _ask_for_id(turn: Turn, client: str, producer: ProducerClient) -> None:
    waited = turn.now_ms - producer.asked_id_at_ms
    if producer.asked_id_at_ms < 0 or waited >= producer.call.request_timeout_ms:
        brokers = turn.broker_ids
        target = brokers[turn.below(len(brokers), f"producer id {client}")]
        turn.send(client_node(client), broker_node(target), InitProducerIdRequest(correlation=turn.sequence))
        producer = replace(producer, asked_id_at_ms=turn.now_ms)
        turn.put_client(client, _scheduled(turn, producer, producer.call.request_timeout_ms))


def id_answered(turn: Turn, client: str, response: InitProducerIdResponse) -> None:
    """The producer has an id."""
    producer = turn.client(client)
    assert isinstance(producer, ProducerClient)
    if producer.producer_id >= 0 or response.error != NONE:
        return
    turn.put_client(
        client,
        replace(producer, producer_id=response.producer_id, producer_epoch=response.producer_epoch),
    )
    _drive(turn, client)
