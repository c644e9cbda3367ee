"""A segment read from its log or from its headers file: who asks cannot tell which."""

import io

import pytest

from tests.kafka_log.writing import batch, marker, record
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.headers_file import write_headers
from tidegauge.kafka_log.scan import BUFFER_BYTES

LOG_NAME, HEADERS_NAME = "orders-0/00000000000000000000.log", "orders-0/00000000000000000000.headers"


def log() -> bytes:
    rotten = bytearray(batch(2, record(0, b"k", b"rotten"), 1))
    rotten[-3] ^= 1
    return batch(0, record(0, b"k", b"v") + record(1, None, b"w"), 2) + bytes(rotten) + marker(3)


def headers_of(data: bytes) -> bytes:
    file = io.BytesIO()
    write_headers(io.BytesIO(data).readinto, file.write, rewrite=lambda whole: whole)
    return file.getvalue()


@pytest.mark.parametrize("name", [LOG_NAME, HEADERS_NAME])
def test_both_give_the_same_rows_records_and_size(name: str) -> None:
    data = log() if name == LOG_NAME else headers_of(log())
    segment = SegmentFile(name, io.BytesIO(data), len(data))
    (block,) = segment.blocks()
    assert block.headers["crc_valid"].tolist() == [1, 0, 1]
    assert [c.position for c in block.corruptions] == [int(block.headers["position"][1])]
    assert (segment.log_bytes, segment.broken) == (len(log()), None)
    first, rotten, last = (records for _, records in SegmentFile(name, io.BytesIO(data)).records())
    assert not isinstance(first, Corruption)
    assert [r.value for r in first] == [b"v", b"w"]
    assert isinstance(rotten, Corruption)
    assert (rotten.start_offset, rotten.end_offset, rotten.records) == (2, 3, 1)
    assert not isinstance(last, Corruption)


def test_a_log_that_has_grown_since_is_read_as_far_as_it_was_listed() -> None:
    whole = batch(0, record(0, None, b"v"), 1)
    segment = SegmentFile(LOG_NAME, io.BytesIO(whole + whole), len(whole))
    assert [len(b.headers) for b in segment.blocks()] == [1]
    assert segment.log_bytes == len(whole)
    assert len(list(SegmentFile(LOG_NAME, io.BytesIO(whole + whole), len(whole)).records())) == 1


def test_a_broken_headers_file_is_told_apart_from_a_broken_log() -> None:
    data = headers_of(log())[:-1]
    segment = SegmentFile(HEADERS_NAME, io.BytesIO(data), len(data))
    assert list(segment.blocks())
    assert segment.broken is not None
    assert segment.broken.startswith("the headers file cannot be read on: ")
    *_, (row, last) = SegmentFile(HEADERS_NAME, io.BytesIO(data)).records()
    assert isinstance(last, Corruption)
    assert (int(row["magic"]), int(row["control_type"])) == (2, -1)  # counted as a batch that cannot be read


def test_a_batch_of_a_wrong_checksum_whose_bytes_have_moved_on_is_told_and_ends_nothing() -> None:
    """No batch follows it, and the search for one meets a header that promises more than the buffer holds."""
    broken = bytearray(batch(1, record(0, None, b"a"), 1))
    broken[-1] ^= 1
    promise = bytearray(batch(2, record(0, None, b"b"), 1))
    promise[8:12] = (BUFFER_BYTES + 1).to_bytes(4, "big")
    log = batch(0, record(0, None, b"a"), 1) + broken + b"\xff" * 70 + promise + batch(10, record(0, None, b"c"), 1)
    found = list(SegmentFile("00000000000000000000.log", io.BytesIO(log), len(log)).records())
    assert [int(row["base_offset"]) for row, _ in found] == [0, 1, 10]
    assert isinstance(found[1][1], Corruption)
    size = len(broken)
    assert (found[1][1].kind, found[1][1].position, found[1][1].end_position) == (Damage.CRC, size, 2 * size)
