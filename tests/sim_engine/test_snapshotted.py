"""A node that writes its metadata log down knows afterwards what it knew before."""

from pathlib import Path

import pytest

from tests.sim_engine.clusters import cluster, said
from tests.sim_engine.handmade import NOW_MS, handmade, voters
from tests.sim_engine.snapshotted import forgotten, snapshotted
from tests.sim_engine.test_live_copy import breaches
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.files.render import BrokerDisk, render_broker
from tidegauge.sim_engine.metadata.metadata_image import image_records
from tidegauge.sim_engine.metadata.metadata_snapshot import image_of
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.manifest import Consistency

DIRECTORY_IDS = {1: "AQEBAQEBAQEBAQEBAQEBAQ", 2: "AgICAgICAgICAgICAgICAg", 3: "AwMDAwMDAwMDAwMDAwMDAw"}


@pytest.fixture(scope="module")
def disks() -> list[BrokerDisk]:
    """Those of a world in which something was written and a broker came and went."""
    world = run_for(step(cluster(), actions.StartProducer(client="p")), 1_000)
    for number in range(10):
        world = run_for(said(world, "p", f"{number}"), 300)
    world = run_for(step(world, actions.Stop(3)), 10_000)
    return snapshot_of(run_for(step(world, actions.Start(3)), 20_000))


def test_snapshots_of_every_length_say_the_same_as_the_log(disks: list[BrokerDisk]) -> None:
    disk = disks[0]
    whole = image_records(image_of(disk.metadata, disk.snapshots))
    for end_offset in range(4, disk.metadata.log_end_offset + 1):
        once = snapshotted(disk, now_ms=NOW_MS, end_offset=end_offset)
        twice = snapshotted(once, now_ms=NOW_MS)
        assert image_records(image_of(once.metadata, once.snapshots)) == whole
        assert image_records(image_of(twice.metadata, twice.snapshots[-1:])) == whole
        assert once.snapshots[-1].end_offset <= end_offset
    assert snapshotted(twice, now_ms=NOW_MS) == twice, "nothing new is no new snapshot"


def test_a_node_keeps_the_newest_snapshot_and_the_log_behind_it(disks: list[BrokerDisk]) -> None:
    disk = snapshotted(disks[0], now_ms=NOW_MS)
    assert forgotten(disks[0]) == disks[0]
    names = {name for name, _ in render_broker(forgotten(disk)) if name.endswith(".checkpoint")}
    assert names == {f"__cluster_metadata-0/{disk.snapshots[-1].name}"}


@pytest.mark.parametrize("forget", [False, True])
def test_an_auditor_knows_as_much_by_a_snapshot_as_by_the_log(
    disks: list[BrokerDisk], forget: bool, tmp_path: Path, store_url: str
) -> None:
    made = [snapshotted(disk, now_ms=NOW_MS) for disk in disks]
    made = [forgotten(disk) if forget else disk for disk in made]
    write_snapshot(tmp_path / "s", made, cluster="c", snapshot_id="1", consistency=Consistency.ATOMIC, truth={})
    assert breaches(tmp_path / "s", store_url) == set()


@pytest.mark.slow
def test_an_auditor_knows_as_much_by_a_log_that_begins_inside(tmp_path: Path, store_url: str) -> None:
    found = []
    for cut in (False, True):
        quorum = voters({1: 29091, 2: 29092, 3: 29093}, DIRECTORY_IDS)
        world = handmade(quorum, cluster_id="BAQEBAQEBAQEBAQEBAQEBA", clean=False, cut_metadata=cut)
        target = tmp_path / str(cut)
        assert (world.disks[0].metadata.log_start_offset > 0) is cut
        write_snapshot(target, world.disks, cluster="c", snapshot_id="1", consistency=Consistency.ATOMIC, truth={})
        found.append({text.partition(" ")[0] for text in breaches(target, store_url)})
    # One producer's transaction is open, and no coordinator knows of it.
    assert found == [{"F09"}, {"F09"}]
