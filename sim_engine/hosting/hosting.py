"""A broker at work for its coordinators: requests in, records and markers out, answers when they are replicated.

In: messages for coordinators, partitions won and lost, records that are replicated, the clock. Out: the broker's
`Hosted` and what it sends. A coordinator decides (`transaction_coordinator`, `led_groups` and what stands on it,
`share_coordinator`); here is only how its wishes come true, or do not.

Source: Kafka KafkaApis, CoordinatorPartitionWriter, TransactionStateManager#appendTransactionToLog.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.batch import TRANSACTIONAL_BIT
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.brokers import leader_role
from tidegauge.sim_engine.coordinators import (
    committed_offsets,
    group_coordinator,
    led_groups,
    share_coordinator,
    transaction_coordinator,
)
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE, Answer, AskForProducerIds, SendMarkers, Write
from tidegauge.sim_engine.coordinators.coordinator_messages import (
    AddPartitionsRequest,
    CommitRequest,
    EndTransactionRequest,
    GroupAnswer,
    GroupRequest,
    InitTransactionsRequest,
    MarkersRequest,
    MarkersResponse,
    TransactionAnswer,
    TransactionRequest,
)
from tidegauge.sim_engine.coordinators.group_requests import group_step
from tidegauge.sim_engine.coordinators.group_state import ReplayedMarker, ReplayedRecord
from tidegauge.sim_engine.hosting import marker_service, verification
from tidegauge.sim_engine.hosting.hosted import HeldMarker, HeldWrite, hosted_by, known_topics, put_hosted
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch, stored_batch
from tidegauge.sim_engine.messages import ProduceRequest, ProducerIdsRequest
from tidegauge.sim_engine.transaction_notes import note_decided, note_found
from tidegauge.sim_engine.turn import Turn

TICK_MS: Final = 500
OFFSETS_COMMIT_TIMEOUT_MS: Final = 5_000
_TIMEOUT_CHECK_MS: Final = 10_000
_EXPIRY_CHECK_MS: Final = 3_600_000


def transaction_request(turn: Turn, broker_id: int, source: str, request: TransactionRequest) -> None:
    """A producer, or a leader on its behalf, asks the transaction coordinator."""
    now, to = hosted_by(turn, broker_id).transactions, (source, request.correlation)
    match request:
        case InitTransactionsRequest():
            step = transaction_coordinator.init_producer_id(
                now,
                to,
                transactional_id=request.transactional_id,
                timeout_ms=request.timeout_ms,
                now_ms=turn.now_ms,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
            )
        case AddPartitionsRequest(verify=True):
            step = transaction_coordinator.verify_partitions(
                now,
                to,
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                partitions=request.partitions,
            )
        case AddPartitionsRequest():
            step = transaction_coordinator.add_partitions(
                now,
                to,
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                partitions=request.partitions,
                client_version=request.client_version,
                now_ms=turn.now_ms,
            )
        case EndTransactionRequest():
            step = transaction_coordinator.end_transaction(
                now,
                to,
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                commit=request.commit,
                client_version=request.client_version,
                now_ms=turn.now_ms,
            )
    _transactions(turn, broker_id, step)


def group_request(turn: Turn, broker_id: int, source: str, request: GroupRequest) -> None:
    """A consumer, a producer with offsets, or an operator asks the group coordinator."""
    if isinstance(request, CommitRequest) and request.transactional_id is not None:
        where = hosted_by(turn, broker_id).groups.partition_of(request.group)
        if not verification.verified(turn, broker_id, source, request, where):
            return
    _group_request(turn, broker_id, source, request)


def produce(turn: Turn, broker_id: int, source: str, request: ProduceRequest) -> None:
    """A client's batch; the first of a transaction only after its coordinator was asked."""
    if verification.verified(turn, broker_id, source, request, request.partition):
        leader_role.produce(turn, broker_id, source, request)


def transaction_answer(turn: Turn, broker_id: int, source: str, answer: TransactionAnswer) -> None:
    """A coordinator answers this broker, which had asked about a batch."""
    verification.answered(turn, broker_id, answer, _go_on)


def markers_request(turn: Turn, broker_id: int, source: str, request: MarkersRequest) -> None:
    """A coordinator wants markers in partitions that this broker leads."""
    marker_service.write(turn, broker_id, source, request)


def markers_response(turn: Turn, broker_id: int, source: str, response: MarkersResponse) -> None:
    """A leader says what became of markers."""
    marker_service.answered(turn, broker_id, response, _markers_settled)


def leadership_changed(turn: Turn, broker_id: int, partition: TopicPartition, leader_epoch: int | None) -> None:
    """The broker leads a partition under a new epoch, or (None) leads it no longer."""
    number = partition.partition
    match partition.topic:
        case "__transaction_state":
            _transactions(turn, broker_id, transaction_coordinator.resigned(_transactional(turn, broker_id), number))
            if leader_epoch is not None:
                records = _key_values(turn.log(broker_id, partition))
                note_found(turn, records, leader_epoch)
                elected = transaction_coordinator.elected(
                    _transactional(turn, broker_id), number, leader_epoch, records, now_ms=turn.now_ms
                )
                _transactions(turn, broker_id, elected)
        case "__consumer_offsets":
            _groups(turn, broker_id, led_groups.resigned(hosted_by(turn, broker_id).groups, number))
            if leader_epoch is not None:
                hosted = hosted_by(turn, broker_id)
                entries = _entries(turn.log(broker_id, partition))
                groups = led_groups.elected(hosted.groups, number, leader_epoch, entries, now_ms=turn.now_ms)
                put_hosted(turn, broker_id, replace(hosted, groups=groups))
        case "__share_group_state":
            hosted = hosted_by(turn, broker_id)
            shares = share_coordinator.resigned(hosted.shares, number)
            if leader_epoch is not None:
                records = _key_values(turn.log(broker_id, partition))
                shares = share_coordinator.elected(shares, number, records)
            put_hosted(turn, broker_id, replace(hosted, shares=shares))


def topics_gone(turn: Turn, broker_id: int, topics: frozenset[str]) -> None:
    """Topics were deleted: no group has committed anything in them any more (GroupCoordinator#onPartitionsDeleted)."""
    groups = hosted_by(turn, broker_id).groups
    for number in sorted(groups.partitions):
        for group in sorted(groups.partitions[number].groups_in(topics)):
            now = hosted_by(turn, broker_id).groups
            _groups(turn, broker_id, committed_offsets.delete_offsets(now, None, group=group, topics=topics))


def written(turn: Turn, broker_id: int, partition: TopicPartition, number: int, error: str) -> None:
    """A batch that this broker wrote itself is replicated, or will not be as far as it knows."""
    hosted = hosted_by(turn, broker_id)
    held = hosted.held.get(number)
    if held is None:
        return
    left = {each: waiting for each, waiting in hosted.held.items() if each != number}
    put_hosted(turn, broker_id, replace(hosted, held=left))
    if isinstance(held, HeldMarker):
        marker_service.replicated(turn, broker_id, held, error)
        return
    if held.what is not None:
        _transaction_written(turn, broker_id, held.what, error)
    answers = held.answers if error == NONE else led_groups.failed(held.answers, error)
    _send_group_answers(turn, broker_id, answers)


def tick(turn: Turn, broker_id: int) -> int:
    """The clock of all coordinators; how long until it is due again."""
    running = turn.running(broker_id)
    assert running is not None
    if not running.coordinators:
        return TICK_MS
    verification.expire(turn, broker_id)
    marker_service.expire(turn, broker_id, _markers_settled)
    hosted = hosted_by(turn, broker_id)
    timeouts = turn.now_ms - hosted.timeouts_checked_ms >= _TIMEOUT_CHECK_MS
    expiry = turn.now_ms - hosted.expiry_checked_ms >= _EXPIRY_CHECK_MS
    if timeouts or expiry:
        checked = replace(hosted, timeouts_checked_ms=turn.now_ms) if timeouts else hosted
        put_hosted(turn, broker_id, replace(checked, expiry_checked_ms=turn.now_ms) if expiry else checked)
    step = transaction_coordinator.tick(
        _transactional(turn, broker_id), now_ms=turn.now_ms, check_timeouts=timeouts, check_expiry=expiry
    )
    _transactions(turn, broker_id, step)
    topics = known_topics(running.image)
    groups = hosted_by(turn, broker_id).groups
    _groups(turn, broker_id, group_coordinator.tick(groups, topics=topics, now_ms=turn.now_ms, check_expiry=expiry))
    return TICK_MS


def _go_on(turn: Turn, broker_id: int, source: str, request: ProduceRequest | CommitRequest) -> None:
    if isinstance(request, ProduceRequest):
        leader_role.produce(turn, broker_id, source, request)
    else:
        _group_request(turn, broker_id, source, request)


def _group_request(turn: Turn, broker_id: int, source: str, request: GroupRequest) -> None:
    running = turn.running(broker_id)
    assert running is not None
    now, topics = hosted_by(turn, broker_id).groups, known_topics(running.image)
    _groups(turn, broker_id, group_step(now, (source, request.correlation), request, topics=topics, now_ms=turn.now_ms))


def _markers_settled(
    turn: Turn, broker_id: int, transactional_id: str, coordinator_epoch: int, errors: Mapping[TopicPartition, str]
) -> None:
    now = _transactional(turn, broker_id)
    step = transaction_coordinator.markers_answered(now, transactional_id, coordinator_epoch, errors)
    _transactions(turn, broker_id, step)


def _transaction_written(turn: Turn, broker_id: int, transactional_id: str, error: str) -> None:
    now = _transactional(turn, broker_id)
    found = now.found(transactional_id)
    if error == NONE and found is not None and found.pending is not None and found.pending.next is not None:
        led = now.partitions[now.partition_of(transactional_id).partition]
        if found.pending.next.status.is_prepared:
            note_decided(turn, found.metadata, found.pending.next, led.coordinator_epoch)
            for partition in sorted(now.lost_markers & set(found.pending.next.partitions)):
                turn.note_fault("lost marker", str(partition), detail=transactional_id, on_disk=True)
    _transactions(
        turn, broker_id, transaction_coordinator.written(now, transactional_id, now_ms=turn.now_ms, error=error)
    )


def _transactional(turn: Turn, broker_id: int) -> transaction_coordinator.TransactionCoordinator:
    return hosted_by(turn, broker_id).transactions


def _transactions(turn: Turn, broker_id: int, step: transaction_coordinator.Step) -> None:
    """A step of the transaction coordinator."""
    coordinator, effects = step
    hosted = hosted_by(turn, broker_id)
    if coordinator is not hosted.transactions:
        put_hosted(turn, broker_id, replace(hosted, transactions=coordinator))
    for effect in effects:
        match effect:
            case Answer(to=(str(source), int(correlation))):
                answer = TransactionAnswer(
                    correlation=correlation,
                    error=effect.error,
                    producer_id=effect.producer_id,
                    producer_epoch=effect.producer_epoch,
                )
                turn.from_broker(broker_id, source, answer)
            case SendMarkers():
                marker_service.send(turn, broker_id, effect, _markers_settled)
            case AskForProducerIds():
                _ask_for_producer_ids(turn, broker_id)
            case Write():
                error = append_write(turn, broker_id, effect)
                if error != NONE and effect.what is not None:
                    _transaction_written(turn, broker_id, effect.what, error)


def _groups(turn: Turn, broker_id: int, step: led_groups.Step) -> None:
    """A step of the group coordinator: if its batch cannot be appended it never was."""
    before = hosted_by(turn, broker_id)
    coordinator, effects = step
    if coordinator is not before.groups:
        put_hosted(turn, broker_id, replace(before, groups=coordinator))
    for effect in effects:
        if isinstance(effect, Write) and (error := append_write(turn, broker_id, effect)) != NONE:
            put_hosted(turn, broker_id, replace(hosted_by(turn, broker_id), groups=before.groups))
            _send_group_answers(turn, broker_id, led_groups.failed(effects, error))
            return
    _send_group_answers(turn, broker_id, [effect for effect in effects if isinstance(effect, Answer)])


def _send_group_answers(turn: Turn, broker_id: int, answers: Iterable[Answer]) -> None:
    for answer in answers:
        match answer.to:
            case (str(source), int(correlation)):
                told = GroupAnswer(correlation=correlation, error=answer.error, body=answer.body)
                turn.from_broker(broker_id, source, told)


def append_write(turn: Turn, broker_id: int, write: Write) -> str:
    """Appends a coordinator's batch; the error if it cannot be, else `written` hears of it when it is replicated."""
    records = [NewRecord(timestamp=turn.now_ms, key=key, value=value) for key, value in write.records]
    transactional = write.producer is not None and write.producer.transactional

    def make(base_offset: int, leader_epoch: int) -> StoredBatch:
        return stored_batch(
            records,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            attributes=TRANSACTIONAL_BIT if transactional else 0,
            producer=write.producer,
        )

    turn.sequence += 1
    number = turn.sequence
    hosted = hosted_by(turn, broker_id)
    held = HeldWrite(partition=write.partition, what=write.what, answers=write.answers)
    put_hosted(turn, broker_id, replace(hosted, held={**hosted.held, number: held}))
    patience_ms = _patience_ms(hosted.transactions, write)
    error = leader_role.append_local(turn, broker_id, write.partition, make, number=number, timeout_ms=patience_ms)
    if error != NONE:
        hosted = hosted_by(turn, broker_id)
        put_hosted(turn, broker_id, replace(hosted, held={n: e for n, e in hosted.held.items() if n != number}))
    return error


def _patience_ms(transactions: transaction_coordinator.TransactionCoordinator, write: Write) -> int:
    """How long a coordinator waits for its record to be replicated: a transaction's as long as that may last."""
    found = transactions.found(write.what) if write.what is not None else None
    if found is None:
        return OFFSETS_COMMIT_TIMEOUT_MS
    pending = found.pending.next if found.pending is not None else None
    return (pending if pending is not None else found.metadata).timeout_ms


def _ask_for_producer_ids(turn: Turn, broker_id: int) -> None:
    running = turn.running(broker_id)
    assert running is not None
    if running.broker_epoch is not None:
        turn.to_controller(broker_id, ProducerIdsRequest(broker_id=broker_id, broker_epoch=running.broker_epoch))


def _entries(log: ReplicaLog) -> Iterator[ReplayedRecord | ReplayedMarker]:
    """What a coordinator reads of a partition when it takes it over."""
    for batch in log.batches_from(log.log_start_offset):
        if batch.committed is not None:
            yield ReplayedMarker(producer_id=batch.producer_id, committed=batch.committed)
        elif not batch.is_control:
            whose = batch.producer_id if batch.is_transactional else -1
            for record in batch.records:
                yield ReplayedRecord(key=record.key, value=record.value, producer_id=whose)


def _key_values(log: ReplicaLog) -> list[tuple[bytes | None, bytes | None]]:
    return [(entry.key, entry.value) for entry in _entries(log) if isinstance(entry, ReplayedRecord)]
