"""Nodes of a world write snapshots of the metadata log, and drop what these cover."""

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.sim_engine.clusters import cluster, leader, said, texts
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.files.render import BrokerDisk, render_broker
from tidegauge.sim_engine.metadata.metadata_image import image_records
from tidegauge.sim_engine.metadata.metadata_snapshot import image_of
from tidegauge.sim_engine.rendering.snapshot import disk_of, snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.manifest import Consistency

SMALL = Settings(
    metadata_segment_bytes=2_000,
    metadata_bytes_between_snapshots=2_500,
    metadata_retention_bytes=6_000,
    log_start_checkpoint_interval_ms=20_000,
    formatted_before_4_4=True,
)


def busy(settings: Settings, times: int = 12) -> World:
    """Something was written, and a topic's settings changed often."""
    world = cluster(settings=settings)
    world = run_for(step(world, actions.StartProducer(client="p")), 2_000)
    world = run_for(said(world, "p", "one"), 1_000)
    for number in range(times * 10):
        world = step(world, actions.AlterConfig("orders", "retention.ms", str(600_000_000 + number)))
        world = run_for(world, 2_000)
    return world


@pytest.fixture(scope="module")
def world() -> World:
    return busy(SMALL)


def names(disk: BrokerDisk) -> set[str]:
    return {n.removeprefix("__cluster_metadata-0/") for n, _ in render_broker(disk) if n.startswith("__cluster")}


def known(disk: BrokerDisk) -> list[object]:
    return list(image_records(image_of(disk.metadata, disk.snapshots)))


def test_the_log_begins_with_a_snapshot_and_ends_with_what_all_know(world: World) -> None:
    whole = world.controller.metadata.log
    for disk in snapshot_of(world):
        oldest, newest = disk.snapshots[0], disk.snapshots[-1]
        assert 0 < oldest.end_offset <= newest.end_offset
        assert (disk.metadata.log_start_offset, disk.metadata.log_end_offset) == (
            oldest.end_offset,
            whole.log_end_offset,
        )
        assert disk.metadata.segments[0].base_offset > 0
        assert known(disk) == list(image_records(image_of(whole, ())))
        assert {s.name for s in disk.snapshots} == {n for n in names(disk) if n.endswith(".checkpoint")}
        assert "bootstrap.checkpoint" in dict(render_broker(disk))


def test_dropped_files_wait_for_a_minute_while_the_node_runs(world: World) -> None:
    def waiting(at: World, kind: str) -> set[str]:
        return {n for n in names(disk_of(at, 1)) if n.endswith(f".{kind}.deleted")}

    while not waiting(world, "log"):
        world = step(world, actions.AlterConfig("orders", "retention.ms", str(world.now_ms)))
        world = run_for(world, 2_000)
    assert waiting(world, "checkpoint")
    assert {"index", "timeindex"} <= {n.split(".")[1] for n in names(disk_of(world, 1)) if n.endswith(".deleted")}
    stopped = run_for(step(world, actions.Stop(1)), 200_000)
    assert waiting(stopped, "log")
    assert not waiting(run_for(step(stopped, actions.Start(1)), 2_000), "log")


def test_a_node_with_an_empty_disk_gets_the_snapshot(world: World) -> None:
    world = run_for(step(world, actions.Kill(2)), 12_000)
    world = run_for(step(step(world, actions.Wipe(2)), actions.Start(2)), 60_000)
    disk, others = disk_of(world, 2), disk_of(world, 1)
    assert disk.metadata.segments[0].base_offset == disk.snapshots[0].end_offset > 0
    assert known(disk) == known(others)
    assert texts(world, 2) == texts(world, leader(world)) == ["one"]
    more = run_for(step(world, actions.AlterConfig("orders", "retention.ms", "777777777")), 2_000)
    assert disk_of(more, 2).metadata.log_end_offset == more.controller.metadata.end_offset


def test_an_audit_knows_the_cluster_by_snapshots_and_the_rest_of_the_log(
    world: World, tmp_path: Path, store_url: str
) -> None:
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        judge = Judge(connection)
        for name, at in (("running", world), ("stopped", run_for(step(world, actions.Stop(3)), 20_000))):
            write_snapshot(
                tmp_path / name, snapshot_of(at), cluster="c", snapshot_id=name, consistency=Consistency.ATOMIC,
                truth=at.truth.to_json(),
            )  # fmt: skip
            facts = derived(tmp_path / name)
            assert facts.unread() == {}
            assert [str(b) for b in judge.verdicts(facts, "ABCDEFGHJKL")[1] if b.severity != "info"] == []
    engine.dispose()


def test_an_hour_without_a_snapshot_is_enough_for_one() -> None:
    settings = replace(
        SMALL,
        metadata_bytes_between_snapshots=1 << 20,
        metadata_snapshot_max_interval_ms=100_000,
        metadata_retention_bytes=1 << 20,
    )
    disk = disk_of(busy(settings, 6), 1)
    assert [s.end_offset > 0 for s in disk.snapshots] == [False, True]
    assert disk.metadata.log_start_offset == 0
