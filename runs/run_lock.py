"""One process at a time writes to a run directory: a directory in, the right to write there while it is held.

The rule that must hold: nobody judges what another audit has laid there meanwhile. Two audits that are given the same
directory would read each other's facts, and the clean cluster's would be published under the broken one's name.

The lock is the directory's own (flock): it leaves no file, and it goes with the process, however that dies. A place in
an object store has none, nor has a file system that locks files only (NFS): there, whose facts and verdicts they are is
all that tells two audits apart (`audit.evaluate`, `audit.publication`).
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tidegauge.runs.errors import UnavailableError
from tidegauge.runs.run_places import check_own
from tidegauge.snapshots.location import Location

_NO_LOCKS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""What a file system answers that does not lock directories."""


@contextmanager
def held(directory: Location) -> Iterator[None]:
    """The directory is this process's for the block; it is made where it is not there, and goes again if it is left
    empty. Raises `UnavailableError` where another process has it, `SnapshotError` where it is not safe (`check_own`).
    """
    if not isinstance(directory, Path):
        yield
        return
    check_own(directory)
    is_new = not directory.exists()
    opened = _locked(directory)
    try:
        yield
    finally:
        if is_new:
            with suppress(OSError):  # It holds something.
                directory.rmdir()
        os.close(opened)


@contextmanager
def free(directory: Path) -> Iterator[bool]:
    """Whether no process has the directory; none gets it during the block then. Raises `OSError`."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            _lock(opened, directory)
        except UnavailableError:
            yield False
        else:
            yield True
    finally:
        os.close(opened)


def _locked(directory: Path) -> int:
    """A descriptor that holds the lock of what stands there now: who had it before may have removed what he made."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(opened, directory)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened), directory.stat()):
                    return opened
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)


def _lock(opened: int, directory: Path) -> None:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UnavailableError(
            f"Another audit is writing to {directory} right now. Wait for its end, or name another directory: each "
            "audit needs one of its own."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
