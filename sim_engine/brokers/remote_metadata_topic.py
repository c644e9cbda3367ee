"""A broker's reader and writer of `__remote_log_metadata`.

In: states of segments to be told, answers of the topic's leaders. Out: the view of the tier as the topic has told it so
far. A broker believes a state when it has read it, its own ones too; what it writes to one partition arrives there in
order and once, as an idempotent producer's batches do.

Nothing is done while the topic is not there; Kafka's first RemoteLogManager would create it.

Source: TopicBasedRemoteLogMetadataManager, ProducerManager, ConsumerTask; KIP-405.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.internal_topics import REMOTE_LOG_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import RemoteRetry
from tidegauge.sim_engine.log.remote_metadata import (
    RemoteSegment,
    RemoteView,
    metadata_partition,
    segment_record,
    update_record,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord, Producer
from tidegauge.sim_engine.messages import (
    NONE,
    ConsumeRequest,
    ConsumeResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.truth import Acknowledged, digest_of
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import RemoteWork, RemoteWrite, Running

_PATIENCE_MS: Final = 5_000
"""An answer that has not come until then does not come."""
_BACKOFF_MS: Final = 1_000
_OF_ANOTHER_LIFE: Final = frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"})

CAUGHT_UP: list[Callable[[Turn, int, int], None]] = []
"""(turn, broker, partition of the metadata topic): the broker has read to its end."""


def work_of(turn: Turn, broker_id: int) -> RemoteWork:
    """A running broker's work on the tier."""
    return _running(turn, broker_id).remote


def put_work(turn: Turn, broker_id: int, work: RemoteWork) -> None:
    """That is it from now on."""
    turn.put_running(broker_id, replace(_running(turn, broker_id), remote=work))


def view_of(turn: Turn, broker_id: int, partition: TopicPartition) -> RemoteView:
    """What a broker has read of the topic that a partition of its own belongs to."""
    replica = turn.replica(broker_id, partition)
    return work_of(turn, broker_id).view.of_topic(replica.topic_id) if replica is not None else RemoteView()


def partition_for(turn: Turn, broker_id: int, topic_id: str, partition: TopicPartition) -> int | None:
    """Which partition of the metadata topic tells of a partition; None while the broker knows no such topic."""
    topic = _running(turn, broker_id).image.topics.get(REMOTE_LOG_METADATA)
    return metadata_partition(topic_id, partition.partition, len(topic.partitions)) if topic is not None else None


# Reading.


def read(turn: Turn, broker_id: int, number: int) -> None:
    """Asks for what comes next in a partition, unless an answer is still waited for."""
    work, leader = work_of(turn, broker_id), _leader(turn, broker_id, number)
    _, asked_at_ms = work.asked.get(number, (-1, -_PATIENCE_MS))
    if leader is None or turn.now_ms - asked_at_ms < _PATIENCE_MS:
        return
    turn.sequence += 1
    correlation = turn.sequence
    put_work(turn, broker_id, replace(work, asked={**work.asked, number: (correlation, turn.now_ms)}))
    request = ConsumeRequest(
        correlation=correlation,
        partition=TopicPartition(REMOTE_LOG_METADATA, number),
        fetch_offset=work.reads.get(number, 0),
    )
    turn.from_broker(broker_id, broker_node(leader), request)
    _look_later(turn, broker_id, correlation, _PATIENCE_MS)


def read_answered(turn: Turn, broker_id: int, source: str, response: ConsumeResponse) -> None:
    """Records of the topic, or its end."""
    work, number = work_of(turn, broker_id), response.partition.partition
    if work.asked.get(number, (-1, 0))[0] != response.correlation:
        return
    if response.error not in (NONE, "OFFSET_OUT_OF_RANGE"):
        # Another leader may have to be asked; what is known of leaders comes with the metadata log.
        _look_later(turn, broker_id, response.correlation, _BACKOFF_MS)
        return
    work = replace(work, asked={k: v for k, v in work.asked.items() if k != number})
    position, view = work.reads.get(number, 0), work.view
    if response.error != NONE:
        anew = min(max(position, response.log_start_offset), response.log_end_offset)
        put_work(turn, broker_id, replace(work, reads={**work.reads, number: anew}))
        read(turn, broker_id, number)
        return
    for batch in response.batches:
        for record in batch.records if not batch.is_control else ():
            if record.offset >= position:
                view = view.read(record.value or b"")
        position = batch.last_offset + 1
    put_work(turn, broker_id, replace(work, view=view, reads={**work.reads, number: position}))
    if response.batches:
        read(turn, broker_id, number)
    else:
        for listener in CAUGHT_UP:
            listener(turn, broker_id, number)


# Writing.


def write(turn: Turn, broker_id: int, number: int, segment: RemoteSegment, *, is_first: bool) -> None:
    """Tells which state a segment has reached; `is_first` where nothing was told of it before."""
    work = work_of(turn, broker_id)
    turn.sequence += 1
    told = RemoteWrite(number=turn.sequence, metadata_partition=number, segment=segment, is_first=is_first)
    put_work(turn, broker_id, replace(work, writes=(*work.writes, told)))
    if _head(turn, broker_id, number) == told:
        _send(turn, broker_id, told)


def _send(turn: Turn, broker_id: int, told: RemoteWrite) -> None:
    _put_off(turn, broker_id, told, _PATIENCE_MS)
    work = work_of(turn, broker_id)
    if work.producer_id < 0:
        _ask_for_id(turn, broker_id)
        return
    leader = _leader(turn, broker_id, told.metadata_partition)
    if leader is None:
        return
    producer = Producer(
        producer_id=work.producer_id,
        producer_epoch=work.producer_epoch,
        base_sequence=work.sequences.get(told.metadata_partition, 0),
    )
    request = ProduceRequest(
        correlation=told.number,
        partition=TopicPartition(REMOTE_LOG_METADATA, told.metadata_partition),
        records=(_record(told),),
        acks=-1,
        timeout_ms=_PATIENCE_MS,
        producer=producer,
    )
    turn.from_broker(broker_id, broker_node(leader), request)


def write_answered(turn: Turn, broker_id: int, source: str, response: ProduceResponse) -> None:
    """A record is written, or must be sent again."""
    work = work_of(turn, broker_id)
    told = next((w for w in work.writes if w.number == response.correlation), None)
    if told is None:
        return
    number = told.metadata_partition
    if response.error in _OF_ANOTHER_LIFE:
        # The partition has lost what this producer wrote last: a new epoch begins at 0 everywhere (KIP-360).
        work = replace(work, producer_epoch=work.producer_epoch + 1, sequences={})
        put_work(turn, broker_id, work)
    if response.error != NONE:
        _put_off(turn, broker_id, told, _BACKOFF_MS)
        return
    sequence = work.sequences.get(number, 0)
    note = Acknowledged(
        at_ms=turn.now_ms,
        client=f"remote-log-manager-{broker_id}",
        partition=response.partition,
        base_offset=response.base_offset,
        last_offset=response.base_offset,
        leader_epoch=response.leader_epoch,
        acks=-1,
        digests=(digest_of(_record(told).value),),
        producer_id=work.producer_id,
        producer_epoch=work.producer_epoch,
        base_sequence=sequence,
    )
    ledger.acknowledged(turn, note)
    left = tuple(w for w in work.writes if w.number != told.number)
    put_work(turn, broker_id, replace(work, writes=left, sequences={**work.sequences, number: sequence + 1}))
    following = _head(turn, broker_id, number)
    if following is not None:
        _send(turn, broker_id, following)
    read(turn, broker_id, number)


def id_answered(turn: Turn, broker_id: int, source: str, response: InitProducerIdResponse) -> None:
    """The broker's producer has an id: what waited for it goes out."""
    work = work_of(turn, broker_id)
    if work.producer_asked != response.correlation or response.error != NONE:
        return
    work = replace(work, producer_id=response.producer_id, producer_epoch=response.producer_epoch, producer_asked=-1)
    put_work(turn, broker_id, work)
    for number in sorted({w.metadata_partition for w in work.writes}):
        first = _head(turn, broker_id, number)
        assert first is not None
        _send(turn, broker_id, first)


def retry(turn: Turn, action: RemoteRetry) -> None:
    """Nothing has come of a request, or an error: it goes out again."""
    running = turn.running(action.broker_id)
    if running is None or running.incarnation != action.incarnation:
        return
    work = running.remote
    for number, (correlation, _) in sorted(work.asked.items()):
        if correlation == action.number:
            left = {k: v for k, v in work.asked.items() if k != number}
            put_work(turn, action.broker_id, replace(work, asked=left))
            read(turn, action.broker_id, number)
    told = next((w for w in work.writes if w.number == action.number), None)
    if told is not None and turn.now_ms >= told.due_at_ms:
        _send(turn, action.broker_id, told)
    elif work.producer_asked == action.number:
        put_work(turn, action.broker_id, replace(work_of(turn, action.broker_id), producer_asked=-1))
        _ask_for_id(turn, action.broker_id)


def _ask_for_id(turn: Turn, broker_id: int) -> None:
    work = work_of(turn, broker_id)
    if work.producer_asked >= 0:
        return
    turn.sequence += 1
    correlation = turn.sequence
    put_work(turn, broker_id, replace(work, producer_asked=correlation))
    # Any broker gives ids; this one is as good as another.
    turn.from_broker(broker_id, broker_node(broker_id), InitProducerIdRequest(correlation=correlation))
    _look_later(turn, broker_id, correlation, _PATIENCE_MS)


def _record(told: RemoteWrite) -> NewRecord:
    return segment_record(told.segment) if told.is_first else update_record(told.segment)


def _head(turn: Turn, broker_id: int, number: int) -> RemoteWrite | None:
    return next((w for w in work_of(turn, broker_id).writes if w.metadata_partition == number), None)


def _put_off(turn: Turn, broker_id: int, told: RemoteWrite, delay_ms: int) -> None:
    work = work_of(turn, broker_id)
    put_off = replace(told, due_at_ms=turn.now_ms + delay_ms)
    writes = tuple(put_off if w.number == told.number else w for w in work.writes)
    put_work(turn, broker_id, replace(work, writes=writes))
    _look_later(turn, broker_id, told.number, delay_ms)


def _look_later(turn: Turn, broker_id: int, number: int, delay_ms: int) -> None:
    turn.after(delay_ms, RemoteRetry(broker_id, _running(turn, broker_id).incarnation, number))


def _leader(turn: Turn, broker_id: int, number: int) -> int | None:
    topic = _running(turn, broker_id).image.topics.get(REMOTE_LOG_METADATA)
    known = topic.partitions.get(number) if topic is not None else None
    return known.leader if known is not None and known.leader >= 0 else None


def _running(turn: Turn, broker_id: int) -> Running:
    running = turn.running(broker_id)
    assert running is not None, "a dead broker works on nothing"
    return running
