"""The fold: blocks of batch headers to a segment summary, compiled, one pass.

In: blocks of `kafka_log.scan.BATCH_HEADER` rows in file order. Out: a `SegmentSummary`. The rule that must hold: no
Python runs per batch; what is kept between blocks is one vector of scalars, growing arrays, and a table from producer
id to its last event.
"""

from collections.abc import Iterable
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from kafka_log.scan import BATCH_HEADER
from spark_jobs.facts.batch_digests import look as _look
from spark_jobs.facts.batch_digests import mix as _mix
from spark_jobs.facts.batch_digests import sequence_after as _sequence_after
from spark_jobs.facts.segment_summary import (
    ABORT,
    BUCKET,
    BUCKET_SHIFT,
    COMMIT,
    EPOCH_RUN,
    EVENT,
    FINDING,
    FINDING_KINDS,
    FINDINGS_KEPT,
    FORWARD_LIMIT,
    GAP,
    GAPS_KEPT,
    MARKER,
    NEWEST_FORMAT,
    NONE,
    ROTTEN,
    RUN,
    SEQUENCE_MASK,
    UNREADABLE,
    SegmentSummary,
    by_bucket,
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
    _FIRST_POSITION,
    _FIRST_BATCH_END_POSITION,
    _FIRST_BATCH_LAST_OFFSET,
    _OLDER_BATCHES,
    _FIRST_FORMAT,
    _FIRST_FORMAT_OFFSET,
    _LAST_FORMAT,
    _FORMAT_FALLS,
    _FORMAT_FALL_OFFSET,
    _REWRITTEN_BATCHES,
    _EPOCHLESS_FIRST,
    _COUNTS,
) = range(34)
_STATE_SIZE: Final = _COUNTS + len(FINDING_KINDS)


@numba.njit(cache=True)
def _seen(event: Any, look: Any) -> None:
    """One more batch of a run."""
    event.look_4 = event.look_3
    event.look_3 = event.look_2
    event.look_2 = event.look_1
    event.look_1 = event.look_0
    event.look_0 = look


@numba.njit(cache=True)
def _mark(event: Any, row: Any, marker_type: int, coordinator_epoch: int) -> None:
    """Writes the event of an end marker."""
    event.kind = MARKER
    event.transactional = 1
    event.marker_type = marker_type
    event.producer_id = row.producer_id
    event.producer_epoch = row.producer_epoch
    event.coordinator_epoch = coordinator_epoch
    event.first_sequence = NONE
    event.last_sequence = NONE
    event.first_batch_last_sequence = NONE
    event.first_offset = row.base_offset
    event.last_offset = row.last_offset
    event.first_timestamp = row.max_timestamp
    event.last_timestamp = row.max_timestamp
    event.last_offset_delta = row.last_offset - row.base_offset
    event.gaps = 0
    event.missing_sequences = 0
    event.batches = 1
    event.records = row.record_count


@numba.njit(cache=True)
def _find(keys: NDArray[Any], producer_id: int) -> Any:
    """Slot of a producer in the open-addressing table, or of the free place for it."""
    mask = keys.shape[0] - 1
    slot = np.int64((np.uint64(producer_id) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] != NONE and keys[slot] != producer_id:
        slot = (slot + 1) & mask
    return slot


@numba.njit(cache=True)
def _note(
    state: NDArray[Any], findings: NDArray[Any], kind: int, row: Any, start: int, end: int, before: int, found: int
) -> None:
    state[_COUNTS + kind] += 1
    if state[_COUNTS + kind] > FINDINGS_KEPT:
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
        rotten = row.crc_valid == 0
        if previous != NONE:
            if state[_LAST_BATCH_CRC_BAD] != 0:
                pass  # Its last offset is under the checksum: where it ends is not known.
            elif base <= previous:
                _note(state, findings, 0, row, base, last + 1, previous, base)
            elif base > previous + 1 and adjacent:
                # Behind a damaged place the gap is the damage's, not a lost batch's.
                _note(state, findings, 6, row, previous + 1, base, previous, base)
                state[_MISSING_OFFSETS] += base - previous - 1
        else:
            state[_FIRST_OFFSET] = base
            state[_FIRST_POSITION] = row.position
            state[_FIRST_BATCH_END_POSITION] = row.position + row.size_bytes
            state[_FIRST_BATCH_LAST_OFFSET] = last
        state[_LAST_OFFSET] = last
        state[_END_POSITION] = row.position + row.size_bytes
        state[_BATCHES] += 1
        # A header may lie: there are no more records in a batch than it has offsets.
        records = max(min(row.record_count, span), 0)
        state[_RECORDS] += records
        if not control:
            state[_DATA_RECORDS] += records
        if row.max_timestamp > state[_MAX_TIMESTAMP]:
            state[_MAX_TIMESTAMP] = row.max_timestamp
        if row.crc_valid == 0:
            state[_CRC_ERRORS] += 1
            state[_LAST_BATCH_CRC_BAD] = 1
        else:
            state[_LAST_BATCH_CRC_BAD] = 0
            state[_LAST_GOOD_OFFSET] = last
        epoch = row.partition_leader_epoch
        older = 0 <= row.magic < NEWEST_FORMAT and epoch < 0  # as `kafka_log.old_formats.of_old_format` tells
        if older:
            state[_OLDER_BATCHES] += 1
        elif row.magic != NEWEST_FORMAT:
            state[_MAGIC_ERRORS] += 1
            # Above a right checksum (which does not cover it) a newer magic is read on, as Kafka reads it.
            if row.magic < NEWEST_FORMAT or row.crc_valid == 0:
                continue
        if not rotten and (older or epoch >= 0):
            written_in = row.magic if older else NEWEST_FORMAT
            if state[_FIRST_FORMAT] == NONE:
                state[_FIRST_FORMAT] = written_in
                state[_FIRST_FORMAT_OFFSET] = base
            elif written_in < state[_LAST_FORMAT]:
                if state[_FORMAT_FALLS] == 0:
                    state[_FORMAT_FALL_OFFSET] = base
                state[_FORMAT_FALLS] += 1
            state[_LAST_FORMAT] = written_in
        if not rotten and ((row.attributes & DELETE_HORIZON_BIT) != 0 or row.record_count == 0):
            state[_CLEANED_BATCHES] += 1
        # Of an entry of an old format nothing tells but its records, which cannot be read where the number is negative.
        if row.record_count != span and not rotten and not (older and row.record_count < 0):
            if row.record_count < 0 or row.record_count > span:
                _note(state, findings, 1, row, base, last + 1, span, row.record_count)
            else:
                _note(state, findings, 7, row, base, last + 1, span, row.record_count)
        if row.control_records_ok == 0 and not rotten:
            _note(state, findings, 2, row, base, last + 1, row.control_type, row.record_count)

        if older:
            pass  # Their formats have none.
        elif epoch < 0:
            if state[_LAST_FORMAT] == NONE:
                state[_EPOCHLESS_FIRST] += 1
            elif state[_LAST_FORMAT] < NEWEST_FORMAT:
                state[_REWRITTEN_BATCHES] += 1
            _note(state, findings, 4, row, base, last + 1, NONE, epoch)
        else:
            if state[_FIRST_EPOCH] == NONE:
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
                run.first_batch_position = row.position
                run.first_batch_end_position = row.position + row.size_bytes
                run.first_batch_end_offset = last + 1
                state[_N_EPOCH_RUNS] = n_runs + 1
            run.end_offset = last + 1
            run.batches += 1
            run.records += records
            state[_LAST_EPOCH] = epoch

        bucket_id = base >> BUCKET_SHIFT
        n_buckets = state[_N_BUCKETS]
        if n_buckets > 0 and buckets[n_buckets - 1].bucket == bucket_id:
            bucket = buckets[n_buckets - 1]
        else:
            bucket = buckets[n_buckets]
            bucket.bucket = bucket_id
            bucket.digest = 0
            bucket.batches = 0
            bucket.first_offset = base
            bucket.end_offset = last + 1
            state[_N_BUCKETS] = n_buckets + 1
        bucket.digest += _mix(base, last, epoch, row.crc, row.size_bytes)
        bucket.batches += 1
        bucket.first_offset = min(bucket.first_offset, base)
        bucket.end_offset = max(bucket.end_offset, last + 1)

        producer_id = row.producer_id
        transactional = (row.attributes & TRANSACTIONAL_BIT) != 0
        sequenced = producer_id >= 0 and not control and not ignore_sequences
        if not rotten and (
            (producer_id >= 0) != (row.producer_epoch >= 0)
            or (transactional and producer_id < 0)
            or (sequenced and row.base_sequence < 0)
        ):
            _note(state, findings, 3, row, base, last + 1, producer_id, row.base_sequence)
        marker_type = row.control_type
        if rotten:
            # The bit that makes it a marker may be what rotted.
            lone = row.base_sequence == NONE and last == base and not ignore_sequences
            if not control and not (producer_id >= 0 and lone):
                continue
            control = True
            marker_type = ROTTEN
        elif producer_id < 0:
            continue
        elif control:
            if row.control_records_ok == 0 and marker_type != ABORT and marker_type != COMMIT:
                marker_type = UNREADABLE
            elif marker_type != ABORT and marker_type != COMMIT:
                continue  # emptied by the cleaner, or of another kind
        if not rotten and producer_id > state[_LARGEST_PRODUCER_ID]:
            state[_LARGEST_PRODUCER_ID] = producer_id
        if producer_id < 0:
            event = events[state[_N_EVENTS]]
            state[_N_EVENTS] += 1
            _mark(event, row, ROTTEN, NONE)
            continue
        slot = _find(keys, producer_id)
        if keys[slot] == NONE:
            keys[slot] = producer_id
            last_event[slot] = NONE
            state[_N_PRODUCERS] += 1
        at = last_event[slot]
        if control:
            event = events[state[_N_EVENTS]]
            last_event[slot] = state[_N_EVENTS]
            state[_N_EVENTS] += 1
            _mark(event, row, marker_type, NONE if rotten else row.coordinator_epoch)
            continue
        last_sequence = _sequence_after(row.base_sequence, last - base) if row.base_sequence >= 0 else row.base_sequence
        look = _look(row.base_timestamp, row.size_bytes, row.record_count, last - base)
        if at != NONE:
            event = events[at]
            if (
                event.kind == RUN
                and event.producer_epoch == row.producer_epoch
                and (event.transactional != 0) == transactional
            ):
                ahead = (row.base_sequence - _sequence_after(event.last_sequence, 1)) & SEQUENCE_MASK
                if ignore_sequences or ahead < FORWARD_LIMIT:
                    if ahead != 0 and not ignore_sequences:
                        event.gaps += 1
                        event.missing_sequences += ahead
                        if state[_N_GAPS] < GAPS_KEPT:
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
                    event.records += records
                    _seen(event, look)
                    continue
        event = events[state[_N_EVENTS]]
        last_event[slot] = state[_N_EVENTS]
        state[_N_EVENTS] += 1
        event.kind = RUN
        event.transactional = 1 if transactional else 0
        event.marker_type = NONE
        event.producer_id = producer_id
        event.producer_epoch = row.producer_epoch
        event.coordinator_epoch = NONE
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
        event.records = records
        event.first_batch_last_sequence = last_sequence
        event.first_look = look
        event.look_0 = look


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
            _FIRST_POSITION,
            _FIRST_BATCH_END_POSITION,
            _FIRST_BATCH_LAST_OFFSET,
            _FIRST_FORMAT,
            _FIRST_FORMAT_OFFSET,
            _LAST_FORMAT,
            _FORMAT_FALL_OFFSET,
        ):
            self._state[at] = NONE
        self._epoch_runs = np.zeros(16, dtype=EPOCH_RUN)
        self._events = np.zeros(64, dtype=EVENT)
        self._gaps = np.zeros(GAPS_KEPT, dtype=GAP)
        self._buckets = np.zeros(64, dtype=BUCKET)
        self._findings = np.zeros(FINDINGS_KEPT * len(FINDING_KINDS), dtype=FINDING)
        self._keys = np.full(64, NONE, dtype=np.int64)
        self._last_event = np.full(64, NONE, dtype=np.int64)

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
        self._keys = np.full(size, NONE, dtype=np.int64)
        self._last_event = np.full(size, NONE, dtype=np.int64)
        for at in np.nonzero(keys != NONE)[0]:
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
            first_position=s[_FIRST_POSITION],
            first_batch_end_position=s[_FIRST_BATCH_END_POSITION],
            first_batch_last_offset=s[_FIRST_BATCH_LAST_OFFSET],
            end_position=s[_END_POSITION],
            last_good_offset=s[_LAST_GOOD_OFFSET],
            max_timestamp_ms=s[_MAX_TIMESTAMP],
            first_leader_epoch=s[_FIRST_EPOCH],
            last_leader_epoch=s[_LAST_EPOCH],
            crc_errors=s[_CRC_ERRORS],
            magic_errors=s[_MAGIC_ERRORS],
            older_batches=s[_OLDER_BATCHES],
            first_format=s[_FIRST_FORMAT],
            first_format_offset=s[_FIRST_FORMAT_OFFSET],
            last_format=s[_LAST_FORMAT],
            format_falls=s[_FORMAT_FALLS],
            format_fall_offset=s[_FORMAT_FALL_OFFSET],
            rewritten_batches=s[_REWRITTEN_BATCHES],
            epochless_first=s[_EPOCHLESS_FIRST],
            cleaned_batches=s[_CLEANED_BATCHES],
            missing_offsets=s[_MISSING_OFFSETS],
            largest_producer_id=s[_LARGEST_PRODUCER_ID],
            last_batch_crc_bad=bool(s[_LAST_BATCH_CRC_BAD]),
            counts=tuple(s[_COUNTS:]),
            epoch_runs=self._epoch_runs[: s[_N_EPOCH_RUNS]].copy(),
            events=self._events[: s[_N_EVENTS]].copy(),
            gaps=self._gaps[: s[_N_GAPS]].copy(),
            buckets=by_bucket(self._buckets[: s[_N_BUCKETS]]),
            findings=self._findings[: s[_N_FINDINGS]].copy(),
        )


def summarise(blocks: Iterable[NDArray[Any]], *, ignore_sequences: bool = False) -> SegmentSummary:
    """Folds blocks of batch headers into one summary."""
    fold = SummaryFold(ignore_sequences=ignore_sequences)
    for headers in blocks:
        fold.add(headers)
    return fold.summary()
