"""Where the results of a run lie, and whose a run directory has to be.

The rules that must hold: no folder leads out of the run directory; and nobody but us, root, and those whom our own
directory lets in can have laid what is in it, since we write there with our rights.
"""

import os
import stat
from pathlib import Path

from snapshots.errors import SnapshotError


def check_own(directory: Path) -> None:
    """Raises `SnapshotError` for a run directory in which somebody else may have laid something. One that is not there
    yet is made by us.

    The group of a directory of ours may write to it: Spark's workers on other machines do.
    """
    try:
        found = (directory.lstat(), directory.stat())
    except FileNotFoundError:
        return
    for status in found:
        if status.st_uid not in (0, os.geteuid()):
            raise SnapshotError(
                f"{directory} belongs to user {status.st_uid}, who could let what is written there go anywhere. Name "
                "a directory of your own or one that does not exist, or take this one: chown it, and see what is in it."
            )
    if stat.S_IMODE(found[1].st_mode) & stat.S_IWOTH:
        raise SnapshotError(
            f"Everybody may write to {directory}, and could let what is written there go anywhere. Name a directory "
            f"below it that does not exist, or close it: chmod o-w {directory}, and see what is in it."
        )


def place_below(directory: Path, told: object) -> Path:
    """A place that a run directory's own files name. Raises `ValueError` where it is not one below the directory, or
    a link is passed on the way there.
    """
    if not isinstance(told, str) or "\0" in told:
        raise ValueError(f"{told!r} is no path")
    parts = Path(told).parts
    if Path(told).is_absolute() or ".." in parts:
        raise ValueError(f"{told!r} leads out of the run directory")
    place = directory
    for part in parts:
        place /= part
        if place.is_symlink():
            raise ValueError(f"{place} is a link")
    return place
