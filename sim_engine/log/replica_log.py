"""A replica's log as its broker keeps it: segments, leader epochs, producers, offsets.

In: batches from clients (at a leader) or from the leader (at a follower), and what a controller or the clock makes a
broker do. Out: a new `ReplicaLog`, or why a batch is refused. What Kafka keeps beside the batches is kept here as Kafka
keeps it, at the same moments, because that is what an auditor will find on the disk.

Source: Kafka UnifiedLog, LocalLog, LogSegment, LeaderEpochFileCache, ProducerStateManager.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry
from tidegauge.kafka_log.transaction_index import AbortedTransaction
from tidegauge.sim_engine.log.producers import Producers, appended, expired, restored, snapshot_entries
from tidegauge.sim_engine.log.segment import MAX_RELATIVE_OFFSET, Segment
from tidegauge.sim_engine.log.stored_batch import StoredBatch

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """A topic's settings, as far as they shape its log. Names are Kafka's; None is no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    retention_ms: int | None = 7 * DAY_MS
    retention_bytes: int | None = None
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int | None = None
    min_cleanable_dirty_ratio: float = 0.5
    compact: bool = False
    delete: bool = True
    remote_storage: bool = False
    local_retention_ms: int | None = None
    local_retention_bytes: int | None = None
    producer_expiration_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class EpochStart:
    """Where a leader epoch starts."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One replica. `flushed_end_offset`: what a power cut leaves; a kill leaves everything."""

    config: LogConfig
    segments: tuple[Segment, ...]
    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0
    flushed_end_offset: int = 0
    epochs: tuple[EpochStart, ...] = ()
    producers: Producers = field(default_factory=Producers)
    snapshots: Mapping[int, tuple[ProducerSnapshotEntry, ...]] = field(default_factory=dict)

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed data stop here (UnifiedLog#lastStableOffset)."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that the log knows; -1 if it knows none."""
        return self.epochs[-1].leader_epoch if self.epochs else -1

    def batches_from(self, offset: int, *, up_to: int | None = None, max_bytes: int | None = None) -> list[StoredBatch]:
        """Whole batches that hold `offset` or lie behind it, below `up_to`, the first one whatever its size."""
        found: list[StoredBatch] = []
        size = 0
        for at, segment in enumerate(self.segments):
            if at + 1 < len(self.segments) and self.segments[at + 1].base_offset <= offset:
                continue
            for batch in segment.batches[_first_reaching(segment, offset) :]:
                if up_to is not None and batch.last_offset >= up_to:
                    return found
                size += batch.size_bytes
                if found and max_bytes is not None and size > max_bytes:
                    return found
                found.append(batch)
        return found

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int] | None:
        """The largest epoch at or below the asked one and where it ends (LeaderEpochFileCache#endOffsetFor)."""
        if leader_epoch < 0 or not self.epochs:
            return None
        if leader_epoch == self.latest_epoch:
            return leader_epoch, self.log_end_offset
        above = next((e for e in self.epochs if e.leader_epoch > leader_epoch), None)
        if above is None:
            return None
        below = [e for e in self.epochs if e.leader_epoch <= leader_epoch]
        return (below[-1].leader_epoch if below else leader_epoch), above.start_offset


def new_log(config: LogConfig, *, now_ms: int, start_offset: int = 0) -> ReplicaLog:
    """An empty log."""
    return ReplicaLog(
        config=config,
        segments=(Segment(base_offset=start_offset, created_at_ms=now_ms),),
        log_start_offset=start_offset,
        log_end_offset=start_offset,
        high_watermark=start_offset,
        flushed_end_offset=start_offset,
    )


def append(log: ReplicaLog, batch: StoredBatch, *, now_ms: int) -> ReplicaLog:
    """The log with a batch that was accepted: first its epoch, then a roll, then data (UnifiedLog#append)."""
    assert batch.base_offset >= log.log_end_offset, "a batch below the log's end"
    log = with_epoch(log, batch.leader_epoch, batch.base_offset)
    if _should_roll(log, batch, now_ms):
        log = roll(log, now_ms=now_ms)
    segment = log.active.appended(batch, index_interval_bytes=log.config.index_interval_bytes)
    producers, ended = appended(log.producers, batch)
    if ended is not None and not ended.committed:
        segment = segment.with_aborted(
            AbortedTransaction(
                producer_id=ended.producer_id,
                first_offset=ended.first_offset,
                last_offset=ended.last_offset,
                last_stable_offset=producers.stable_before(ended),
            )
        )
    return replace(
        log,
        segments=(*log.segments[:-1], segment),
        log_end_offset=batch.last_offset + 1,
        producers=producers,
    )


def with_epoch(log: ReplicaLog, leader_epoch: int, start_offset: int) -> ReplicaLog:
    """Notes where a leader epoch starts; entries that it makes impossible go (LeaderEpochFileCache#assign)."""
    if leader_epoch < 0 or leader_epoch == log.latest_epoch:
        return log
    kept = tuple(e for e in log.epochs if e.leader_epoch < leader_epoch and e.start_offset < start_offset)
    return replace(log, epochs=(*kept, EpochStart(leader_epoch, start_offset)))


def with_high_watermark(log: ReplicaLog, high_watermark: int) -> ReplicaLog:
    """Moves the high watermark, within the log (UnifiedLog#updateHighWatermark)."""
    moved = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
    if moved == log.high_watermark:
        return log
    return replace(log, high_watermark=moved, producers=log.producers.replicated_to(moved))


def roll(log: ReplicaLog, *, now_ms: int) -> ReplicaLog:
    """Begins a new segment at the log's end; the producers are written down there, and the old segment is flushed."""
    end = log.log_end_offset
    snapshots = log.snapshots if end in log.snapshots else {**log.snapshots, end: snapshot_entries(log.producers)}
    return replace(
        log,
        segments=(*log.segments[:-1], log.active.closed(), Segment(base_offset=end, created_at_ms=now_ms)),
        snapshots=snapshots,
        flushed_end_offset=max(log.flushed_end_offset, end),
    )


def truncate(log: ReplicaLog, offset: int, *, now_ms: int) -> ReplicaLog:
    """Cuts the log to end at `offset` (UnifiedLog#truncateTo)."""
    if offset >= log.log_end_offset:
        return log
    if offset < log.segments[0].base_offset:
        return start_anew(log, offset, now_ms=now_ms)
    kept = [s for s in log.segments if s.base_offset <= offset]
    segments = (*kept[:-1], kept[-1].truncated(offset))
    cut = replace(
        log,
        segments=segments,
        log_end_offset=offset,
        log_start_offset=min(log.log_start_offset, offset),
        high_watermark=min(log.high_watermark, offset),
        flushed_end_offset=min(log.flushed_end_offset, offset),
        epochs=tuple(e for e in log.epochs if e.start_offset < offset),
        snapshots={at: entries for at, entries in log.snapshots.items() if at <= offset},
    )
    return replace(cut, producers=producers_at(cut, offset).replicated_to(cut.high_watermark))


def start_anew(log: ReplicaLog, offset: int, *, now_ms: int) -> ReplicaLog:
    """Drops everything and begins at `offset` (UnifiedLog#truncateFullyAndStartAt)."""
    return replace(new_log(log.config, now_ms=now_ms, start_offset=offset), high_watermark=offset)


def with_log_start(log: ReplicaLog, offset: int) -> ReplicaLog:
    """Moves the log start forward (DeleteRecords, or a follower after its leader); segments go later."""
    if offset <= log.log_start_offset:
        return log
    assert offset <= log.high_watermark, "the log start passes the high watermark"
    return replace(log, log_start_offset=offset, epochs=epochs_from(log.epochs, offset))


def delete_segments(log: ReplicaLog, *, now_ms: int) -> ReplicaLog:
    """Deletes whole segments that retention no longer keeps, oldest first, below the high watermark only.

    If that is all of them, an empty one begins at the log's end. Of a tiered log nothing goes here: what is not in the
    tier must stay (`sim_engine.log.tiering`).
    """
    if log.config.remote_storage:
        return log
    doomed = 0
    size = sum(s.size_bytes for s in log.segments)
    for at, segment in enumerate(log.segments):
        is_active = at + 1 == len(log.segments)
        end = log.log_end_offset if is_active else log.segments[at + 1].base_offset
        if end > log.high_watermark or (is_active and not segment.size_bytes):
            break
        below_start = not is_active and end <= log.log_start_offset
        if not below_start and not _retention_breached(log, segment, size, now_ms):
            break
        size -= segment.size_bytes
        doomed = at + 1
    if not doomed:
        return log
    if doomed == len(log.segments):
        log = roll(log, now_ms=now_ms)
    start = max(log.log_start_offset, log.segments[doomed].base_offset)
    return replace(
        log,
        segments=log.segments[doomed:],
        log_start_offset=start,
        epochs=epochs_from(log.epochs, start),
        snapshots={at: entries for at, entries in log.snapshots.items() if at >= log.segments[doomed].base_offset},
    )


def expire_producers(log: ReplicaLog, *, now_ms: int) -> ReplicaLog:
    """Forgets producers that have been silent for too long."""
    gone = expired(log.producers, now_ms, log.config.producer_expiration_ms)
    return replace(log, producers=log.producers.without(gone)) if gone else log


def stopped_cleanly(log: ReplicaLog) -> ReplicaLog:
    """Flushes, closes the active segment's indexes, and writes the producers down at the log's end."""
    end = log.log_end_offset
    # A snapshot of an empty log says nothing and is not written (ProducerStateManager#takeSnapshot).
    snapshots = log.snapshots if end in log.snapshots else {**log.snapshots, end: snapshot_entries(log.producers)}
    return replace(
        log,
        segments=(*log.segments[:-1], log.active.closed()),
        flushed_end_offset=end,
        snapshots=snapshots if end > log.segments[0].base_offset else log.snapshots,
    )


def producers_at(log: ReplicaLog, offset: int) -> Producers:
    """The producers' state at an offset, as a broker rebuilds it: newest snapshot, then every batch behind it."""
    newest = max((at for at in log.snapshots if at <= offset), default=None)
    producers = restored(log.snapshots[newest]) if newest is not None else Producers()
    start = newest if newest is not None else log.segments[0].base_offset
    for batch in log.batches_from(max(start, log.log_start_offset), up_to=offset):
        if batch.base_offset >= start:
            producers, _ = appended(producers, batch)
    return producers


def _should_roll(log: ReplicaLog, batch: StoredBatch, now_ms: int) -> bool:
    """LogSegment#shouldRoll, but for full indexes: theirs are as large as their segments need."""
    active = log.active
    if not active.batches:
        return False
    if active.size_bytes > log.config.segment_bytes - batch.size_bytes:
        return True
    first = active.first_timestamp
    waited = batch.max_timestamp - first if first is not None and first >= 0 else now_ms - active.created_at_ms
    return waited > log.config.segment_ms or batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET


def _retention_breached(log: ReplicaLog, segment: Segment, size_bytes: int, now_ms: int) -> bool:
    config = log.config
    if not config.delete:
        return False
    newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_at_ms
    if config.retention_ms is not None and now_ms - newest > config.retention_ms:
        return True
    return config.retention_bytes is not None and size_bytes - segment.size_bytes >= config.retention_bytes


def epochs_from(epochs: tuple[EpochStart, ...], offset: int) -> tuple[EpochStart, ...]:
    """Entries from an offset on; the one in force there begins there now (LeaderEpochFileCache#truncateFromStart)."""
    before = [e for e in epochs if e.start_offset <= offset]
    after = tuple(e for e in epochs if e.start_offset > offset)
    return (EpochStart(before[-1].leader_epoch, offset), *after) if before else after


def _first_reaching(segment: Segment, offset: int) -> int:
    """The first batch whose last offset is at or above `offset`, by bisection."""
    low, high = 0, len(segment.batches)
    while low < high:
        middle = (low + high) // 2
        if segment.batches[middle].last_offset < offset:
            low = middle + 1
        else:
            high = middle
    return low
