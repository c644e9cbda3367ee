"""Which remote segments go, and where a tiered log starts.

In: a leader's log, what it knows of the tier, the time. Out: segments to be deleted, oldest first; log starts. The log
start passes a segment before the segment goes, so nobody is sent to what is not there; a segment of another lineage
than the leader's says nothing of the log start.

Source: RemoteLogManager (RLMExpirationTask, RemoteLogRetentionHandler, #isRemoteSegmentWithinLeaderEpochs,
#findLogStartOffset).
"""

from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.remote_metadata import RemoteSegment, RemoteState, RemoteView
from tidegauge.sim_engine.log.replica_log import ReplicaLog, epochs_from

_COPIES: Final = (RemoteState.COPY_SEGMENT_STARTED, RemoteState.COPY_SEGMENT_FINISHED)


def to_delete(
    log: ReplicaLog, view: RemoteView, partition: TopicPartition, *, now_ms: int
) -> tuple[RemoteSegment, ...]:
    """Segments that retention does not keep, that lie below the log start, or whose deletion somebody did not end.

    A copy that was begun and never finished goes with those around it; and so does what older epochs left that this
    leader's log does not know.
    """
    if not log.epochs:
        return ()
    segments = list(view.of(partition))
    doomed: list[RemoteSegment] = []
    over = _bytes_over(log, view, partition, segments)
    for epoch in log.epochs:
        for segment in segments:
            if segment in doomed or all(e.leader_epoch != epoch.leader_epoch for e in segment.epochs):
                continue
            if segment.state == RemoteState.DELETE_SEGMENT_STARTED or _below_start(log, segment):
                doomed.append(segment)
                continue
            if not is_of_lineage(log, segment):
                continue
            oldest_kept_ms = None if log.config.retention_ms is None else now_ms - log.config.retention_ms
            by_time = oldest_kept_ms is not None and segment.max_timestamp_ms <= oldest_kept_ms
            if not by_time and not 0 < segment.size_bytes <= over:
                return (*doomed, *_unreferenced(log, segments, doomed))
            over -= segment.size_bytes
            doomed.append(segment)
    return (*doomed, *_unreferenced(log, segments, doomed))


def is_of_lineage(log: ReplicaLog, segment: RemoteSegment) -> bool:
    """Whether a segment holds what the log held there, as far as epochs tell."""
    starts = {e.leader_epoch: at for at, e in enumerate(log.epochs)}
    first = next((e for e in segment.epochs if e.leader_epoch >= log.epochs[0].leader_epoch), None)
    if first is None or segment.end_offset > log.log_end_offset:
        return False
    for number, entry in enumerate(segment.epochs):
        if entry.leader_epoch < first.leader_epoch:
            continue
        at = starts.get(entry.leader_epoch)
        if at is None or (entry is first and at > 0 and entry.start_offset < log.epochs[at].start_offset):
            return False
        following = log.epochs[at + 1] if at + 1 < len(log.epochs) else None
        if number + 1 == len(segment.epochs):
            return following is None or segment.end_offset <= following.start_offset
        if following != segment.epochs[number + 1]:
            return False
    return True


def log_start_after(log: ReplicaLog, deleted: RemoteSegment) -> ReplicaLog:
    """A remote segment is about to be deleted: the log starts behind it."""
    of_this_log = bool(log.epochs) and deleted.state in _COPIES and is_of_lineage(log, deleted)
    if not of_this_log or deleted.end_offset <= log.log_start_offset:
        return log
    return _starting_at(log, deleted.end_offset)


def log_start_of_tier(log: ReplicaLog, view: RemoteView, partition: TopicPartition) -> ReplicaLog:
    """The log of a new leader, which begins where the tier does; with its own first segment if nothing is there."""
    start = log.segments[0].base_offset
    for epoch in log.epochs:
        held = [s for s in view.of(partition) if any(e.leader_epoch == epoch.leader_epoch for e in s.epochs)]
        if held:
            start = held[0].start_offset
            break
    return _starting_at(log, start) if log.log_start_offset < start <= log.high_watermark else log


def _starting_at(log: ReplicaLog, offset: int) -> ReplicaLog:
    start = min(offset, log.high_watermark)
    return replace(log, log_start_offset=start, epochs=epochs_from(log.epochs, start))


def _below_start(log: ReplicaLog, segment: RemoteSegment) -> bool:
    first = log.epochs[0].leader_epoch
    return segment.end_offset <= log.log_start_offset and all(e.leader_epoch <= first for e in segment.epochs)


def _bytes_over(log: ReplicaLog, view: RemoteView, partition: TopicPartition, segments: list[RemoteSegment]) -> int:
    if log.config.retention_bytes is None:
        return 0
    remote_end = view.end_offset(partition, log.epochs)
    local = sum(s.size_bytes for s in log.segments if s.base_offset >= remote_end)
    remote = sum(
        s.size_bytes for s in segments if s.state == RemoteState.COPY_SEGMENT_FINISHED and is_of_lineage(log, s)
    )
    return local + remote - log.config.retention_bytes


def _unreferenced(
    log: ReplicaLog, segments: list[RemoteSegment], doomed: list[RemoteSegment]
) -> tuple[RemoteSegment, ...]:
    earliest = log.epochs[0].leader_epoch
    return tuple(s for s in segments if s not in doomed and all(e.leader_epoch < earliest for e in s.epochs))
