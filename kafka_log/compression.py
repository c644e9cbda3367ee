"""The records part of a batch, unpacked and packed.

In: the compressed bytes and the codec that the batch's attributes name. Out: the plain bytes, or a `Corruption`; and
the other way. The rule that must hold: what the bytes claim never decides how much memory is taken, nothing grows past
the limit; and what is packed has the shape that Java clients give it, with the same bytes in every process.

Snappy comes in two shapes. Java clients write snappy-java's stream ("xerial"), librdkafka and others a raw block:

    0               8            12                  16
    +---------------+------------+-------------------+-------------+- - - -+-------------+- - -
    | 82 SNAPPY 00  | version 4  | compatible from 4 | length 4    | block | length 4    | block
    +---------------+------------+-------------------+-------------+- - - -+-------------+- - -
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import cramjam

from kafka_log.batch import CompressionType
from kafka_log.corruption import Corruption, Damage

MAX_PLAIN_BYTES: Final = 256 << 20
"""A batch is at most a few MB on the wire (message.max.bytes); what unpacks to more than this is not a batch."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_VERSIONS: Final = bytes((0, 0, 0, 1, 0, 0, 0, 1))
_XERIAL_BLOCK_BYTES: Final = 32 << 10

_LZ4_FRAME_HEAD: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic, then version 1 with independent blocks of at most 64 KiB and no checksums, then the head's own checksum."""
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_STORED_BIT: Final = 1 << 31
_ZSTD_LEVEL: Final = 3
"""Of Kafka, if none is asked for; gzip's is 6."""
_GZIP_LEVEL: Final = 6

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


def compress(codec: CompressionType, data: bytes) -> bytes:
    """The bytes as a Java client's default level packs them, up to the codec library's own choices."""
    match codec:
        case CompressionType.NONE:
            return data
        case CompressionType.GZIP:
            return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL))
        case CompressionType.SNAPPY:
            return _XERIAL_MAGIC + _XERIAL_VERSIONS + b"".join(_pack_snappy_blocks(data))
        case CompressionType.LZ4:
            return _LZ4_FRAME_HEAD + b"".join(_pack_lz4_blocks(data)) + bytes(4)
        case CompressionType.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def _pack_snappy_blocks(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        yield len(block).to_bytes(4, "big") + block


def _pack_lz4_blocks(data: bytes) -> Iterator[bytes]:
    # Kafka's reader takes independent blocks only, so the library's own frames, whose blocks are linked, will not do.
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[at : at + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(packed) < len(plain):
            yield len(packed).to_bytes(4, "little") + packed
        else:
            yield (len(plain) | _LZ4_STORED_BIT).to_bytes(4, "little") + plain


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
