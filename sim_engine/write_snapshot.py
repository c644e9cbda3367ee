"""Rendered brokers, written as a snapshot.

In: brokers' disks and what truly happened. Out: `broker-<id>/…`, `TRUTH.json` and `MANIFEST.json` in a new directory.
The rule that must hold: zeros at a file's end are a hole, and the manifest is written last.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from sim_engine.render import BrokerDisk, render_broker
from snapshots.adopt import Snapshot, adopt
from snapshots.errors import SnapshotError
from snapshots.manifest import Consistency

TRUTH: Final = "TRUTH.json"


def write_snapshot(
    directory: Path,
    disks: Iterable[BrokerDisk],
    *,
    cluster: str,
    snapshot_id: str,
    consistency: Consistency,
    truth: Mapping[str, Any],
) -> Snapshot:
    """Writes a snapshot. Raises `SnapshotError` if the directory is there already."""
    if directory.exists():
        raise SnapshotError(f"{directory} exists. Name a directory that does not, or remove it first.")
    directory.mkdir(parents=True)
    for disk in disks:
        for name, file in render_broker(disk):
            path = directory / f"broker-{disk.broker_id}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as out:
                out.write(file.data)
                out.truncate(file.size_bytes)
    (directory / TRUTH).write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return adopt(directory, cluster=cluster, consistency=consistency, snapshot_id=snapshot_id)
