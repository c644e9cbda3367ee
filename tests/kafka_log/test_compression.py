"""Unpacking: round trips, limits, damage."""

import random
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kafka_log.writing import XERIAL_HEADER, xerial_snappy
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.compression import compress, decompress
from tidegauge.kafka_log.corruption import Corruption, Damage

Pack = Callable[[bytes], bytes]

SHAPES: dict[str, tuple[CompressionType, Pack]] = {
    "none": (CompressionType.NONE, lambda data: data),
    "gzip": (CompressionType.GZIP, lambda data: bytes(cramjam.gzip.compress(data))),
    "snappy raw": (CompressionType.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "snappy xerial": (CompressionType.SNAPPY, lambda data: xerial_snappy(data, 1000)),
    "lz4": (CompressionType.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (CompressionType.ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
    "gzip as written": (CompressionType.GZIP, lambda data: compress(CompressionType.GZIP, data)),
    "snappy as written": (CompressionType.SNAPPY, lambda data: compress(CompressionType.SNAPPY, data)),
    "lz4 as written": (CompressionType.LZ4, lambda data: compress(CompressionType.LZ4, data)),
    "zstd as written": (CompressionType.ZSTD, lambda data: compress(CompressionType.ZSTD, data)),
}
PLAIN = b"".join(b"orders %d;" % number for number in range(500)) + random.Random(3).randbytes(500)


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.binary(min_size=1, max_size=3000))
@settings(max_examples=30)
def test_what_was_packed_comes_back(shape: str, data: bytes) -> None:
    codec, pack = SHAPES[shape]
    assert decompress(codec, pack(data)) == data
    assert decompress(codec, memoryview(pack(data))) == data


@pytest.mark.parametrize("shape", SHAPES)
def test_data_that_packs_very_well_comes_back(shape: str) -> None:
    codec, pack = SHAPES[shape]
    data = b"tide" * 2_000_000
    assert decompress(codec, pack(data)) == data


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "none"])
def test_nothing_grows_past_the_limit(shape: str) -> None:
    codec, pack = SHAPES[shape]
    assert isinstance(decompress(codec, pack(bytes(100_000)), max_plain_bytes=99_999), Corruption)
    assert decompress(codec, pack(bytes(100_000)), max_plain_bytes=100_000) == bytes(100_000)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "none"])
@given(draw=st.data())
@settings(max_examples=150)
def test_damage_is_told_or_gives_bytes_but_never_raises(shape: str, draw: st.DataObject) -> None:
    codec, pack = SHAPES[shape]
    packed = bytearray(pack(PLAIN))
    at = draw.draw(st.integers(0, 40) | st.integers(0, len(packed) - 1))
    packed[at % len(packed)] ^= draw.draw(st.integers(1, 255))
    result = decompress(codec, packed[: draw.draw(st.integers(0, len(packed)) | st.just(len(packed)))])
    assert isinstance(result, bytes | Corruption)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "none"])
def test_bytes_cut_short_are_told(shape: str) -> None:
    codec, pack = SHAPES[shape]
    packed = pack(PLAIN)
    for length in (0, 1, len(packed) // 2, len(packed) - 1):
        result = decompress(codec, packed[:length])
        assert isinstance(result, Corruption)
        assert (result.kind, result.position, result.end_position) == (Damage.RECORDS, 0, length)
        assert result.detail.startswith(codec.name.lower())


def test_a_snappy_block_that_claims_a_gigabyte_costs_nothing() -> None:
    claims = b"\xff\xff\xff\xff\x03" + b"\0" * 20
    for packed in (claims, XERIAL_HEADER + len(claims).to_bytes(4, "big") + claims):
        result = decompress(CompressionType.SNAPPY, packed)
        assert isinstance(result, Corruption)
        assert "claims to hold 1073741823" in result.detail


def test_a_snappy_stream_whose_block_is_longer_than_the_batch_is_told() -> None:
    result = decompress(CompressionType.SNAPPY, XERIAL_HEADER + b"\0\0\1\0abc")
    assert isinstance(result, Corruption)
    assert "longer than the batch" in result.detail


def test_written_frames_begin_as_those_of_java_clients() -> None:
    heads = {
        CompressionType.NONE: PLAIN[:8].hex(),
        CompressionType.GZIP: "1f8b0800000000",
        CompressionType.SNAPPY: XERIAL_HEADER.hex(),
        # Independent blocks of 64 KiB without checksums: the flags of real batches in the captures.
        CompressionType.LZ4: "04224d18604082",
        CompressionType.ZSTD: "28b52ffd",
    }
    for codec, head in heads.items():
        packed = compress(codec, PLAIN)
        assert packed.hex().startswith(head)
        assert packed == compress(codec, bytes(PLAIN))


def test_what_lz4_cannot_pack_is_stored() -> None:
    noise = random.Random(5).randbytes(100_000)
    packed = compress(CompressionType.LZ4, noise)
    assert len(packed) == 7 + 4 + (64 << 10) + 4 + 100_000 - (64 << 10) + 4
    assert decompress(CompressionType.LZ4, packed) == noise
