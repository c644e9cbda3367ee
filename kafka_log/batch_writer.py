"""Record batches, written: magic 2, with a right checksum.

In: a `RecordBatch` (its records unpacked, whatever it was read from), and a codec. Out: its bytes. The rule that must
hold: a batch that Kafka wrote uncompressed and `kafka_log.records.read_batch` read is written as the same bytes.
"""

import struct
from typing import Final

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch import CompressionType, TimestampType, timestamp_type
from tidegauge.kafka_log.compression import compress
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.records import Record, RecordBatch
from tidegauge.kafka_log.varint import write_signed

_UNCOVERED: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")


def write_batch(batch: RecordBatch, *, codec: CompressionType = CompressionType.NONE) -> bytes:
    """One batch: its checksum is computed, its compression bits are the codec's, all else is as the header says.

    A batch without records has no compressed part: Kafka writes such a header without a codec.
    """
    records = b"".join(_record(batch, record) for record in batch.records)
    if not batch.records:
        codec = CompressionType.NONE
    covered = _COVERED.pack(
        batch.attributes & ~layout.COMPRESSION_MASK | codec,
        batch.last_offset - batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(batch.records),
    ) + compress(codec, records)
    return (
        _UNCOVERED.pack(
            batch.base_offset,
            layout.ATTRIBUTES_AT - layout.LOG_OVERHEAD + len(covered),
            batch.partition_leader_epoch,
            layout.CURRENT_MAGIC,
            crc32c(covered),
        )
        + covered
    )


def _record(batch: RecordBatch, record: Record) -> bytes:
    # With LogAppendTime the broker leaves the producer's deltas in place, and no reader looks at them.
    append_time = timestamp_type(batch.attributes) == TimestampType.LOG_APPEND_TIME
    body = bytearray(b"\0")
    body += write_signed(0 if append_time else record.timestamp - batch.base_timestamp)
    body += write_signed(record.offset - batch.base_offset)
    body += _field(record.key) + _field(record.value)
    body += write_signed(len(record.headers))
    for name, value in record.headers:
        body += _field(name.encode("utf-8", "surrogateescape")) + _field(value)
    return write_signed(len(body)) + bytes(body)


def _field(data: bytes | None) -> bytes:
    return write_signed(-1) if data is None else write_signed(len(data)) + data
