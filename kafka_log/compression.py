"""The records part of a batch, unpacked and packed.

In: the compressed bytes and the codec that the batch's attributes name. Out: the plain bytes, or a `Corruption`; and
the other way. The rule that must hold: what the bytes claim never decides how much memory is taken, nothing grows past
the limit, and what would is `Damage.NOT_READ`, which says nothing against the batch; and what is packed has the shape
that Java clients give it, with the same bytes in every process.

Snappy comes in two shapes. Java clients write snappy-java's stream ("xerial"), librdkafka and others a raw block:

    0               8            12                  16
    +---------------+------------+-------------------+-------------+- - - -+-------------+- - -
    | 82 SNAPPY 00  | version 4  | compatible from 4 | length 4    | block | length 4    | block
    +---------------+------------+-------------------+-------------+- - - -+-------------+- - -
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import cramjam
import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.corruption import Corruption, Damage

MAX_PLAIN_BYTES: Final = 256 << 20
"""What is unpacked of any batch at most. On the wire it has a few MB (message.max.bytes)."""
FREE_PLAIN_BYTES: Final = 64 << 20
"""What is unpacked of any batch, however few bytes it has."""
PLAIN_FOR_PACKED: Final = 1100
"""So many bytes are unpacked for each packed one, where that is more. gzip packs 1,032 to 1 at best, lz4 255 to 1 and
snappy 22 to 1, so only zstd can go beyond it: zeros, or the same record over and over."""

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

_Into = Callable[[bytes, NDArray[np.uint8]], int]
_INTO: Final[dict[CompressionType, Any]] = {
    CompressionType.GZIP: cramjam.gzip.decompress_into,
    CompressionType.LZ4: cramjam.lz4.decompress_into,
    CompressionType.ZSTD: cramjam.zstd.decompress_into,
}


class _UnpackError(Exception):
    """Stays inside this module: the codec's words about bytes that it cannot unpack."""


class _TooLargeError(Exception):
    """Stays inside this module: what the bytes unpack to is more than is wanted."""


def most_plain_bytes(packed_bytes: int) -> int:
    """How many bytes a batch of so many packed ones may unpack to; what has more is not read."""
    return min(MAX_PLAIN_BYTES, max(FREE_PLAIN_BYTES, PLAIN_FOR_PACKED * packed_bytes))


def decompress(
    codec: CompressionType, data: bytes | bytearray | memoryview, *, max_plain_bytes: int | None = None
) -> bytes | Corruption:
    """Return the plain bytes; a `Corruption`, positions within `data`, if they cannot be had: of kind RECORDS, or
    NOT_READ where they are more than `max_plain_bytes` (by default `most_plain_bytes`).
    """
    if codec == CompressionType.NONE:
        return bytes(data)
    plain = decompress_to_array(codec, data, max_plain_bytes=max_plain_bytes)
    return plain if isinstance(plain, Corruption) else plain.tobytes()


def decompress_to_array(
    codec: CompressionType, data: bytes | bytearray | memoryview, *, max_plain_bytes: int | None = None
) -> NDArray[np.uint8] | Corruption:
    """The same as an array, which takes half the memory: there is no copy of it."""
    if codec == CompressionType.NONE:
        return np.frombuffer(data, np.uint8)
    packed = bytes(data)
    limit = most_plain_bytes(len(packed)) if max_plain_bytes is None else max_plain_bytes
    try:
        if codec == CompressionType.SNAPPY:
            return _unpack_snappy(packed, limit)
        return _unpack_growing(_INTO[codec], packed, limit)
    except (_UnpackError, cramjam.DecompressionError) as error:
        return _not_unpacked(Damage.RECORDS, packed, f"{codec.name.lower()} cannot be unpacked: {error}")
    except _TooLargeError:
        return _not_unpacked(Damage.NOT_READ, packed, f"{codec.name.lower()} unpacks to more than {limit} bytes")


def _not_unpacked(kind: Damage, packed: bytes, detail: str) -> Corruption:
    return Corruption(kind=kind, position=0, end_position=len(packed), detail=detail)


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


def _unpack_growing(into: _Into, packed: bytes, limit: int) -> NDArray[np.uint8]:
    """Unpack into a buffer that grows only when it really overflows: the formats' own size fields are not trusted."""
    if not packed:
        raise _UnpackError("no bytes")
    size = min(limit, max(64 << 10, 8 * len(packed)))
    while True:
        # Room that nothing was written to is not taken from the system.
        buffer = np.empty(size, np.uint8)
        try:
            return buffer[: into(packed, buffer)]
        except cramjam.DecompressionError as error:
            # The codecs name an overflow of the target in these words and in no others.
            if "failed to write whole buffer" not in str(error):
                raise
        if size == limit:
            raise _TooLargeError
        del buffer
        size = min(limit, 8 * size)


def _unpack_snappy(packed: bytes, limit: int) -> NDArray[np.uint8]:
    if not packed.startswith(_XERIAL_MAGIC):
        return np.frombuffer(_unpack_snappy_block(packed, limit), np.uint8)
    blocks, at, total = list[bytes](), _XERIAL_HEADER_BYTES, 0
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        at += 4
        if size > len(packed) - at:
            raise _UnpackError("a block is longer than the batch")
        blocks.append(_unpack_snappy_block(packed[at : at + size], limit - total))
        total += len(blocks[-1])
        at += size
    return np.frombuffer(b"".join(blocks), np.uint8)


def _unpack_snappy_block(block: bytes, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    # Snappy cannot pack better than about 22 to 1, so a larger claim is a lie that would cost memory.
    if size > 32 * len(block) + 64:
        raise _UnpackError(f"a block of {len(block)} bytes claims to hold {size}")
    if size > limit:
        raise _TooLargeError
    return bytes(cramjam.snappy.decompress_raw(block))
