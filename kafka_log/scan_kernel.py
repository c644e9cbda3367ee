"""The compiled half of the scan: one loop over the batches of a buffer, and the search for the next batch after damage.

In: the address of a buffer, how much of it is filled, and where it lies in the file. Out: rows of `scan.BATCH_HEADER`
and a `Step` that says why the loop came back. The rules that must hold: no byte outside [start, end) is read, whatever
the bytes say; a sound batch is read once; and the work spent on checksums of what turns out not to be a batch grows
with the bytes passed, never with their square (`_CREDIT_PER_BYTE`).

Both kernels keep their state between calls in an int64 array (the `S_*` indexes), so that the caller can refill its
buffer and call again. Positions in the state are file positions; `offset_in_file` + index in buffer = file position.
"""

from enum import IntEnum
from typing import Any, Final

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.crc32c import crc32c_at
from tidegauge.kafka_log.kernels import i8 as _i8
from tidegauge.kafka_log.kernels import i16 as _i16
from tidegauge.kafka_log.kernels import i32 as _i32
from tidegauge.kafka_log.kernels import i64 as _i64
from tidegauge.kafka_log.kernels import int64 as _int64
from tidegauge.kafka_log.kernels import kernel as _kernel
from tidegauge.kafka_log.kernels import u8 as _u8
from tidegauge.kafka_log.kernels import u32 as _u32
from tidegauge.kafka_log.kernels import uint32 as _uint32
from tidegauge.kafka_log.next_place import next_place as _next_place
from tidegauge.kafka_log.old_kernel import OLD_CRC_AT as _OLD_CRC_AT
from tidegauge.kafka_log.old_kernel import OLD_CRC_FROM as _OLD_CRC_FROM
from tidegauge.kafka_log.old_kernel import OLD_MIN_LENGTH as _OLD_MIN_LENGTH
from tidegauge.kafka_log.old_kernel import crc32_at as _crc32_at
from tidegauge.kafka_log.old_kernel import may_be_old_entry as _may_be_old_entry
from tidegauge.kafka_log.old_kernel import old_fields_fit as _old_fields_fit
from tidegauge.kafka_log.old_kernel import write_old_row as _write_old_row


class Step(IntEnum):
    """Why a kernel came back."""

    DONE = 0
    """Everything up to the end of the file is read (scan), or no batch was found up to there (search)."""
    ROWS_FULL = 1
    NEED_BYTES = 2
    """It cannot go on before `S_NEED` bytes from `S_POSITION` on are in the buffer, or the file's end is known."""
    BAD_HEADER = 3
    """What lies at `S_POSITION` cannot be a batch."""
    BAD_CRC = 4
    """A whole batch at `S_POSITION` fails its checksum, and no header follows where its length says it ends."""
    FOUND = 5
    """The search found a sound batch at `S_POSITION`."""


S_POSITION: Final = 0
"""File position of the next byte to look at."""
S_ROWS: Final = 1
"""Rows written so far."""
S_LAST_OFFSET: Final = 2
"""Last offset of the last batch with a right checksum, or -1: later offsets may not lie below it."""
S_NEED: Final = 3
S_DAMAGED_ROWS: Final = 4
"""How many of the rows have a wrong checksum, or a magic that is not their format's."""
S_WASTED: Final = 5
"""Bytes whose checksum was computed in vain so far."""
S_ALL_ZERO: Final = 6
"""Search: 1 as long as every byte passed is zero."""
S_HEADER_READ: Final = 7
"""With BAD_HEADER and BAD_CRC: 1 if the damaged batch has a header of sane values; it is the row after the last one."""
S_UPGRADED: Final = 8
"""1 once a batch of format 2 with a leader epoch was read: behind it, no leader writes in an older format."""
STATE_FIELDS: Final = 9

LARGEST_BATCH: Final = 256 << 20
"""What says that it is larger is no batch: it would have to be in memory. A broker takes requests of at most
socket.request.max.bytes, 100 MiB by default."""
_FREE_CREDIT: Final = 1 << 31
"""Checksummed bytes that a scan may spend in vain: eight batches of the largest size …"""
_CREDIT_PER_BYTE: Final = 8
"""… and so many for each byte of the file passed, so that hostile bytes cost a constant factor, not a square."""

_MAX_OFFSET_STEP: Final = (1 << 31) - 1
"""Offsets of one segment span less than 2^31 (Kafka LogSegment#ensureOffsetInRange)."""
# Numba takes plain module constants into its code; these names keep the loop below readable.
_BASE_OFFSET = layout.BASE_OFFSET_AT
_LENGTH = layout.BATCH_LENGTH_AT
_LEADER_EPOCH = layout.LEADER_EPOCH_AT
_MAGIC = layout.MAGIC_AT
_CRC = layout.CRC_AT
_ATTRIBUTES = layout.ATTRIBUTES_AT
_LAST_DELTA = layout.LAST_OFFSET_DELTA_AT
_BASE_TIMESTAMP = layout.BASE_TIMESTAMP_AT
_MAX_TIMESTAMP = layout.MAX_TIMESTAMP_AT
_PRODUCER_ID = layout.PRODUCER_ID_AT
_PRODUCER_EPOCH = layout.PRODUCER_EPOCH_AT
_BASE_SEQUENCE = layout.BASE_SEQUENCE_AT
_RECORD_COUNT = layout.RECORD_COUNT_AT
_RECORDS = layout.RECORDS_AT
_OVERHEAD = layout.LOG_OVERHEAD
_MIN_LENGTH = layout.MIN_BATCH_LENGTH
_LARGEST_LAST = layout.LARGEST_LAST_OFFSET
_SMALLEST = -(1 << 63)
_CONTROL = layout.CONTROL_BIT
_TRANSACTIONAL = layout.TRANSACTIONAL_BIT
_CODEC = layout.COMPRESSION_MASK
_UNUSED = layout.UNUSED_ATTRIBUTES_MASK
_ZSTD = int(layout.CompressionType.ZSTD)
_ABORT, _COMMIT, _LAST_RAFT_TYPE = 0, 1, 6

_DONE, _ROWS_FULL, _NEED_BYTES = int(Step.DONE), int(Step.ROWS_FULL), int(Step.NEED_BYTES)
_BAD_HEADER, _BAD_CRC, _FOUND = int(Step.BAD_HEADER), int(Step.BAD_CRC), int(Step.FOUND)


@_kernel
def _looks_like_header(at: Any, last_offset: Any) -> Any:
    """Tell whether 61 bytes may be a magic 2 header, its magic and its length's fit in the file aside."""
    base_offset = _i64(at + _BASE_OFFSET)
    if base_offset < 0 or (last_offset >= 0 and not 0 <= base_offset - last_offset <= _MAX_OFFSET_STEP):
        return False
    if _i32(at + _LENGTH) < _MIN_LENGTH:
        return False
    attributes = _i16(at + _ATTRIBUTES)
    if attributes & _UNUSED or attributes & _CODEC > _ZSTD:
        return False
    last_delta = _i32(at + _LAST_DELTA)
    record_count = _i32(at + _RECORD_COUNT)
    return bool(
        last_delta >= 0
        and base_offset <= _LARGEST_LAST - last_delta
        and 0 <= record_count <= last_delta + 1
        and _i32(at + _LEADER_EPOCH) >= -1
        and _i64(at + _PRODUCER_ID) >= -1
        and _i16(at + _PRODUCER_EPOCH) >= -1
        and _i32(at + _BASE_SEQUENCE) >= -1
    )


@_kernel
def _has_room(at: Any) -> Any:
    """Tell whether a batch's last offset, and the one behind it, have room in 64 bits."""
    base_offset, last_delta = _i64(at + _BASE_OFFSET), _i32(at + _LAST_DELTA)
    return bool(_SMALLEST - min(last_delta, 0) <= base_offset <= _LARGEST_LAST - max(last_delta, 0))


@_kernel
def _varint(at: Any, end: Any) -> Any:
    """Read a zigzag varint of up to 5 bytes; return it and the address after it, which is 0 if it runs past `end`."""
    value = _int64(0)
    for i in range(5):
        if at + i >= end:
            return 0, 0
        byte = _int64(_u8(at + i))
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + i + 1
    return 0, 0


@_kernel
def _skip_varint(at: Any, end: Any) -> Any:
    """Return the address after a varint of up to 10 bytes, or 0 if it runs past `end`."""
    for i in range(10):
        if at + i >= end:
            return 0
        if _u8(at + i) < 0x80:
            return at + i + 1
    return 0


@_kernel
def _control_record(at: Any, end: Any, attributes: Any) -> Any:
    """Read a control batch's first record, up to `end`: (type or -2, coordinator epoch or -1, the shape is right)."""
    unreadable = (-2, -1, False)
    record_count = _i32(at + _RECORD_COUNT)
    if record_count == 0:  # left by the log cleaner to keep the producer's last epoch
        return -2, -1, True
    if record_count < 0 or attributes & _CODEC:
        return unreadable
    body_length, cursor = _varint(at + _RECORDS, end)
    if cursor == 0 or body_length < 0 or cursor + body_length > end:
        return unreadable
    record_end = cursor + body_length
    cursor = _skip_varint(cursor + 1, record_end)  # after the record's attributes: timestamp delta
    if cursor == 0:
        return unreadable
    cursor = _skip_varint(cursor, record_end)  # offset delta
    if cursor == 0:
        return unreadable
    key_length, cursor = _varint(cursor, record_end)
    if cursor == 0 or key_length < 4 or cursor + key_length > record_end or _i16(cursor) < 0:
        return unreadable
    control_type = _int64(_i16(cursor + 2))
    if control_type < _ABORT or control_type > _LAST_RAFT_TYPE:
        return unreadable
    value_length, cursor = _varint(cursor + key_length, record_end)
    if cursor == 0 or value_length < 0 or cursor + value_length > record_end:
        return control_type, -1, False
    if control_type > _COMMIT:
        return control_type, -1, True
    if value_length < 6 or _i16(cursor) < 0:
        return control_type, -1, False
    shape_is_right = (
        record_count == 1
        and attributes & _TRANSACTIONAL != 0
        and _i64(at + _PRODUCER_ID) >= 0
        and _i16(at + _PRODUCER_EPOCH) >= 0
        and _i32(at + _BASE_SEQUENCE) == -1
    )
    if not shape_is_right:
        return control_type, -1, False
    return control_type, _int64(_i32(cursor + 2)), True


@_kernel
def _write_row(row: Any, at: Any, readable: Any, position: Any, size: Any, crc_valid: Any) -> None:
    """Write the row of a magic 2 batch of which `readable` bytes are there, the header at least."""
    base_offset = _i64(at + _BASE_OFFSET)
    attributes = _i16(at + _ATTRIBUTES)
    row["position"] = position
    row["size_bytes"] = size
    row["base_offset"] = base_offset
    row["last_offset"] = base_offset + _i32(at + _LAST_DELTA)
    row["partition_leader_epoch"] = _i32(at + _LEADER_EPOCH)
    row["magic"] = _i8(at + _MAGIC)
    row["crc"] = _u32(at + _CRC)
    row["crc_valid"] = crc_valid
    row["attributes"] = attributes
    row["base_timestamp"] = _i64(at + _BASE_TIMESTAMP)
    row["max_timestamp"] = _i64(at + _MAX_TIMESTAMP)
    row["producer_id"] = _i64(at + _PRODUCER_ID)
    row["producer_epoch"] = _i16(at + _PRODUCER_EPOCH)
    row["base_sequence"] = _i32(at + _BASE_SEQUENCE)
    row["record_count"] = _i32(at + _RECORD_COUNT)
    if attributes & _CONTROL:
        control_type, coordinator_epoch, shape_is_right = _control_record(at, at + readable, attributes)
        row["control_type"] = control_type
        row["coordinator_epoch"] = coordinator_epoch
        row["control_records_ok"] = shape_is_right
    else:
        row["control_type"] = -1
        row["coordinator_epoch"] = -1
        row["control_records_ok"] = 1


@_kernel
def _entry_follows(damaged: Any, at: Any, available: Any, at_eof: Any, last_offset: Any) -> Any:
    """Judge what lies where a damaged entry ends: 1 a header or the end of the file, 0 neither, -1 not known yet.

    Nothing here may depend on how much of the file happens to be in the buffer.
    """
    if available < _RECORDS and not at_eof:
        return -1
    if available == 0:
        return 1
    if last_offset < 0:
        last_offset = _i64(damaged + _BASE_OFFSET)
    if available >= _RECORDS and _u8(at + _MAGIC) == 2:
        return int(_looks_like_header(at, last_offset))
    # Old headers say too little of themselves to be believed except in a row of such entries.
    if available < _OVERHEAD + _OLD_MIN_LENGTH or _u8(at + _MAGIC) > 1 or _u8(at + _MAGIC) != _u8(damaged + _MAGIC):
        return 0
    offset = _i64(at)
    rises = 0 <= last_offset < offset and offset - last_offset <= _MAX_OFFSET_STEP
    return int(_i32(at + _LENGTH) >= _OLD_MIN_LENGTH and rises)


@_kernel
def scan_kernel(base: Any, start: Any, end: Any, offset_in_file: Any, at_eof: Any, rows: Any, state: Any) -> Any:
    """Read batches from `base + start` on, until the rows are full, the bytes run out or damage needs a search.

    `base` is the buffer's address, [start, end) its filled part, `offset_in_file` the file position of `base`.
    """
    at = base + start
    stop = base + end
    to_position = offset_in_file - base
    row_count = state[S_ROWS]
    capacity = rows.shape[0]
    last_offset = state[S_LAST_OFFSET]
    state[S_HEADER_READ] = 0
    largest = min(LARGEST_BATCH, _FREE_CREDIT + _CREDIT_PER_BYTE * (offset_in_file + start) - state[S_WASTED])
    step = _DONE
    while True:
        available = stop - at
        if available < _RECORDS:
            if not at_eof:
                state[S_NEED] = _RECORDS
                step = _NEED_BYTES
                break
            if available == 0:
                break
            # The old formats' smallest entries are shorter than a magic 2 header.
            if available < _OVERHEAD + _OLD_MIN_LENGTH or _u8(at + _MAGIC) > 1:
                step = _BAD_HEADER
                break
        if row_count == capacity:
            step = _ROWS_FULL
            break
        length = _int64(_i32(at + _LENGTH))
        size = length + _OVERHEAD
        magic = _u8(at + _MAGIC)
        if (
            magic == 2
            and _RECORDS <= size <= available
            and size <= largest
            and _has_room(at)
            and crc32c_at(at + _ATTRIBUTES, size - _ATTRIBUTES) == _u32(at + _CRC)
        ):
            _write_row(rows[row_count], at, size, at + to_position, size, True)
            last_offset = _i64(at + _BASE_OFFSET) + _i32(at + _LAST_DELTA)
            if _i32(at + _LEADER_EPOCH) >= 0:
                state[S_UPGRADED] = 1
            row_count += 1
            at += size
            continue

        # From here on something is unusual: the batch is not all in the buffer, old, or damaged.
        if magic <= 2:
            unlikely = length < (_MIN_LENGTH if magic == 2 else _OLD_MIN_LENGTH)
        else:
            unlikely = not _looks_like_header(at, last_offset)
        # There is no checksum over a base offset: one that has no log end behind it in 64 bits is none.
        no_room = _i64(at + _BASE_OFFSET) > _LARGEST_LAST or (available >= _RECORDS and not _has_room(at))
        unlikely = unlikely or size > largest or no_room
        if not unlikely and size > available and not at_eof:
            state[S_NEED] = size
            step = _NEED_BYTES
            break
        if unlikely or size > available:
            if available >= _RECORDS and _looks_like_header(at, last_offset):
                _write_row(rows[row_count], at, min(size, available), at + to_position, size, False)
                state[S_HEADER_READ] = 1
            step = _BAD_HEADER
            break
        # The magic is not under the checksum of magic 2: it alone may be broken.
        new_format = magic == 2 or (
            size >= _RECORDS and crc32c_at(at + _ATTRIBUTES, size - _ATTRIBUTES) == _u32(at + _CRC)
        )
        crc_valid = magic != 2 and new_format
        if not new_format:
            crc_valid = magic < 2 and _uint32(_crc32_at(at + _OLD_CRC_FROM, size - _OLD_CRC_FROM)) == _u32(
                at + _OLD_CRC_AT
            )
        if not crc_valid:
            follows = _entry_follows(at, at + size, available - size, at_eof, last_offset)
            if follows < 0:
                state[S_NEED] = size + _RECORDS
                step = _NEED_BYTES
                break
            if follows == 0 or magic > 2:
                if magic == 2:
                    _write_row(rows[row_count], at, size, at + to_position, size, False)
                    state[S_HEADER_READ] = int(_looks_like_header(at, last_offset))
                state[S_WASTED] += size
                step = _BAD_CRC
                break
        if new_format:
            _write_row(rows[row_count], at, size, at + to_position, size, crc_valid)
        else:
            _write_old_row(rows[row_count], at, at + to_position, size, crc_valid)
        if crc_valid:
            last_offset = rows[row_count]["last_offset"]
        if new_format or not crc_valid:
            state[S_DAMAGED_ROWS] += 1
        row_count += 1
        at += size
    state[S_POSITION] = at + to_position
    state[S_ROWS] = row_count
    state[S_LAST_OFFSET] = last_offset
    return step


@_kernel
def search_kernel(base: Any, start: Any, end: Any, offset_in_file: Any, at_eof: Any, state: Any) -> Any:
    """Look from `base + start` on for the next batch whose checksum is right; passed bytes stay passed.

    One of an old format counts only as long as the log had none of format 2 from a leader, and only if its fields fill
    it exactly: its header says little.
    """
    at = base + start
    stop = base + end
    to_position = offset_in_file - base
    last_offset = state[S_LAST_OFFSET]
    wasted = state[S_WASTED]
    step = _DONE
    while True:
        available = stop - at
        if available < _RECORDS:
            if not at_eof:
                state[S_NEED] = _RECORDS
                step = _NEED_BYTES
                break
            if available < _OVERHEAD + _OLD_MIN_LENGTH or state[S_UPGRADED] != 0:
                while at < stop:
                    if _u8(at) != 0:
                        state[S_ALL_ZERO] = 0
                    at += 1
                break
        if _u8(at + _MAGIC) <= 1 and state[S_UPGRADED] == 0:
            size = _int64(_i32(at + _LENGTH)) + _OVERHEAD
            credit = min(LARGEST_BATCH, _FREE_CREDIT + _CREDIT_PER_BYTE * (at + to_position) - wasted)
            if size <= credit and _may_be_old_entry(at, available, last_offset):
                if size > available and not at_eof:
                    state[S_NEED] = size
                    step = _NEED_BYTES
                    break
                if size <= available and _old_fields_fit(at, size):
                    if _uint32(_crc32_at(at + _OLD_CRC_FROM, size - _OLD_CRC_FROM)) == _u32(at + _OLD_CRC_AT):
                        step = _FOUND
                        break
                    wasted += size
        elif available >= _RECORDS and _u8(at + _MAGIC) == 2 and _looks_like_header(at, last_offset):
            size = _int64(_i32(at + _LENGTH)) + _OVERHEAD
            credit = min(LARGEST_BATCH, _FREE_CREDIT + _CREDIT_PER_BYTE * (at + to_position) - wasted)
            if size <= credit:
                if size <= available:
                    if crc32c_at(at + _ATTRIBUTES, size - _ATTRIBUTES) == _u32(at + _CRC):
                        step = _FOUND
                        break
                    wasted += size
                elif not at_eof:
                    state[S_NEED] = size
                    step = _NEED_BYTES
                    break
        passed_to, all_zero = _next_place(at, stop)
        if not all_zero:
            state[S_ALL_ZERO] = 0
        at = passed_to
    state[S_POSITION] = at + to_position
    state[S_WASTED] = wasted
    return step
