"""A path of this machine below a snapshot, whose bytes nobody vouches for: links, pipes and devices are not opened.

In: a path that was resolved once, when the snapshot was named. Out: `LocalPath`, a `pathlib` path whose methods read
and write regular files only. The rule that must hold: between the root of the file system and the file no component
is a link. One that is was put there after the path was resolved, or is part of the snapshot, and leads out of it.

What `pathlib` asks of a path differs from one Python to the next (3.13 asks `os.path`, which follows links, where 3.11
asks `stat`), so each question that is asked of a snapshot is answered here.

Sources: open(2), O_NOFOLLOW and O_PATH (Linux), O_NOFOLLOW_ANY (macOS); pathlib.Path of 3.11, 3.12 and 3.13.
"""

import errno
import io
import os
import stat
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path, PosixPath
from typing import IO, Any, Final, Self

LARGEST_FILE_READ_WHOLE: Final = 64 << 20
"""Bytes of the largest file that `read_bytes` takes into memory: Kafka's own checkpoints, indexes and producer
snapshots have a few megabytes. Logs are read piece by piece.
"""
LARGEST_FILE_OF_KAFKA: Final = (1 << 31) - 1
"""Bytes of the largest file that a broker can have written: positions in a log and the sizes of its indexes are numbers
of 32 bits (FileRecords#open and #append, AbstractIndex). One that claims more is not opened: what reading and digesting
its holes takes has no end.
"""
LARGEST_TEXT_READ_WHOLE: Final = 256 << 20
"""Of the largest that `read_text` does, which are ours: a manifest of a million files has less than this."""

_ANY_LINK: Final = getattr(os, "O_NOFOLLOW_ANY", 0)
_FOR_PASSING: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A pipe that nobody writes to would else be waited for."""
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTHING_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP})


def really(path: Path) -> Path:
    """Where a path leads that a user named, links followed. Of links in a circle, which `Path.resolve` of Python 3.11
    and 3.12 takes for a mistake of its caller, it is what no file can be opened at.
    """
    return Path(os.path.realpath(path))


class LocalPath(PosixPath):
    """A path that opens regular files only, and only where no component of it is a link."""

    __slots__ = ()

    def open(  # type: ignore[override]
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """As `Path.open`. Raises `OSError`: ELOOP where a component is a link, EINVAL for what is no regular file, and
        EFBIG for what is to be read and is larger than any of Kafka's.
        """
        if "b" not in mode:
            encoding = io.text_encoding(encoding)
        opener = _open_of_kafka if mode == "rb" else _open_regular
        return open(self, mode, buffering, encoding, errors, newline, opener=opener)

    def read_bytes(self) -> bytes:
        """The whole file. Raises `OSError`: EOVERFLOW where it is larger than any that is read as a whole."""
        return self._whole(LARGEST_FILE_READ_WHOLE)

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        """The whole file as text, its line ends as they are. Raises `OSError` as above."""
        return self._whole(LARGEST_TEXT_READ_WHOLE).decode(encoding or "utf-8", errors or "strict")

    def _whole(self, most: int) -> bytes:
        with open(self, "rb", opener=_open_regular) as file:
            size = os.fstat(file.fileno()).st_size
            must_be_readable(size, most)
            # What is appended meanwhile is left out: as if it had been asked a moment earlier.
            return file.read(size)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Of the path itself: a link's own where it is one, whatever is asked."""
        return os.stat(self, follow_symlinks=False)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether anything is there, a link that leads nowhere too."""
        return self._mode() is not None

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, and no link to one."""
        return stat.S_ISDIR(self._mode() or 0)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file, and no link to one."""
        return stat.S_ISREG(self._mode() or 0)

    def _mode(self) -> int | None:
        """None where nothing is. Raises `OSError` where that cannot be known, as `pathlib` up to 3.12."""
        try:
            return self.stat().st_mode
        except ValueError:  # a zero byte in its name
            return None
        except OSError as error:
            if error.errno in _NOTHING_THERE:
                return None
            raise

    def iterdir(self) -> Generator[Self, None, None]:
        """What is in the directory. Raises `OSError`: ELOOP where a component is a link."""
        descriptor = _open_without_links(str(self), _LISTED)
        try:
            names = os.listdir(descriptor)
        finally:
            os.close(descriptor)
        yield from (self.joinpath(name) for name in names)

    def glob(self, pattern: str, **options: Any) -> Generator[Self, None, None]:
        """What matches below it and is reached through no link; of a link itself, nothing."""
        yield from (path for path in super().glob(pattern, **options) if self._reaches(path))

    def rglob(self, pattern: str, **options: Any) -> Generator[Self, None, None]:
        """As `glob`, at any depth."""
        yield from (path for path in super().rglob(pattern, **options) if self._reaches(path))

    def _reaches(self, path: Path) -> bool:
        between = path.parents[: len(path.parts) - len(self.parts)]
        return path == self or (self in between and all(stat.S_ISDIR(os.lstat(folder).st_mode) for folder in between))


def must_be_readable(size: int, most: int = LARGEST_FILE_READ_WHOLE) -> None:
    """Raises `OSError` (EOVERFLOW) where a file of so many bytes is not read as a whole."""
    if size > most:
        raise OSError(errno.EOVERFLOW, f"{size} bytes, more than the {most} that are read")


def must_be_of_kafka(size: int) -> None:
    """Raises `OSError` (EFBIG) where no broker can have written a file of so many bytes."""
    if size > LARGEST_FILE_OF_KAFKA:
        raise OSError(errno.EFBIG, too_large(size))


def too_large(size: int) -> str:
    """Why a file of so many bytes is not read."""
    return f"{size} bytes, larger than any file of Kafka's: these have up to {LARGEST_FILE_OF_KAFKA}"


def _open_of_kafka(path: str, flags: int) -> int:
    """An opener for what is to be read piece by piece."""
    descriptor = _open_regular(path, flags)
    try:
        must_be_of_kafka(os.fstat(descriptor).st_size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _open_regular(path: str, flags: int) -> int:
    """An opener for `io.open`."""
    descriptor = _open_without_links(path, flags | _FILE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def _open_without_links(path: str, flags: int) -> int:
    try:
        if _ANY_LINK:
            if not flags & os.O_DIRECTORY:
                _refuse_device(path, None)
            return os.open(path, flags | _ANY_LINK, 0o640)
        root, *passed = Path(path).absolute().parts
        name = passed.pop() if passed else "."
        at = os.open(root, _FOR_PASSING)
        try:
            for part in passed:
                below = os.open(part, _FOR_PASSING, dir_fd=at)
                os.close(at)
                at = below
            if not flags & os.O_DIRECTORY:
                _refuse_device(name, at)
            return os.open(name, flags, 0o640, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        raise _told(error, path) from None


def _refuse_device(name: str, directory: int | None) -> None:
    """What is there and is neither a regular file nor a link is not even opened: some devices do something then."""
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a regular file")


def _told(error: OSError, path: str) -> OSError:
    """A link that is to be passed is no directory (ENOTDIR); one that is to be opened, too many links (ELOOP)."""
    if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _has_link(path)):
        return OSError(errno.ELOOP, "a link: links are not followed", path)
    return OSError(error.errno, error.strerror, path)


def _has_link(path: str) -> bool:
    whole = Path(path).absolute()
    return any(part.is_symlink() for part in (whole, *whole.parents))
