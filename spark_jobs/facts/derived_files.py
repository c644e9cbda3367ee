"""Derived files against the log they were derived from: offset, time and transaction indexes, producer snapshots.

In: parsed files (`kafka_log.indexes`, …), batch headers as they are scanned, and the replayed producers. Out: one
`IndexFileFacts` per file, a row of `index_files`. The rule that must hold: what a live broker soundly leaves behind
(preallocated zeros, stale entries after a truncation, snapshots at former log ends, expired producers) is no error.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kafka_log.corruption import Corruption
from kafka_log.indexes import OffsetIndex, TimeIndex
from kafka_log.producer_snapshot import ProducerSnapshot, ProducerSnapshotEntry
from kafka_log.transaction_index import AbortedTransaction, TransactionIndex
from spark_jobs.facts.producers import Transaction

SOONEST_EXPIRATION_MS: Final = 10_000
"""A producer idle for less than this was not expired, whatever producer.id.expiration.ms is set to on the broker."""
_DETAILS: Final = 50


@dataclass(slots=True, kw_only=True)
class IndexFileFacts:
    """What one derived file says against its log. Counts are exact; `damages` lists the first places."""

    kind: str
    entries: int
    readable: bool = True
    form_errors: int = 0
    pointer_errors: int = 0
    range_errors: int = 0
    missing_entries: int = 0
    extra_entries: int = 0
    wrong_entries: int = 0
    last_stable_offset_errors: int = 0
    misplaced: bool = False
    content_checkable: bool = True
    uncheckable_reason: str | None = None
    stale_tail: bool = False
    aborted_unlisted: int | None = None
    aborted_unmarked: int | None = None
    damages: list[dict[str, Any]] = field(default_factory=list)

    def note(self, kind: str, position: int | None, detail: str) -> None:
        """Keeps a place for the explanation, as long as there is room."""
        if len(self.damages) < _DETAILS:
            self.damages.append({"kind": kind, "position": position, "detail": detail})


def _form(facts: IndexFileFacts, corruptions: Iterable[Corruption]) -> IndexFileFacts:
    for corruption in corruptions:
        facts.form_errors += 1
        facts.note("form", corruption.position, corruption.detail)
    return facts


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
    one may be left over from before a truncation (the index file is memory-mapped and not cut).
    """

    def __init__(self, offsets: OffsetIndex | None, times: TimeIndex | None, *, tail_may_be_stale: bool) -> None:
        self._offsets = offsets
        self._times = times
        self._tail_may_be_stale = tail_may_be_stale
        self._offset_state = np.zeros(len(offsets.offsets) if offsets else 0, dtype=np.int8)
        self._time_state = np.zeros(len(times.offsets) if times else 0, dtype=np.int8)
        self._pending: list[int] = []
        self._running_max = np.iinfo(np.int64).min
        self._max_at_end = np.iinfo(np.int64).min
        self._end_position = 0
        self._largest_batch = 0

    def add(self, headers: NDArray[Any]) -> None:
        """One block of the segment's batch headers, in file order."""
        if len(headers) == 0:
            return
        last_offsets = headers["last_offset"]
        self._end_position = int(headers["position"][-1] + headers["size_bytes"][-1])
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
        for at in range(low, high):
            found = int(np.searchsorted(positions, self._offsets.positions[at]))
            offset = int(self._offsets.offsets[at])
            if found == len(positions) or positions[found] != self._offsets.positions[at]:
                continue
            if offset == last_offsets[found] or (
                offset > last_offsets[found] and bool(np.any(last_offsets[found:] == offset))
            ):
                self._offset_state[at] = 1
            elif offset > last_offsets[-1]:
                self._pending.append(at)

    def _check_times(self, headers: NDArray[Any], last_offsets: NDArray[Any]) -> None:
        assert self._times is not None
        running = np.maximum.accumulate(np.maximum(headers["max_timestamp"], self._running_max))
        self._running_max = int(running[-1])
        low = int(np.searchsorted(self._times.offsets, headers["base_offset"][0]))
        high = int(np.searchsorted(self._times.offsets, last_offsets[-1], side="right"))
        for at in range(low, high):
            found = int(np.searchsorted(last_offsets, self._times.offsets[at]))
            if found < len(running) and running[found] == self._times.timestamps[at]:
                self._time_state[at] = 1

    def spacing(self) -> IndexSpacing:
        """How far the entries of .index lie apart, once all blocks have been added."""
        positions = self._offsets.positions if self._offsets is not None else np.zeros(0, dtype=np.int64)
        inside = positions[positions < self._end_position]
        places = np.concatenate([[0], inside, [self._end_position]])
        return IndexSpacing(
            entries=len(positions) if self._offsets is not None else None,
            widest_gap_bytes=int(np.max(np.diff(places))),
            largest_batch_bytes=self._largest_batch,
        )

    def finish(self, *, sealed: bool) -> tuple[IndexFileFacts | None, IndexFileFacts | None]:
        """The facts of .index and .timeindex, None for a file that is not there."""
        index = time_index = None
        if self._offsets is not None:
            index = _form(IndexFileFacts(kind="index", entries=len(self._offset_state)), self._offsets.corruptions)
            index.stale_tail = self._offsets.stale_entries > 0
            for at in self._wrong(self._offset_state, index):
                index.pointer_errors += 1
                index.note(
                    "pointer",
                    at * 8,
                    f"entry {at} says offset {self._offsets.offsets[at]} is reached from position "
                    f"{self._offsets.positions[at]}; no batch there leads to it",
                )
        if self._times is not None:
            time_index = _form(IndexFileFacts(kind="timeindex", entries=len(self._time_state)), self._times.corruptions)
            time_index.stale_tail = self._times.stale_entries > 0
            for at in self._wrong(self._time_state, time_index):
                time_index.pointer_errors += 1
                time_index.note(
                    "pointer",
                    at * 12,
                    f"entry {at} says {self._times.timestamps[at]} is the largest timestamp up to offset "
                    f"{self._times.offsets[at]}; the batches say otherwise",
                )
            if (
                sealed
                and len(self._time_state)
                and not time_index.pointer_errors
                and int(self._times.timestamps[-1]) != self._running_max
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
) -> IndexFileFacts | None:
    """`.txnindex` of one segment against the aborted transactions whose marker lies in it; None where neither has any.

    An entry is (producer id, first offset, offset of the marker, last stable offset when it was written). Nobody reads
    below the log start: a transaction that began there need not be named, or not from its first record on. `later` is
    None where the log does not tell any more what was appended behind a marker: it was cleaned, or is damaged.
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
    facts = _form(
        IndexFileFacts(kind="txnindex", entries=len(entries), readable=True), index.corruptions if index else ()
    )
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
            facts.note("form", at * 34, f"entry {at}: {'; '.join(bad)}")
    found: Counter[tuple[int, int, int]] = Counter()
    markers = {(producer_id, marker): key for key in expected for producer_id, _, marker in [key]}
    for at, entry in enumerate(entries):
        key = (entry.producer_id, entry.first_offset, entry.last_offset)
        transaction = expected.get((key[0], key[1], key[2]))
        if transaction is None and head_gone and log_first_offset is not None and entry.first_offset < log_first_offset:
            # Its data began below the log start: the log can only confirm the marker.
            known = markers.get((entry.producer_id, entry.last_offset))
            if known is not None:
                found[known] += 1
            continue
        began = markers.get((entry.producer_id, entry.last_offset))
        if transaction is None and began is not None and began[1] < min(log_start_offset, entry.first_offset):
            # A broker that had died made the index anew from its log start on: the data below were none for it.
            found[began] += 1
            continue
        if transaction is None:
            facts.extra_entries += 1
            facts.note(
                "extra",
                at * 34,
                f"entry {at}: producer {entry.producer_id} [{entry.first_offset}, {entry.last_offset}] "
                "was not aborted in the log",
            )
            continue
        found[key] += 1
        # What is above the marker was judged as the entry's form.
        if min(entry.last_stable_offset, entry.last_offset + 1) != transaction.last_stable_offset and not head_gone:
            facts.last_stable_offset_errors += 1
            facts.note(
                "last_stable_offset",
                at * 34,
                f"entry {at}: last stable offset {entry.last_stable_offset}, "
                f"recomputed {transaction.last_stable_offset}",
            )
    for key, transaction in expected.items():
        if not found[key] and transaction.first_offset >= log_start_offset:
            facts.missing_entries += 1
            facts.note(
                "missing",
                None,
                f"producer {transaction.producer_id} aborted [{transaction.first_offset}, "
                f"{transaction.marker_offset}]: no entry",
            )
    return facts


_LAST_BATCH: Final = frozenset({"last_sequence", "last_offset", "offset_delta"})
_COMPARED: Final = (
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "current_transaction_first_offset",
)


def check_producer_snapshot(
    snapshot: ProducerSnapshot,
    *,
    offset: int,
    states: Mapping[int, ProducerSnapshotEntry] | None,
    head_gone: bool,
    log_first_offset: int | None,
    compacted: bool,
    log_start_offset: int,
    taken_before_ms: int | None,
) -> IndexFileFacts:
    """A producer snapshot at `offset` against the replay of the log up to there.

    `states` is None where the log before it could not be replayed. A superset is sound (retention or cleaning removed
    the data); a producer may be missing when it had expired, or when all its data lie below the log start.
    `taken_before_ms` bounds when the snapshot was taken: by the batches behind it; None where there are none (a
    snapshot at the log end may have been taken by a restart long after the last batch).
    """
    facts = _form(IndexFileFacts(kind="snapshot", entries=len(snapshot.entries)), snapshot.corruptions)
    for at, entry in enumerate(snapshot.entries):
        first = entry.current_transaction_first_offset
        bad = []
        if entry.last_offset >= offset:
            bad.append(f"last offset {entry.last_offset} is not below {offset}")
        if first is not None and first >= offset:
            bad.append(f"transaction's first offset {first} is not below {offset}")
        if entry.last_offset >= 0 and entry.last_offset - entry.offset_delta < 0:
            bad.append(f"offset delta {entry.offset_delta} reaches below 0 from {entry.last_offset}")
        if bad:
            facts.range_errors += 1
            facts.note("range", 10 + at * 46, f"producer {entry.producer_id}: {'; '.join(bad)}")
    if states is None:
        facts.content_checkable = False
        facts.uncheckable_reason = "the log before it could not be replayed"
        return facts
    named = {e.producer_id: e for e in snapshot.entries}
    for producer_id, state in states.items():
        if producer_id in named:
            continue
        expirable = taken_before_ms is None or taken_before_ms - state.timestamp >= SOONEST_EXPIRATION_MS
        if state.current_transaction_first_offset is None and expirable:
            continue  # It may have expired; whether it had depends on a broker setting that no file tells.
        if compacted or state.last_offset < log_start_offset:
            continue
        facts.missing_entries += 1
        facts.note("missing", None, f"producer {producer_id} wrote up to offset {state.last_offset} and is not in it")
    for producer_id, entry in named.items():
        known = states.get(producer_id)
        if known is None:
            # Its data are gone (retention, DeleteRecords, cleaning); with the whole log there, nothing can have
            # removed them.
            if not head_gone and not compacted and entry.last_offset >= 0:
                facts.extra_entries += 1
                facts.note(
                    "extra", None, f"producer {producer_id} (last offset {entry.last_offset}) has no batch in the log"
                )
            continue
        unfounded = _without_ground(
            entry,
            known,
            head_gone=head_gone,
            compacted=compacted,
            log_first_offset=log_first_offset,
            log_start_offset=log_start_offset,
        )
        differing = [
            f"{name} is {getattr(entry, name)}, recomputed {getattr(known, name)}"
            for name in _COMPARED
            if name not in unfounded and getattr(entry, name) != getattr(known, name)
        ]
        if differing:
            facts.wrong_entries += 1
            facts.note("wrong", None, f"producer {producer_id}: {'; '.join(differing)}")
    return facts


def _without_ground(
    entry: ProducerSnapshotEntry,
    known: ProducerSnapshotEntry,
    *,
    head_gone: bool,
    compacted: bool,
    log_first_offset: int | None,
    log_start_offset: int,
) -> frozenset[str]:
    """Of a producer's fields, those in which snapshot and replay may differ for want of the same records.

    The snapshot may know what is no longer in the log. And it may know less than what still lies there: a broker that
    rebuilds the state reads from the log start on (`UnifiedLog#rebuildProducerState`), which DeleteRecords and
    retention move before the segments below it go.
    """
    names: set[str] = set()
    if (head_gone or compacted) and known.coordinator_epoch < 0 <= entry.coordinator_epoch:
        names.add("coordinator_epoch")
    if log_first_offset is None:
        return frozenset(names)
    begun, recomputed = entry.current_transaction_first_offset, known.current_transaction_first_offset
    if head_gone:
        if begun is not None and begun < log_first_offset:
            names.add("current_transaction_first_offset")
        if known.last_offset < 0 and entry.last_offset < log_first_offset:
            # Of what it wrote only an end marker is left.
            names |= _LAST_BATCH
    if log_first_offset < log_start_offset:
        if entry.coordinator_epoch < 0:
            names.add("coordinator_epoch")
        if entry.last_offset < 0 and known.last_offset < log_start_offset:
            names |= _LAST_BATCH
        if recomputed is not None and recomputed < log_start_offset and (begun is None or begun > recomputed):
            names.add("current_transaction_first_offset")
    return frozenset(names)
