"""A transactional producer: what it was asked to do, one call after the other, and the request that each comes down to.

In: a producer's state and an answer. Out: the state, and what to send next. A request that was not answered is sent
again as it was, with its epoch and sequence, until it is answered or the call's time is up; a producer that was fenced
does nothing any more.

    InitTransactions -> InitProducerId          Send         -> V1: AddPartitionsToTxn, Produce     V2: Produce
    Begin            -> nothing                 SendOffsets  -> V1: AddOffsetsToTxn, TxnOffsetCommit  V2: the latter
    End              -> EndTxn (V2: the answer brings the next epoch, sequences start at 0)

Source: Kafka TransactionManager, Sender; KIP-98, KIP-360, KIP-447, KIP-890.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE
from tidegauge.sim_engine.coordinators.coordinator_messages import (
    AddPartitionsRequest,
    CommitRequest,
    EndTransactionRequest,
    GroupAnswer,
    InitTransactionsRequest,
    TransactionAnswer,
)
from tidegauge.sim_engine.coordinators.group_records import CommittedOffset
from tidegauge.sim_engine.coordinators.transaction_metadata import NO_EPOCH, NO_ID
from tidegauge.sim_engine.log.stored_batch import NewRecord, Producer, add_sequence
from tidegauge.sim_engine.messages import ProduceRequest, ProduceResponse
from tidegauge.sim_engine.transaction_notes import Written

ABORTABLE: Final = frozenset(
    {
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "UNKNOWN_PRODUCER_ID",
        "INVALID_TXN_STATE",
        "TRANSACTION_ABORTABLE",
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "DELIVERY_TIMED_OUT",
        "UNKNOWN_MEMBER_ID",
        "ILLEGAL_GENERATION",
        "STALE_MEMBER_EPOCH",
    }
)
"""After these the transaction can only be aborted; the producer goes on."""

FATAL: Final = frozenset(
    {
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TRANSACTION_TIMEOUT",
        "INVALID_REQUEST",
    }
)
"""After these the producer is at its end. All other errors are waited out."""


@dataclass(frozen=True, slots=True)
class InitTransactions:
    """Gets id and epoch; with `bump` after an error, as who it is."""

    bump: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins; the cluster does not hear of it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One batch for one partition."""

    partition: TopicPartition
    records: tuple[NewRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOffsets:
    """A group's offsets become part of the transaction. `partition` is the group's, of `__consumer_offsets`."""

    group: str
    partition: TopicPartition
    offsets: Mapping[TopicPartition, CommittedOffset]
    member_id: str = ""
    generation: int = -1


@dataclass(frozen=True, slots=True)
class End:
    """Commit or abort."""

    commit: bool


Call = InitTransactions | Begin | Send | SendOffsets | End
Request = InitTransactionsRequest | AddPartitionsRequest | EndTransactionRequest | ProduceRequest | CommitRequest
Answer = TransactionAnswer | ProduceResponse | GroupAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """A producer. `calls` are what it still has to do, the first one now; `correlation` is the awaited answer's."""

    name: str
    transactional_id: str
    version: int = 2
    timeout_ms: int = 60_000
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)
    number: int = 0
    is_open: bool = False
    reached: frozenset[TopicPartition] = frozenset()
    written: tuple[Written, ...] = ()
    failed: str | None = None
    fatal: str | None = None
    calls: tuple[Call, ...] = ()
    call_began_ms: int = -1
    correlation: int | None = None

    @property
    def client_version(self) -> int:
        """As requests say it: 2 for V2, 0 for everything before."""
        return 2 if self.version >= 2 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call came to: told to the application, and to the ledger."""

    call: Call
    error: str = NONE
    written: Written | None = None


def request_of(now: TransactionalProducer, correlation: int) -> Request | None:
    """The request that the first call needs now; None if it is done without one."""
    assert now.calls, "there is nothing to do"
    match now.calls[0]:
        case InitTransactions(bump):
            return InitTransactionsRequest(
                correlation=correlation,
                transactional_id=now.transactional_id,
                timeout_ms=now.timeout_ms,
                producer_id=now.producer_id if bump else NO_ID,
                producer_epoch=now.producer_epoch if bump else NO_EPOCH,
            )
        case Begin():
            return None
        case Send() as send:
            if now.version < 2 and send.partition not in now.reached:
                return _adding(now, correlation, send.partition)
            return _producing(now, correlation, send)
        case SendOffsets() as send:
            if now.version < 2 and send.partition not in now.reached:
                return _adding(now, correlation, send.partition)
            return CommitRequest(
                correlation=correlation,
                group=send.group,
                offsets=send.offsets,
                member_id=send.member_id,
                generation=send.generation,
                transactional_id=now.transactional_id,
                producer_id=now.producer_id,
                producer_epoch=now.producer_epoch,
                client_version=now.client_version,
            )
        case End(commit):
            if not now.reached:
                return None
            return EndTransactionRequest(
                correlation=correlation,
                transactional_id=now.transactional_id,
                producer_id=now.producer_id,
                producer_epoch=now.producer_epoch,
                commit=commit,
                client_version=now.client_version,
            )


def about_to_send(now: TransactionalProducer) -> TransactionalProducer:
    """A V2 producer counts a partition as reached once a request is on its way: the leader may have added it."""
    call = now.calls[0]
    if now.version >= 2 and isinstance(call, (Send, SendOffsets)):
        return replace(now, reached=now.reached | {call.partition})
    return now


def refused_at_once(now: TransactionalProducer) -> str | None:
    """Why the first call cannot even be tried."""
    call = now.calls[0]
    if now.fatal is not None:
        return now.fatal
    if isinstance(call, InitTransactions):
        return None
    if now.producer_id == NO_ID or (now.is_open is isinstance(call, Begin)):
        return "ILLEGAL_STATE"
    if now.failed is not None and not (isinstance(call, End) and not call.commit):
        return now.failed
    return None


def without_request(now: TransactionalProducer) -> tuple[TransactionalProducer, Outcome]:
    """A call that needs no request: a begin, or the end of a transaction that reached nothing."""
    call = now.calls[0]
    if isinstance(call, Begin):
        now = replace(now, is_open=True, number=now.number + 1, reached=frozenset(), written=(), failed=None)
    else:
        now = replace(now, is_open=False, failed=None)
    return _next_call(now), Outcome(call=call)


def dropped(now: TransactionalProducer, error: str) -> tuple[TransactionalProducer, Outcome]:
    """The first call fails: refused at once, out of time, or by an answer."""
    call = now.calls[0]
    if error in FATAL:
        return replace(_next_call(now), fatal=error, is_open=False), Outcome(call=call, error=error)
    if now.is_open and isinstance(call, (Send, SendOffsets)):
        now = replace(now, failed=error)
    return _next_call(now), Outcome(call=call, error=error)


def answered(now: TransactionalProducer, answer: Answer) -> tuple[TransactionalProducer, Outcome | None]:
    """The answer to the awaited request. No outcome: the call goes on, or is tried again."""
    call = now.calls[0]
    now = replace(now, correlation=None)
    if answer.error != NONE:
        return dropped(now, answer.error) if answer.error in FATAL or answer.error in ABORTABLE else (now, None)
    if isinstance(call, InitTransactions):
        assert isinstance(answer, TransactionAnswer)
        return _next_call(_as(now, answer.producer_id, answer.producer_epoch)), Outcome(call=call)
    if isinstance(call, End):
        assert isinstance(answer, TransactionAnswer)
        return _ended(now, call, answer), Outcome(call=call)
    if isinstance(answer, TransactionAnswer):
        assert isinstance(call, (Send, SendOffsets))
        return replace(now, reached=now.reached | {call.partition}), None
    if isinstance(answer, GroupAnswer):
        return _next_call(now), Outcome(call=call)
    assert isinstance(call, Send)
    sequence = now.sequences.get(call.partition, 0)
    written = Written(
        partition=call.partition,
        base_offset=answer.base_offset,
        last_offset=answer.base_offset + len(call.records) - 1,
        leader_epoch=answer.leader_epoch,
        base_sequence=sequence,
    )
    sequences = {**now.sequences, call.partition: add_sequence(sequence, len(call.records))}
    now = replace(now, sequences=sequences, written=(*now.written, written))
    return _next_call(now), Outcome(call=call, written=written)


def _ended(now: TransactionalProducer, call: End, answer: TransactionAnswer) -> TransactionalProducer:
    broken = now.failed is not None
    now = replace(now, is_open=False, failed=None)
    if now.version >= 2:
        now = _as(now, answer.producer_id, answer.producer_epoch)
    now = _next_call(now)
    if broken and now.version < 2 and not call.commit:
        # What it does not know of its sequences it leaves behind with its epoch.
        return replace(now, calls=(InitTransactions(bump=True), *now.calls))
    return now


def _as(now: TransactionalProducer, producer_id: int, producer_epoch: int) -> TransactionalProducer:
    same = (producer_id, producer_epoch) == (now.producer_id, now.producer_epoch)
    return now if same else replace(now, producer_id=producer_id, producer_epoch=producer_epoch, sequences={})


def _next_call(now: TransactionalProducer) -> TransactionalProducer:
    return replace(now, calls=now.calls[1:], call_began_ms=-1, correlation=None)


def _adding(now: TransactionalProducer, correlation: int, partition: TopicPartition) -> AddPartitionsRequest:
    return AddPartitionsRequest(
        correlation=correlation,
        transactional_id=now.transactional_id,
        producer_id=now.producer_id,
        producer_epoch=now.producer_epoch,
        partitions=(partition,),
        client_version=now.client_version,
    )


def _producing(now: TransactionalProducer, correlation: int, send: Send) -> ProduceRequest:
    return ProduceRequest(
        correlation=correlation,
        partition=send.partition,
        records=send.records,
        acks=-1,
        timeout_ms=now.request_timeout_ms,
        producer=Producer(
            producer_id=now.producer_id,
            producer_epoch=now.producer_epoch,
            base_sequence=now.sequences.get(send.partition, 0),
            transactional=True,
        ),
        transactional_id=now.transactional_id,
        transaction_version=now.client_version,
    )
