"""One segment of a log: its batches, and the indexes as a broker fills them while it appends.

In: batches. Out: a new `Segment`. Index entries are made at append, one for each batch that follows more than
`index.interval.bytes` of others, and the time index gets its last entry when the segment is closed (Kafka
LogSegment#append, #onBecomeInactiveSegment; brokers since 4.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.transaction_index import AbortedTransaction
from tidegauge.sim_engine.log.persistent import Trail
from tidegauge.sim_engine.log.stored_batch import StoredBatch

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Batches from `base_offset` on. `positions` are where they begin in the file, one a batch.

    Of a damaged segment `tail` are the bytes behind the last batch, which hold no whole one, and `damaged_files` what
    is on the disk in place of an index, by suffix; None for nothing. Only a broker that starts looks at either.
    """

    base_offset: int
    created_at_ms: int
    batches: Trail[StoredBatch] = field(default_factory=Trail)
    positions: Trail[int] = field(default_factory=Trail)
    size_bytes: int = 0
    offset_index: Trail[tuple[int, int]] = field(default_factory=Trail)
    time_index: Trail[tuple[int, int]] = field(default_factory=Trail)
    transaction_index: tuple[AbortedTransaction, ...] = ()
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    bytes_since_index_entry: int = 0
    tail: bytes = b""
    damaged_files: Mapping[str, bytes | None] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        """The offset after the last batch; the base offset of an empty segment."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset

    @property
    def first_timestamp(self) -> int | None:
        """The first batch's largest timestamp, from which time-based rolling counts."""
        return self.batches[0].max_timestamp if self.batches else None

    def appended(self, batch: StoredBatch, *, index_interval_bytes: int) -> "Segment":
        """The segment with one more batch."""
        assert not self.tail, "a broker cuts a torn tail before it appends"
        max_timestamp, offset_of_max = self.max_timestamp, self.offset_of_max_timestamp
        if batch.max_timestamp > max_timestamp:
            max_timestamp, offset_of_max = batch.max_timestamp, batch.last_offset
        offset_index, time_index, since = self.offset_index, self.time_index, self.bytes_since_index_entry
        if since > index_interval_bytes:
            offset_index = offset_index.appended((batch.last_offset, self.size_bytes))
            time_index = with_time(time_index, max_timestamp, offset_of_max)
            since = 0
        return replace(
            self,
            batches=self.batches.appended(batch),
            positions=self.positions.appended(self.size_bytes),
            size_bytes=self.size_bytes + batch.size_bytes,
            offset_index=offset_index,
            time_index=time_index,
            max_timestamp=max_timestamp,
            offset_of_max_timestamp=offset_of_max,
            bytes_since_index_entry=since + batch.size_bytes,
        )

    def with_aborted(self, transaction: AbortedTransaction) -> "Segment":
        """The segment with an aborted transaction in its index."""
        return replace(self, transaction_index=(*self.transaction_index, transaction))

    def closed(self) -> "Segment":
        """The segment as it is left when the next one begins, or the broker stops in good order."""
        if self.max_timestamp < 0:
            return self
        return replace(self, time_index=with_time(self.time_index, self.max_timestamp, self.offset_of_max_timestamp))

    def truncated(self, offset: int) -> "Segment":
        """The segment without the first batch that reaches `offset` and all behind it (LogSegment#truncateTo)."""
        kept = next((i for i, b in enumerate(self.batches) if b.last_offset >= offset), len(self.batches))
        if kept == len(self.batches):
            return self
        batches = self.batches.cut(kept)
        newest = max(batches, key=lambda b: b.max_timestamp, default=None)
        time_index = cut_before(self.time_index, offset)
        return replace(
            self,
            batches=batches,
            positions=self.positions.cut(kept),
            size_bytes=self.positions[kept],
            offset_index=cut_before(self.offset_index, offset, by=0),
            time_index=time_index,
            transaction_index=tuple(t for t in self.transaction_index if t.last_offset < offset),
            max_timestamp=newest.max_timestamp if newest is not None else -1,
            offset_of_max_timestamp=newest.last_offset if newest is not None else -1,
            bytes_since_index_entry=0,
            tail=b"",
        )


def with_time(index: Trail[tuple[int, int]], timestamp: int, offset: int) -> Trail[tuple[int, int]]:
    """An entry is only added if its timestamp is above the last one's (TimeIndex#maybeAppend)."""
    return index.appended((timestamp, offset)) if timestamp > (index[-1][0] if index else -1) else index


def cut_before(index: Trail[tuple[int, int]], offset: int, *, by: int = 1) -> Trail[tuple[int, int]]:
    """The entries about offsets below `offset`; `by` says which of an entry's two numbers is the offset."""
    kept = len(index)
    while kept and index[kept - 1][by] >= offset:
        kept -= 1
    return index.cut(kept)
