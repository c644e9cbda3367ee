"""A random world, written as snapshots.

In: a random world, a directory. Out: a snapshot with its TRUTH.json for each moment. Nothing that is there already is
written over.
"""

from pathlib import Path

from tidegauge.sim_engine.random_worlds.random_world import RandomMoment, RandomWorld
from tidegauge.sim_engine.rendering.write_snapshot import write_live_copy, write_snapshot
from tidegauge.snapshots.manifest import Consistency


def write(world: RandomWorld, out: Path) -> dict[str, Path]:
    """Each moment's directory by its name. Raises `SnapshotError` if one of them is there already."""
    return {moment.name: _written(world, moment, out / moment.name) for moment in world.moments}


def _written(world: RandomWorld, moment: RandomMoment, directory: Path) -> Path:
    truth, remote, snapshot_id = moment.truth.to_json(), moment.world.remote, f"{moment.name}-{world.seed}"
    cluster = f"random-{world.seed}"
    if moment.live is not None:
        write_live_copy(directory, moment.live, cluster=cluster, snapshot_id=snapshot_id, truth=truth, remote=remote)
    else:
        write_snapshot(
            directory,
            moment.disks,
            cluster=cluster,
            snapshot_id=snapshot_id,
            consistency=Consistency.ATOMIC,
            truth=truth,
            remote=remote,
            at_ms=moment.world.now_ms,
        )
    return directory
