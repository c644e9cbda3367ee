"""Reading a broker's directory without touching it, while the broker renames, deletes and appends.

In: a directory. Out: its names, what each is, and open files. The rules that must hold: everything is opened for
reading only and relative to a directory that is held open, so that no link leads out and a directory that is renamed
meanwhile is still the same one; access times stay as they are where the system allows that.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

_NO_ATIME: Final = getattr(os, "O_NOATIME", 0)
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DIRECTORY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY
_GONE: Final = frozenset({errno.ENOENT, errno.ESTALE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the system says of a file: the same `Seen` twice means that nobody has written to it in between."""

    inode: int
    size_bytes: int
    modified_at_ns: int
    changed_at_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Seen":
        """From a `stat`."""
        return cls(
            inode=status.st_ino,
            size_bytes=status.st_size,
            modified_at_ns=status.st_mtime_ns,
            changed_at_ns=status.st_ctime_ns,
        )


class SourceFile:
    """An open file: its descriptor, and what it was when it was opened."""

    def __init__(self, fd: int) -> None:
        status = os.fstat(fd)
        self.fd, self.seen, self.is_regular = fd, Seen.of(status), stat.S_ISREG(status.st_mode)

    def __enter__(self) -> "SourceFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class SourceDirectory:
    """A directory held open. `gone` says whether an error means that somebody else was faster."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.inode = os.fstat(fd).st_ino

    def __enter__(self) -> "SourceDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(os.listdir(self.fd))

    def kind(self, name: str) -> str:
        """`file`, `directory`, `link`, `other`, or `gone`. Raises `OSError`."""
        try:
            mode = os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode
        except OSError as error:
            if gone(error):
                return "gone"
            raise
        if stat.S_ISREG(mode):
            return "file"
        if stat.S_ISDIR(mode):
            return "directory"
        return "link" if stat.S_ISLNK(mode) else "other"

    def seen(self, name: str) -> Seen | None:
        """What a file is now; None if it is not there, or not to be seen."""
        try:
            return Seen.of(os.stat(name, dir_fd=self.fd, follow_symlinks=False))
        except OSError:
            return None  # What cannot even be looked at cannot be opened either, which says why.

    def open(self, name: str) -> SourceFile:
        """A regular file, to be read. Raises `OSError`; EINVAL for a device, a pipe, …, which is not even opened."""
        if self.kind(name) in ("directory", "other"):
            raise OSError(errno.EINVAL, "not a regular file")
        file = SourceFile(_open(name, _READ, self.fd))
        if not file.is_regular:
            os.close(file.fd)
            raise OSError(errno.EINVAL, "not a regular file")
        return file

    def directory(self, name: str) -> "SourceDirectory":
        """A directory in it. Raises `OSError`."""
        return SourceDirectory(_open(name, _DIRECTORY, self.fd))


def log_directory(path: Path) -> SourceDirectory:
    """A log dir by its path, which the user named, so that it may be a link itself."""
    return SourceDirectory(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY))


def gone(error: OSError) -> bool:
    """Whether what was listed is there no more."""
    return error.errno in _GONE


def _open(name: str, flags: int, dir_fd: int) -> int:
    """Without an access time where this process may do that: only a file's owner and root may."""
    if _NO_ATIME:
        try:
            return os.open(name, flags | _NO_ATIME, dir_fd=dir_fd)
        except PermissionError:
            return os.open(name, flags, dir_fd=dir_fd)
    return os.open(name, flags, dir_fd=dir_fd)
