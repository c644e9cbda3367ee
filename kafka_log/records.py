"""The records inside batches, for Kafka's internal topics and control batches; users' topics are never read so far.

An entry of message format 0 or 1 is read as a batch, too: see `kafka_log.old_formats`.

In: one whole batch, or a segment with the rows that `kafka_log.scan` made of it. Out: tuples of `Record`, or the
`Corruption` that keeps a batch from being read. The rules that must hold: a batch's records are read all or not at all;
and neither what a batch claims nor what it unpacks to decides how much memory and time is taken, an `Allowance` does.

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

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.allowance import Allowance, of_internal_topic
from tidegauge.kafka_log.batch import CompressionType, TimestampType, compression_type, timestamp_type
from tidegauge.kafka_log.compression import decompress
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.old_formats import MIN_ENTRY_BYTES, NEWEST, entry_timestamp, read_entry
from tidegauge.kafka_log.varint import BROKEN, LONG_BYTES, read_signed

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == layout.HEADER_BYTES
_MORE: Final = 0x80

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

    def __init__(self, why: str, kind: Damage = Damage.RECORDS) -> None:
        super().__init__(why)
        self.kind = kind


def read_batch(
    batch: bytes | bytearray | memoryview, *, allowance: Allowance | None = None
) -> RecordBatch | Corruption:
    """Read one whole batch; the bytes must end where it ends. Its checksum is the scan's business.

    `allowance` is that of the log, shared by its batches; without one the batch has a log's for itself.
    """
    data = memoryview(batch).cast("B")
    allowance = allowance if allowance is not None else Allowance()
    allowance.earn(len(data))
    if len(data) >= MIN_ENTRY_BYTES and data[layout.MAGIC_AT] <= NEWEST:
        return _read_old(data, allowance)
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
    append_time = max_timestamp if timestamp_type(attributes) == TimestampType.LOG_APPEND_TIME else None
    try:
        last_offset = _in_64_bits(base_offset + last_offset_delta, "its last offset")
        body = _plain(data[layout.RECORDS_AT :], codec if record_count else CompressionType.NONE, allowance)
        records = _read_all(body, record_count, base_offset, base_timestamp, append_time, allowance)
    except _UnreadableError as error:
        return _corruption(error.kind, data, str(error))
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


def _read_old(data: memoryview, allowance: Allowance) -> RecordBatch | Corruption:
    """One whole entry of magic 0 or 1, as a batch."""
    size = layout.LOG_OVERHEAD + int.from_bytes(data[layout.BATCH_LENGTH_AT : layout.LEADER_EPOCH_AT], "big")
    if not size == len(data) >= MIN_ENTRY_BYTES + (8 if data[layout.MAGIC_AT] else 0):
        return _corruption(Damage.RECORDS, data, "it is not an entry of its size")
    read = read_entry(data, allowance=allowance)
    if isinstance(read, Corruption):
        return _corruption(read.kind, data, read.detail)
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
    batch: bytes | bytearray | memoryview, *, allowance: Allowance | None = None
) -> tuple[Record, ...] | Corruption:
    """Read the records of one whole batch; positions in a `Corruption` count from the batch's first byte."""
    read = read_batch(batch, allowance=allowance)
    return read if isinstance(read, Corruption) else read.records


def records_in(
    segment: bytes | bytearray | memoryview, headers: NDArray[Any], *, allowance: Allowance | None = None
) -> Iterator[tuple[int, tuple[Record, ...] | Corruption]]:
    """Read an internal topic's records of the batches that `headers` (rows of `scan.BATCH_HEADER`) names: (index of the
    row, records).

    The rows' positions count from the start of `segment`. A batch whose checksum is wrong is not read, so it need not
    lie in it: a scan's bytes may have moved on (`scan.OnRows`). `allowance` is the log's, for who reads it piece by
    piece.
    """
    allowance = allowance if allowance is not None else of_internal_topic()
    data = memoryview(segment).cast("B")
    for index, row in enumerate(headers):
        position, end_position = int(row["position"]), int(row["position"] + row["size_bytes"])
        if row["crc_valid"] and not 0 <= position < end_position <= len(data):
            raise ValueError(f"row {index} lies at {position}..{end_position}, outside the {len(data)} bytes given")
        yield index, records_of(row, data[position:end_position], allowance=allowance)


def records_of(
    row: Any, batch: bytes | bytearray | memoryview, *, allowance: Allowance
) -> tuple[Record, ...] | Corruption:
    """The same of one batch, which nobody looks at if its checksum is wrong."""
    kind, detail = Damage.CRC, "the records cannot be read: its checksum is wrong"
    if row["crc_valid"]:
        records = read_records(batch, allowance=allowance)
        if not isinstance(records, Corruption):
            return records
        kind, detail = records.kind, records.detail
    return Corruption(
        kind=kind,
        position=int(row["position"]),
        end_position=int(row["position"] + row["size_bytes"]),
        detail=detail,
        start_offset=int(row["base_offset"]),
        end_offset=int(row["last_offset"]) + 1,
        records=int(row["record_count"]),
    )


def _corruption(kind: Damage, data: memoryview, why: str) -> Corruption:
    return Corruption(kind=kind, position=0, end_position=len(data), detail=f"the records cannot be read: {why}")


def _plain(data: memoryview, codec: CompressionType, allowance: Allowance) -> bytes:
    most = allowance.bytes_of_a_batch
    body = decompress(codec, data, max_plain_bytes=most)
    # How far a codec came with bytes that it could not unpack is not known.
    allowance.spend(plain_bytes=most if isinstance(body, Corruption) else len(body))
    if isinstance(body, Corruption):
        raise _UnreadableError(body.detail, body.kind)
    return body


def _read_all(
    body: bytes,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    allowance: Allowance,
) -> tuple[Record, ...]:
    if record_count < 0:
        raise _UnreadableError(f"the record count is {record_count}")
    # A false count costs nothing: what is walked over is what the bytes hold.
    held = min(record_count, len(body) // layout.MIN_RECORD_BYTES)
    if held > allowance.records:
        raise _UnreadableError(f"more than {allowance.records} records and headers", Damage.NOT_READ)
    allowance.spend(records=held)
    records, at = list[Record](), 0
    while at < len(body):
        length, start = _varint(body, at)
        if length < 0 or start + length > len(body):
            raise _UnreadableError(f"record {len(records)} says it has {length} bytes")
        if len(records) == record_count:
            raise _UnreadableError(f"more than the {record_count} records that the header tells")
        at = start + length
        records.append(_read_one(body, start, at, base_offset, base_timestamp, append_time, allowance))
    if len(records) != record_count:
        raise _UnreadableError(f"{len(records)} records, the header tells {record_count}")
    return tuple(records)


def _read_one(
    body: bytes,
    start: int,
    end: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    allowance: Allowance,
) -> Record:
    """Read the record between two indexes, the first of which is behind its length; its attributes byte is unused in
    magic 2.
    """
    timestamp_delta, at = read_signed(body, start + 1, LONG_BYTES)
    if not start < at <= end:
        raise _UnreadableError("a timestamp delta is cut short")
    offset_delta, at = _varint(body, at)
    key, at = _bytes(body, at, end)
    value, at = _bytes(body, at, end)
    header_count, at = _varint(body, at)
    headers: Headers = ()
    if header_count:
        headers, at = _headers(body, at, end, header_count, allowance)
    if at != end:
        raise _UnreadableError("a record has bytes left over")
    timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(
        offset=_in_64_bits(base_offset + offset_delta, "a record's offset"),
        timestamp=_in_64_bits(timestamp, "a record's timestamp"),
        key=key,
        value=value,
        headers=headers,
    )


def _in_64_bits(number: int, what: str) -> int:
    """A sum of two numbers of the batch. Java's wraps around (DefaultRecord#readFrom), and nobody means that."""
    if not -(1 << 63) <= number < 1 << 63:
        raise _UnreadableError(f"{what} has no room in 64 bits")
    return number


def _headers(body: bytes, at: int, end: int, count: int, allowance: Allowance) -> tuple[Headers, int]:
    if not 0 <= count <= end - at:
        raise _UnreadableError(f"a record says it has {count} headers")
    held = min(count, (end - at) // 2)
    if held > allowance.records:
        raise _UnreadableError(f"more than {allowance.records} records and headers", Damage.NOT_READ)
    allowance.spend(records=held)
    headers = list[tuple[str, bytes | None]]()
    for _ in range(count):
        name, at = _bytes(body, at, end)
        if name is None:
            raise _UnreadableError("a record header has no name")
        value, at = _bytes(body, at, end)
        # A name that is no UTF-8 stays what it is: two of them must not become one, and `batch_writer` gives it back.
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    if at < len(body) and (byte := body[at]) < _MORE:  # nearly all of them have one byte
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, after = read_signed(body, at)
    if after == BROKEN:
        raise _UnreadableError("a number is cut short")
    return value, after


def _bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Read a length and so many bytes; None for length -1."""
    length, at = _varint(body, at)
    if length == -1:
        return None, at
    if length < 0 or at + length > end:
        raise _UnreadableError(f"a field says it has {length} bytes")
    return body[at : at + length], at + length
