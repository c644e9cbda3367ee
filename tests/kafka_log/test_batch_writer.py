"""Batches read and written: real ones byte for byte, compressed ones record for record."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.records import Record, RecordBatch, read_batch
from tidegauge.kafka_log.scan import scan_buffer

Golden = Callable[[str], Path]


@pytest.mark.parametrize("capture", ["healthy", "soak-01"])
def test_a_real_batch_is_written_as_it_was_read(golden: Golden, capture: str) -> None:
    same = unpacked = 0
    for path in sorted(golden(capture).glob("broker-2/*/*.log")):
        data = path.read_bytes()
        for row in scan_buffer(data)[0]:
            whole = data[row["position"] : row["position"] + row["size_bytes"]]
            read = read_batch(whole)
            assert isinstance(read, RecordBatch)
            again = write_batch(read)
            if read.attributes & layout.COMPRESSION_MASK:
                found = read_batch(again)
                assert isinstance(found, RecordBatch)
                plain = replace(read, attributes=read.attributes & ~layout.COMPRESSION_MASK, crc=found.crc)
                assert found == plain
                unpacked += 1
            elif read.attributes & layout.TIMESTAMP_TYPE_BIT == 0:
                assert again == whole
                same += 1
    assert same > 500
    assert unpacked > 10 or capture == "soak-01"


@given(
    records=st.lists(
        st.tuples(
            st.integers(0, 2**31 - 1),
            st.integers(-(2**62), 2**62),
            st.none() | st.binary(max_size=9),
            st.none() | st.binary(max_size=9),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
        ),
        max_size=5,
    ),
    base=st.integers(0, 2**62),
)
def test_any_records_come_back(
    records: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], base: int
) -> None:
    batch = RecordBatch(
        base_offset=base,
        last_offset=base + max((r[0] for r in records), default=0),
        partition_leader_epoch=3,
        crc=0,
        attributes=0,
        base_timestamp=1_000,
        max_timestamp=2_000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=tuple(
            Record(offset=base + delta, timestamp=at, key=key, value=value, headers=tuple(headers))
            for delta, at, key, value, headers in records
        ),
    )
    written = write_batch(batch)
    assert scan_buffer(written)[0]["crc_valid"].all()
    found = read_batch(written)
    assert not isinstance(found, Corruption)
    assert replace(found, crc=0) == batch


@pytest.mark.parametrize("codec", list(layout.CompressionType))
def test_packed_records_come_back(codec: layout.CompressionType) -> None:
    records = tuple(Record(offset=7 + i, timestamp=1_000 + i, key=b"k", value=bytes([i]) * 900) for i in range(99))
    batch = RecordBatch(
        base_offset=7,
        last_offset=105,
        partition_leader_epoch=3,
        crc=0,
        attributes=layout.CompressionType.GZIP,
        base_timestamp=1_000,
        max_timestamp=1_098,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        records=records,
    )
    written = write_batch(batch, codec=codec)
    assert scan_buffer(written)[0]["crc_valid"].all()
    found = read_batch(written)
    assert not isinstance(found, Corruption)
    assert replace(found, crc=0) == replace(batch, attributes=codec)
    assert (len(written) < 10_000) == (codec != layout.CompressionType.NONE)


def test_a_batch_without_records_is_a_header_and_names_no_codec() -> None:
    batch = RecordBatch(
        base_offset=7,
        last_offset=9,
        partition_leader_epoch=3,
        crc=0,
        attributes=0,
        base_timestamp=-1,
        max_timestamp=1_000,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        records=(),
    )
    written = write_batch(batch, codec=layout.CompressionType.ZSTD)
    assert len(written) == layout.HEADER_BYTES
    found = read_batch(written)
    assert not isinstance(found, Corruption)
    assert replace(found, crc=0) == batch
