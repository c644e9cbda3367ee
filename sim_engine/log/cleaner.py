"""Compaction of a log: of each key the last record is kept.

In: a `ReplicaLog`, its entry in cleaner-offset-checkpoint, the time. Out: what could be cleaned; the cleaned log and
its new entry. Whoever reads the whole log ends with the same value of each key as before; a tombstone or an end marker
stays for `delete.retention.ms` after the pass that found it could go (KIP-534).

The offset map has room for every key, and a log is cleaned in one pass: a broker's map holds five million keys.

Source: Kafka LogCleanerManager, Cleaner, MemoryRecords#filterTo, LocalLog#replaceSegments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.kafka_log.batch import COMPRESSION_MASK, DELETE_HORIZON_BIT
from tidegauge.kafka_log.records import Record, RecordBatch
from tidegauge.kafka_log.transaction_index import AbortedTransaction
from tidegauge.sim_engine.log.cleaned_transactions import CleanedTransactions
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.segment import MAX_RELATIVE_OFFSET, Segment
from tidegauge.sim_engine.log.stored_batch import StoredBatch, as_stored

_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY_BYTES: Final = 12
_NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """What of a log a pass would clean: its keys from `first_dirty_offset` on, below `first_uncleanable_offset`."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """The dirty part of what a pass would read."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleaned_if_due(log: ReplicaLog, checkpoint: int | None, *, now_ms: int) -> tuple[ReplicaLog, int] | None:
    """The log after a cleaner came by, and its new checkpoint; None if there is nothing to do for it."""
    if not log.config.compact:
        return None
    found = cleanable(log, checkpoint, now_ms=now_ms)
    if is_due(log, found, now_ms=now_ms):
        if any(b.damaged for s in log.segments[:-1] for b in s.batches):
            # A cleaner that meets a batch which it cannot read gives the partition up (uncleanable partitions).
            return None
        return clean(log, found, now_ms=now_ms), found.first_uncleanable_offset
    if checkpoint is not None and found.first_dirty_offset != checkpoint:
        return log, found.first_dirty_offset
    return None


def cleanable(log: ReplicaLog, checkpoint: int | None, *, now_ms: int) -> Cleanable:
    """The range that may be cleaned: below the last stable offset, the active segment, and segments that are young."""
    start = log.log_start_offset
    first_dirty = checkpoint if checkpoint is not None and start <= checkpoint <= log.log_end_offset else start
    limits = [log.last_stable_offset, log.active.base_offset]
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        dirty = _overlapping(log.segments[:-1], first_dirty, log.active.base_offset)
        limits += [s.base_offset for s in dirty if _largest_timestamp(s) > now_ms - lag][:1]
    limit = max(first_dirty, min(limits))
    # A segment is cleaned whole or not at all.
    uncleanable = max((s.base_offset for s in log.segments if s.base_offset <= limit), default=start)
    return Cleanable(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        clean_bytes=sum(s.size_bytes for s in _overlapping(log.segments, -1, first_dirty)),
        dirty_bytes=sum(s.size_bytes for s in _overlapping(log.segments, min(first_dirty, uncleanable), uncleanable)),
    )


def is_due(log: ReplicaLog, found: Cleanable, *, now_ms: int) -> bool:
    """Whether there is enough dirt (`min.cleanable.dirty.ratio`), or dirt that is too old (`max.compaction.lag.ms`)."""
    if not found.dirty_bytes or found.first_uncleanable_offset <= found.first_dirty_offset:
        return False
    if found.dirty_ratio > log.config.min_cleanable_dirty_ratio:
        return True
    if log.config.max_compaction_lag_ms is None:
        return False
    dirty = _overlapping(log.segments[:-1], found.first_dirty_offset, log.active.base_offset)
    firsts = [s.first_timestamp for s in dirty if s.first_timestamp is not None and s.first_timestamp > 0]
    return min(firsts, default=now_ms) < now_ms - log.config.max_compaction_lag_ms


def clean(log: ReplicaLog, found: Cleanable, *, now_ms: int) -> ReplicaLog:
    """The log after one pass; its checkpoint is then `found.first_uncleanable_offset`."""
    newest = _offset_map(log, found)
    transactions = CleanedTransactions()
    segments: list[Segment] = []
    for group in _groups(log, found.first_uncleanable_offset):
        pass_ = _Pass(log=log, newest=newest, found=found, now_ms=now_ms)
        segments.append(_cleaned(pass_, group, transactions))
    left = [s for s in log.segments if s.base_offset >= found.first_uncleanable_offset]
    bases = {s.base_offset for s in (*segments, *left)}
    gone = {s.base_offset for s in log.segments} - bases
    return replace(
        log,
        segments=(*segments, *left),
        snapshots={at: entries for at, entries in log.snapshots.items() if at not in gone},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    log: ReplicaLog
    newest: dict[bytes, int]
    found: Cleanable
    now_ms: int


def _offset_map(log: ReplicaLog, found: Cleanable) -> dict[bytes, int]:
    """The last offset of each key among the dirty records that are not aborted."""
    start, end = found.first_dirty_offset, found.first_uncleanable_offset
    newest: dict[bytes, int] = {}
    transactions = CleanedTransactions()
    transactions.add(_aborted(log, start, end))
    for segment in _overlapping(log.segments, start, end):
        for batch in segment.batches:
            aborted = transactions.may_go(batch)
            if batch.is_control or aborted:
                continue
            for record in batch.records:
                if record.key is not None and record.offset >= start:
                    newest[record.key] = record.offset
    return newest


def _groups(log: ReplicaLog, end_offset: int) -> Iterator[Sequence[Segment]]:
    """Neighbours that fit into one segment together, by the sizes that they have before."""
    segments = [s for s in log.segments if s.base_offset < end_offset]
    limit, index_limit = log.config.segment_bytes, log.config.segment_index_bytes
    group: list[Segment] = []
    for at, segment in enumerate(segments):
        following = segments[at + 1].base_offset if at + 1 < len(segments) else end_offset
        together = [*group, segment]
        fits = (
            sum(s.size_bytes for s in together) <= limit
            and sum(_OFFSET_ENTRY_BYTES * len(s.offset_index) for s in together) <= index_limit
            and sum(_TIME_ENTRY_BYTES * len(s.time_index) for s in together) <= index_limit
            and (not segment.size_bytes or following - 1 - together[0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if group and not fits:
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _cleaned(pass_: _Pass, group: Sequence[Segment], transactions: CleanedTransactions) -> Segment:
    """One segment in place of a group."""
    made = Segment(base_offset=group[0].base_offset, created_at_ms=group[-1].created_at_ms)
    for at, segment in enumerate(group):
        upper = group[at + 1].base_offset if at + 1 < len(group) else segment.end_offset
        transactions.add(_aborted(pass_.log, segment.base_offset, upper))
        for batch in segment.batches:
            left = _left_of(pass_, batch, may_go=transactions.may_go(batch))
            if left is not None:
                made = made.appended(left, index_interval_bytes=pass_.log.config.index_interval_bytes)
    return replace(made.closed(), transaction_index=transactions.take_kept_entries())


def _left_of(pass_: _Pass, batch: StoredBatch, *, may_go: bool) -> StoredBatch | None:
    """What is left of a batch; None for nothing."""
    horizon = batch.base_timestamp if batch.attributes & DELETE_HORIZON_BIT else None
    passed = horizon is not None and horizon <= pass_.now_ms
    discarded = may_go and (passed or not batch.is_control)
    # The batch that ends at the high watermark tells where that is, should nothing else be left.
    keeps_header = _is_last_of_producer(pass_.log, batch) or batch.last_offset + 1 == pass_.log.high_watermark
    if discarded:
        return _emptied(batch) if keeps_header else None
    if batch.is_control:
        kept = batch.records
    else:
        kept = tuple(r for r in batch.records if _is_kept(pass_, r, tombstones=not passed))
    if not kept:
        return _emptied(batch) if keeps_header else None
    starts_horizon = horizon is None and (any(r.value is None for r in kept) or (batch.is_control and may_go))
    if len(kept) == len(batch.records) and not starts_horizon:
        return batch
    if starts_horizon:
        horizon = pass_.now_ms + pass_.log.config.delete_retention_ms
    return _rebuilt(batch, kept, horizon)


def _is_kept(pass_: _Pass, record: Record, *, tombstones: bool) -> bool:
    if record.offset >= pass_.found.first_uncleanable_offset:
        return True
    if record.key is None or record.offset < pass_.newest.get(record.key, -1):
        return False
    return record.value is not None or tombstones


def _is_last_of_producer(log: ReplicaLog, batch: StoredBatch) -> bool:
    """The batch tells a producer's last sequence, or its epoch: without it, a restarted broker would not know them."""
    state = log.producers.states.get(batch.producer_id) if batch.producer_id >= 0 else None
    if state is None:
        return False
    if state.batches and state.batches[-1].last_offset >= 0:
        return batch.last_offset == state.batches[-1].last_offset
    return batch.is_control and batch.producer_epoch == state.producer_epoch


def _emptied(batch: StoredBatch) -> StoredBatch:
    """A header alone: offsets, sequence and times as they were (DefaultRecordBatch#writeEmptyHeader)."""
    header = _header(batch, attributes=batch.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT), records=())
    return as_stored(replace(header, base_timestamp=_NO_TIMESTAMP))


def _rebuilt(batch: StoredBatch, kept: tuple[Record, ...], horizon: int | None) -> StoredBatch:
    """The batch with fewer records, or with a horizon, which then stands in place of the first timestamp."""
    attributes = batch.attributes | (DELETE_HORIZON_BIT if horizon is not None else 0)
    header = _header(batch, attributes=attributes, records=kept)
    made = replace(
        header,
        base_timestamp=horizon if horizon is not None else kept[0].timestamp,
        max_timestamp=max(r.timestamp for r in kept),
    )
    return as_stored(made, committed=batch.committed, coordinator_epoch=batch.coordinator_epoch)


def _header(batch: StoredBatch, *, attributes: int, records: tuple[Record, ...]) -> RecordBatch:
    return RecordBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        partition_leader_epoch=batch.leader_epoch,
        crc=0,
        attributes=attributes,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        records=records,
    )


def _aborted(log: ReplicaLog, start: int, end: int) -> Iterator[AbortedTransaction]:
    """What the indexes say of aborted transactions in a range (LocalLog#collectAbortedTransactions)."""
    for segment in _overlapping(log.segments, start, log.log_end_offset + 1):
        for transaction in segment.transaction_index:
            if transaction.last_offset >= log.log_start_offset and transaction.first_offset < end:
                yield transaction
            if transaction.last_stable_offset >= end:
                return


def _overlapping(segments: Sequence[Segment], start: int, end: int) -> list[Segment]:
    """Segments from the one that holds `start` on, as far as they begin below `end` (LogSegments#values)."""
    first = max((i for i, s in enumerate(segments) if s.base_offset <= start), default=0)
    return [s for s in segments[first:] if s.base_offset < end] if start < end else []


def _largest_timestamp(segment: Segment) -> int:
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_at_ms
