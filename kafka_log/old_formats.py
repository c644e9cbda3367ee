"""Message formats 0 and 1, of brokers before 0.11: one entry a record, and compressed ones wrapped in an entry.

In: a whole entry's bytes, with its row of `kafka_log.scan` where there is one. Out: its records, as those of a batch of
format 2. The rules that must hold: an entry is one batch, whose records are read all or not at all; and neither what it
claims nor what it unpacks to decides how much memory is taken. A wrapper has to be unpacked for its row, so what it
may unpack to is the codecs' own bound, and no entry is packed with zstd, which has none.

    byte 0        8       12       16    17         18             18 / 26
         +--------+-------+--------+-----+----------+--------------+---------------+- - -+-----------------+- - -
         | offset | size  | crc-32 | ma- | attri-   | timestamp 8  | key length 4, | key | value length 4, | value
         | 8      | 4     | 4      | gic | butes 1  | (format 1)   | or -1         |     | or -1           |
         +--------+-------+--------+-----+----------+--------------+---------------+- - -+-----------------+- - -

    attributes   7 ... 4 | 3              | 2 1 0
                 unused  | timestamp type | compression

`size` counts from byte 12 on; the checksum covers byte 16 to the end. A compressed entry (a wrapper) has entries of its
own format in its value. A wrapper's offset is that of its last one; in format 0 those inside have their offsets in the
log, in format 1 offsets of which only the distances count (Kafka LegacyRecord,
AbstractLegacyRecordBatch.DeepRecordsIterator; KIP-31). zstd came with format 2 (KIP-110).
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import (
    COMPRESSION_MASK,
    CURRENT_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    CompressionType,
    TimestampType,
    compression_type,
    timestamp_type,
)
from tidegauge.kafka_log.compression import decompress_to_array
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.record_kernel import DIGESTS_AT_ONCE, RECORD_DIGEST, digest_old_entries, walk_old_entries

NEWEST: Final = 1
"""The magic of the newer of them."""
MIN_ENTRY_BYTES: Final = 26
"""Of format 0, without key and value."""

_ATTRIBUTES_AT: Final = 17
_LENGTH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE_BIT: Final = 0x08
_U32: Final = 0xFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def has_its_magic(rows: Any) -> Any:
    """Whether the magic is that of the batch's format (a row, or all of them): it lies outside of the checksum."""
    return (rows["magic"] == CURRENT_MAGIC) | of_old_format(rows)


def of_old_format(rows: Any) -> Any:
    """Which rows of a scan are entries of format 0 or 1 (a row, or all of them).

    They have no leader epoch. A batch of format 2 has one that a leader appended; if its magic says otherwise, that
    byte has changed, which is outside its checksum.
    """
    return (rows["magic"] >= 0) & (rows["magic"] <= NEWEST) & (rows["partition_leader_epoch"] < 0)


def resolve_wrappers(rows: NDArray[Any], data: memoryview, first_position: int, *, last_offset_before: int) -> None:
    """Completes the rows of wrappers: where their records begin, and how many they are; -1 where nobody can tell.

    `data` holds the entries whose checksum is right, from byte `first_position` of the file on. One that cannot be read
    begins where the entry before it ends, for all that is known; that one's last offset is `last_offset_before` for the
    first row, -1 if there is none.
    """
    for at in np.flatnonzero(of_old_format(rows) & ((rows["attributes"] & COMPRESSION_MASK) != 0)):
        row = rows[at]
        last_offset = int(row["last_offset"])
        start = int(row["position"]) - first_position
        if row["crc_valid"]:
            found = inside(data[start : start + int(row["size_bytes"])])
            if not isinstance(found, Corruption):
                _, row["record_count"], row["base_offset"], _ = found
                continue
        before = int(rows[at - 1]["last_offset"]) if at else last_offset_before
        row["record_count"] = -1
        row["base_offset"] = before + 1 if 0 <= before < last_offset else last_offset


Inside = tuple[NDArray[np.uint8], int, int, int]
"""What stands in one whole entry: plain entries, how many, the first one's offset, what to add to theirs."""


def inside(entry: memoryview, *, max_plain_bytes: int | None = None) -> Inside | Corruption:
    """Of an entry that is no wrapper, itself. A `Corruption` if it cannot be read: of kind RECORDS, or NOT_READ where
    it unpacks to more than that (by default `compression.most_plain_bytes`).
    """
    magic, codec = entry[MAGIC_AT], compression_type(entry[_ATTRIBUTES_AT])
    own_offset: int = _OFFSET.unpack_from(entry)[0]
    if codec is None or codec == CompressionType.ZSTD:
        return _unreadable(entry, f"they are packed as none of magic {magic} are")
    plain = np.frombuffer(entry, np.uint8)
    if codec != CompressionType.NONE:
        value = _value(entry, magic)
        if value is None:
            return _unreadable(entry, "its fields do not fill it")
        packed = _with_right_lz4_head(bytes(value)) if magic == 0 and codec == CompressionType.LZ4 else value
        unpacked = decompress_to_array(codec, packed, max_plain_bytes=max_plain_bytes)
        if isinstance(unpacked, Corruption):
            return unpacked
        plain = unpacked
    count, first, last = (int(found) for found in walk_old_entries(plain, magic))
    # In format 0 the last one has the wrapper's offset; in format 1 the wrapper's says what its own is in the log.
    shift = own_offset - last
    if count <= 0 or first + shift < 0 or (magic == 0 and shift != 0):
        return _unreadable(entry, f"they are not those of an entry of magic {magic}")
    return plain, count, first + shift, shift


def _unreadable(entry: memoryview, why: str) -> Corruption:
    return Corruption(kind=Damage.RECORDS, position=0, end_position=len(entry), detail=why)


def digest_entry(entry: memoryview, record_count: int, *, allowance: Allowance) -> Iterator[NDArray[Any]] | Corruption:
    """A digest of each of an entry's records (`RECORD_DIGEST`), `DIGESTS_AT_ONCE` in an array; a `Corruption` if they
    are not as many as its row tells, or, of kind NOT_READ, more than the log's allowance.
    """
    found = _inside_allowed(entry, allowance)
    if isinstance(found, Corruption):
        return found
    plain, count, _, shift = found
    if count != record_count:
        return _unreadable(entry, f"{count} records, its row tells {record_count}")
    return _digests(plain, entry[MAGIC_AT], count, shift)


def _digests(plain: NDArray[np.uint8], magic: int, count: int, shift: int) -> Iterator[NDArray[Any]]:
    at = 0
    for first in range(0, count, DIGESTS_AT_ONCE):
        out = np.zeros(min(count - first, DIGESTS_AT_ONCE), dtype=RECORD_DIGEST)
        at = digest_old_entries(plain, at, magic, shift, out)
        yield out


def _inside_allowed(entry: memoryview, allowance: Allowance) -> Inside | Corruption:
    most = allowance.bytes_of_a_batch
    found = inside(entry, max_plain_bytes=most)
    # How far a codec came with bytes that it could not unpack is not known.
    allowance.spend(plain_bytes=most if isinstance(found, Corruption) else len(found[0]))
    if not isinstance(found, Corruption):
        if found[1] > allowance.records:
            why = f"more than {allowance.records} records"
            return Corruption(kind=Damage.NOT_READ, position=0, end_position=len(entry), detail=why)
        allowance.spend(records=found[1])
    return found


OldRecord = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp (-1 for none), key, value."""


def read_entry(entry: memoryview, *, allowance: Allowance) -> tuple[OldRecord, ...] | Corruption:
    """The records of one whole entry. Of kind NOT_READ if they are more than the log's allowance."""
    found = _inside_allowed(entry, allowance)
    if isinstance(found, Corruption):
        return found
    plain, _, _, shift = found
    magic, attributes, data = entry[MAGIC_AT], entry[_ATTRIBUTES_AT], plain.data.cast("B")
    append_time = timestamp_type(attributes) == TimestampType.LOG_APPEND_TIME
    records, at = list[OldRecord](), 0
    while at < len(data):
        end = at + LOG_OVERHEAD + _LENGTH.unpack_from(data, at + 8)[0]
        own = data[at:end]
        key, after = _field(own, _fields_at(magic))
        value, _ = _field(own, after)
        records.append(
            (
                _OFFSET.unpack_from(own)[0] + shift,
                _timestamp(entry if append_time else own, magic),
                None if key is None else bytes(key),
                None if value is None else bytes(value),
            )
        )
        at = end
    return tuple(records)


def entry_timestamp(entry: memoryview) -> int:
    """What an entry says of its time: of a wrapper, the newest of its records; -1 in format 0."""
    return _timestamp(entry, entry[MAGIC_AT])


def _timestamp(entry: memoryview, magic: int) -> int:
    return int(_OFFSET.unpack_from(entry, _ATTRIBUTES_AT + 1)[0]) if magic else -1


def _fields_at(magic: int) -> int:
    return _ATTRIBUTES_AT + 1 + (8 if magic else 0)


def _value(entry: memoryview, magic: int) -> memoryview | None:
    """An entry's value, which may be anywhere: its fields are checked here."""
    end = len(entry)
    at = _fields_at(magic)
    for last in (False, True):
        if at + 4 > end:
            return None
        length = _LENGTH.unpack_from(entry, at)[0]
        if length < -1 or length > end - at - 4:
            return None
        start, at = at + 4, at + 4 + max(length, 0)
        if last:
            return entry[start:at] if length >= 0 and at == end else None
    return None


def _field(entry: memoryview, at: int) -> tuple[memoryview | None, int]:
    """A field of an entry that was walked over before."""
    length = _LENGTH.unpack_from(entry, at)[0]
    return (None, at + 4) if length < 0 else (entry[at + 4 : at + 4 + length], at + 4 + length)


def _with_right_lz4_head(packed: bytes) -> bytes:
    """The same with the head's checksum that the frame format asks for.

    Clients of format 0 computed it over the frame's magic, too, and Kafka does not look at it there
    (Lz4BlockInputStream, ignoreFlagDescriptorChecksum; KAFKA-3160).
    """
    if not packed.startswith(_LZ4_MAGIC) or len(packed) < 7:
        return packed
    end = 6 + (8 if packed[4] & _LZ4_CONTENT_SIZE_BIT else 0)
    if len(packed) <= end:
        return packed
    return packed[:end] + bytes([_xxh32_of_a_few(packed[4:end]) >> 8 & 0xFF]) + packed[end + 1 :]


def _xxh32_of_a_few(data: bytes) -> int:
    """XXH32 of less than 16 bytes, with seed 0."""
    h, at = (_P5 + len(data)) & _U32, 0
    while at + 4 <= len(data):
        h = (h + int.from_bytes(data[at : at + 4], "little") * _P3) & _U32
        h = ((h << 17 | h >> 15) & _U32) * _P4 & _U32
        at += 4
    for byte in data[at:]:
        h = (h + byte * _P5) & _U32
        h = ((h << 11 | h >> 21) & _U32) * _P1 & _U32
    h = (h ^ h >> 15) * _P2 & _U32
    h = (h ^ h >> 13) * _P3 & _U32
    return h ^ h >> 16
