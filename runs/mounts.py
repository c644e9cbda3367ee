"""What a Spark task must see from where it runs: the snapshot, and the run directory.

In: a place. Out: the same, or an `UnavailableError` that names the machine. A worker without the mount fails its task,
so that Spark tries it elsewhere and the audit ends as a matter of the environment; it never marks what it cannot see as
unreadable. A single file that is missing where the rest is seen is the copy's own damage.
"""

import re
import socket
from functools import lru_cache
from typing import Final

from tidegauge.runs.errors import UnavailableError
from tidegauge.runs.run_places import RUN_FILE
from tidegauge.snapshots.location import Location, location
from tidegauge.snapshots.manifest import MANIFEST_NAME

_OF_A_SNAPSHOT: Final = re.compile(rf"{re.escape(MANIFEST_NAME)}|broker-[0-9]+")


def must_see(root: str) -> Location:
    """The snapshot's place. Raises `UnavailableError` if it is not to be seen from here."""
    place = location(root)
    why = _unseen(place)
    if why is not None:
        raise UnavailableError(
            f"The snapshot {root} cannot be seen on {socket.gethostname()}, where a Spark task was to read it ({why}). "
            "Every worker must see snapshots under the path that the driver has: mount them there under the same "
            "name, or keep them in an object store and name them by URL. Then run the same command again."
        )
    return place


@lru_cache(maxsize=1024)
def seen(root: str) -> Location:
    """The same, looked at once a process."""
    return must_see(root)


@lru_cache(maxsize=1024)
def must_see_run(directory: str) -> None:
    """Raises `UnavailableError` where a run directory is not to be seen: what a task would write there, nobody finds.
    Looked at once a process.
    """
    try:
        (location(directory) / RUN_FILE).read_bytes()
    except OSError as error:
        raise UnavailableError(
            f"The run directory {directory} cannot be seen on {socket.gethostname()}, where a Spark task was to write "
            f"to it ({error.strerror or error}). Give --out (or --run) a place in an object store, such as "
            "s3://bucket/run, or a directory that all machines share under one name, and run the same command again."
        ) from error


def _unseen(place: Location) -> str | None:
    """Why a place is none where a snapshot lies; an empty directory is where one would be mounted."""
    try:
        if not place.is_dir():
            return "no such directory"
        if any(_OF_A_SNAPSHOT.fullmatch(entry.name) for entry in place.iterdir()):
            return None
    except OSError as error:
        return error.strerror or str(error)
    return "nothing of a snapshot is in it: is it mounted there?"
