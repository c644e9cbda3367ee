"""The fold's compiled part: rows of batch headers into a vector of scalars and growing arrays.

In: `kafka_log.scan.BATCH_HEADER` rows in file order, and where the fold stands. Out: where it stands then. No Python
runs per batch. A header may lie, and one whose checksum is wrong tells little. Each concern has a function.
"""

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.bounds import LARGEST
from tidegauge.facts.segments.batch_digests import look as _look
from tidegauge.facts.segments.batch_digests import mix as _mix
from tidegauge.facts.segments.batch_digests import sequence_after as _sequence_after
from tidegauge.facts.segments.summary import (
    ABORT,
    BUCKET_SHIFT,
    COMMIT,
    CONTROL_BATCH,
    EPOCH_MISSING,
    EPOCH_ORDER,
    FINDING_KINDS,
    FINDINGS_KEPT,
    FORWARD_LIMIT,
    GAPS_KEPT,
    MARKER,
    NEWEST_FORMAT,
    NONE,
    OFFSET_GAP,
    OFFSET_ORDER,
    PRODUCER_FIELDS,
    RECORD_COUNT,
    ROTTEN,
    RUN,
    SEQUENCE_MASK,
    SHORT_BATCH,
    UNREADABLE,
)
from tidegauge.kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT

# Scalars of the fold, by their index in one int64 vector: the kernel keeps its state between blocks there.
(
    BATCHES,
    RECORDS,
    DATA_RECORDS,
    FIRST_OFFSET,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    FIRST_EPOCH,
    LAST_EPOCH,
    END_POSITION,
    CRC_ERRORS,
    MAGIC_ERRORS,
    CLEANED_BATCHES,
    MISSING_OFFSETS,
    LARGEST_PRODUCER_ID,
    LAST_BATCH_CRC_BAD,
    LAST_GOOD_OFFSET,
    N_EPOCH_RUNS,
    N_EVENTS,
    N_GAPS,
    N_BUCKETS,
    N_FINDINGS,
    N_PRODUCERS,
    FIRST_POSITION,
    FIRST_BATCH_END_POSITION,
    FIRST_BATCH_LAST_OFFSET,
    OLDER_BATCHES,
    FIRST_FORMAT,
    FIRST_FORMAT_OFFSET,
    LAST_FORMAT,
    FORMAT_FALLS,
    FORMAT_FALL_OFFSET,
    REWRITTEN_BATCHES,
    EPOCHLESS_FIRST,
    COUNTS,
) = range(34)
STATE_SIZE: Final = COUNTS + len(FINDING_KINDS)

_NO_EVENT: Final = -100
"""No type of a marker."""


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
def find(keys: NDArray[Any], producer_id: int) -> Any:
    """Slot of a producer in the open-addressing table, or of the free place for it."""
    mask = keys.shape[0] - 1
    slot = np.int64((np.uint64(producer_id) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] != NONE and keys[slot] != producer_id:
        slot = (slot + 1) & mask
    return slot


@numba.njit(cache=True)
def _distance(start: int, end: int) -> Any:
    """`bounds.within(end - start)`. A signed number that leaves 64 bits may be anything, as the compiler sees it; one
    without a sign comes round.
    """
    if end < start:
        return end - start  # of one batch, whose delta lies: 32 bits hold it
    between = np.uint64(end) - np.uint64(start)
    return np.int64(between) if between <= np.uint64(LARGEST) else np.int64(LARGEST)


@numba.njit(cache=True)
def _note(
    state: NDArray[Any], findings: NDArray[Any], kind: int, row: Any, start: int, end: int, before: int, found: int
) -> None:
    state[COUNTS + kind] += 1
    if state[COUNTS + kind] > FINDINGS_KEPT:
        return
    entry = findings[state[N_FINDINGS]]
    entry.kind = kind
    entry.position = row.position
    entry.end_position = row.position + row.size_bytes
    entry.start_offset = start
    entry.end_offset = end
    entry.records = _distance(start, end)
    entry.before = before
    entry.found = found
    state[N_FINDINGS] += 1


@numba.njit(cache=True)
def _is_older(magic: int, leader_epoch: int) -> Any:
    """An entry of format 0 or 1, as `kafka_log.old_formats.of_old_format` tells."""
    return 0 <= magic < NEWEST_FORMAT and leader_epoch < 0


@numba.njit(cache=True)
def _is_read(magic: int, leader_epoch: int, crc_valid: int) -> Any:
    """Whether its header tells more than its place.

    Above a right checksum (which does not cover it) a newer magic is read on, as Kafka reads it.
    """
    return magic == NEWEST_FORMAT or _is_older(magic, leader_epoch) or (magic > NEWEST_FORMAT and crc_valid != 0)


@numba.njit(cache=True)
def _records_of(record_count: int, span: int) -> Any:
    """A header may lie: there are no more records in a batch than it has offsets."""
    return max(min(record_count, span), 0)


@numba.njit(cache=True)
def _places(rows: NDArray[Any], state: NDArray[Any], findings: NDArray[Any]) -> None:
    """Whether offsets follow each other; where the stretch begins and ends; what is in it, and what is damaged."""
    for i in range(rows.shape[0]):
        row = rows[i]
        base = row.base_offset
        last = row.last_offset
        previous = state[LAST_OFFSET]
        if previous == NONE:
            state[FIRST_OFFSET] = base
            state[FIRST_POSITION] = row.position
            state[FIRST_BATCH_END_POSITION] = row.position + row.size_bytes
            state[FIRST_BATCH_LAST_OFFSET] = last
        elif state[LAST_BATCH_CRC_BAD] != 0:
            pass  # Its last offset is under the checksum: where it ends is not known.
        elif base <= previous:
            _note(state, findings, OFFSET_ORDER, row, base, last + 1, previous, base)
        elif base > previous + 1 and state[END_POSITION] == row.position:
            # Behind a damaged place the gap is the damage's, not a lost batch's.
            _note(state, findings, OFFSET_GAP, row, previous + 1, base, previous, base)
            state[MISSING_OFFSETS] += min(_distance(previous + 1, base), LARGEST - state[MISSING_OFFSETS])
        state[LAST_OFFSET] = last
        state[END_POSITION] = row.position + row.size_bytes
        state[BATCHES] += 1
        records = _records_of(row.record_count, last - base + 1)
        state[RECORDS] += records
        if (row.attributes & CONTROL_BIT) == 0:
            state[DATA_RECORDS] += records
        if row.max_timestamp > state[MAX_TIMESTAMP]:
            state[MAX_TIMESTAMP] = row.max_timestamp
        if row.crc_valid == 0:
            state[CRC_ERRORS] += 1
            state[LAST_BATCH_CRC_BAD] = 1
        else:
            state[LAST_BATCH_CRC_BAD] = 0
            state[LAST_GOOD_OFFSET] = last
        if _is_older(row.magic, row.partition_leader_epoch):
            state[OLDER_BATCHES] += 1
        elif row.magic != NEWEST_FORMAT:
            state[MAGIC_ERRORS] += 1


@numba.njit(cache=True)
def _contents(rows: NDArray[Any], state: NDArray[Any], findings: NDArray[Any]) -> None:
    """Whether each batch has a record for each offset, and a control batch what one has."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if row.crc_valid == 0 or not _is_read(row.magic, row.partition_leader_epoch, row.crc_valid):
            continue
        base = row.base_offset
        last = row.last_offset
        span = last - base + 1
        if (row.attributes & DELETE_HORIZON_BIT) != 0 or row.record_count == 0:
            state[CLEANED_BATCHES] += 1
        # Of an entry of an old format nothing tells but its records, which cannot be read where the number is negative.
        unread = row.record_count < 0 and _is_older(row.magic, row.partition_leader_epoch)
        if row.record_count != span and not unread:
            kind = SHORT_BATCH if 0 <= row.record_count <= span else RECORD_COUNT
            _note(state, findings, kind, row, base, last + 1, span, row.record_count)
        if row.control_records_ok == 0:
            _note(state, findings, CONTROL_BATCH, row, base, last + 1, row.control_type, row.record_count)


@numba.njit(cache=True)
def _epochs(rows: NDArray[Any], state: NDArray[Any], epoch_runs: NDArray[Any], findings: NDArray[Any]) -> None:
    """Runs of batches of one leader epoch, and the formats they were written in: neither falls along a log."""
    for i in range(rows.shape[0]):
        row = rows[i]
        epoch = row.partition_leader_epoch
        if not _is_read(row.magic, epoch, row.crc_valid):
            continue
        base = row.base_offset
        last = row.last_offset
        older = _is_older(row.magic, epoch)
        if row.crc_valid != 0 and (older or epoch >= 0):
            written_in = row.magic if older else NEWEST_FORMAT
            if state[FIRST_FORMAT] == NONE:
                state[FIRST_FORMAT] = written_in
                state[FIRST_FORMAT_OFFSET] = base
            elif written_in < state[LAST_FORMAT]:
                if state[FORMAT_FALLS] == 0:
                    state[FORMAT_FALL_OFFSET] = base
                state[FORMAT_FALLS] += 1
            state[LAST_FORMAT] = written_in
        if older:
            continue  # Their formats have none.
        if epoch < 0:
            if state[LAST_FORMAT] == NONE:
                state[EPOCHLESS_FIRST] += 1
            elif state[LAST_FORMAT] < NEWEST_FORMAT:
                state[REWRITTEN_BATCHES] += 1
            _note(state, findings, EPOCH_MISSING, row, base, last + 1, NONE, epoch)
            continue
        if state[FIRST_EPOCH] == NONE:
            state[FIRST_EPOCH] = epoch
        n_runs = state[N_EPOCH_RUNS]
        if n_runs > 0 and epoch_runs[n_runs - 1].leader_epoch == epoch:
            run = epoch_runs[n_runs - 1]
        else:
            if n_runs > 0 and epoch < state[LAST_EPOCH]:
                _note(state, findings, EPOCH_ORDER, row, base, last + 1, state[LAST_EPOCH], epoch)
            run = epoch_runs[n_runs]
            run.leader_epoch = epoch
            run.start_offset = base
            run.batches = 0
            run.records = 0
            run.first_batch_position = row.position
            run.first_batch_end_position = row.position + row.size_bytes
            run.first_batch_end_offset = last + 1
            state[N_EPOCH_RUNS] = n_runs + 1
        run.end_offset = last + 1
        run.batches += 1
        run.records += _records_of(row.record_count, last - base + 1)
        state[LAST_EPOCH] = epoch


@numba.njit(cache=True)
def _digests(rows: NDArray[Any], state: NDArray[Any], buckets: NDArray[Any]) -> None:
    """Adds each batch to the digest of its bucket of offsets."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if not _is_read(row.magic, row.partition_leader_epoch, row.crc_valid):
            continue
        base = row.base_offset
        last = row.last_offset
        bucket_id = base >> BUCKET_SHIFT
        n_buckets = state[N_BUCKETS]
        if n_buckets > 0 and buckets[n_buckets - 1].bucket == bucket_id:
            bucket = buckets[n_buckets - 1]
        else:
            bucket = buckets[n_buckets]
            bucket.bucket = bucket_id
            bucket.digest = 0
            bucket.batches = 0
            bucket.first_offset = base
            bucket.end_offset = last + 1
            state[N_BUCKETS] = n_buckets + 1
        bucket.digest += _mix(base, last, row.partition_leader_epoch, row.crc, row.size_bytes)
        bucket.batches += 1
        bucket.first_offset = min(bucket.first_offset, base)
        bucket.end_offset = max(bucket.end_offset, last + 1)


@numba.njit(cache=True)
def _producer_fields(rows: NDArray[Any], state: NDArray[Any], findings: NDArray[Any], ignore_sequences: bool) -> None:
    """An id has an epoch; a transaction has an id; a record with an id has a sequence."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if row.crc_valid == 0 or not _is_read(row.magic, row.partition_leader_epoch, row.crc_valid):
            continue
        producer_id = row.producer_id
        sequenced = producer_id >= 0 and (row.attributes & CONTROL_BIT) == 0 and not ignore_sequences
        if (
            (producer_id >= 0) != (row.producer_epoch >= 0)
            or ((row.attributes & TRANSACTIONAL_BIT) != 0 and producer_id < 0)
            or (sequenced and row.base_sequence < 0)
        ):
            end = row.last_offset + 1
            _note(state, findings, PRODUCER_FIELDS, row, row.base_offset, end, producer_id, row.base_sequence)


@numba.njit(cache=True)
def _marker_type(row: Any, ignore_sequences: bool) -> Any:
    """Which event a control batch or a rotten one is; `_NO_EVENT` for what is nobody's, NONE for a producer's data."""
    if row.crc_valid == 0:
        # The bit that makes it a marker may be what rotted.
        lone = row.base_sequence == NONE and row.last_offset == row.base_offset and not ignore_sequences
        may_be = (row.attributes & CONTROL_BIT) != 0 or (row.producer_id >= 0 and lone)
        return ROTTEN if may_be else _NO_EVENT
    if row.producer_id < 0:
        return _NO_EVENT
    if (row.attributes & CONTROL_BIT) == 0:
        return NONE
    if row.control_type == ABORT or row.control_type == COMMIT:
        return row.control_type
    # Emptied by the cleaner, or of another kind.
    return UNREADABLE if row.control_records_ok == 0 else _NO_EVENT


@numba.njit(cache=True)
def _keep_gap(state: NDArray[Any], gaps: NDArray[Any], row: Any, event: Any) -> None:
    """Sequences that a run leaves out."""
    if state[N_GAPS] >= GAPS_KEPT:
        return
    gap = gaps[state[N_GAPS]]
    gap.producer_id = row.producer_id
    gap.producer_epoch = row.producer_epoch
    gap.expected_sequence = _sequence_after(event.last_sequence, 1)
    gap.found_sequence = row.base_sequence
    gap.offset = row.base_offset
    gap.previous_offset = event.last_offset
    gap.previous_timestamp = event.last_timestamp
    gap.timestamp = row.max_timestamp
    state[N_GAPS] += 1


@numba.njit(cache=True)
def _begin_run(event: Any, row: Any, last_sequence: int, records: int, look: Any) -> None:
    """Writes the event of the first batch of a producer's run."""
    event.kind = RUN
    event.transactional = 1 if (row.attributes & TRANSACTIONAL_BIT) != 0 else 0
    event.marker_type = NONE
    event.producer_id = row.producer_id
    event.producer_epoch = row.producer_epoch
    event.coordinator_epoch = NONE
    event.first_sequence = row.base_sequence
    event.last_sequence = last_sequence
    event.first_offset = row.base_offset
    event.last_offset = row.last_offset
    event.first_timestamp = row.max_timestamp
    event.last_timestamp = row.max_timestamp
    event.last_offset_delta = row.last_offset - row.base_offset
    event.gaps = 0
    event.missing_sequences = 0
    event.batches = 1
    event.records = records
    event.first_batch_last_sequence = last_sequence
    event.first_look = look
    event.look_0 = look


@numba.njit(cache=True)
def _producers(
    rows: NDArray[Any],
    state: NDArray[Any],
    events: NDArray[Any],
    gaps: NDArray[Any],
    keys: NDArray[Any],
    last_event: NDArray[Any],
    ignore_sequences: bool,
) -> None:
    """What each producer did: runs of batches whose sequences follow each other, and ends of transactions."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if not _is_read(row.magic, row.partition_leader_epoch, row.crc_valid):
            continue
        marker_type = _marker_type(row, ignore_sequences)
        if marker_type == _NO_EVENT:
            continue
        producer_id = row.producer_id
        if row.crc_valid != 0 and producer_id > state[LARGEST_PRODUCER_ID]:
            state[LARGEST_PRODUCER_ID] = producer_id
        slot = np.int64(NONE)
        if producer_id >= 0:
            slot = find(keys, producer_id)
            if keys[slot] == NONE:
                keys[slot] = producer_id
                last_event[slot] = NONE
                state[N_PRODUCERS] += 1
        if marker_type == NONE:
            delta = row.last_offset - row.base_offset
            records = _records_of(row.record_count, delta + 1)
            last_sequence = _sequence_after(row.base_sequence, delta) if row.base_sequence >= 0 else row.base_sequence
            look = _look(row.base_timestamp, row.size_bytes, row.record_count, delta)
            if last_event[slot] != NONE:
                event = events[last_event[slot]]
                if (
                    event.kind == RUN
                    and event.producer_epoch == row.producer_epoch
                    and (event.transactional != 0) == ((row.attributes & TRANSACTIONAL_BIT) != 0)
                ):
                    ahead = (row.base_sequence - _sequence_after(event.last_sequence, 1)) & SEQUENCE_MASK
                    if ignore_sequences or ahead < FORWARD_LIMIT:
                        if ahead != 0 and not ignore_sequences:
                            event.gaps += 1
                            event.missing_sequences += ahead
                            _keep_gap(state, gaps, row, event)
                        event.last_sequence = last_sequence
                        event.last_offset = row.last_offset
                        event.last_timestamp = row.max_timestamp
                        event.last_offset_delta = delta
                        event.batches += 1
                        event.records += records
                        _seen(event, look)
                        continue
            _begin_run(events[state[N_EVENTS]], row, last_sequence, records, look)
        else:
            coordinator_epoch = NONE if marker_type == ROTTEN else row.coordinator_epoch
            _mark(events[state[N_EVENTS]], row, marker_type, coordinator_epoch)
        if slot != NONE:
            last_event[slot] = state[N_EVENTS]
        state[N_EVENTS] += 1


@numba.njit(cache=True)
def fold(
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
    """Folds a block, one concern after the other. The arrays must have room for as many entries more as it has rows.

    A loop a concern: a function a concern that is called for each row takes up to four times as long.
    """
    _places(rows, state, findings)
    _contents(rows, state, findings)
    _epochs(rows, state, epoch_runs, findings)
    _digests(rows, state, buckets)
    _producer_fields(rows, state, findings, ignore_sequences)
    _producers(rows, state, events, gaps, keys, last_event, ignore_sequences)
