"""A broker's part in tiering: it copies what it leads to the remote store, and deletes there what nobody keeps.

In: a timer, the metadata topic's news, the store's answers. Out: objects in the store, records in the topic, a log
start that moves. Each state of a segment is told before the next step is taken, so whoever leads next finds in the
topic how far it got; what a dead broker began stays as it was until retention comes by.

    COPY_SEGMENT_STARTED    told, read back; the object is stored
    COPY_SEGMENT_FINISHED   told, read back; from now on local retention may delete the segment, on every replica
    DELETE_SEGMENT_STARTED  told when the log starts behind the segment; the object is removed
    DELETE_SEGMENT_FINISHED told

Source: RemoteLogManager (RLMCopyTask, RLMExpirationTask, RLMFollowerTask); KIP-405.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import BrokerTick, RemoteMoved, Timer
from tidegauge.sim_engine.brokers import remote_metadata_topic
from tidegauge.sim_engine.brokers.remote_metadata_topic import partition_for, put_work, view_of, work_of
from tidegauge.sim_engine.dice import uuid_for
from tidegauge.sim_engine.log.remote_metadata import RemoteSegment, RemoteState, moved
from tidegauge.sim_engine.log.remote_retention import log_start_after, log_start_of_tier, to_delete
from tidegauge.sim_engine.log.tiering import copied, delete_local, to_copy
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import RemoteTask


def begin(turn: Turn, broker_id: int) -> None:
    """The broker leads or follows a tiered partition: it reads what is told of it, and looks after it from now on."""
    running = turn.running(broker_id)
    assert running is not None
    if not running.remote.ticking:
        put_work(turn, broker_id, replace(running.remote, ticking=True))
        delay_ms = turn.settings.remote_task_interval_ms
        turn.after(delay_ms, BrokerTick(broker_id, running.incarnation, Timer.REMOTE))
    tick(turn, broker_id)


def tick(turn: Turn, broker_id: int) -> int:
    """Reads what the metadata topic has to tell of the broker's partitions; their tasks go on behind its end."""
    numbers = set()
    for partition, replica in turn.broker(broker_id).disk.replicas.items():
        if replica.log.config.remote_storage:
            numbers.add(partition_for(turn, broker_id, replica.topic_id, partition))
    for number in sorted(n for n in numbers if n is not None):
        remote_metadata_topic.read(turn, broker_id, number)
    return turn.settings.remote_task_interval_ms


def caught_up(turn: Turn, broker_id: int, number: int) -> None:
    """The broker knows all that a partition of the metadata topic tells."""
    running = turn.running(broker_id)
    assert running is not None
    for partition in sorted(running.leading):
        replica = turn.replica(broker_id, partition)
        if replica is None or not replica.log.config.remote_storage:
            continue
        if partition_for(turn, broker_id, replica.topic_id, partition) == number:
            _go_on(turn, broker_id, partition)


def retained(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    """Local retention of a tiered log: only what the broker has read to be in the tier may go."""
    log = turn.log(broker_id, partition)
    remote_end = view_of(turn, broker_id, partition).end_offset(partition, log.epochs)
    turn.put_log(broker_id, partition, delete_local(log, remote_end, now_ms=turn.now_ms))
    ledger.tier_checked(turn, partition, "local retention")


def topic_deleted(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    """The topic goes that the broker led a partition of: so does all that the tier holds of it."""
    replica = turn.replica(broker_id, partition)
    if turn.leadership(broker_id, partition) is None or replica is None or not replica.log.config.remote_storage:
        return
    for state in (RemoteState.DELETE_SEGMENT_STARTED, RemoteState.DELETE_SEGMENT_FINISHED):
        for segment in view_of(turn, broker_id, partition).of(partition):
            turn.remote = turn.remote.without(segment.segment_id)
            told = replace(segment, state=state, broker_id=broker_id, event_timestamp_ms=turn.now_ms)
            _write(turn, broker_id, partition, told)


def leadership_changed(turn: Turn, broker_id: int, partition: TopicPartition, leader_epoch: int | None) -> None:
    """A task is its leader epoch's: with that it ends, wherever it was."""
    work = work_of(turn, broker_id)
    if partition in work.tasks:
        put_work(turn, broker_id, replace(work, tasks={k: v for k, v in work.tasks.items() if k != partition}))


def store_answered(turn: Turn, action: RemoteMoved) -> None:
    """The store has done what it was told, whoever leads by now; the task tells so, if it is still one."""
    running = turn.running(action.broker_id)
    if running is None or running.incarnation != action.incarnation:
        return
    task = running.remote.tasks.get(action.partition)
    if task is None or task.number != action.number:
        return
    if task.copy is not None:
        turn.remote = turn.remote.with_object(task.copy)
        _tell(turn, action.broker_id, action.partition, task, RemoteState.COPY_SEGMENT_FINISHED)
    else:
        turn.remote = turn.remote.without(task.segment.segment_id)
        ledger.tier_checked(turn, action.partition, "remote deletion")
        _tell(turn, action.broker_id, action.partition, task, RemoteState.DELETE_SEGMENT_FINISHED)


def _go_on(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    """The task of a partition takes its next step, or the next task begins."""
    task = work_of(turn, broker_id).tasks.get(partition)
    if task is None:
        _look_for_work(turn, broker_id, partition)
        return
    shown = work_of(turn, broker_id).view.segments.get(task.segment.segment_id)
    is_there = shown is not None and shown.state == task.segment.state
    if task.moving or not (is_there or (shown is None and task.segment.state == RemoteState.DELETE_SEGMENT_FINISHED)):
        return
    match task.segment.state:
        case RemoteState.COPY_SEGMENT_STARTED | RemoteState.DELETE_SEGMENT_STARTED:
            running = turn.running(broker_id)
            assert running is not None
            _put_task(turn, broker_id, partition, replace(task, moving=True))
            done = RemoteMoved(broker_id, running.incarnation, partition, task.number)
            turn.after(turn.settings.remote_transfer_ms, done)
        case RemoteState.COPY_SEGMENT_FINISHED:
            _put_task(turn, broker_id, partition, None)
            _look_for_work(turn, broker_id, partition)
        case RemoteState.DELETE_SEGMENT_FINISHED:
            _put_task(turn, broker_id, partition, None)
            delete_segments(turn, broker_id, partition, task.doomed)


def _look_for_work(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    leadership = turn.leadership(broker_id, partition)
    replica = turn.replica(broker_id, partition)
    assert leadership is not None
    assert replica is not None
    work, view, log = work_of(turn, broker_id), view_of(turn, broker_id, partition), replica.log
    if work.started.get(partition) != leadership.leader_epoch:
        # A new leader may have missed what the one before deleted: the log starts where the tier does.
        put_work(turn, broker_id, replace(work, started={**work.started, partition: leadership.leader_epoch}))
        log = log_start_of_tier(log, view, partition)
        turn.put_log(broker_id, partition, log)
    segments = to_copy(log, view, partition)
    if segments:
        turn.sequence += 1
        made = copied(
            log,
            segments[0],
            partition=partition,
            topic_id=replica.topic_id,
            segment_id=uuid_for(turn.seed, f"remote-segment-{turn.sequence}"),
            broker_id=broker_id,
            now_ms=turn.now_ms,
        )
        task = RemoteTask(number=turn.sequence, leader_epoch=leadership.leader_epoch, segment=made.about, copy=made)
        _put_task(turn, broker_id, partition, task)
        _write(turn, broker_id, partition, made.about, is_first=True)
        return
    doomed = to_delete(log, view, partition, now_ms=turn.now_ms)
    for segment in doomed:
        log = log_start_after(log, segment)
    turn.put_log(broker_id, partition, log)
    delete_segments(turn, broker_id, partition, doomed)


def delete_segments(turn: Turn, broker_id: int, partition: TopicPartition, doomed: tuple[RemoteSegment, ...]) -> None:
    """A leader deletes remote segments, one after the other."""
    leadership = turn.leadership(broker_id, partition)
    if not doomed or leadership is None:
        return
    turn.sequence += 1
    task = RemoteTask(number=turn.sequence, leader_epoch=leadership.leader_epoch, segment=doomed[0], doomed=doomed[1:])
    if doomed[0].state == RemoteState.DELETE_SEGMENT_STARTED:
        # Somebody began this deletion and did not end it. It is told once more that it begins.
        told = replace(doomed[0], broker_id=broker_id, event_timestamp_ms=turn.now_ms)
        _put_task(turn, broker_id, partition, replace(task, segment=told))
        _write(turn, broker_id, partition, told)
    else:
        _tell(turn, broker_id, partition, task, RemoteState.DELETE_SEGMENT_STARTED)


def _tell(turn: Turn, broker_id: int, partition: TopicPartition, task: RemoteTask, state: RemoteState) -> None:
    segment = moved(task.segment, state, broker_id=broker_id, now_ms=turn.now_ms)
    _put_task(turn, broker_id, partition, replace(task, segment=segment, moving=False))
    _write(turn, broker_id, partition, segment)


def _write(
    turn: Turn, broker_id: int, partition: TopicPartition, segment: RemoteSegment, *, is_first: bool = False
) -> None:
    number = partition_for(turn, broker_id, segment.topic_id, partition)
    assert number is not None, "a task of a partition of which no metadata were read"
    remote_metadata_topic.write(turn, broker_id, number, segment, is_first=is_first)


def _put_task(turn: Turn, broker_id: int, partition: TopicPartition, task: RemoteTask | None) -> None:
    work = work_of(turn, broker_id)
    tasks = {k: v for k, v in work.tasks.items() if k != partition}
    put_work(turn, broker_id, replace(work, tasks={**tasks, partition: task} if task is not None else tasks))
