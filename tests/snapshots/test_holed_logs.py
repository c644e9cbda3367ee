"""Logs with holes: read as the same bytes without them, in work that does not grow with what the holes claim."""

import io
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kafka_log.writing import batch, marker, old_entry, record
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.kafka_log.headers_file import write_headers
from tidegauge.kafka_log.log_dir import headers_name
from tidegauge.kafka_log.scan import scan_batches, scan_buffer
from tidegauge.snapshots import holes
from tidegauge.snapshots.copying import Meter, reading
from tidegauge.snapshots.holes import HoledFile
from tidegauge.snapshots.source_files import log_directory
from tidegauge.snapshots.throttle import Throttle

Golden = Callable[[str], Path]
LOG = f"{0:020d}.log"
GIGABYTE = 1 << 30
LARGEST = (1 << 31) - 1


def log_of(count: int, *, first_offset: int = 0, value_bytes: int = 300) -> bytes:
    return b"".join(
        batch(first_offset + at, record(0, b"key", os.urandom(value_bytes)), 1, leader_epoch=4) for at in range(count)
    )


OLD = b"".join(old_entry(at, 1, b"value") for at in range(20))
CUT = batch(90, record(0, None, bytes(30_000)), 1)
CLAIMS = struct.pack(">qiib", 95, 5_000_000, 0, 2)

Pieces = list[tuple[int, bytes]]
"""What is written, and behind a hole of how many bytes."""
FILES: dict[str, tuple[Pieces, int]] = {
    "nothing": ([], 0),
    "a hole alone": ([], 3 << 20),
    "a hole of less than a header": ([(0, log_of(4))], 40),
    "a hole at the beginning": ([(1 << 20, log_of(9))], 0),
    "a hole in the middle": ([(0, log_of(30)), (3 << 20, log_of(9, first_offset=30))], 0),
    "a hole at the end": ([(0, log_of(30))], 5 << 20),
    "holes that begin and end anywhere": ([(70_001, log_of(30)), (2_345_677, log_of(2, first_offset=50))], 99_999),
    "several": ([(1 << 20, log_of(5, first_offset=10 * at)) for at in range(6)], 1 << 20),
    "entries of old formats around it": ([(8192, OLD), (1 << 20, OLD)], 1 << 16),
    "a batch that is cut by one": ([(0, log_of(3)), (0, CUT[:9000]), (1 << 20, log_of(3, first_offset=95))], 0),
    "a batch whose last bytes are one": ([(0, log_of(3) + CUT[:9000])], len(CUT) - 9000),
    "a header that claims one": ([(0, log_of(3) + CLAIMS), (6 << 20, log_of(3, first_offset=97))], 1 << 20),
    "rot before it": ([(0, log_of(3) + b"no batch" * 3000), (1 << 20, log_of(3, first_offset=9))], 12_345),
    "an offset that goes back behind it": ([(0, log_of(50)), (1 << 20, log_of(3, first_offset=9))], 0),
    "a marker behind it": ([(0, log_of(5)), (1 << 20, marker(5))], 0),
}


def written(path: Path, pieces: Pieces, tail: int) -> Path:
    """With holes, as far as the file system makes them: it does of whole blocks."""
    with path.open("wb") as file:
        for hole, data in pieces:
            file.seek(hole, io.SEEK_CUR)
            file.write(data)
        file.truncate(file.tell() + tail)
    return path


Found = tuple[bytes, list[object], list[tuple[bytes, bytes]]]


def scanned(source: HoledFile, *, buffer_bytes: int = 1 << 16, block_rows: int = 8) -> Found:
    """Rows, damage, and the rows and bytes of sound batches as they are shown."""
    rows, damages, shown = b"", list[object](), list[tuple[bytes, bytes]]()

    def take(of: np.ndarray, data: memoryview, position: int) -> None:
        for row in of[of["crc_valid"] == 1]:
            start = int(row["position"]) - position
            shown.append((row.tobytes(), bytes(data[start : start + int(row["size_bytes"])])))

    for block in scan_batches(
        source.readinto,
        pass_zeros=source.pass_zeros,
        on_rows=take,
        buffer_bytes=buffer_bytes,
        block_rows=block_rows,
    ):
        rows += block.headers.tobytes()
        damages += block.corruptions
    return rows, damages, shown


def test_the_file_system_makes_holes(tmp_path: Path) -> None:
    """Else the tests below would show nothing."""
    assert written(tmp_path / LOG, *FILES["several"]).stat().st_blocks * 512 < 1 << 18


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("buffer_bytes", [61, 1 << 12, 1 << 21])
def test_a_log_with_holes_is_read_as_one_without(name: str, buffer_bytes: int, tmp_path: Path) -> None:
    path = written(tmp_path / LOG, *FILES[name])
    dense = path.read_bytes()
    with path.open("rb") as file:
        found = scanned(HoledFile(file), buffer_bytes=buffer_bytes)
    assert found == scanned(HoledFile(io.BytesIO(dense)))
    rows, damages = scan_buffer(dense)
    assert found[:2] == (rows.tobytes(), list(damages))


@settings(max_examples=60)
@given(
    pieces=st.lists(
        st.tuples(
            st.integers(0, 30_000) | st.sampled_from([4096, 8192, 65536, 1 << 20]),
            st.integers(0, 6),
            st.integers(0, 400),
            st.binary(max_size=80),
        ),
        max_size=5,
    ),
    tail=st.integers(0, 100_000),
)
def test_any_file_with_holes(
    pieces: list[tuple[int, int, int, bytes]], tail: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    offset, made = 0, Pieces()
    for hole, count, cut, rot in pieces:
        data = log_of(count, first_offset=offset, value_bytes=3000)
        made.append((hole, data[: max(0, len(data) - cut)] + rot))
        offset += count
    path = written(tmp_path_factory.mktemp("any") / LOG, made, tail)
    with path.open("rb") as file:
        found = scanned(HoledFile(file))
    assert found == scanned(HoledFile(io.BytesIO(path.read_bytes())))


def test_a_size_within_a_hole_is_the_end(tmp_path: Path) -> None:
    path = written(tmp_path / LOG, [(0, log_of(3))], 1 << 20)
    size = path.stat().st_size - 500_001
    with path.open("rb") as file:
        source = SegmentFile(LOG, file, size)
        (damage,) = [c for block in source.blocks() for c in block.corruptions]
        assert (source.log_bytes, damage.end_position) == (size, size)


def test_a_system_that_knows_no_holes_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / LOG, *FILES["several"])
    with path.open("rb") as file:
        found = scanned(HoledFile(file))
    monkeypatch.delattr(holes.os, "SEEK_DATA")
    with path.open("rb") as file:
        assert scanned(HoledFile(file)) == found


class _Read:
    """Counts what is asked of a file."""

    def __init__(self, source: HoledFile) -> None:
        self.source = source
        self.given = 0

    def readinto(self, target: memoryview) -> int:
        size = self.source.readinto(target)
        self.given += size
        return size


def test_what_is_read_grows_with_what_is_there(tmp_path: Path) -> None:
    """Not with holes, be they as large as a log can be, or many."""
    small = log_of(3)
    many = [(1 << 20, log_of(2, first_offset=10 * at)) for at in range(1000)]
    for pieces, size in (([(LARGEST - len(small), small)], 1), (many, 1000)):
        with written(tmp_path / LOG, pieces, 0).open("rb") as file:
            read = _Read(HoledFile(file))
            rows = sum(len(b.headers) for b in scan_batches(read.readinto, pass_zeros=read.source.pass_zeros))
        assert rows == sum(3 if len(pieces) == 1 else 2 for _ in pieces)
        assert read.given < 4 * 4096 * size


def test_a_capture_passes_over_holes(tmp_path: Path) -> None:
    """A headers file is written of what is there, and counts the rest."""
    written(tmp_path / LOG, [(0, log_of(3)), (GIGABYTE, log_of(2, first_offset=9))], 1 << 20)
    out: list[bytes] = []
    meter = Meter(throttle=Throttle(None))
    with log_directory(tmp_path) as directory, directory.open(LOG) as source:
        readinto, pass_zeros = reading(source, meter)
        assert write_headers(readinto, out.append, pass_zeros=pass_zeros) == source.seen.size_bytes
    assert meter.bytes_read < 1 << 15
    (first, last) = [
        c for b in SegmentFile(headers_name(LOG), io.BytesIO(b"".join(out))).blocks() for c in b.corruptions
    ]
    assert (first.end_position - first.position) // GIGABYTE == 1
    assert last.end_position == source.seen.size_bytes
