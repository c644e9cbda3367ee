"""A transactional producer in a world: its calls, its requests and their answers, its notes in the ledger.

In: calls, messages, ticks. Out: requests; what it learns of its transactions. What it does is decided in
`transactional_producer`; here is only where a request goes, and when it goes again.

It knows the cluster from a broker's answer, which it asks for anew whenever something went wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import ClientTick
from tidegauge.sim_engine.clients.transactional_producer import (
    Begin,
    Call,
    End,
    InitTransactions,
    Outcome,
    Request,
    Send,
    SendOffsets,
    TransactionalProducer,
    about_to_send,
    answered,
    dropped,
    refused_at_once,
    request_of,
    without_request,
)
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    SendInTransaction,
    SendOffsetsInTransaction,
    StartTransactionalProducer,
)
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE
from tidegauge.sim_engine.coordinators.coordinator_messages import CommitRequest, GroupAnswer, TransactionAnswer
from tidegauge.sim_engine.coordinators.group_records import CommittedOffset
from tidegauge.sim_engine.hosting.hosted import leader_of, partition_counts
from tidegauge.sim_engine.messages import (
    ClientMetadataRequest,
    ClientMetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidegauge.sim_engine.metadata.controller import ClusterImage
from tidegauge.sim_engine.network import broker_node, client_node
from tidegauge.sim_engine.transaction_notes import TransactionTold, note_told
from tidegauge.sim_engine.truth import Acknowledged, digest_of
from tidegauge.sim_engine.turn import Turn

TIMEOUT = "transactional-timeout"
RETRY = "transactional-retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalClient:
    """A producer and what it knows of the cluster."""

    producer: TransactionalProducer
    image: ClusterImage | None = None


def start(turn: Turn, action: StartTransactionalProducer) -> None:
    """A producer begins; one of the same name forgets everything."""
    producer = TransactionalProducer(
        name=action.client,
        transactional_id=action.transactional_id,
        version=action.version,
        timeout_ms=action.timeout_ms,
        request_timeout_ms=action.request_timeout_ms,
        delivery_timeout_ms=action.delivery_timeout_ms,
        retry_backoff_ms=action.retry_backoff_ms,
        calls=(InitTransactions(),),
    )
    turn.put_client(action.client, TransactionalClient(producer=producer))
    _go_on(turn, action.client)


def begin(turn: Turn, action: BeginTransaction) -> None:
    """A transaction begins."""
    _called(turn, action.client, Begin())


def send(turn: Turn, action: SendInTransaction) -> None:
    """A batch."""
    records = tuple(r if r.timestamp >= 0 else replace(r, timestamp=turn.now_ms) for r in action.records)
    _called(turn, action.client, Send(partition=action.partition, records=records))


def send_offsets(turn: Turn, action: SendOffsetsInTransaction) -> None:
    """Offsets. Which partition is the group's is known when they are sent."""
    offsets = {p: CommittedOffset(offset=o, commit_ms=turn.now_ms) for p, o in action.offsets.items()}
    where = TopicPartition(CONSUMER_OFFSETS, _group_partition(turn, action.group))
    _called(turn, action.client, SendOffsets(group=action.group, partition=where, offsets=offsets))


def end(turn: Turn, action: EndTransaction) -> None:
    """Commit or abort."""
    _called(turn, action.client, End(action.commit))


def delivered(turn: Turn, client: str, message: object) -> None:
    """An answer; one that is not awaited any more says nothing."""
    now = _client(turn, client)
    if now is None:
        return
    if isinstance(message, ClientMetadataResponse):
        turn.put_client(client, replace(now, image=message.image))
        if now.image is None:
            _go_on(turn, client)
        return
    if not isinstance(message, (TransactionAnswer, ProduceResponse, GroupAnswer)):
        return
    if now.producer.correlation != message.correlation or not now.producer.calls:
        return
    before = now.producer
    after, outcome = answered(before, message)
    turn.put_client(client, replace(now, producer=after))
    if outcome is not None:
        _note(turn, before, after, outcome)
    if message.error != NONE and outcome is None:
        _wait(turn, client)
    else:
        _go_on(turn, client)


def tick(turn: Turn, action: ClientTick) -> None:
    """No answer came, or a pause is over."""
    now = _client(turn, action.client)
    if now is None or not now.producer.calls:
        return
    if action.kind == TIMEOUT and now.producer.correlation == action.number:
        turn.put_client(action.client, replace(now, producer=replace(now.producer, correlation=None)))
        _wait(turn, action.client)
    elif action.kind == RETRY and now.producer.correlation is None:
        _go_on(turn, action.client)


def _called(turn: Turn, client: str, call: Call) -> None:
    now = _client(turn, client)
    if now is None:
        return
    turn.put_client(client, replace(now, producer=replace(now.producer, calls=(*now.producer.calls, call))))
    if len(now.producer.calls) == 0:
        _go_on(turn, client)


def _go_on(turn: Turn, client: str) -> None:
    """Does the calls that need nobody, up to the first that has to ask."""
    now = _client(turn, client)
    assert now is not None
    producer = now.producer
    while producer.calls and producer.correlation is None:
        before = producer
        if producer.call_began_ms < 0:
            producer = replace(producer, call_began_ms=turn.now_ms)
        if (error := refused_at_once(producer) or _out_of_time(producer, turn.now_ms)) is not None:
            producer, outcome = dropped(producer, error)
            _note(turn, before, producer, outcome)
            continue
        turn.sequence += 1
        request = request_of(producer, turn.sequence)
        if request is None:
            producer, outcome = without_request(producer)
            _note(turn, before, producer, outcome)
            continue
        target = _target(producer, request, now.image)
        if target is None:
            turn.put_client(client, replace(now, producer=producer))
            _wait(turn, client)
            return
        producer = replace(about_to_send(producer), correlation=turn.sequence)
        turn.after(producer.request_timeout_ms, ClientTick(client, TIMEOUT, turn.sequence))
        turn.send(client_node(client), broker_node(target), request)
    turn.put_client(client, replace(now, producer=producer))


def _wait(turn: Turn, client: str) -> None:
    """Asks who leads what, and tries again in a while."""
    now = _client(turn, client)
    assert now is not None
    turn.sequence += 1
    brokers = turn.broker_ids
    asked = brokers[turn.below(len(brokers), f"metadata {client}")]
    turn.send(client_node(client), broker_node(asked), ClientMetadataRequest(correlation=turn.sequence))
    turn.after(now.producer.retry_backoff_ms, ClientTick(client, RETRY, turn.sequence))


def _out_of_time(producer: TransactionalProducer, now_ms: int) -> str | None:
    late = now_ms - producer.call_began_ms >= producer.delivery_timeout_ms
    return "DELIVERY_TIMED_OUT" if late and isinstance(producer.calls[0], (Send, SendOffsets)) else None


def _target(producer: TransactionalProducer, request: Request, image: ClusterImage | None) -> int | None:
    """The broker that a request goes to; None where nobody is known to lead."""
    if image is None:
        return None
    counts = partition_counts(image)
    if isinstance(request, ProduceRequest):
        where = request.partition
    elif isinstance(request, CommitRequest):
        where = _coordinated(CONSUMER_OFFSETS, request.group, counts)
    else:
        where = _coordinated(TRANSACTION_STATE, producer.transactional_id, counts)
    leader = leader_of(image, where)
    return leader if leader is not None and leader >= 0 else None


def _coordinated(topic: str, key: str, counts: Mapping[str, int]) -> TopicPartition:
    return TopicPartition(topic, coordinator_partition(key, counts.get(topic, 1)))


def _group_partition(turn: Turn, group: str) -> int:
    counts = partition_counts(turn.controller.image)
    return coordinator_partition(group, counts.get(CONSUMER_OFFSETS, 1))


def _note(turn: Turn, before: TransactionalProducer, after: TransactionalProducer, outcome: Outcome) -> None:
    """Acknowledged batches, ends of transactions, and the errors that took their place."""
    if outcome.written is not None and isinstance(outcome.call, Send):
        written = outcome.written
        ledger.acknowledged(
            turn,
            Acknowledged(
                at_ms=turn.now_ms,
                client=before.name,
                partition=written.partition,
                base_offset=written.base_offset,
                last_offset=written.last_offset,
                leader_epoch=written.leader_epoch,
                acks=-1,
                digests=tuple(digest_of(r.value) for r in outcome.call.records),
                producer_id=before.producer_id,
                producer_epoch=before.producer_epoch,
                base_sequence=written.base_sequence,
                transaction=f"{before.transactional_id}/{before.number}",
            ),
        )
    ended = isinstance(outcome.call, End)
    if not ended and not (before.is_open and after.fatal is not None and before.fatal is None):
        return
    said = outcome.error
    if isinstance(outcome.call, End) and said == NONE:
        said = "committed" if outcome.call.commit else "aborted"
    note_told(
        turn,
        TransactionTold(
            at_ms=turn.now_ms,
            client=before.name,
            transactional_id=before.transactional_id,
            number=before.number,
            producer_id=before.producer_id,
            producer_epoch=before.producer_epoch,
            outcome=said,
            written=before.written,
        ),
    )


def _client(turn: Turn, name: str) -> TransactionalClient | None:
    found = turn.client(name)
    return found if isinstance(found, TransactionalClient) else None
