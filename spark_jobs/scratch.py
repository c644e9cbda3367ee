"""Spark's temporary directory: nothing in, a directory out that goes with the JVM that uses it.

    <TMPDIR>/tidegauge-spark-*/in-use   locked for as long as the JVM or the process that started it lives

A JVM that is killed removes nothing, and neither does a killed audit. What nobody holds a lock on any more is removed
by the next that starts, and what somebody still uses is left alone. The kernel lets go of a lock when the last process
that inherited it dies, however it dies.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = "tidegauge-spark-"
_LOCK: Final = "in-use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A directory, and the descriptor by which it is held: whoever inherits it holds it, too."""

    directory: Path
    lock: int

    def remove(self) -> None:
        """Removes it: nobody uses it any more."""
        shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self.lock)

    @contextmanager
    def for_temporary_files(self) -> Iterator[None]:
        """Python's own temporary files lie in it, too, while the block lasts."""
        before = tempfile.tempdir
        tempfile.tempdir = str(self.directory)
        try:
            yield
        finally:
            tempfile.tempdir = before


def beside(local_dir: str | None) -> str | None:
    """Where files belong that go when the session's do: in its own directory, which `spark.local.dir` names; None,
    which is Python's choice, where that is somebody else's.
    """
    return local_dir if local_dir is not None and Path(local_dir).name.startswith(PREFIX) else None


def new_scratch() -> Scratch:
    """A directory of our own; what killed ones left is removed first. Raises `OSError`."""
    remove_abandoned()
    while True:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _is_held(lock) and directory.exists():
            return Scratch(directory=directory, lock=lock)
        os.close(lock)  # Somebody took it for abandoned, in the moment before it was held.


def remove_abandoned() -> None:
    """Removes what processes that were killed left, as far as it is ours."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if directory.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # Another removes it now, or it is just being made.
        if _is_held(lock):
            shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _is_held(lock: int) -> bool:
    """Whether it is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
