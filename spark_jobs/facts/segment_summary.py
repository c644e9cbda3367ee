"""The segment summary: what one stretch of a replica's log says, small and mergeable.

In: blocks of batch headers in file order (`kafka_log.scan`). Out: a `SegmentSummary`. The rule that must hold:
`merge` is associative over adjacent stretches and `merge(summary(a), summary(b))` equals `summary(a + b)`, so a sealed
segment is read once, wherever its bytes are, and a replica's facts are the merge of its segments' summaries.

    epoch runs     leader epoch -> where it starts and ends            (D01, D04, D05, B14, B15)
    events         per producer: runs of data, and end markers         (E*, F*, B06, B11, last stable offset)
    gaps           breaks in a producer's sequences                    (E01)
    buckets        a digest per 4096 offsets, whatever the segments    (D02, D03, D07)
    findings       the first places where a rule of family A breaks    (A04..A09, A13, D01)

A producer's data batches are folded into one run as long as epoch and transactional flag stay and its sequences rise; a
gap in them is counted on the run and listed; anything that goes back (duplicate, overlap) begins a new run, which the
replay in `producers` then names. Sequences wrap from 2147483647 to 0 (DefaultRecordBatch#incrementSequence).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from kafka_log.scan import BATCH_HEADER

BUCKET_OFFSETS: Final = 4096
"""Offsets a digest bucket covers."""
_BUCKET_SHIFT: Final = 12

FINDING_KINDS: Final = (
    "offset_order",
    "record_count",
    "control_batch",
    "producer_fields",
    "epoch_missing",
    "epoch_order",
    "offset_gap",
    "short_batch",
)
"""What the fold itself can find wrong, or only explainable by cleaning (`offset_gap`, `short_batch`)."""
_FINDINGS_KEPT: Final = 50
_GAPS_KEPT: Final = 200

RUN: Final = 0
MARKER: Final = 1
ABORT: Final = 0
COMMIT: Final = 1

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_FORWARD_LIMIT: Final = 1 << 30
"""A sequence less than this far ahead (mod 2^31) is a gap; else the producer went back."""

EPOCH_RUN: Final = np.dtype(
    [("leader_epoch", "i4"), ("start_offset", "i8"), ("end_offset", "i8"), ("batches", "i8"), ("records", "i8")]
)
EVENT: Final = np.dtype(
    [
        ("producer_id", "i8"),
        ("kind", "i1"),
        ("transactional", "i1"),
        ("marker_type", "i2"),
        ("producer_epoch", "i4"),
        ("coordinator_epoch", "i4"),
        ("first_sequence", "i4"),
        ("last_sequence", "i4"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("first_timestamp", "i8"),
        ("last_timestamp", "i8"),
        ("last_offset_delta", "i4"),
        ("gaps", "i4"),
        ("missing_sequences", "i8"),
        ("batches", "i8"),
        ("records", "i8"),
    ]
)
GAP: Final = np.dtype(
    [
        ("producer_id", "i8"),
        ("producer_epoch", "i4"),
        ("expected_sequence", "i4"),
        ("found_sequence", "i4"),
        ("offset", "i8"),
        ("previous_offset", "i8"),
        ("previous_timestamp", "i8"),
        ("timestamp", "i8"),
    ]
)
BUCKET: Final = np.dtype(
    [("bucket", "i8"), ("digest", "u8"), ("batches", "i8"), ("first_offset", "i8"), ("end_offset", "i8")]
)
FINDING: Final = np.dtype(
    [
        ("kind", "i1"),
        ("position", "i8"),
        ("end_position", "i8"),
        ("start_offset", "i8"),
        ("end_offset", "i8"),
        ("records", "i8"),
        ("before", "i8"),
        ("found", "i8"),
    ]
)

# Scalars of the fold, by their index in one int64 vector: the kernel keeps its state between blocks there.
(
    _BATCHES,
    _RECORDS,
    _DATA_RECORDS,
    _FIRST_OFFSET,
    _LAST_OFFSET,
    _MAX_TIMESTAMP,
    _FIRST_EPOCH,
    _LAST_EPOCH,
    _END_POSITION,
    _CRC_ERRORS,
    _MAGIC_ERRORS,
    _CLEANED_BATCHES,
    _MISSING_OFFSETS,
    _LARGEST_PRODUCER_ID,
    _LAST_BATCH_CRC_BAD,
    _LAST_GOOD_OFFSET,
    _N_EPOCH_RUNS,
    _N_EVENTS,
    _N_GAPS,
    _N_BUCKETS,
    _N_FINDINGS,
    _N_PRODUCERS,
    _COUNTS,
) = range(23)
_STATE_SIZE: Final = _COUNTS + len(FINDING_KINDS)
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentSummary:
    """Facts of one stretch of a log. Offsets are -1 where there is no batch; `counts` follows `FINDING_KINDS`."""

    batch_count: int
    record_count: int
    data_record_count: int
    first_offset: int
    last_offset: int
    last_good_offset: int
    max_timestamp_ms: int
    first_leader_epoch: int
    last_leader_epoch: int
    crc_errors: int
    magic_errors: int
    cleaned_batches: int
    missing_offsets: int
    largest_producer_id: int
    last_batch_crc_bad: bool
    counts: tuple[int, ...]
    epoch_runs: NDArray[Any]
    events: NDArray[Any]
    gaps: NDArray[Any]
    buckets: NDArray[Any]
    findings: NDArray[Any]

    def count(self, kind: str) -> int:
        """Exact number of findings of a kind."""
        return self.counts[FINDING_KINDS.index(kind)]


@numba.njit(cache=True)
def _sequence_after(sequence: int, delta: int) -> int:
    return (sequence + delta) & _SEQUENCE_MASK


@numba.njit(cache=True)
def _mix(base: int, last: int, epoch: int, crc: int, size: int) -> Any:
    """One 64-bit value per batch (splitmix64's finaliser over its identity); buckets add them up, so order is free."""
    h = np.uint64(base) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(crc)
    h ^= (np.uint64(last) << np.uint64(17)) ^ (np.uint64(epoch) << np.uint64(48)) ^ (np.uint64(size) << np.uint64(32))
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@numba.njit(cache=True)
def _find(keys: NDArray[Any], producer_id: int) -> Any:
    """Slot of a producer in the open-addressing table, or of the free place for it."""
    mask = keys.shape[0] - 1
    slot = np.int64((np.uint64(producer_id) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] != _NONE and keys[slot] != producer_id:
        slot = (slot + 1) & mask
    return slot


@numba.njit(cache=True)
def _note(
    state: NDArray[Any], findings: NDArray[Any], kind: int, row: Any, start: int, end: int, before: int, found: int
) -> None:
    state[_COUNTS + kind] += 1
    if state[_COUNTS + kind] > _FINDINGS_KEPT:
        return
    entry = findings[state[_N_FINDINGS]]
    entry.kind = kind
    entry.position = row.position
    entry.end_position = row.position + row.size_bytes
    entry.start_offset = start
    entry.end_offset = end
    entry.records = end - start
    entry.before = before
    entry.found = found
    state[_N_FINDINGS] += 1


@numba.njit(cache=True)
def _fold(
    rows: NDArray[Any],
    state: NDArray[Any],
    epoch_runs: NDArray[Any],
    events: NDArray[Any],
    gaps: NDArray[Any],
    buckets: NDArray[Any],
    findings: NDArray[Any],
    keys: NDArray[Any],
    last_event: NDArray[Any],
    ignore_sequences: bool,
) -> None:
    for i in range(rows.shape[0]):
        row = rows[i]
        base = row.base_offset
        last = row.last_offset
        span = last - base + 1
        control = (row.attributes & CONTROL_BIT) != 0
        previous = state[_LAST_OFFSET]
        adjacent = state[_END_POSITION] == row.position
        if previous != _NONE:
            if base <= previous:
                _note(state, findings, 0, row, base, last + 1, previous, base)
            elif base > previous + 1 and adjacent:
                # Behind a damaged place the gap is the damage's, not a lost batch's.
                _note(state, findings, 6, row, previous + 1, base, previous, base)
                state[_MISSING_OFFSETS] += base - previous - 1
        else:
            state[_FIRST_OFFSET] = base
        state[_LAST_OFFSET] = last
        state[_END_POSITION] = row.position + row.size_bytes
        state[_BATCHES] += 1
        state[_RECORDS] += row.record_count
        if not control:
            state[_DATA_RECORDS] += row.record_count
        if row.max_timestamp > state[_MAX_TIMESTAMP]:
            state[_MAX_TIMESTAMP] = row.max_timestamp
        if row.crc_valid == 0:
            state[_CRC_ERRORS] += 1
            state[_LAST_BATCH_CRC_BAD] = 1
        else:
            state[_LAST_BATCH_CRC_BAD] = 0
            state[_LAST_GOOD_OFFSET] = last
        if row.magic != 2:
            state[_MAGIC_ERRORS] += 1
            continue
        if (row.attributes & DELETE_HORIZON_BIT) != 0 or row.record_count == 0:
            state[_CLEANED_BATCHES] += 1
        if row.record_count != span:
            if row.record_count < 0 or row.record_count > span:
                _note(state, findings, 1, row, base, last + 1, span, row.record_count)
            else:
                _note(state, findings, 7, row, base, last + 1, span, row.record_count)
        if row.control_records_ok == 0:
            _note(state, findings, 2, row, base, last + 1, row.control_type, row.record_count)

        epoch = row.partition_leader_epoch
        if epoch < 0:
            _note(state, findings, 4, row, base, last + 1, _NONE, epoch)
        else:
            if state[_FIRST_EPOCH] == _NONE:
                state[_FIRST_EPOCH] = epoch
            n_runs = state[_N_EPOCH_RUNS]
            if n_runs > 0 and epoch_runs[n_runs - 1].leader_epoch == epoch:
                run = epoch_runs[n_runs - 1]
            else:
                if n_runs > 0 and epoch < state[_LAST_EPOCH]:
                    _note(state, findings, 5, row, base, last + 1, state[_LAST_EPOCH], epoch)
                run = epoch_runs[n_runs]
                run.leader_epoch = epoch
                run.start_offset = base
                run.batches = 0
                run.records = 0
                state[_N_EPOCH_RUNS] = n_runs + 1
            run.end_offset = last + 1
            run.batches += 1
            run.records += row.record_count
            state[_LAST_EPOCH] = epoch

        bucket_id = base >> _BUCKET_SHIFT
        n_buckets = state[_N_BUCKETS]
        if n_buckets > 0 and buckets[n_buckets - 1].bucket == bucket_id:
            bucket = buckets[n_buckets - 1]
        else:
            bucket = buckets[n_buckets]
            bucket.bucket = bucket_id
            bucket.digest = 0
            bucket.batches = 0
            bucket.first_offset = base
            state[_N_BUCKETS] = n_buckets + 1
        bucket.digest += _mix(base, last, epoch, row.crc, row.size_bytes)
        bucket.batches += 1
        bucket.end_offset = last + 1

        producer_id = row.producer_id
        transactional = (row.attributes & TRANSACTIONAL_BIT) != 0
        sequenced = producer_id >= 0 and not control and not ignore_sequences
        if (
            (producer_id >= 0) != (row.producer_epoch >= 0)
            or (transactional and producer_id < 0)
            or (sequenced and row.base_sequence < 0)
        ):
            _note(state, findings, 3, row, base, last + 1, producer_id, row.base_sequence)
        if producer_id < 0:
            continue
        if producer_id > state[_LARGEST_PRODUCER_ID]:
            state[_LARGEST_PRODUCER_ID] = producer_id
        if control and row.control_type != ABORT and row.control_type != COMMIT:
            continue
        slot = _find(keys, producer_id)
        if keys[slot] == _NONE:
            keys[slot] = producer_id
            last_event[slot] = _NONE
            state[_N_PRODUCERS] += 1
        at = last_event[slot]
        if control:
            event = events[state[_N_EVENTS]]
            last_event[slot] = state[_N_EVENTS]
            state[_N_EVENTS] += 1
            event.kind = MARKER
            event.transactional = 1
            event.marker_type = row.control_type
            event.producer_id = producer_id
            event.producer_epoch = row.producer_epoch
            event.coordinator_epoch = row.coordinator_epoch
            event.first_sequence = _NONE
            event.last_sequence = _NONE
            event.first_offset = base
            event.last_offset = last
            event.first_timestamp = row.max_timestamp
            event.last_timestamp = row.max_timestamp
            event.last_offset_delta = last - base
            event.gaps = 0
            event.missing_sequences = 0
            event.batches = 1
            event.records = row.record_count
            continue
        last_sequence = _sequence_after(row.base_sequence, last - base) if row.base_sequence >= 0 else row.base_sequence
        if at != _NONE:
            event = events[at]
            if (
                event.kind == RUN
                and event.producer_epoch == row.producer_epoch
                and (event.transactional != 0) == transactional
            ):
                ahead = (row.base_sequence - _sequence_after(event.last_sequence, 1)) & _SEQUENCE_MASK
                if ignore_sequences or ahead < _FORWARD_LIMIT:
                    if ahead != 0 and not ignore_sequences:
                        event.gaps += 1
                        event.missing_sequences += ahead
                        if state[_N_GAPS] < _GAPS_KEPT:
                            gap = gaps[state[_N_GAPS]]
                            gap.producer_id = producer_id
                            gap.producer_epoch = row.producer_epoch
                            gap.expected_sequence = _sequence_after(event.last_sequence, 1)
                            gap.found_sequence = row.base_sequence
                            gap.offset = base
                            gap.previous_offset = event.last_offset
                            gap.previous_timestamp = event.last_timestamp
                            gap.timestamp = row.max_timestamp
                            state[_N_GAPS] += 1
                    event.last_sequence = last_sequence
                    event.last_offset = last
                    event.last_timestamp = row.max_timestamp
                    event.last_offset_delta = last - base
                    event.batches += 1
                    event.records += row.record_count
                    continue
        event = events[state[_N_EVENTS]]
        last_event[slot] = state[_N_EVENTS]
        state[_N_EVENTS] += 1
        event.kind = RUN
        event.transactional = 1 if transactional else 0
        event.marker_type = _NONE
        event.producer_id = producer_id
        event.producer_epoch = row.producer_epoch
        event.coordinator_epoch = _NONE
        event.first_sequence = row.base_sequence
        event.last_sequence = last_sequence
        event.first_offset = base
        event.last_offset = last
        event.first_timestamp = row.max_timestamp
        event.last_timestamp = row.max_timestamp
        event.last_offset_delta = last - base
        event.gaps = 0
        event.missing_sequences = 0
        event.batches = 1
        event.records = row.record_count


def _grown(array: NDArray[Any], needed: int) -> NDArray[Any]:
    if array.shape[0] >= needed:
        return array
    larger = np.zeros(max(needed, array.shape[0] * 2), dtype=array.dtype)
    larger[: array.shape[0]] = array
    return larger


class SummaryFold:
    """The fold over one stretch: feed it blocks of headers, then take the summary.

    `ignore_sequences` is for topics whose batches the group coordinator writes (`__consumer_offsets`): their sequences
    are always 0 or -1 and say nothing.
    """

    def __init__(self, *, ignore_sequences: bool = False) -> None:
        self._ignore_sequences = ignore_sequences
        self._state = np.zeros(_STATE_SIZE, dtype=np.int64)
        for at in (
            _FIRST_OFFSET,
            _LAST_OFFSET,
            _MAX_TIMESTAMP,
            _FIRST_EPOCH,
            _LAST_EPOCH,
            _LARGEST_PRODUCER_ID,
            _END_POSITION,
            _LAST_GOOD_OFFSET,
        ):
            self._state[at] = _NONE
        self._epoch_runs = np.zeros(16, dtype=EPOCH_RUN)
        self._events = np.zeros(64, dtype=EVENT)
        self._gaps = np.zeros(_GAPS_KEPT, dtype=GAP)
        self._buckets = np.zeros(64, dtype=BUCKET)
        self._findings = np.zeros(_FINDINGS_KEPT * len(FINDING_KINDS), dtype=FINDING)
        self._keys = np.full(64, _NONE, dtype=np.int64)
        self._last_event = np.full(64, _NONE, dtype=np.int64)

    def add(self, headers: NDArray[Any]) -> None:
        """Folds a block of batch headers (dtype `BATCH_HEADER`), in file order."""
        assert headers.dtype == BATCH_HEADER
        n = headers.shape[0]
        state = self._state
        self._epoch_runs = _grown(self._epoch_runs, int(state[_N_EPOCH_RUNS]) + n)
        self._events = _grown(self._events, int(state[_N_EVENTS]) + n)
        self._buckets = _grown(self._buckets, int(state[_N_BUCKETS]) + n)
        while (int(state[_N_PRODUCERS]) + n) * 2 > self._keys.shape[0]:
            self._rehash(self._keys.shape[0] * 2)
        _fold(
            headers,
            state,
            self._epoch_runs,
            self._events,
            self._gaps,
            self._buckets,
            self._findings,
            self._keys,
            self._last_event,
            self._ignore_sequences,
        )

    def _rehash(self, size: int) -> None:
        keys, last_event = self._keys, self._last_event
        self._keys = np.full(size, _NONE, dtype=np.int64)
        self._last_event = np.full(size, _NONE, dtype=np.int64)
        for at in np.nonzero(keys != _NONE)[0]:
            slot = _find(self._keys, int(keys[at]))
            self._keys[slot] = keys[at]
            self._last_event[slot] = last_event[at]

    def summary(self) -> SegmentSummary:
        """What has been folded so far."""
        s = [int(v) for v in self._state]
        return SegmentSummary(
            batch_count=s[_BATCHES],
            record_count=s[_RECORDS],
            data_record_count=s[_DATA_RECORDS],
            first_offset=s[_FIRST_OFFSET],
            last_offset=s[_LAST_OFFSET],
            last_good_offset=s[_LAST_GOOD_OFFSET],
            max_timestamp_ms=s[_MAX_TIMESTAMP],
            first_leader_epoch=s[_FIRST_EPOCH],
            last_leader_epoch=s[_LAST_EPOCH],
            crc_errors=s[_CRC_ERRORS],
            magic_errors=s[_MAGIC_ERRORS],
            cleaned_batches=s[_CLEANED_BATCHES],
            missing_offsets=s[_MISSING_OFFSETS],
            largest_producer_id=s[_LARGEST_PRODUCER_ID],
            last_batch_crc_bad=bool(s[_LAST_BATCH_CRC_BAD]),
            counts=tuple(s[_COUNTS:]),
            epoch_runs=self._epoch_runs[: s[_N_EPOCH_RUNS]].copy(),
            events=self._events[: s[_N_EVENTS]].copy(),
            gaps=self._gaps[: s[_N_GAPS]].copy(),
            buckets=_by_bucket(self._buckets[: s[_N_BUCKETS]]),
            findings=self._findings[: s[_N_FINDINGS]].copy(),
        )


def summarise(blocks: Iterable[NDArray[Any]], *, ignore_sequences: bool = False) -> SegmentSummary:
    """Folds blocks of batch headers into one summary."""
    fold = SummaryFold(ignore_sequences=ignore_sequences)
    for headers in blocks:
        fold.add(headers)
    return fold.summary()


def empty_summary() -> SegmentSummary:
    """The neutral element of `merge`."""
    return SummaryFold().summary()


def merge(left: SegmentSummary, right: SegmentSummary, *, ignore_sequences: bool = False) -> SegmentSummary:
    """The summary of two adjacent stretches, `left` before `right`. Associative; `empty_summary()` is neutral."""
    if left.batch_count == 0:
        return right
    if right.batch_count == 0:
        return left
    boundary, missing = _boundary_findings(left, right)
    counts = [a + b for a, b in zip(left.counts, right.counts, strict=True)]
    for finding in boundary:
        counts[int(finding["kind"])] += 1
    events, boundary_gaps = _joined_events(left.events, right.events, ignore_sequences=ignore_sequences)
    return SegmentSummary(
        batch_count=left.batch_count + right.batch_count,
        record_count=left.record_count + right.record_count,
        data_record_count=left.data_record_count + right.data_record_count,
        first_offset=left.first_offset,
        last_offset=right.last_offset,
        last_good_offset=right.last_good_offset if right.last_good_offset != _NONE else left.last_good_offset,
        max_timestamp_ms=max(left.max_timestamp_ms, right.max_timestamp_ms),
        first_leader_epoch=left.first_leader_epoch if left.first_leader_epoch != _NONE else right.first_leader_epoch,
        last_leader_epoch=right.last_leader_epoch if right.last_leader_epoch != _NONE else left.last_leader_epoch,
        crc_errors=left.crc_errors + right.crc_errors,
        magic_errors=left.magic_errors + right.magic_errors,
        cleaned_batches=left.cleaned_batches + right.cleaned_batches,
        missing_offsets=left.missing_offsets + right.missing_offsets + missing,
        largest_producer_id=max(left.largest_producer_id, right.largest_producer_id),
        last_batch_crc_bad=right.last_batch_crc_bad,
        counts=tuple(counts),
        epoch_runs=_joined_epoch_runs(left.epoch_runs, right.epoch_runs),
        events=events,
        gaps=_first(np.concatenate([left.gaps, right.gaps, boundary_gaps]), "offset", _GAPS_KEPT),
        buckets=_by_bucket(np.concatenate([left.buckets, right.buckets])),
        findings=_kept_findings(np.concatenate([left.findings, boundary, right.findings])),
    )


def _boundary_findings(left: SegmentSummary, right: SegmentSummary) -> tuple[NDArray[Any], int]:
    """What the last batch of one stretch and the first of the next say together."""
    found: list[tuple[int, int, int, int, int, int, int, int]] = []
    missing = 0
    first, last = right.first_offset, left.last_offset
    if first <= last:
        found.append((FINDING_KINDS.index("offset_order"), 0, 0, first, last + 1, last + 1 - first, last, first))
    elif first > last + 1:
        missing = first - last - 1
        found.append((FINDING_KINDS.index("offset_gap"), 0, 0, last + 1, first, missing, last, first))
    if _NONE < right.first_leader_epoch < left.last_leader_epoch:
        end = int(right.epoch_runs[0]["end_offset"])
        epochs = (left.last_leader_epoch, right.first_leader_epoch)
        found.append((FINDING_KINDS.index("epoch_order"), 0, 0, first, end, end - first, *epochs))
    return np.array(found, dtype=FINDING), missing


def _joined_epoch_runs(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    if len(left) == 0 or len(right) == 0 or left[-1]["leader_epoch"] != right[0]["leader_epoch"]:
        return np.concatenate([left, right])
    joined = np.concatenate([left, right[1:]])
    at = len(left) - 1
    joined[at]["end_offset"] = right[0]["end_offset"]
    joined[at]["batches"] += right[0]["batches"]
    joined[at]["records"] += right[0]["records"]
    return joined


def _joined_events(
    left: NDArray[Any], right: NDArray[Any], *, ignore_sequences: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Concatenates events; a producer's last run on the left takes in its first on the right where they are one."""
    if len(left) == 0 or len(right) == 0:
        return np.concatenate([left, right]), np.zeros(0, dtype=GAP)
    events = np.concatenate([left, right])
    reversed_ids, reversed_at = np.unique(left["producer_id"][::-1], return_index=True)
    last_on_left = dict(zip(reversed_ids.tolist(), (len(left) - 1 - reversed_at).tolist(), strict=True))
    first_ids, first_at = np.unique(right["producer_id"], return_index=True)
    keep = np.ones(len(events), dtype=bool)
    gaps = []
    for producer_id, at in zip(first_ids.tolist(), first_at.tolist(), strict=True):
        into = last_on_left.get(producer_id)
        if into is None:
            continue
        before, after = events[into], events[len(left) + at]
        if (
            before["kind"] != RUN
            or after["kind"] != RUN
            or before["producer_epoch"] != after["producer_epoch"]
            or before["transactional"] != after["transactional"]
        ):
            continue
        expected = (int(before["last_sequence"]) + 1) & _SEQUENCE_MASK
        ahead = (int(after["first_sequence"]) - expected) & _SEQUENCE_MASK
        if not ignore_sequences:
            if ahead >= _FORWARD_LIMIT:
                continue
            if ahead:
                before["gaps"] += 1
                before["missing_sequences"] += ahead
                gaps.append(
                    (
                        producer_id,
                        before["producer_epoch"],
                        expected,
                        after["first_sequence"],
                        after["first_offset"],
                        before["last_offset"],
                        before["last_timestamp"],
                        after["first_timestamp"],
                    )
                )
        for name in ("last_sequence", "last_offset", "last_timestamp", "last_offset_delta"):
            before[name] = after[name]
        for name in ("gaps", "missing_sequences", "batches", "records"):
            before[name] += after[name]
        keep[len(left) + at] = False
    return events[keep], np.array(gaps, dtype=GAP)


def _first(entries: NDArray[Any], by: str, limit: int) -> NDArray[Any]:
    return entries[np.argsort(entries[by], kind="stable")][:limit]


def _kept_findings(findings: NDArray[Any]) -> NDArray[Any]:
    """The first of each kind, in log order, so that a merge keeps what one pass would have kept."""
    keep = np.zeros(len(findings), dtype=bool)
    for kind in range(len(FINDING_KINDS)):
        keep[np.nonzero(findings["kind"] == kind)[0][:_FINDINGS_KEPT]] = True
    return findings[keep]


def _by_bucket(buckets: NDArray[Any]) -> NDArray[Any]:
    """One row per bucket, in order: a bucket's batches may lie in two segments, or come back after a disorder."""
    if len(buckets) < 2 or bool(np.all(buckets["bucket"][1:] > buckets["bucket"][:-1])):
        return buckets.copy()
    ids, inverse = np.unique(buckets["bucket"], return_inverse=True)
    joined = np.zeros(len(ids), dtype=BUCKET)
    joined["bucket"] = ids
    joined["first_offset"] = np.iinfo(np.int64).max
    np.add.at(joined["digest"], inverse, buckets["digest"])
    np.add.at(joined["batches"], inverse, buckets["batches"])
    np.minimum.at(joined["first_offset"], inverse, buckets["first_offset"])
    np.maximum.at(joined["end_offset"], inverse, buckets["end_offset"])
    return joined
