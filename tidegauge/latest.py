"""Which snapshot `latest` is: a cluster's name in, the newest snapshot below TIDEGAUGE_SNAPSHOTS out.

Newest by the instant its manifest was written, which is the last thing that makes a snapshot; in an object store that
is when the store took it. TIDEGAUGE_SNAPSHOTS may be a directory or a URL.
"""

from collections.abc import Iterator

from snapshots.errors import SnapshotError
from snapshots.location import Location, location
from snapshots.manifest import MANIFEST_NAME
from tidegauge import settings

LATEST = "latest"


def resolve(snapshot: str, cluster: str | None) -> str:
    """The directory or URL that `snapshot` names; for `latest`, the cluster's newest. Raises `SnapshotError`."""
    if snapshot != LATEST:
        return snapshot
    if not cluster:
        raise SnapshotError("`latest` needs the cluster's name: --cluster NAME.")
    root = location(settings.snapshots_root()) / cluster
    found = newest(root)
    if found is None:
        raise SnapshotError(
            f"No snapshot of {cluster} in {root}. Name one, or put one there: a directory with a {MANIFEST_NAME} "
            "(`tidegauge capture` and `tidegauge snapshot adopt` write it). TIDEGAUGE_SNAPSHOTS says where they are."
        )
    return str(found)


def newest(directory: Location) -> Location | None:
    """The newest snapshot in a cluster's directory; None if it has none."""
    found = max(_manifests(directory), default=None)
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
