"""Where a capture writes: a directory, or a place in an object store.

In: paths below the snapshot's root, and bytes. Out: files there. The rules that must hold: nothing that is there
already is written into, only replaced (it may be another snapshot's file by a hard link); small files that others
rely on (shares, the manifest) are there whole or not at all; a target that cannot be written raises `OSError`.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

from tidegauge.snapshots.copying import Sink
from tidegauge.snapshots.errors import AuditError
from tidegauge.snapshots.location import Location, ObjectPath, local, store_errors
from tidegauge.snapshots.places_above import made_safe
from tidegauge.snapshots.whole_files import write_whole

_ZEROS: Final = bytes(1 << 20)
_SYNCED_AT_ONCE: Final = 8
_JOURNAL_LINES: Final = 16
"""In an object store the journal is written anew after so many lines: an object cannot be appended to."""


class Target(Protocol):
    """The directory of one snapshot. Names and paths are relative to it, with /."""

    root: Location
    keeps_holes: bool
    """Whether zeros that are skipped take no room."""

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """A new file in place of an old one; what fails leaves none."""

    def link(self, held: Location, path: str) -> None:
        """The same bytes as another snapshot's file, without moving them where that can be had.

        Raises `FileNotFoundError` if that is not there.
        """

    def remove(self, path: str) -> None:
        """Removes a file, if it is there."""

    def size(self, path: str) -> int | None:
        """A file's size; None: not there."""

    def files(self, directory: str) -> list[str]:
        """Every file below a directory."""

    def names(self) -> list[str]:
        """Files and directories directly in it."""

    def put(self, path: str, text: str) -> None:
        """A small file, whole or not at all."""

    def text(self, path: str) -> str | None:
        """A small file's text; None: not there."""

    def sync(self, paths: Iterable[str]) -> None:
        """Returns when what these files hold would survive a power cut."""

    def sync_names(self, paths: Iterable[str]) -> None:
        """Returns when it would survive one that these files are there."""

    def remove_all(self, directory: str) -> None:
        """Removes a directory with all that is in it, and what is then empty of the snapshot's and the cluster's."""

    @contextmanager
    def journal(self, name: str) -> Iterator[Callable[[str], None]]:
        """A function that adds a line to a file; one process at a time, where the place can see to that."""


def target_at(root: Location) -> Target:
    """The target for a snapshot's directory."""
    return LocalTarget(root) if isinstance(root, Path) else ObjectTarget(root)


class _LocalSink:
    def __init__(self, fd: int) -> None:
        self.fd, self._end = fd, 0

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self.fd, view, self._end)
            self._end += written
            view = view[written:]

    def skip(self, size: int) -> None:
        self._end += size

    def close(self) -> None:
        """A hole at the end is one, too."""
        if os.fstat(self.fd).st_size != self._end:
            os.ftruncate(self.fd, self._end)


class LocalTarget:
    """A directory of this machine."""

    keeps_holes = True

    def __init__(self, root: Path) -> None:
        self.root: Location = root
        self._root = root
        self._made: set[Path] = set()

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """A new file: an old one is unlinked, never written into."""
        full = self._ready(path)
        fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        sink = _LocalSink(fd)
        try:
            yield sink
            sink.close()
        except BaseException:
            full.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)

    def link(self, held: Location, path: str) -> None:
        """A hard link; over a file system's border, a copy."""
        full = self._ready(path)
        try:
            os.link(str(held), full, follow_symlinks=False)
        except OSError:
            shutil.copyfile(str(held), full, follow_symlinks=False)

    def remove(self, path: str) -> None:
        """Unlinks."""
        (self._root / path).unlink(missing_ok=True)

    def size(self, path: str) -> int | None:
        """By `stat`."""
        try:
            return (self._root / path).stat().st_size
        except FileNotFoundError:
            return None

    def files(self, directory: str) -> list[str]:
        """By walking."""
        found = []
        for parent, _, names in os.walk(self._root / directory):
            found += [Path(parent, name).relative_to(self._root).as_posix() for name in names]
        return sorted(found)

    def names(self) -> list[str]:
        """By listing."""
        try:
            return sorted(os.listdir(self._root))
        except FileNotFoundError:
            return []

    def put(self, path: str, text: str) -> None:
        """Written beside, forced to disk, then renamed."""
        full = self._below(path)
        write_whole(full, text, synced=True)
        _sync_directory(full.parent)

    def text(self, path: str) -> str | None:
        """The file's text."""
        try:
            return (local(self._root) / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def sync(self, paths: Iterable[str]) -> None:
        """Forces files to disk."""
        given = list(paths)
        # Several at once: the file system then writes its own notes of many files in one go.
        with ThreadPoolExecutor(min(_SYNCED_AT_ONCE, max(1, len(given)))) as pool:
            for _ in pool.map(lambda path: _sync(self._root / path), given):
                pass

    def sync_names(self, paths: Iterable[str]) -> None:
        """Forces directories to disk."""
        for directory in sorted(_above(paths)):
            _sync_directory(self._root / directory)

    def remove_all(self, directory: str) -> None:
        """Best effort: what cannot be removed stays, and is no snapshot without a manifest."""
        shutil.rmtree(self._root / directory, ignore_errors=True)
        with suppress(OSError):  # Somebody else's files are never removed.
            self._root.rmdir()
            self._root.parent.rmdir()

    @contextmanager
    def journal(self, name: str) -> Iterator[Callable[[str], None]]:
        """A function that appends a line; one process at a time."""
        full = self._below(name)
        there = local(self._root) / name  # No link of whoever else may write there is followed.
        with there.open("a", encoding="utf-8") as file:
            _must_be_ours_alone(file, full)
            _lock(file, full)
            text = there.read_text(encoding="utf-8")
            if text and not text.endswith("\n"):
                file.write("\n")  # The line that a crash cut off must not swallow the next.

            def note(line: str) -> None:
                file.write(line + "\n")
                file.flush()

            yield note

    def _ready(self, path: str) -> Path:
        full = self._below(path)
        full.unlink(missing_ok=True)
        return full

    def _below(self, path: str) -> Path:
        """A path whose directory is there. Raises `SnapshotError` where somebody else could exchange the snapshot's."""
        full = self._root / path
        if full.parent not in self._made:
            if not self._made:
                made_safe(self._root)
            full.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(full.parent)
        return full


class _ObjectSink:
    def __init__(self, file: IO[bytes], where: ObjectPath) -> None:
        self._file, self._where = file, where

    def write(self, data: bytes | memoryview) -> None:
        with store_errors(self._where):
            self._file.write(data)

    def skip(self, size: int) -> None:
        """An object store has no holes."""
        while size > 0:
            part = min(size, len(_ZEROS))
            self.write(_ZEROS[:part])
            size -= part


class ObjectTarget:
    """A prefix in an object store: every object is written whole, so nothing needs to be renamed."""

    keeps_holes = False

    def __init__(self, root: ObjectPath) -> None:
        self.root: Location = root
        self._root = root

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """An object, which is there when it is closed; what fails is discarded."""
        full = self._root / path
        file: Any = full.open("wb")
        try:
            yield _ObjectSink(file, full)
        except BaseException:
            # Closing would put half an object there.
            with suppress(Exception):
                file.discard()
                file.closed = True
            raise
        with store_errors(full):
            file.close()

    def link(self, held: Location, path: str) -> None:
        """A copy inside the store: no byte comes here."""
        full = self._root / path
        if isinstance(held, Path):
            raise ValueError(f"{held} is not in the store of {full}")
        with store_errors(full):
            self._root.fs.cp_file(held.path, full.path)

    def remove(self, path: str) -> None:
        """Deletes."""
        (self._root / path).unlink(missing_ok=True)

    def size(self, path: str) -> int | None:
        """By `stat`."""
        try:
            return int((self._root / path).stat().st_size)
        except FileNotFoundError:
            return None

    def files(self, directory: str) -> list[str]:
        """By listing the prefix."""
        full = self._root / directory
        return [f"{directory}/{name}" for name in full.sizes_below()] if full.exists() else []

    def names(self) -> list[str]:
        """By listing."""
        return sorted(p.name for p in self._root.iterdir()) if self._root.exists() else []

    def put(self, path: str, text: str) -> None:
        """One object."""
        (self._root / path).write_bytes(text.encode("utf-8"))

    def text(self, path: str) -> str | None:
        """The object's text."""
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def sync(self, paths: Iterable[str]) -> None:
        """A closed object is safe."""

    def sync_names(self, paths: Iterable[str]) -> None:
        """So is its name."""

    def remove_all(self, directory: str) -> None:
        """Deletes what lies below."""
        full = self._root / directory
        if full.exists():
            with store_errors(full):
                self._root.fs.rm(full.path, recursive=True)

    @contextmanager
    def journal(self, name: str) -> Iterator[Callable[[str], None]]:
        """A function that adds a line. The object is written anew now and then, and when the capture fails."""
        lines = (self.text(name) or "").splitlines()
        unwritten = 0

        def note(line: str) -> None:
            nonlocal unwritten
            lines.append(line)
            unwritten += 1
            # The first line says whose files these are: without it nobody may go on with them.
            if unwritten >= _JOURNAL_LINES or len(lines) == 1:
                self.put(name, "\n".join(lines) + "\n")
                unwritten = 0

        try:
            yield note
        except BaseException:
            if unwritten:
                self.put(name, "\n".join(lines) + "\n")
            raise


def _above(paths: Iterable[str]) -> set[str]:
    """Every directory on the way to these files, the root as "."."""
    found = {"."}
    for path in paths:
        directory = path.rpartition("/")[0]
        while directory and directory not in found:
            found.add(directory)
            directory = directory.rpartition("/")[0]
    return found


def _must_be_ours_alone(file: IO[str], path: Path) -> None:
    if os.fstat(file.fileno()).st_nlink > 1:
        raise AuditError(
            f"{path} has a second name (a hard link), and nothing is written into what may be another's. See who laid "
            "it there, and remove it."
        )


def _lock(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise AuditError(
            f"Another capture is writing {path.parent} right now. Let it finish, or give this one an --id of its own."
        ) from error


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_directory(path: Path) -> None:
    try:
        _sync(path)
    except OSError:
        return  # Not every file system can do that for a directory.
