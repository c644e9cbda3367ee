"""The header's layout and the attribute bits."""

import struct

import pytest

from tests.kafka_log.writing import batch
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch import (
    CompressionType,
    TimestampType,
    compression_type,
    timestamp_type,
)
from tidegauge.kafka_log.scan import scan_buffer


def test_the_layout_is_the_one_that_the_scan_reads() -> None:
    data = batch(
        7,
        b"",
        5,
        attributes=0x10,
        leader_epoch=11,
        last_offset_delta=4,
        base_timestamp=21,
        max_timestamp=22,
        producer_id=31,
        producer_epoch=32,
        base_sequence=33,
    )
    rows, corruptions = scan_buffer(data)
    assert corruptions == ()
    for name, at, form in [
        ("base_offset", layout.BASE_OFFSET_AT, ">q"),
        ("partition_leader_epoch", layout.LEADER_EPOCH_AT, ">i"),
        ("magic", layout.MAGIC_AT, ">b"),
        ("crc", layout.CRC_AT, ">I"),
        ("attributes", layout.ATTRIBUTES_AT, ">h"),
        ("base_timestamp", layout.BASE_TIMESTAMP_AT, ">q"),
        ("max_timestamp", layout.MAX_TIMESTAMP_AT, ">q"),
        ("producer_id", layout.PRODUCER_ID_AT, ">q"),
        ("producer_epoch", layout.PRODUCER_EPOCH_AT, ">h"),
        ("base_sequence", layout.BASE_SEQUENCE_AT, ">i"),
        ("record_count", layout.RECORD_COUNT_AT, ">i"),
    ]:
        assert struct.unpack_from(form, data, at)[0] == rows[name][0], name
    (length,) = struct.unpack_from(">i", data, layout.BATCH_LENGTH_AT)
    (delta,) = struct.unpack_from(">i", data, layout.LAST_OFFSET_DELTA_AT)
    assert (length, delta) == (layout.MIN_BATCH_LENGTH, 4)
    assert len(data) == layout.HEADER_BYTES == length + layout.LOG_OVERHEAD


@pytest.mark.parametrize("codec", CompressionType)
def test_the_lowest_three_bits_are_the_compression(codec: CompressionType) -> None:
    assert compression_type(0x78 | codec) is codec


@pytest.mark.parametrize("bits", [5, 6, 7])
def test_compressions_that_do_not_exist_are_none(bits: int) -> None:
    assert compression_type(bits) is None


@pytest.mark.parametrize("bit", range(16))
def test_each_attribute_has_its_own_bit(bit: int) -> None:
    attributes = 1 << bit
    answers = (
        timestamp_type(attributes) == TimestampType.LOG_APPEND_TIME,
        bool(attributes & layout.TRANSACTIONAL_BIT),
        bool(attributes & layout.CONTROL_BIT),
        bool(attributes & layout.DELETE_HORIZON_BIT),
        bool(attributes & layout.UNUSED_ATTRIBUTES_MASK),
    )
    assert answers == (bit == 3, bit == 4, bit == 5, bit == 6, bit >= 7)
