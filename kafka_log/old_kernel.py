"""Entries of message formats 0 and 1 in the scan's buffer, compiled: do they look like one, and their rows.

In: an address. Out: an answer, or a row of `scan.BATCH_HEADER`. The rule that must hold: no byte beyond what is said to
be there is read. `kafka_log.old_formats` says what such an entry looks like.
"""

import ctypes
import zlib
from typing import Any, Final

import numpy as np

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.kernels import COMPILED
from tidegauge.kafka_log.kernels import i32 as _i32
from tidegauge.kafka_log.kernels import i64 as _i64
from tidegauge.kafka_log.kernels import int64 as _int64
from tidegauge.kafka_log.kernels import kernel as _kernel
from tidegauge.kafka_log.kernels import u8 as _u8
from tidegauge.kafka_log.kernels import u32 as _u32
from tidegauge.kafka_log.kernels import uint32 as _uint32

_MAX_OFFSET_STEP: Final = (1 << 31) - 1
"""Offsets of one segment span less than 2^31 (Kafka LogSegment#ensureOffsetInRange)."""
OLD_MIN_LENGTH: Final = 14
_ATTRIBUTES: Final = 0x0F
"""Compression and timestamp type; no other bit means anything (LegacyRecord)."""
OLD_CRC_AT: Final = 12
OLD_CRC_FROM: Final = 16
"""The old message formats: offset 8, size 4, crc-32 4, magic 1, attributes 1, [timestamp 8 in magic 1,] key, value."""

_LENGTH = layout.BATCH_LENGTH_AT
_LARGEST_LAST = layout.LARGEST_LAST_OFFSET
_MAGIC = layout.MAGIC_AT
_CODEC = layout.COMPRESSION_MASK
_OVERHEAD = layout.LOG_OVERHEAD


def _crc32_table() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the table of CRC-32 (the one of zip), which the old message formats use."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0xEDB88320) ^ (table >> np.uint32(1)), table >> np.uint32(1))
    return table.astype(np.uint32)


_CRC32_TABLE = _crc32_table()


def _crc32(address: Any, size: Any) -> Any:
    crc = _uint32(0xFFFFFFFF)
    for i in range(size):
        crc = _CRC32_TABLE[(crc ^ _u8(address + i)) & _uint32(0xFF)] ^ (crc >> _uint32(8))
    return crc ^ _uint32(0xFFFFFFFF)


def _crc32_of_zlib(address: int, size: int) -> int:
    return zlib.crc32(ctypes.string_at(address, size))


crc32_at: Any = _kernel(_crc32) if COMPILED else _crc32_of_zlib
"""In a kernel: CRC-32 of so many bytes at an address."""


@_kernel
def old_fields_fit(at: Any, size: Any) -> Any:
    """Tell whether key and value of a magic 0 or 1 entry fill it exactly."""
    cursor = at + 18 + (8 if _u8(at + _MAGIC) == 1 else 0)
    end = at + size
    if end - cursor < 8:
        return False
    key_length = _int64(_i32(cursor))
    if key_length < -1 or key_length > end - cursor - 8:
        return False
    cursor += 4 + max(key_length, 0)
    value_length = _int64(_i32(cursor))
    return bool(value_length >= -1 and cursor + 4 + max(value_length, 0) == end)


@_kernel
def may_be_old_entry(at: Any, available: Any, last_offset: Any) -> Any:
    """Tell whether what is there begins as a magic 0 or 1 entry might, its end aside: its offset, its key's length."""
    offset = _i64(at)
    size = _int64(_i32(at + _LENGTH)) + _OVERHEAD
    cursor = 18 + (8 if _u8(at + _MAGIC) == 1 else 0)
    if size < cursor + 8 or available < cursor + 4 or _u8(at + 17) & ~_ATTRIBUTES:
        return False
    if not 0 <= offset <= _LARGEST_LAST or (last_offset >= 0 and not 0 < offset - last_offset <= _MAX_OFFSET_STEP):
        return False
    return bool(-1 <= _i32(at + cursor) <= size - cursor - 8)


@_kernel
def write_old_row(row: Any, at: Any, position: Any, size: Any, crc_valid: Any) -> None:
    """Write the row of a magic 0 or 1 entry, which has neither epoch nor producer nor offset delta.

    Of a wrapper, what is inside is not known here (`old_formats.resolve_wrappers`).
    """
    magic = _u8(at + _MAGIC)
    attributes = _u8(at + 17) & _ATTRIBUTES
    timestamp = _i64(at + 18) if magic == 1 and size >= _OVERHEAD + OLD_MIN_LENGTH + 8 else -1
    row["position"] = position
    row["size_bytes"] = size
    row["base_offset"] = _i64(at)
    row["last_offset"] = _i64(at)
    row["partition_leader_epoch"] = -1
    row["magic"] = magic
    row["crc"] = _u32(at + OLD_CRC_AT)
    row["crc_valid"] = crc_valid
    row["attributes"] = attributes
    row["base_timestamp"] = timestamp
    row["max_timestamp"] = timestamp
    row["producer_id"] = -1
    row["producer_epoch"] = -1
    row["base_sequence"] = -1
    row["record_count"] = 1 if attributes & _CODEC == 0 and (not crc_valid or old_fields_fit(at, size)) else -1
    row["control_type"] = -1
    row["coordinator_epoch"] = -1
    row["control_records_ok"] = 1
