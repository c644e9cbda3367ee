"""Which snapshots are there: the place in which they are kept in, each cluster's number of them and its newest out."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tidegauge.audit.latest_snapshots import captured_at
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.catalogue import manifests
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSnapshots:
    """One cluster's. `captured_at`: of the one that was finished last; None where it does not say."""

    cluster: str
    count: int
    newest_snapshot_id: str
    captured_at: datetime | None


def known_snapshots(root: Location) -> Iterator[KnownSnapshots]:
    """By cluster, as their directories are called. Raises `OSError`, and `StorageError` where an object store does not
    answer.
    """
    if not root.is_dir():
        return
    places: list[Location] = list(root.iterdir())
    for directory in sorted(places, key=lambda place: place.name):
        found = sorted(manifests(directory))
        if found:
            newest = found[-1][1]
            yield KnownSnapshots(
                cluster=directory.name, count=len(found), newest_snapshot_id=newest, captured_at=_of(directory / newest)
            )


def _of(snapshot: Location) -> datetime | None:
    try:
        return captured_at(open_snapshot(snapshot, settle=False))
    except SnapshotError:
        return None  # It is told of when it is used.
