"""Derived files against the log they were derived from: offset, time and transaction indexes, producer snapshots.

In: parsed files (`kafka_log.indexes`, …), batch headers as they are scanned, and the replayed producers. Out: one
`IndexFileFacts` per file, a row of `index_files`. What a live broker soundly leaves behind (preallocated zeros, stale
entries after a truncation, snapshots at former log ends, expired producers) is no error.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.producers.state import Transaction
from tidegauge.facts.segments.index_file_facts import IndexFileFacts, with_form
from tidegauge.kafka_log.indexes import OffsetIndex, TimeIndex
from tidegauge.kafka_log.transaction_index import AbortedTransaction, TransactionIndex

_ENTRY_BYTES: Final = 34
"""Of a transaction index, whose entries follow each other without a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpacing:
    """How closely a segment's offset index follows its log; `entries` is None where there is no such file.

    `widest_gap_bytes`: the most that a reader has to pass between one entry, or the start, and the next, or the end.
    """

    entries: int | None
    widest_gap_bytes: int
    largest_batch_bytes: int


class SegmentIndexCheck:
    """Checks a segment's offset and time index while its batches go by, block by block.

    `tail_may_be_stale`: the segment is active and its broker was not stopped cleanly, so entries behind the last right
    one may be left over from before a truncation (the index file is memory-mapped and not cut). `log_may_be_cut`: it
    was stopped cleanly; entries of batches that lie wholly behind the end of the log are right, and the log is not,
    which is told of it.
    """

    def __init__(
        self,
        offsets: OffsetIndex | None,
        times: TimeIndex | None,
        *,
        tail_may_be_stale: bool,
        log_may_be_cut: bool = False,
    ) -> None:
        self._offsets = offsets
        self._times = times
        self._tail_may_be_stale = tail_may_be_stale
        self._log_may_be_cut = log_may_be_cut
        self._offset_state = np.zeros(len(offsets.offsets) if offsets else 0, dtype=np.int8)
        self._time_state = np.zeros(len(times.offsets) if times else 0, dtype=np.int8)
        self._pending: list[int] = []
        self._running_max = np.iinfo(np.int64).min
        self._timestamps_doubtful = False
        self._end_position = 0
        self._last_offset = -1
        self._largest_batch = 0

    def add(self, headers: NDArray[Any]) -> None:
        """One block of the segment's batch headers, in file order."""
        if len(headers) == 0:
            return
        last_offsets = headers["last_offset"]
        self._end_position = int(headers["position"][-1] + headers["size_bytes"][-1])
        self._last_offset = int(last_offsets[-1])
        self._largest_batch = max(self._largest_batch, int(headers["size_bytes"].max()))
        if self._offsets is not None and len(self._offset_state):
            self._check_offsets(headers, last_offsets)
        if self._times is not None and len(self._time_state):
            self._check_times(headers, last_offsets)

    def _check_offsets(self, headers: NDArray[Any], last_offsets: NDArray[Any]) -> None:
        assert self._offsets is not None
        positions = headers["position"]
        low = int(np.searchsorted(self._offsets.positions, positions[0]))
        high = int(np.searchsorted(self._offsets.positions, positions[-1], side="right"))
        # Writers before 4.1 wrote one entry an append: the last offset of its last batch, the position of its first.
        still: list[int] = []
        for at in self._pending:
            if self._offsets.offsets[at] in last_offsets:
                self._offset_state[at] = 1
            elif self._offsets.offsets[at] > last_offsets[-1]:
                still.append(at)
        self._pending = still
        entries, offsets = self._offsets.positions[low:high], self._offsets.offsets[low:high]
        found = np.searchsorted(positions, entries)
        found[found == len(positions)] = 0
        leads = positions[found] == entries
        led, found, offsets = low + np.flatnonzero(leads), found[leads], offsets[leads]
        # Where a batch with a wrong checksum ends is not known.
        right = (offsets == last_offsets[found]) | (headers["crc_valid"][found] == 0)
        above = np.flatnonzero(~right & (offsets > last_offsets[found]))
        right[above] = [bool(np.any(last_offsets[found[n] :] == offsets[n])) for n in above]
        self._offset_state[led[right]] = 1
        self._pending += led[~right & (offsets > last_offsets[-1])].tolist()

    def _check_times(self, headers: NDArray[Any], last_offsets: NDArray[Any]) -> None:
        assert self._times is not None
        # What the header of a batch with a wrong checksum says of its timestamps may be what rotted.
        sound = headers["crc_valid"] != 0
        known = np.where(sound, headers["max_timestamp"], np.iinfo(np.int64).min)
        running = np.maximum.accumulate(np.maximum(known, self._running_max))
        doubtful = np.logical_or.accumulate(~sound) | self._timestamps_doubtful
        self._running_max = int(running[-1])
        self._timestamps_doubtful = bool(doubtful[-1])
        low = int(np.searchsorted(self._times.offsets, headers["base_offset"][0]))
        high = int(np.searchsorted(self._times.offsets, last_offsets[-1], side="right"))
        # Each offset is looked up once and alone: of a damaged log the batches' offsets may not rise.
        offsets, places = np.unique(self._times.offsets[low:high], return_inverse=True)
        found = np.array([np.searchsorted(last_offsets, offset) for offset in offsets], dtype=np.int64)[places]
        at, found = low + np.flatnonzero(found < len(running)), found[found < len(running)]
        timestamps = self._times.timestamps[at]
        right = (running[found] == timestamps) | (doubtful[found] & (running[found] < timestamps))
        self._time_state[at[right]] = 1

    def spacing(self) -> IndexSpacing:
        """How far the entries of .index lie apart, once all blocks have been added."""
        positions = self._offsets.positions if self._offsets is not None else np.zeros(0, dtype=np.int64)
        inside = positions[positions < self._end_position]
        places = np.concatenate([[0], inside, [self._end_position]])
        return IndexSpacing(
            entries=len(positions) + self._offsets.blank_entries if self._offsets is not None else None,
            widest_gap_bytes=int(np.max(np.diff(places))),
            largest_batch_bytes=self._largest_batch,
        )

    def finish(self, *, sealed: bool) -> tuple[IndexFileFacts | None, IndexFileFacts | None]:
        """The facts of .index and .timeindex, None for a file that is not there."""
        index = time_index = None
        if self._offsets is not None:
            index = with_form(IndexFileFacts(kind="index", entries=len(self._offset_state)), self._offsets.corruptions)
            index.entries += self._offsets.blank_entries
            index.stale_tail = self._offsets.stale_entries > 0
            if self._log_may_be_cut:
                behind = (self._offsets.positions >= self._end_position) & (self._offsets.offsets > self._last_offset)
                self._offset_state[behind] = 1
                index.stale_tail = bool(behind.any())
            wrong = self._wrong(self._offset_state, index)
            index.pointer_errors = len(wrong)
            for at in wrong[: index.room]:
                index.note(
                    "pointer",
                    at * 8,
                    f"entry {at} says offset {self._offsets.offsets[at]} is reached from position "
                    f"{self._offsets.positions[at]}; no batch there leads to it",
                )
            index.pointer_errors += self._offsets.blank_entries  # Each has a place as out of order.
        if self._times is not None:
            time_index = with_form(
                IndexFileFacts(kind="timeindex", entries=len(self._time_state)), self._times.corruptions
            )
            time_index.entries += self._times.blank_entries
            time_index.stale_tail = self._times.stale_entries > 0
            wrong = self._wrong(self._time_state, time_index)
            time_index.pointer_errors = len(wrong)
            for at in wrong[: time_index.room]:
                time_index.note(
                    "pointer",
                    at * 12,
                    f"entry {at} says {self._times.timestamps[at]} is the largest timestamp up to offset "
                    f"{self._times.offsets[at]}; the batches say otherwise",
                )
            time_index.pointer_errors += self._times.blank_entries
            if (
                sealed
                and len(self._time_state)
                and not time_index.pointer_errors
                and int(self._times.timestamps[-1]) != self._running_max
                and not self._timestamps_doubtful
            ):
                time_index.pointer_errors += 1
                time_index.note(
                    "pointer",
                    (len(self._time_state) - 1) * 12,
                    f"the last entry says {self._times.timestamps[-1]}; "
                    f"the segment's largest timestamp is {self._running_max}",
                )
        return index, time_index

    def _wrong(self, state: NDArray[Any], facts: IndexFileFacts) -> list[int]:
        wrong: list[int] = np.nonzero(state == 0)[0].tolist()
        if not wrong or not self._tail_may_be_stale:
            return wrong
        last_right = int(np.max(np.nonzero(state)[0])) if state.any() else -1
        if wrong[-1] > last_right:
            facts.stale_tail = True
        return [at for at in wrong if at < last_right]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterAppends:
    """What a log holds behind an end marker. `begun`: first offset and producer id of each transaction, ascending."""

    begun: Sequence[tuple[int, int]]
    epoch_starts: Sequence[int]
    log_end_offset: int

    def explain(self, entry: AbortedTransaction, next_base_offset: int | None) -> bool:
        """Whether a broker may have written an entry whose last stable offset is above its marker's next one.

        A follower appends what it fetched in one go, and knows of all transactions that begin in there before it
        completes the first: the last stable offset is where the next one of another producer begins
        (UnifiedLog#append, ProducerStateManager#lastStableOffset). In the same segment, but perhaps in records that it
        cut off since, or that are not in the copy.
        """
        stable = entry.last_stable_offset
        if stable >= self.log_end_offset:
            return True
        following = bisect_right(self.epoch_starts, entry.last_offset)
        if following < len(self.epoch_starts) and self.epoch_starts[following] <= stable:
            return True
        at = bisect_left(self.begun, (entry.last_offset + 1, -1))
        while at < len(self.begun) and self.begun[at][1] == entry.producer_id:
            at += 1
        inside = next_base_offset is None or stable < next_base_offset
        return inside and at < len(self.begun) and self.begun[at][0] == stable


def check_transaction_index(
    index: TransactionIndex | None,
    *,
    aborted: Iterable[Transaction],
    later: LaterAppends | None,
    base_offset: int,
    next_base_offset: int | None,
    head_gone: bool,
    log_first_offset: int | None,
    log_start_offset: int,
    doubtful_offsets: Sequence[int] = (),
) -> IndexFileFacts | None:
    """`.txnindex` of one segment against the aborted transactions whose marker lies in it; None where neither has any.

    An entry is (producer id, first offset, offset of the marker, last stable offset when it was written). Nobody reads
    below the log start: a transaction that began there need not be named, or not from its first record on. `later` is
    None where the log does not tell any more what was appended behind a marker: it was cleaned, or is damaged.
    `doubtful_offsets`: where batches stand that cannot be read; of a transaction that one may be part of nothing is
    said.
    """
    expected = {
        (t.producer_id, t.first_offset, t.marker_offset): t
        for t in aborted
        if t.marker_offset is not None
        and t.marker_offset >= base_offset
        and (next_base_offset is None or t.marker_offset < next_base_offset)
    }
    entries = index.entries if index is not None else ()
    if not entries and not expected and index is None:
        return None
    facts = with_form(
        IndexFileFacts(kind="txnindex", entries=len(entries), readable=True), index.corruptions if index else ()
    )
    _check_forms(facts, entries, base_offset, next_base_offset, later)
    readable = _Readable(
        from_offset=log_first_offset if head_gone else None,
        log_start_offset=log_start_offset,
        doubtful_offsets=doubtful_offsets,
    )
    found = _check_entries(facts, entries, expected, readable, head_gone=head_gone)
    for key, transaction in expected.items():
        if key not in found and transaction.first_offset >= log_start_offset:
            facts.missing_entries += 1
            facts.note(
                "missing",
                None,
                f"producer {transaction.producer_id} aborted [{transaction.first_offset}, "
                f"{transaction.marker_offset}]: no entry",
            )
    return facts


def _check_forms(
    facts: IndexFileFacts,
    entries: Sequence[AbortedTransaction],
    base_offset: int,
    next_base_offset: int | None,
    later: LaterAppends | None,
) -> None:
    """What an entry must be by itself, whatever the log says."""
    previous_last = -1
    for at, entry in enumerate(entries):
        bad = []
        if entry.first_offset >= entry.last_offset:
            bad.append(f"first offset {entry.first_offset} is not below last offset {entry.last_offset}")
        if entry.last_offset <= previous_last:
            bad.append(f"last offset {entry.last_offset} does not rise above {previous_last}")
        if entry.last_offset < base_offset or (next_base_offset is not None and entry.last_offset >= next_base_offset):
            bad.append(f"last offset {entry.last_offset} lies outside the segment")
        above = entry.last_stable_offset > entry.last_offset + 1
        if above and later is not None and not later.explain(entry, next_base_offset):
            bad.append(f"last stable offset {entry.last_stable_offset} lies above the marker {entry.last_offset}")
        previous_last = max(previous_last, entry.last_offset)
        if bad:
            facts.form_errors += 1
            facts.note("form", at * _ENTRY_BYTES, f"entry {at}: {'; '.join(bad)}")


_Aborted = tuple[int, int, int]
"""An aborted transaction: producer id, first offset, offset of its marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readable:
    """How much of a log can be read. `from_offset`: where the log begins whose head is gone; None if it is whole."""

    from_offset: int | None
    log_start_offset: int
    doubtful_offsets: Sequence[int]

    def told_of(
        self,
        entry: AbortedTransaction,
        expected: Mapping[_Aborted, Transaction],
        by_marker: Mapping[tuple[int, int], _Aborted],
    ) -> _Aborted | None:
        """The transaction that an entry tells of, as far as the log can say; None: of one that the log denies."""
        named = (entry.producer_id, entry.first_offset, entry.last_offset)
        if named in expected:
            return named
        ended = by_marker.get((entry.producer_id, entry.last_offset))
        if self.from_offset is not None and entry.first_offset < self.from_offset:
            return ended or named  # Its data began below the log start: the log can only confirm the marker.
        if _any_within(self.doubtful_offsets, entry.first_offset, entry.last_offset):
            return ended or named
        if ended is not None and ended[1] < min(self.log_start_offset, entry.first_offset):
            return ended  # A broker that had died made the index anew from its log start on: there were no data below.
        return None


def _check_entries(
    facts: IndexFileFacts,
    entries: Sequence[AbortedTransaction],
    expected: Mapping[_Aborted, Transaction],
    readable: _Readable,
    *,
    head_gone: bool,
) -> set[_Aborted]:
    """Each entry against the log. Returns the transactions that have one."""
    by_marker = {(producer_id, marker): (producer_id, first, marker) for producer_id, first, marker in expected}
    found: set[_Aborted] = set()
    for at, entry in enumerate(entries):
        told_of = readable.told_of(entry, expected, by_marker)
        if told_of is None:
            facts.extra_entries += 1
            facts.note(
                "extra",
                at * _ENTRY_BYTES,
                f"entry {at}: producer {entry.producer_id} [{entry.first_offset}, {entry.last_offset}] "
                "was not aborted in the log",
            )
            continue
        found.add(told_of)
        transaction = expected.get((entry.producer_id, entry.first_offset, entry.last_offset))
        if transaction is None or head_gone or _any_within(readable.doubtful_offsets, 0, entry.last_offset):
            continue
        # What is above the marker was judged as the entry's form.
        if min(entry.last_stable_offset, entry.last_offset + 1) != transaction.last_stable_offset:
            facts.last_stable_offset_errors += 1
            facts.note(
                "last_stable_offset",
                at * _ENTRY_BYTES,
                f"entry {at}: last stable offset {entry.last_stable_offset}, "
                f"recomputed {transaction.last_stable_offset}",
            )
    return found


def _any_within(offsets: Sequence[int], first: int, last: int) -> bool:
    """Whether any of these offsets, which rise, lies between two, both inclusive."""
    at = bisect_left(offsets, first)
    return at < len(offsets) and offsets[at] <= last
