"""Which snapshot `latest` is: a cluster's name in, the newest snapshot below TIDEGAUGE_SNAPSHOTS out.

Newest by the instant its manifest was written, which is the last thing that makes a snapshot; in an object store that
is when the store took it. TIDEGAUGE_SNAPSHOTS may be a directory or a URL. As of an earlier instant, it is the newest
of those that were there by then.
"""

from collections.abc import Iterator
from datetime import datetime

from snapshots.errors import SnapshotError
from snapshots.location import Location, location
from snapshots.manifest import MANIFEST_NAME
from tidegauge import settings

LATEST = "latest"


def resolve(snapshot: str, cluster: str | None, *, as_of: str | None = None) -> str:
    """The directory or URL that `snapshot` names; for `latest`, the cluster's newest (as of an ISO 8601 instant, if one
    is given). Raises `SnapshotError`.
    """
    if snapshot != LATEST:
        return snapshot
    if not cluster:
        raise SnapshotError("`latest` needs the cluster's name: --cluster NAME.")
    root = location(settings.snapshots_root()) / cluster
    found = newest(root, by=_seconds(as_of))
    if found is None:
        by = f" by {as_of}" if as_of else ""
        raise SnapshotError(
            f"No snapshot of {cluster} in {root}{by}. Name one, or put one there: a directory with a {MANIFEST_NAME} "
            "(`tidegauge capture` and `tidegauge snapshot adopt` write it). TIDEGAUGE_SNAPSHOTS says where they are."
        )
    return str(found)


def _seconds(as_of: str | None) -> float | None:
    """An instant as seconds since the epoch; without a zone it is the machine's own time."""
    if not as_of:
        return None
    try:
        return datetime.fromisoformat(as_of).timestamp()
    except ValueError as error:
        raise SnapshotError(f"--as-of {as_of} is no instant ({error}). Write it like 2026-11-21T03:00:00Z.") from error


def newest(directory: Location, *, by: float | None = None) -> Location | None:
    """The newest snapshot in a cluster's directory, by an instant if one is given; None if it has none."""
    found = max((at for at in _manifests(directory) if by is None or at[0] <= by), default=None)
    return directory / found[1] if found is not None else None


def _manifests(root: Location) -> Iterator[tuple[float, str]]:
    """When each snapshot below was finished, and its directory's name."""
    if not root.is_dir():
        return
    for directory in root.iterdir():
        try:
            finished_at = (directory / MANIFEST_NAME).stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            continue  # Not a snapshot yet.
        yield finished_at, directory.name
