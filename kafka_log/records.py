"""The records inside batches, for Kafka's internal topics and control batches; users' topics are never read so far.

An entry of message format 0 or 1 is read as a batch, too: see `kafka_log.old_formats`.

In: one whole batch, or a segment with the rows that `kafka_log.scan` made of it. Out: tuples of `Record`, or the
`Corruption` that keeps a batch from being read. The rules that must hold: a batch's records are read all or not at all;
and neither what a batch claims nor what it unpacks to decides how much memory is taken.

    length varint | attributes 1 | timestamp delta varlong | offset delta varint
                  | key length varint, key | value length varint, value | header count varint, headers
    header        = key length varint, key | value length varint, value

Length -1 stands for null. Deltas count from the batch's base timestamp and base offset; with LogAppendTime every record
has the batch's max timestamp instead (Kafka DefaultRecord, DefaultRecordBatch).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from kafka_log import batch as layout
from kafka_log.batch import TimestampType, compression_type, timestamp_type
from kafka_log.compression import MAX_PLAIN_BYTES, decompress
from kafka_log.corruption import Corruption, Damage
from kafka_log.old_formats import MIN_ENTRY_BYTES, NEWEST, entry_timestamp, read_entry
from kafka_log.varint import BROKEN, LONG_BYTES, read_signed

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == layout.HEADER_BYTES

MAX_PARTS: Final = 1 << 22
"""Records and their headers that are read of one batch: each becomes some hundred bytes here, out of two or seven."""
MAX_INTERNAL_BYTES: Final = 64 << 20
"""What a batch of an internal topic may unpack to. Brokers write them, of a megabyte by default (message.max.bytes), of
8 MB in the metadata log (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `timestamp` in milliseconds since 1970, -1 for none. A null value means deletion where compacted."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """One batch: its header's fields as they are on disk, and its records."""

    base_offset: int
    last_offset: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[Record, ...]


class _UnreadableError(Exception):
    """Stays inside this module: why a batch's records cannot be read."""


def read_batch(
    batch: bytes | bytearray | memoryview, *, max_plain_bytes: int = MAX_PLAIN_BYTES
) -> RecordBatch | Corruption:
    """Read one whole batch; the bytes must end where it ends. Its checksum is the scan's business.

    One that unpacks to more than `max_plain_bytes` is not read.
    """
    data = memoryview(batch).cast("B")
    if len(data) >= MIN_ENTRY_BYTES and data[layout.MAGIC_AT] <= NEWEST:
        return _read_old(data, max_plain_bytes)
    if len(data) < layout.HEADER_BYTES:
        return _corruption(Damage.RECORDS, data, f"{len(data)} bytes are less than a header")
    (
        base_offset,
        batch_length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = _HEADER.unpack_from(data)
    if magic != layout.CURRENT_MAGIC:
        return _corruption(Damage.MAGIC, data, f"no release writes records of magic {magic}")
    if batch_length + layout.LOG_OVERHEAD != len(data):
        return _corruption(Damage.RECORDS, data, f"the length field says {batch_length + layout.LOG_OVERHEAD} bytes")
    codec = compression_type(attributes)
    if codec is None:
        return _corruption(Damage.RECORDS, data, "the attributes name a compression that does not exist")
    body: bytes | Corruption = bytes(data[layout.RECORDS_AT :])
    if record_count:
        body = decompress(codec, data[layout.RECORDS_AT :], max_plain_bytes=max_plain_bytes)
    if isinstance(body, Corruption):
        return _corruption(Damage.RECORDS, data, body.detail)
    append_time = max_timestamp if timestamp_type(attributes) == TimestampType.LOG_APPEND_TIME else None
    try:
        last_offset = _in_64_bits(base_offset + last_offset_delta, "its last offset")
        records = _read_all(body, record_count, base_offset, base_timestamp, append_time)
    except _UnreadableError as error:
        return _corruption(Damage.RECORDS, data, str(error))
    return RecordBatch(
        base_offset=base_offset,
        last_offset=last_offset,
        partition_leader_epoch=leader_epoch,
        crc=crc,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records=records,
    )


def _read_old(data: memoryview, max_plain_bytes: int) -> RecordBatch | Corruption:
    """One whole entry of magic 0 or 1, as a batch."""
    size = layout.LOG_OVERHEAD + int.from_bytes(data[layout.BATCH_LENGTH_AT : layout.LEADER_EPOCH_AT], "big")
    read = (
        read_entry(data, max_plain_bytes=max_plain_bytes, max_records=MAX_PARTS)
        if size == len(data) >= MIN_ENTRY_BYTES + (8 if data[layout.MAGIC_AT] else 0)
        else None
    )
    if read is None:
        return _corruption(Damage.RECORDS, data, f"they are not those of an entry of magic {data[layout.MAGIC_AT]}")
    records = tuple(
        Record(offset=offset, timestamp=timestamp, key=key, value=value) for offset, timestamp, key, value in read
    )
    return RecordBatch(
        base_offset=records[0].offset,
        last_offset=records[-1].offset,
        partition_leader_epoch=-1,
        crc=int.from_bytes(data[12:16], "big"),
        attributes=data[17] & (layout.COMPRESSION_MASK | layout.TIMESTAMP_TYPE_BIT),
        base_timestamp=records[0].timestamp,
        max_timestamp=entry_timestamp(data),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=records,
    )


def read_records(
    batch: bytes | bytearray | memoryview, *, max_plain_bytes: int = MAX_PLAIN_BYTES
) -> tuple[Record, ...] | Corruption:
    """Read the records of one whole batch; positions in a `Corruption` count from the batch's first byte."""
    read = read_batch(batch, max_plain_bytes=max_plain_bytes)
    return read if isinstance(read, Corruption) else read.records


def records_in(
    segment: bytes | bytearray | memoryview, headers: NDArray[Any]
) -> Iterator[tuple[int, tuple[Record, ...] | Corruption]]:
    """Read an internal topic's records of the batches that `headers` (rows of `scan.BATCH_HEADER`) names: (index of the
    row, records).

    The rows' positions count from the start of `segment`. A batch whose checksum is wrong is not read, so it need not
    lie in it: a scan's bytes may have moved on (`scan.OnRows`).
    """
    data = memoryview(segment).cast("B")
    for index, row in enumerate(headers):
        position, end_position = int(row["position"]), int(row["position"] + row["size_bytes"])
        result: tuple[Record, ...] | Corruption
        if not row["crc_valid"]:
            result = _corruption(Damage.CRC, data[:0], "its checksum is wrong")
        elif 0 <= position < end_position <= len(data):
            result = read_records(data[position:end_position], max_plain_bytes=MAX_INTERNAL_BYTES)
        else:
            raise ValueError(f"row {index} lies at {position}..{end_position}, outside the {len(data)} bytes given")
        if isinstance(result, Corruption):
            result = Corruption(
                kind=result.kind,
                position=position,
                end_position=end_position,
                detail=result.detail,
                start_offset=int(row["base_offset"]),
                end_offset=int(row["last_offset"]) + 1,
                records=int(row["record_count"]),
            )
        yield index, result


def _corruption(kind: Damage, data: memoryview, why: str) -> Corruption:
    return Corruption(kind=kind, position=0, end_position=len(data), detail=f"the records cannot be read: {why}")


def _read_all(
    body: bytes, record_count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[Record, ...]:
    if record_count < 0:
        raise _UnreadableError(f"the record count is {record_count}")
    records, at, parts = list[Record](), 0, 0
    while at < len(body):
        length, start = _varint(body, at)
        if length < 0 or start + length > len(body):
            raise _UnreadableError(f"record {len(records)} says it has {length} bytes")
        if len(records) == record_count:
            raise _UnreadableError(f"more than the {record_count} records that the header tells")
        at = start + length
        records.append(_read_one(body[start:at], base_offset, base_timestamp, append_time))
        parts += 1 + len(records[-1].headers)
        if parts > MAX_PARTS:
            raise _UnreadableError(f"more than {MAX_PARTS} records and headers")
    if len(records) != record_count:
        raise _UnreadableError(f"{len(records)} records, the header tells {record_count}")
    return tuple(records)


def _read_one(body: bytes, base_offset: int, base_timestamp: int, append_time: int | None) -> Record:
    """Read one record, whose bytes begin after its length; its attributes byte is unused in magic 2."""
    timestamp_delta, at = read_signed(body, 1, LONG_BYTES)
    if at == BROKEN:
        raise _UnreadableError("a timestamp delta is cut short")
    offset_delta, at = _varint(body, at)
    key, at = _bytes(body, at)
    value, at = _bytes(body, at)
    header_count, at = _varint(body, at)
    headers = list[tuple[str, bytes | None]]()
    if not 0 <= header_count <= min(len(body) - at, MAX_PARTS):
        raise _UnreadableError(f"a record says it has {header_count} headers")
    for _ in range(header_count):
        name, at = _bytes(body, at)
        if name is None:
            raise _UnreadableError("a record header has no name")
        header_value, at = _bytes(body, at)
        headers.append((name.decode("utf-8", "replace"), header_value))
    if at != len(body):
        raise _UnreadableError("a record has bytes left over")
    timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(
        offset=_in_64_bits(base_offset + offset_delta, "a record's offset"),
        timestamp=_in_64_bits(timestamp, "a record's timestamp"),
        key=key,
        value=value,
        headers=tuple(headers),
    )


def _in_64_bits(number: int, what: str) -> int:
    """A sum of two numbers of the batch. Java's wraps around (DefaultRecord#readFrom), and nobody means that."""
    if not -(1 << 63) <= number < 1 << 63:
        raise _UnreadableError(f"{what} has no room in 64 bits")
    return number


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value, after = read_signed(body, at)
    if after == BROKEN:
        raise _UnreadableError("a number is cut short")
    return value, after


def _bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    """Read a length and so many bytes; None for length -1."""
    length, at = _varint(body, at)
    if length == -1:
        return None, at
    if length < 0 or at + length > len(body):
        raise _UnreadableError(f"a field says it has {length} bytes")
    return body[at : at + length], at + length
