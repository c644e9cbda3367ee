"""The directory in which an embedded Postgres has its locks and its state: who may lay files in it, and how they are
opened.

In: the directory that a user of the server names. Out: descriptors of files in it. The rule that must hold: nothing in
it is opened, made or believed before it is known that nobody else can put files there, and no file is reached through
a link or loses its bytes by being opened. A root that opens what somebody else laid opens any file of the machine.

Sources: open(2), O_NOFOLLOW; sshd's StrictModes, which refuses the same modes. `snapshots.places_above` looks at
what is above the directory.
"""

import os
import stat
from pathlib import Path
from typing import Final

from tidegauge.runs.errors import StoreError
from tidegauge.snapshots.places_above import weakness_above

_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_STATE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def made(directory: Path) -> None:
    """Makes the directory where there is none. Raises `StoreError` as `check_owner`, and `OSError`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(directory)


def check_owner(directory: Path) -> None:
    """Raises `StoreError` where somebody else may have laid what is in the directory, or the link that it is, or could
    exchange it.
    """
    _check_mode(directory, directory.stat())
    if weakness := weakness_above(directory):
        raise StoreError(
            f"The embedded Postgres does not use {directory}. {weakness} Or choose another TIDEGAUGE_HOME, or name a "
            "Postgres of yours (TIDEGAUGE_STORE_URL)."
        )
    by = directory.lstat().st_uid
    if by not in (0, os.geteuid()):
        raise StoreError(
            f"The embedded Postgres does not use {directory}: it is a link of user {by}, who can lead it anywhere. "
            "Remove the link, choose another TIDEGAUGE_HOME, or name a Postgres of yours (TIDEGAUGE_STORE_URL)."
        )


def _check_mode(directory: Path, found: os.stat_result) -> None:
    # A group, too: even root's own may have members, and what they lay here root would follow.
    if found.st_uid != os.geteuid() or found.st_mode & _OF_OTHERS:
        raise StoreError(
            f"The embedded Postgres does not use {directory}: it belongs to user {found.st_uid} with mode "
            f"{stat.S_IMODE(found.st_mode):o}, so somebody else can put files there. Take it from them (chown, chmod "
            "go-w), choose another TIDEGAUGE_HOME, or name a Postgres of yours (TIDEGAUGE_STORE_URL)."
        )


def state_file(directory: Path, name: str) -> int:
    """A descriptor of a lock or a note in the directory, which is made if it is missing. Raises `StoreError` for what
    is no file of ours, and `OSError`: ELOOP for a link.
    """
    check_owner(directory)
    path = directory / name
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check_mode(directory, os.fstat(at))  # It may have been exchanged since.
        descriptor = os.open(name, _STATE, 0o600, dir_fd=at)
    finally:
        os.close(at)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    raise StoreError(f"The embedded Postgres does not use {path}: it is no file of yours. See who laid it, remove it.")


def folder(path: Path, owner: int) -> int:
    """A descriptor of a directory of that user's, through no link. Raises `StoreError` for another's, and `OSError`."""
    descriptor = os.open(path, _FOLDER)
    found = os.fstat(descriptor)
    if found.st_uid == owner:
        return descriptor
    os.close(descriptor)
    raise StoreError(
        f"The embedded Postgres does not use {path}: it belongs to user {found.st_uid} and not to user {owner}, whose "
        "server keeps its data there. See who laid it there, or name a Postgres of yours (TIDEGAUGE_STORE_URL)."
    )
