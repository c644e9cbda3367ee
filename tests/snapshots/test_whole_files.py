"""A file appears whole or not at all, whenever a signal comes."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest

from tidegauge.snapshots.whole_files import appearing, write_whole


def test_a_file_that_was_made_when_a_signal_came_is_unlinked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def broken_off(path: Path, *arguments: Any) -> IO[Any]:
        opened(path, *arguments).close()
        raise SystemExit(143)

    monkeypatch.setattr(Path, "open", broken_off)
    with pytest.raises(SystemExit):
        write_whole(tmp_path / "page.html", "page")
    assert list(tmp_path.iterdir()) == []


def test_what_another_made_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def later(path: Path, *arguments: Any) -> IO[Any]:
        path.touch()
        return opened(path, *arguments)

    monkeypatch.setattr(Path, "open", later)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "page.html", "page")
    assert [path.name for path in tmp_path.iterdir()] == [".page.html.partial"]


def test_a_block_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("before")
    whole = ExitStack()
    whole.enter_context(appearing(tmp_path / "page.html")).write(b"half")
    whole.callback(os.mkdir, tmp_path)
    with pytest.raises(FileExistsError):
        whole.close()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("page.html", "before")]
