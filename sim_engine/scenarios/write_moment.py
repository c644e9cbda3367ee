"""A scenario's moment, written as a snapshot.

In: a moment, a directory. Out: every broker's log directories, the remote tier's objects and TRUTH.json. Nothing that
is there already is written over.
"""

from pathlib import Path

from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.scenarios.scenario import Moment
from tidegauge.snapshots.manifest import Consistency


def write_moment(moment: Moment, directory: Path, *, cluster: str, seed: int) -> Path:
    """The snapshot's directory. Raises `SnapshotError` if something is there already."""
    write_snapshot(
        directory,
        moment.disks,
        cluster=cluster,
        snapshot_id=f"{moment.name}-{seed}",
        consistency=Consistency.ATOMIC,
        truth=moment.truth.to_json(),
        remote=moment.world.remote,
        at_ms=moment.world.now_ms,
    )
    return directory
