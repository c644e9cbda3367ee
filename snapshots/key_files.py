"""Reads a file that holds a key, named by whoever gives the command.

In: a path. Out: its bytes. A pipe or a device under that name is a slip or a trap: neither is waited for, nor read
without end.
"""

import os
import stat
from pathlib import Path
from typing import Final

from tidegauge.snapshots.errors import SnapshotError

_LARGEST: Final = 1 << 16


def key_file(path: Path) -> tuple[bytes, int]:
    """The bytes of a key file, and its mode. Raises `SnapshotError`, and `OSError` where it cannot be read."""
    with open(path, "rb", opener=_without_waiting) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise SnapshotError(f"The key file {path} is no regular file.")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise SnapshotError(f"The key file {path} has more than {_LARGEST} bytes, so it is no key.")
    return data, mode


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
