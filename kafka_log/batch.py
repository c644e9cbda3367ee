"""One record batch's header: where its fields lie and what its attribute bits mean.

    byte 0          8          12         16    17      21           23                 27
         +----------+----------+----------+-----+-------+------------+------------------+
         | base     | batch    | leader   | ma- | crc   | attributes | last offset      |
         | offset 8 | length 4 | epoch 4  | gic | 4     | 2          | delta 4          |
         +----------+----------+----------+-----+-------+------------+------------------+
    27          35          43          51         53         57        61
    +-----------+-----------+-----------+----------+----------+---------+---------- - - -
    | base      | max       | producer  | producer | base     | record  | records
    | timest. 8 | timest. 8 | id 8      | epoch 2  | seq. 4   | count 4 |
    +-----------+-----------+-----------+----------+----------+---------+---------- - - -

All numbers are big-endian and signed but for the crc. `batch length` counts from byte 12 on, so a batch takes
`LOG_OVERHEAD + batch length` bytes. The CRC-32C covers byte 21 to the end: base offset, batch length, leader epoch and
magic are outside it, because the leader's broker sets them without touching what the producer sent
(Kafka DefaultRecordBatch, KIP-98).

    attributes   15 ... 7 | 6              | 5       | 4             | 3              | 2 1 0
                 unused   | delete horizon | control | transactional | timestamp type | compression

Bit 6 says that the log cleaner replaced `base timestamp` by the time at which it may drop a tombstone or an end marker.
"""

from enum import IntEnum
from typing import Final

BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57
RECORDS_AT: Final = 61

LOG_OVERHEAD: Final = 12
"""Bytes before the part that the length field counts: base offset and the length itself."""
HEADER_BYTES: Final = RECORDS_AT
MIN_BATCH_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD
"""Smallest sound length field of a magic 2 batch: a header without records."""
LARGEST_LAST_OFFSET: Final = (1 << 63) - 2
"""The offset behind a batch, where its log ends, has to have room in 64 bits, too."""
CURRENT_MAGIC: Final = 2
MIN_RECORD_BYTES: Final = 7
"""Of a record without key, value and headers: six numbers of a byte each after its length (DefaultRecord)."""

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
UNUSED_ATTRIBUTES_MASK: Final = 0xFF80


class CompressionType(IntEnum):
    """How a batch's records are compressed (Kafka CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whose clock the records' timestamps come from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def compression_type(attributes: int) -> CompressionType | None:
    """Return the codec, or None if the bits name none that exists."""
    codec = attributes & COMPRESSION_MASK
    return CompressionType(codec) if codec <= CompressionType.ZSTD else None


def timestamp_type(attributes: int) -> TimestampType:
    """Return whether the producer's clock or the broker's (LogAppendTime) gave the timestamps."""
    return TimestampType.LOG_APPEND_TIME if attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME
