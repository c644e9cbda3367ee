"""A path of a snapshot follows no link, whichever way the Python that runs us has pathlib ask."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tidegauge.snapshots.local_path import LocalPath
from tidegauge.snapshots.location import local

AS_3_13_ASKS: Final[dict[str, Callable[..., Any]]] = {
    "exists": lambda path, **_: os.path.exists(path),
    "is_dir": lambda path, **_: os.path.isdir(path),
    "is_file": lambda path, **_: os.path.isfile(path),
    "iterdir": lambda path: (path / name for name in os.listdir(path)),
}


@pytest.fixture(params=["as it is", "as 3.13 asks"])
def snapshot(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LocalPath:
    """A directory, a file in it, and links to both and to nothing."""
    (tmp_path / "there" / "deeper").mkdir(parents=True)
    (tmp_path / "there" / "deeper" / "file").write_text("bytes")
    (tmp_path / "snapshot").mkdir()
    for name, target in (("directory", "there"), ("file", "there/deeper/file"), ("nothing", "gone")):
        (tmp_path / "snapshot" / name).symlink_to(tmp_path / target)
    (tmp_path / "snapshot" / "own").mkdir()
    (tmp_path / "snapshot" / "own" / "file").touch()
    (tmp_path / "snapshot" / "own" / "inside").symlink_to(tmp_path / "there")
    found = local(tmp_path / "snapshot")
    if request.param == "as 3.13 asks":
        for name, ask in AS_3_13_ASKS.items():
            monkeypatch.setattr(Path, name, ask)
    return found


@pytest.mark.parametrize("name", ["directory", "file", "nothing"])
def test_a_link_is_there_and_is_neither_a_directory_nor_a_file(snapshot: LocalPath, name: str) -> None:
    link = snapshot / name
    assert (link.exists(), link.is_dir(), link.is_file(), link.is_symlink()) == (True, False, False, True)


def test_what_is_no_link_is_what_it_is(snapshot: LocalPath) -> None:
    own, gone = snapshot / "own", snapshot / "own" / "file" / "gone"
    assert (own.exists(), own.is_dir(), own.is_file()) == (True, True, False)
    assert ((own / "file").exists(), (own / "file").is_dir(), (own / "file").is_file()) == (True, False, True)
    for path in (gone, own / "zero\0byte"):
        assert (path.exists(), path.is_dir(), path.is_file()) == (False, False, False)


def test_a_link_is_not_listed(snapshot: LocalPath) -> None:
    assert sorted(path.name for path in snapshot.iterdir()) == ["directory", "file", "nothing", "own"]
    assert [type(path) for path in (snapshot / "own").iterdir()] == [LocalPath, LocalPath]
    for path in (snapshot / "directory", snapshot / "own" / "inside" / "deeper"):
        with pytest.raises(OSError, match="link") as refused:
            list(path.iterdir())
        assert refused.value.errno == errno.ELOOP


@pytest.mark.parametrize("pattern", ["*", "**/*", "*/*", "*/deeper/*", "*/*/*", "directory/*", "own/inside/deeper"])
def test_no_pattern_leads_through_a_link(snapshot: LocalPath, pattern: str) -> None:
    for found in (*snapshot.glob(pattern), *snapshot.rglob(pattern)):
        assert not any(folder.is_symlink() for folder in found.parents if folder != snapshot), found
    assert list((snapshot / "directory").glob(pattern)) == []
    assert list((snapshot / "directory").rglob(pattern)) == []


def test_a_pattern_finds_what_is_there(snapshot: LocalPath) -> None:
    assert [path.relative_to(snapshot).as_posix() for path in snapshot.glob("own/f*")] == ["own/file"]
    assert sorted(path.relative_to(snapshot).as_posix() for path in snapshot.rglob("file")) == ["file", "own/file"]


def test_the_root_of_the_file_system_is_listed() -> None:
    assert sorted(path.name for path in LocalPath("/").iterdir()) == sorted(os.listdir("/"))
