"""Damage that gets past the checks at the door: inside what is packed, and with sizes and checksums made right again.

In: whole batches, entries, headers files, producer snapshots. Out: the same, damaged somewhere and otherwise in order.
A checksum keeps random damage from ever reaching what stands behind it; who writes bytes on purpose computes it.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from random import Random
from typing import Final

import cramjam

from benchmarks.fuzz.mutate import damaged, damaged_json, number_near, packed_number
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch import CompressionType, compression_type
from tidegauge.kafka_log.compression import compress, decompress
from tidegauge.kafka_log.corruption import Corruption, Damage, damage_values
from tidegauge.kafka_log.crc32c import crc32c

_FIELDS: Final = (
    (layout.BASE_OFFSET_AT, 8), (layout.BATCH_LENGTH_AT, 4), (layout.LEADER_EPOCH_AT, 4), (layout.MAGIC_AT, 1),
    (layout.CRC_AT, 4), (layout.ATTRIBUTES_AT, 2), (layout.LAST_OFFSET_DELTA_AT, 4), (layout.BASE_TIMESTAMP_AT, 8),
    (layout.MAX_TIMESTAMP_AT, 8), (layout.PRODUCER_ID_AT, 8), (layout.PRODUCER_EPOCH_AT, 2),
    (layout.BASE_SEQUENCE_AT, 4), (layout.RECORD_COUNT_AT, 4),
)  # fmt: skip
_OLD_FIELDS: Final = ((0, 8), (8, 4), (12, 4), (16, 1), (17, 1), (18, 8), (26, 4), (30, 4))
_OLD_CRC_FROM: Final = 16
_MOST_PLAIN: Final = 1 << 20
_HEADERS_HEAD: Final = 10
_FRAME: Final = struct.Struct("<cII")
_PRODUCERS_CRC_FROM: Final = 6
_DAMAGE: Final = damage_values(
    Corruption(kind=Damage.CRC, position=0, end_position=61, detail="wrong", start_offset=7, end_offset=8, records=1)
)
"""Of a headers file's frame of rows; a sound log has none."""


def is_old(batch: bytes) -> bool:
    """Whether an entry is of message format 0 or 1."""
    return len(batch) > layout.MAGIC_AT and batch[layout.MAGIC_AT] < layout.CURRENT_MAGIC


def made_right(batch: bytes) -> bytes:
    """A batch or an entry with the length and the checksum that its bytes ask for; too short a one as it is."""
    if is_old(batch):
        covered = batch[_OLD_CRC_FROM:]
        return batch[:8] + struct.pack(">iI", len(batch) - layout.LOG_OVERHEAD, zlib.crc32(covered)) + covered
    if len(batch) < layout.HEADER_BYTES:
        return batch
    length = struct.pack(">i", len(batch) - layout.LOG_OVERHEAD)
    crc = struct.pack(">I", crc32c(batch[layout.ATTRIBUTES_AT :]))
    head = batch[: layout.BATCH_LENGTH_AT] + length + batch[layout.LEADER_EPOCH_AT : layout.CRC_AT]
    return head + crc + batch[layout.ATTRIBUTES_AT :]


def damaged_batch(rng: Random, batch: bytes, others: Sequence[bytes] = ()) -> bytes:
    """A field of its header, its packed bytes, or its records below the compression; mostly put right afterwards."""
    match rng.randrange(4):
        case 0:
            changed = _with_field(rng, batch)
        case 1:
            head = layout.HEADER_BYTES
            changed = batch[:head] + damaged(rng, batch[head:], [other[head:] for other in others])
        case 2:
            changed = _with_records(rng, batch)
        case _:
            changed = damaged(rng, batch, others)
    return made_right(changed) if rng.random() < 0.8 else changed


def _with_field(rng: Random, batch: bytes) -> bytes:
    changed = bytearray(batch)
    fields = _OLD_FIELDS if is_old(batch) else _FIELDS
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, size = rng.choice(fields)
        changed[at : at + size] = packed_number(rng, number_near(rng, len(batch)), size)
    return bytes(changed)


def _with_records(rng: Random, batch: bytes) -> bytes:
    """The records damaged and packed again; sometimes with another codec than the attributes name."""
    if is_old(batch) or len(batch) < layout.HEADER_BYTES:
        return damaged(rng, batch)
    attributes = int.from_bytes(batch[layout.ATTRIBUTES_AT : layout.LAST_OFFSET_DELTA_AT], "big")
    codec = compression_type(attributes)
    if codec is None:
        return damaged(rng, batch)
    plain = decompress(codec, batch[layout.RECORDS_AT :], max_plain_bytes=_MOST_PLAIN)
    if isinstance(plain, Corruption):
        return damaged(rng, batch)
    packed = compress(codec if rng.random() < 0.9 else rng.choice(list(CompressionType)), damaged(rng, plain))
    return batch[: layout.RECORDS_AT] + packed


def damaged_log(rng: Random, batches: Sequence[bytes], others: Sequence[bytes] = ()) -> bytes:
    """A run of batches of which some are damaged, go, come twice or change places; or damage anywhere in it."""
    changed = list(batches)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        at = rng.randrange(len(changed))
        match rng.randrange(8):
            case 0 if len(changed) > 1:
                del changed[at]
            case 1:
                changed.insert(at, rng.choice(changed))
            case 2 if others:
                changed.insert(at, rng.choice(others))
            case 3:
                changed[at] = bytes(rng.choice((1, 17, 61, 4096)))
            case _:
                changed[at] = damaged_batch(rng, changed[at], others)
    data = b"".join(changed)
    return damaged(rng, data, others) if rng.random() < 0.35 else data


def damaged_producer_snapshot(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Its bytes, mostly with the checksum that they ask for."""
    changed = damaged(rng, data, others)
    if len(changed) < _PRODUCERS_CRC_FROM or rng.random() < 0.2:
        return changed
    return changed[:2] + struct.pack(">I", crc32c(changed[_PRODUCERS_CRC_FROM:])) + changed[_PRODUCERS_CRC_FROM:]


def damaged_headers_file(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """What a frame holds, packed and checksummed again; frames that go, come twice or change places; or its bytes."""
    if rng.random() < 0.2:
        return damaged(rng, data, others)
    frames = list(_frames(data))
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(frames))
        kind, plain = frames[at]
        match rng.randrange(8):
            case 0 if len(frames) > 1:
                del frames[at]
            case 1:
                frames.insert(rng.randrange(len(frames)), frames[at])
            case 2:
                frames[at] = (rng.choice((b"K", b"R", b"E", b"?")), plain)
            case 3 | 4 if kind == b"R":
                frames[at] = (kind, plain + json.dumps(damaged_json(rng, [dict(_DAMAGE)])).encode())
            case _:
                frames[at] = (kind, damaged(rng, plain))
    return data[:_HEADERS_HEAD] + b"".join(_frame(rng, kind, plain) for kind, plain in frames)


def _frames(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], _HEADERS_HEAD
    while at < len(data):
        kind, packed_size, plain_size = _FRAME.unpack_from(data, at)
        at += _FRAME.size + 4
        payload = data[at : at + packed_size]
        found.append((kind, payload if kind == b"E" else _unpacked(payload, plain_size)))
        at += packed_size
    return found


def _unpacked(payload: bytes, plain_size: int) -> bytes:
    buffer = bytearray(plain_size)
    cramjam.zstd.decompress_into(payload, buffer)
    return bytes(buffer)


def _frame(rng: Random, kind: bytes, plain: bytes) -> bytes:
    payload = plain if kind == b"E" else bytes(cramjam.zstd.compress(plain, level=1))
    size = len(plain) if rng.random() < 0.95 else number_near(rng, len(plain)) & 0x7FFFFFF
    head = _FRAME.pack(kind, len(payload), size)
    return head + struct.pack("<I", crc32c(head + payload)) + payload
