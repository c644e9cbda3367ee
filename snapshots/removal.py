"""Directories that go: one that anybody may have filled, and may still change, in; the bytes of its files out.

The rules that must hold: no link is followed, and nothing that lies outside is removed, whatever is exchanged while it
goes; memory and descriptors do not grow with how deep directories lie in one another. So every name is looked up in an
open directory, of which one is open at a time, and whoever climbs back makes sure that he is where he came from: a
directory that was moved meanwhile ends the removal with an error.

`shutil.rmtree` calls itself for each directory in a directory, or (from Python 3.13) keeps each of them open.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER: Final = frozenset({errno.ENOTDIR, errno.ELOOP})
"""What open(2) says of a link, or a file, that stands where a directory stood."""


def removed(
    root: Path, below: Path, *, first: str | None = None, beside: str | None = None, dry_run: bool = False
) -> int:
    """Removes `below`, a directory somewhere under `root`, and what is in it; the bytes of its files. `first` names a
    file of it that goes before all others, `beside` one that lies next to it. Raises `OSError`, where it is passed
    through a link under `root` too.
    """
    *way, name = below.relative_to(root).parts
    with _opened(root, way) as parent:
        if beside is not None and not dry_run:
            with suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=parent)
        top = os.open(name, _FOLDER, dir_fd=parent)
        if first is not None and not dry_run:
            try:
                with suppress(FileNotFoundError):
                    os.unlink(first, dir_fd=top)
            except BaseException:
                os.close(top)
                raise
        size = _Descent(top, str(below), dry_run=dry_run).to_the_end()
        if not dry_run:
            os.rmdir(name, dir_fd=parent)
    return size


@contextmanager
def _opened(root: Path, way: list[str]) -> Iterator[int]:
    """A directory under one of ours."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in way:
            inner = os.open(name, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


@dataclass(slots=True)
class _Level:
    """A directory on the way down: which it is, what it is called above, and the directories of it that are left."""

    name: str
    identity: tuple[int, int]
    left: list[str]


class _Descent:
    """One walk through everything below a directory, whose descriptor it closes."""

    def __init__(self, top: int, shown: str, *, dry_run: bool) -> None:
        self._at, self._shown, self._dry_run = top, shown, dry_run
        self._size = 0
        self._levels: list[_Level] = []

    def to_the_end(self) -> int:
        """Removes it all, but for the directory itself; the bytes of its files."""
        try:
            self._entered("")
            while self._levels[-1].left or len(self._levels) > 1:
                if self._levels[-1].left:
                    self._down(self._levels[-1].left.pop())
                else:
                    self._up()
        finally:
            os.close(self._at)
        return self._size

    def _entered(self, name: str) -> None:
        """Removes the files of the directory that is open, and notes its directories."""
        self._levels.append(_Level(name, _identity(self._at), []))
        with os.scandir(self._at) as listing:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
        for inner, is_directory in entries:
            if is_directory:
                self._levels[-1].left.append(inner)
            else:
                self._file(inner)

    def _file(self, name: str) -> None:
        with suppress(FileNotFoundError):  # Somebody else removed it: that is what is wanted.
            found = os.stat(name, dir_fd=self._at, follow_symlinks=False)
            if not self._dry_run:
                os.unlink(name, dir_fd=self._at)
            self._size += found.st_size

    def _down(self, name: str) -> None:
        try:
            inner = os.open(name, _FOLDER, dir_fd=self._at)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            self._file(name)  # It was exchanged for a link, which goes as one.
            return
        os.close(self._at)
        self._at = inner
        self._entered(name)

    def _up(self) -> None:
        left = self._levels.pop()
        outer = os.open(os.pardir, _FOLDER, dir_fd=self._at)
        os.close(self._at)
        self._at = outer
        if _identity(outer) != self._levels[-1].identity:
            moved = "a directory in it was moved while it was removed; see who did, and try again"
            raise OSError(errno.EXDEV, moved, self._shown)
        if not self._dry_run:
            with suppress(FileNotFoundError):
                os.rmdir(left.name, dir_fd=outer)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
