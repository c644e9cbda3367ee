"""The records part of a batch, unpacked.

In: the compressed bytes and the codec that the batch's attributes name. Out: the plain bytes, or a `Corruption`. The
rule that must hold: what the bytes claim never decides how much memory is taken; nothing grows past the limit.

Snappy comes in two shapes. Java clients write snappy-java's stream ("xerial"), librdkafka and others a raw block:

    0               8            12                  16
    +---------------+------------+-------------------+-------------+- - - -+-------------+- - -
    | 82 SNAPPY 00  | version 4  | compatible from 4 | length 4    | block | length 4    | block
    +---------------+------------+-------------------+-------------+- - - -+-------------+- - -
"""

from collections.abc import Callable
from typing import Any, Final

import cramjam

from kafka_log.batch import CompressionType
from kafka_log.corruption import Corruption, Damage

MAX_PLAIN_BYTES: Final = 256 << 20
"""A batch is at most a few MB on the wire (message.max.bytes); what unpacks to more than this is not a batch."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16

_INTO: Final[dict[CompressionType, Callable[[bytes, bytearray], Any]]] = {
    CompressionType.GZIP: cramjam.gzip.decompress_into,
    CompressionType.LZ4: cramjam.lz4.decompress_into,
    CompressionType.ZSTD: cramjam.zstd.decompress_into,
}


class _UnpackError(Exception):
    """Stays inside this module: the codec's words about bytes that it cannot unpack."""


def decompress(
    codec: CompressionType, data: bytes | bytearray | memoryview, *, max_plain_bytes: int = MAX_PLAIN_BYTES
) -> bytes | Corruption:
    """Return the plain bytes; a `Corruption` of kind RECORDS, positions within `data`, if they cannot be had."""
    packed = bytes(data)
    try:
        if codec == CompressionType.NONE:
            return packed
        if codec == CompressionType.SNAPPY:
            return _unpack_snappy(packed, max_plain_bytes)
        return _unpack_growing(_INTO[codec], packed, max_plain_bytes)
    except (_UnpackError, cramjam.DecompressionError) as error:
        return Corruption(
            kind=Damage.RECORDS,
            position=0,
            end_position=len(packed),
            detail=f"{codec.name.lower()} cannot be unpacked: {error}",
        )


def _unpack_growing(into: Callable[[bytes, bytearray], Any], packed: bytes, limit: int) -> bytes:
    """Unpack into a buffer that grows only when it really overflows: the formats' own size fields are not trusted."""
    if not packed:
        raise _UnpackError("no bytes")
    size = min(limit, max(64 << 10, 8 * len(packed)))
    while True:
        buffer = bytearray(size)
        try:
            return bytes(memoryview(buffer)[: into(packed, buffer)])
        except cramjam.DecompressionError as error:
            # The codecs name an overflow of the target in these words and in no others.
            if "failed to write whole buffer" not in str(error):
                raise
        if size == limit:
            raise _UnpackError(f"more than {limit} bytes")
        size = min(limit, 8 * size)


def _unpack_snappy(packed: bytes, limit: int) -> bytes:
    if not packed.startswith(_XERIAL_MAGIC):
        return _unpack_snappy_block(packed, limit)
    blocks, at, total = list[bytes](), _XERIAL_HEADER_BYTES, 0
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        at += 4
        if size > len(packed) - at:
            raise _UnpackError("a block is longer than the batch")
        blocks.append(_unpack_snappy_block(packed[at : at + size], limit - total))
        total += len(blocks[-1])
        at += size
    return b"".join(blocks)


def _unpack_snappy_block(block: bytes, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    # Snappy cannot pack better than about 22 to 1, so a larger claim is a lie that would cost memory.
    if size > min(limit, 32 * len(block) + 64):
        raise _UnpackError(f"a block of {len(block)} bytes claims to hold {size}")
    return bytes(cramjam.snappy.decompress_raw(block))
