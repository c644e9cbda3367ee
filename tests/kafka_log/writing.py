"""Small batches and entries made by hand, for what no sound broker writes."""

import struct
import zlib

import cramjam

from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.varint import write_signed, write_unsigned

COMMIT_KEY = bytes.fromhex("00000001")
COMMIT_VALUE = bytes.fromhex("000000000007")
"""Version 0, coordinator epoch 7."""

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def record(
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    *,
    timestamp_delta: int = 0,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> bytes:
    body = b"\0" + write_signed(timestamp_delta) + write_signed(offset_delta) + _field(key) + _field(value)
    body += write_signed(len(headers)) + b"".join(_field(name.encode()) + _field(text) for name, text in headers)
    return write_signed(len(body)) + body


def batch(
    base_offset: int,
    records: bytes,
    record_count: int,
    *,
    attributes: int = 0,
    leader_epoch: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = 1_000,
    max_timestamp: int = 1_000,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Write one batch of magic 2 with a right checksum around records that are ready (and packed, if need be)."""
    if last_offset_delta is None:
        last_offset_delta = max(record_count - 1, 0)
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    covered += records
    return struct.pack(">qiibI", base_offset, 9 + len(covered), leader_epoch, 2, crc32c(covered)) + covered


def marker(base_offset: int, *, key: bytes = COMMIT_KEY, value: bytes = COMMIT_VALUE, **changes: int) -> bytes:
    """Write the end marker of a transaction."""
    fields = {"attributes": 0x30, "producer_id": 9, "producer_epoch": 1, **changes}
    return batch(base_offset, record(0, key, value), 1, **fields)


def old_entry(offset: int, magic: int, value: bytes) -> bytes:
    """Write one entry of the message formats before magic 2."""
    covered = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1_000) if magic else b"")
    covered += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


def xerial_snappy(data: bytes, block_bytes: int) -> bytes:
    """Pack bytes as snappy-java's stream does."""
    blocks = (cramjam.snappy.compress_raw(data[at : at + block_bytes]) for at in range(0, len(data), block_bytes))
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + bytes(block) for block in blocks)


def tagged_field(tag: int, data: bytes) -> bytes:
    """Write one tagged field of a flexible message."""
    return write_unsigned(tag) + write_unsigned(len(data)) + data


def _field(data: bytes | None) -> bytes:
    return write_signed(-1) if data is None else write_signed(len(data)) + data
