"""Files with holes at their ends: read and digested as if every byte had been read."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tidegauge.kafka_log.sources import PassZeros, ReadInto
from tidegauge.snapshots import holes
from tidegauge.snapshots.copying import Meter, reading
from tidegauge.snapshots.holes import HoledFile, read_written, sha256_of
from tidegauge.snapshots.source_files import SourceFile
from tidegauge.snapshots.throttle import Throttle


def sparse(path: Path, *pieces: tuple[int, bytes], size: int) -> Path:
    with path.open("wb") as file:
        for position, data in pieces:
            file.seek(position)
            file.write(data)
        file.truncate(size)
    return path


FILES = {
    "nothing": ((), 0),
    "a hole alone": ((), 10 << 20),
    "a hole of an odd size": ((), (3 << 20) + 5),
    "data and a hole": (((0, b"entries" * 9),), 10 << 20),
    "data alone": (((0, b"x" * 5000),), 5000),
    "data behind a hole": (((0, b"a"), (4 << 20, b"b")), 9 << 20),
    "zeros that were written": (((0, bytes(1 << 20)),), 1 << 20),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("knows_holes", [True, False])
def test_what_is_read_and_digested_is_the_whole_file(
    name: str, knows_holes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces, size = FILES[name]
    path = sparse(tmp_path / "file", *pieces, size=size)
    if not knows_holes:
        monkeypatch.delattr(holes.os, "SEEK_HOLE", raising=False)
    data, hole = read_written(path)
    assert data + bytes(hole) == path.read_bytes()
    assert knows_holes or hole == 0
    assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_written(tmp_path / "none")


@pytest.mark.parametrize(("cut_to", "shown"), [(None, None), (None, 6 << 20), (5 << 20, None), (9 << 20, None)])
def test_a_capture_and_an_audit_see_the_same_holes(tmp_path: Path, cut_to: int | None, shown: int | None) -> None:
    """Both are one source over one list of extents; only who reads the bytes differs. Also of a file that is cut."""
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        for at in (0, 4 << 20, 8 << 20):
            file.seek(at)
            file.write(b"data" * 1024)
        file.truncate(10 << 20)
    whole = path.read_bytes()
    size = shown or len(whole)
    found = []
    for by_descriptor in (True, False):
        with path.open("rb", buffering=0) as file:
            source, holed = SourceFile(file.fileno()), HoledFile(file, size)
            source.seen = replace(source.seen, size_bytes=size)
            of_a_capture = reading(source, Meter(throttle=Throttle(None)))
            readinto, pass_zeros = of_a_capture if by_descriptor else (holed.readinto, holed.pass_zeros)
            if cut_to is not None:
                os.truncate(path, cut_to)
            found.append(_drained(readinto, pass_zeros))
            os.truncate(path, len(whole))
    assert found[0] == found[1]
    given, passed = found[0]
    assert given == whole[: min(size, cut_to or size)]
    assert passed > (3 << 20)


def _drained(readinto: ReadInto, pass_zeros: PassZeros) -> tuple[bytes, int]:
    """Everything that a source gives, and how much of it was not read."""
    given, passed, room = bytearray(), 0, memoryview(bytearray(1 << 20))
    while True:
        zeros = pass_zeros()
        given += bytes(zeros)
        passed += zeros
        size = readinto(room)
        if not size and not zeros:
            return bytes(given), passed
        given += room[:size]
