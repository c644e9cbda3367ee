"""No number that stands in a file decides how much memory is taken: real logs, with sizes in them that are false."""

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cramjam
import pytest

from tests.derivation.damage import batches, copy_of, edit, place, segments
from tests.derivation.metadata_damage import at, metadata_logs, metadata_record, metadata_snapshots, records_of, rewrite
from tests.derivation.pipeline import derived
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.kafka_log.allowance import MAX_INTERNAL_BYTES, Allowance
from tidegauge.kafka_log.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CRC_AT,
    RECORD_COUNT_AT,
    RECORDS_AT,
    CompressionType,
)
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer

MEGABYTE = 1 << 20


@contextmanager
def memory(most: int) -> Iterator[None]:
    """Holds what is allocated inside, numpy's arrays too."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak / MEGABYTE:.0f} MB"


def sound_again(batch: bytearray) -> bytes:
    """A batch with the length and the checksum of what is in it now."""
    struct.pack_into(">i", batch, BATCH_LENGTH_AT, len(batch) - 12)
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[ATTRIBUTES_AT:])))
    return bytes(batch)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2**31 - 1, 20_000_000])
def test_a_false_record_count_makes_no_room_for_so_many(golden, tmp_path, count):
    """In a compacted partition, whose records are read key by key; the checksum is right."""
    directory = copy_of(golden("healthy"), tmp_path / "copy", "__cluster_metadata-0", "compacted-0")
    log = segments(directory / "broker-2" / "compacted-0")[0]
    start, end = place(batches(log)[0])

    def lie(data: bytearray) -> None:
        batch = data[start:end]
        struct.pack_into(">i", batch, RECORD_COUNT_AT, count)
        data[start:end] = sound_again(batch)

    edit(log, lie)
    with memory(100 * MEGABYTE):
        facts = derived(directory)
    segment = facts.one("segments", broker_id=2, topic="compacted", base_offset=0)
    assert segment["record_form_errors"] == 1
    assert segment["crc_errors"] == 0


def packed(batch: bytes, codec: CompressionType, plain: bytes) -> bytes:
    """A batch with other records, which only look few."""
    made = bytearray(batch[:RECORDS_AT] + bytes(cramjam.zstd.compress(plain)))
    struct.pack_into(">h", made, ATTRIBUTES_AT, codec)
    return sound_again(made)


def internal_logs(directory: Path, topic: str) -> list[Path]:
    """Segments of an internal topic's replicas that hold anything."""
    return sorted(p for p in directory.glob(f"broker-*/{topic}-*/*.log") if p.stat().st_size)


def test_a_batch_that_unpacks_to_hundreds_of_megabytes_is_not_unpacked_so_far(golden):
    log = internal_logs(golden("healthy"), "__consumer_offsets")[0]
    first = batches(log)[0]
    data = log.read_bytes()[slice(*place(first))]
    bomb = packed(data, CompressionType.ZSTD, bytes(4 * MAX_INTERNAL_BYTES))
    assert len(bomb) < MEGABYTE
    headers, _ = scan_buffer(bomb)
    with memory(3 * MAX_INTERNAL_BYTES):
        ((_, read),) = records_in(bomb, headers)
    assert isinstance(read, Corruption)
    assert read.kind == Damage.NOT_READ
    assert f"more than {MAX_INTERNAL_BYTES} bytes" in read.detail


def test_a_batch_of_more_records_than_are_left_is_not_taken_apart(golden):
    log = internal_logs(golden("healthy"), "__cluster_metadata")[0]
    data = log.read_bytes()
    headers, _ = scan_buffer(data)
    for row in headers:
        ((_, read),) = records_in(data, row.reshape(1), allowance=Allowance(records=3, records_each=0))
        assert isinstance(read, Corruption) == (row["record_count"] > 3)
        assert not isinstance(read, Corruption) or read.kind == Damage.NOT_READ


def test_records_of_an_internal_topic_are_read_a_block_at_a_time(golden):
    """What is read so is what is read of the whole file at once."""
    for log in internal_logs(golden("hanging-txn"), "__*"):
        data = log.read_bytes()
        headers, _ = scan_buffer(data)
        at_once = [(int(headers[at]["base_offset"]), records) for at, records in records_in(data, headers)]
        with log.open("rb") as file:
            by_block = [(int(row["base_offset"]), records) for row, records in SegmentFile(str(log), file).records()]
        assert by_block == at_once


def test_damage_between_records_is_told_where_it_lies(golden, tmp_path):
    log = internal_logs(golden("healthy"), "__cluster_metadata")[0]
    data = bytearray(log.read_bytes())
    start, end = place(batches(log)[3])
    data[end - 1] ^= 1
    path = tmp_path / log.name
    path.write_bytes(data)
    with path.open("rb") as file:
        damaged = [read for _, read in SegmentFile(str(path), file).records() if isinstance(read, Corruption)]
    assert [(c.position, c.end_position) for c in damaged] == [(start, end)]


def test_a_partition_of_any_number_makes_no_list_of_all_those_before_it(golden, tmp_path):
    directory = copy_of(golden("healthy"), tmp_path / "copy", "__cluster_metadata-0")
    offset, last = next(
        (offset, record)
        for offset, record in reversed(records_of(metadata_logs(directory)[0]))
        if record.name == "PartitionRecord"
    )
    far = metadata_record("PartitionRecord", last.version, **{**last.fields, "partition_id": 2**31 - 1})
    rewrite([*metadata_logs(directory), *metadata_snapshots(directory)], at(offset, far))
    with memory(100 * MEGABYTE):
        facts = derived(directory)
    missing = [row["missing_partitions"] for row in facts.rows["topics"] if row["missing_partitions"]]
    assert [len(m) for m in missing] == [1000]
