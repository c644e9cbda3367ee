"""Which snapshot `latest` is: a cluster's name in, the newest snapshot below TIDEGAUGE_SNAPSHOTS out.

Newest by the instant its manifest was written, which is the last thing that makes a snapshot.
"""

from pathlib import Path

from snapshots.errors import SnapshotError
from snapshots.manifest import MANIFEST_NAME
from tidegauge import settings

LATEST = "latest"


def resolve(snapshot: str, cluster: str | None) -> str:
    """The directory that `snapshot` names; for `latest`, the cluster's newest. Raises `SnapshotError`."""
    if snapshot != LATEST:
        return snapshot
    if not cluster:
        raise SnapshotError("`latest` needs the cluster's name: --cluster NAME.")
    root = Path(settings.snapshots_root()) / cluster
    manifests = sorted(root.glob(f"*/{MANIFEST_NAME}"), key=lambda manifest: (manifest.stat().st_mtime_ns, manifest))
    if not manifests:
        raise SnapshotError(
            f"No snapshot of {cluster} in {root}. Name one, or put one there: a directory with a {MANIFEST_NAME} "
            "(`tidegauge snapshot adopt` writes it). TIDEGAUGE_SNAPSHOTS says where snapshots are."
        )
    return str(manifests[-1].parent)
