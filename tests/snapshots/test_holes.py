"""Files with holes at their ends: read and digested as if every byte had been read."""

import hashlib
from pathlib import Path

import pytest

from snapshots import holes
from snapshots.holes import read_written, sha256_of


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
