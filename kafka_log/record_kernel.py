"""Walking over the records of a batch, compiled: are their offsets and timestamps what the header says, and digests.

In: plain bytes (an uncompressed batch's, or what a codec gave), a batch's header fields. Out: what is wrong, as bits;
or for each record its offset, a 64-bit digest of its key and one of its value. The rule that must hold: no byte decides
how far is read beyond the array's end, and no key or value leaves this module other than as a digest.

    record = length varint | attributes 1 | timestamp delta varlong | offset delta varint
           | key length varint, key | value length varint, value | header count varint, headers

Length -1 stands for null. Source: Kafka DefaultRecord, DefaultRecordBatch; LogValidator#validateRecord.
"""

from typing import Any, Final

import numpy as np

from tidegauge.kafka_log.kernels import kernel as _kernel

BROKEN_FORM: Final = 1
"""The bytes are not as many records as the header tells."""
BROKEN_OFFSETS: Final = 2
"""Offset deltas do not rise, or leave the range from 0 to the header's last offset delta."""
BROKEN_TIMESTAMPS: Final = 4
"""The largest timestamp of the records is not the header's."""

RECORD_DIGEST: Final = np.dtype(
    [
        ("offset", "<i8"),
        ("key_digest", "<u8"),
        ("value_digest", "<u8"),
        ("has_key", "u1"),
        ("has_value", "u1"),
    ]
)
"""One record: its offset, and what its key and value are, without being them."""

DIGESTS_AT_ONCE: Final = 1 << 16
"""A record of seven bytes has a digest of 26: of a batch's many records there are never more than so many at once."""

_APPEND_TIME_BIT: Final = 8


@_kernel
def _signed(data: Any, at: int, end: int) -> Any:
    """A zigzag number and the index after it, which is -1 if there is none."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for _ in range(10):
        if at >= end:
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), np.int64(at)
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@_kernel
def _past_field(data: Any, at: int, end: int, least: int) -> Any:
    """Where a field's bytes begin and end, (start, end); start -1 for null, end -1 if it is broken.

    `least` is the smallest length that it may have: -1 where it may be null.
    """
    length, at = _signed(data, at, end)
    if at < 0 or length < least or length > end - at:
        return np.int64(-1), np.int64(-1)
    if length == -1:
        return np.int64(-1), np.int64(at)
    return np.int64(at), np.int64(at + length)


@_kernel
def _past_headers(data: Any, at: int, end: int) -> Any:
    """The index behind a record's headers; -1 if they are broken."""
    count, at = _signed(data, at, end)
    if at < 0 or count < 0 or count > end - at:
        return np.int64(-1)
    for _ in range(count):
        _, at = _past_field(data, at, end, 0)
        if at < 0:
            return np.int64(-1)
        _, at = _past_field(data, at, end, -1)
        if at < 0:
            return np.int64(-1)
    return np.int64(at)


@_kernel
def check_records(
    data: Any,
    at: int,
    end: int,
    record_count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int,
) -> int:
    """What is wrong with the records between two indexes: 0, or bits BROKEN_*."""
    wrong = 0
    before = np.int64(-1)
    newest = np.int64(-(2**63))
    for _ in range(record_count):
        length, start = _signed(data, at, end)
        if start < 0 or length < 1 or length > end - start:
            return wrong | BROKEN_FORM
        stop = start + length
        timestamp_delta, at = _signed(data, start + 1, stop)
        if at < 0:
            return wrong | BROKEN_FORM
        offset_delta, at = _signed(data, at, stop)
        if at < 0:
            return wrong | BROKEN_FORM
        _, at = _past_field(data, at, stop, -1)
        if at < 0:
            return wrong | BROKEN_FORM
        _, at = _past_field(data, at, stop, -1)
        if at < 0:
            return wrong | BROKEN_FORM
        if _past_headers(data, at, stop) != stop:
            return wrong | BROKEN_FORM
        at = stop
        if offset_delta <= before or offset_delta > last_offset_delta:
            wrong |= BROKEN_OFFSETS
        before = offset_delta
        newest = max(newest, base_timestamp + timestamp_delta)
    if at != end:
        return wrong | BROKEN_FORM
    if record_count > 0 and (attributes & _APPEND_TIME_BIT) == 0 and newest != max_timestamp:
        # With LogAppendTime every record has the header's timestamp, whatever its own delta says.
        wrong |= BROKEN_TIMESTAMPS
    return wrong


@_kernel
def check_plain_batches(
    data: Any, first_position: int, rows: Any, header_bytes: int, stride: int, seen: int, wrong: Any
) -> int:
    """`check_records` for a scan's rows whose records are not compressed, into `wrong`; 0 for all others.

    `data` begins at byte `first_position` of the file. A batch with a wrong checksum, of another format or that is not
    wholly in `data` is not looked into. Of the others it is every `stride`-th one, `seen` of which came before; for
    those between -1 goes into `wrong`. Returns how many have been seen.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        wrong[i] = 0
        start = row.position - first_position
        stop = start + row.size_bytes
        if row.crc_valid == 0 or row.magic != 2 or (row.attributes & 7) != 0 or row.record_count <= 0:
            continue
        if start < 0 or stop > data.shape[0]:
            continue
        seen += 1
        if (seen - 1) % stride != 0:
            wrong[i] = -1
            continue
        wrong[i] = check_records(
            data,
            start + header_bytes,
            stop,
            row.record_count,
            row.last_offset - row.base_offset,
            row.base_timestamp,
            row.max_timestamp,
            row.attributes,
        )
    return seen


@_kernel
def _digest(data: Any, start: int, end: int) -> Any:
    """FNV-1a over the bytes, then splitmix64's finaliser: spread well enough to sample by."""
    h = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        h = (h ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@_kernel
def digest_records(data: Any, at: int, end: int, base_offset: int, out: Any) -> Any:
    """Fills `out` (`RECORD_DIGEST`) with the records from an index on; returns the index behind them, -1 if they are
    not there or of another form.
    """
    for i in range(out.shape[0]):
        length, start = _signed(data, at, end)
        if start < 0 or length < 1 or length > end - start:
            return np.int64(-1)
        stop = start + length
        _, at = _signed(data, start + 1, stop)
        if at < 0:
            return np.int64(-1)
        offset_delta, at = _signed(data, at, stop)
        if at < 0:
            return np.int64(-1)
        key, key_end = _past_field(data, at, stop, -1)
        if key_end < 0:
            return np.int64(-1)
        value, value_end = _past_field(data, key_end, stop, -1)
        if value_end < 0:
            return np.int64(-1)
        row = out[i]
        row.offset = base_offset + offset_delta
        row.has_key = 1 if key >= 0 else 0
        row.has_value = 1 if value >= 0 else 0
        row.key_digest = _digest(data, key, key_end) if key >= 0 else np.uint64(0)
        row.value_digest = _digest(data, value, value_end) if value >= 0 else np.uint64(0)
        at = stop
    return np.int64(at)


# ------------------------------------------------------------------------------------------ message formats 0 and 1


@_kernel
def _number(data: Any, at: Any, size: int) -> Any:
    """A signed big-endian number of so many bytes."""
    value = np.uint64(0)
    for i in range(size):
        value = (value << np.uint64(8)) | np.uint64(data[at + i])
    spare = np.uint64(64 - 8 * size)
    return np.int64(value << spare) >> np.int64(spare)


@_kernel
def _old_fields(data: Any, at: Any, magic: int) -> Any:
    """Of the plain entry at `at`: its end, where its key starts, where it ends, where its value starts.

    Starts are -1 for null; the end is -1 if there is no whole entry of this magic.
    """
    broken = np.int64(-1), np.int64(-1), np.int64(-1), np.int64(-1)
    end = np.int64(data.shape[0])
    cursor = at + 18 + (8 if magic == 1 else 0)
    if end - at < 26 + (8 if magic == 1 else 0):
        return broken
    size = _number(data, at + 8, 4)
    if size < 14 or size > end - at - 12 or data[at + 16] != magic or (data[at + 17] & 7) != 0:
        return broken
    end = at + 12 + size
    if end - cursor < 8:
        return broken
    key_length = _number(data, cursor, 4)
    cursor += 4
    if key_length < -1 or key_length > end - cursor - 4:
        return broken
    key_start = np.int64(cursor if key_length >= 0 else -1)
    cursor += max(key_length, 0)
    key_end = np.int64(cursor)
    value_length = _number(data, cursor, 4)
    cursor += 4
    if value_length < -1 or cursor + max(value_length, 0) != end:
        return broken
    return np.int64(end), key_start, key_end, np.int64(cursor if value_length >= 0 else -1)


@_kernel
def walk_old_entries(data: Any, magic: int) -> Any:
    """How many plain entries of one magic the bytes are, the first one's offset, the last one's.

    The number is 0 if they are something else, or if their offsets do not rise.
    """
    nothing = np.int64(0), np.int64(0), np.int64(0)
    count, first, last, at = np.int64(0), np.int64(0), np.int64(-1), np.int64(0)
    while at < data.shape[0]:
        end, _, _, _ = _old_fields(data, at, magic)
        if end < 0:
            return nothing
        offset = _number(data, at, 8)
        if offset < 0 or (count > 0 and offset <= last):
            return nothing
        if count == 0:
            first = offset
        last = offset
        count += 1
        at = end
    return count, first, last


@_kernel
def digest_old_entries(data: Any, at: int, magic: int, shift: int, out: Any) -> Any:
    """Fills `out` (`RECORD_DIGEST`) with entries that were counted before, from an index on; `shift` is added to their
    offsets. Returns the index behind them.
    """
    for i in range(out.shape[0]):
        end, key, key_end, value = _old_fields(data, at, magic)
        row = out[i]
        row.offset = _number(data, at, 8) + shift
        row.has_key = 1 if key >= 0 else 0
        row.has_value = 1 if value >= 0 else 0
        row.key_digest = _digest(data, key, key_end) if key >= 0 else np.uint64(0)
        row.value_digest = _digest(data, value, end) if value >= 0 else np.uint64(0)
        at = end
    return np.int64(at)
