"""Kafka takes a simulated world's disks: what its producers were told is what a real consumer reads.

A world of three brokers in which leaders died and came back. Its brokers stopped in good order, or all were killed at
once while they ran; or they ran for long enough to have dropped the beginning of the metadata log, and hold what waits
to be removed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.conftest import oracle
from tests.oracle.kafka import Oracle
from tests.sim_engine.acceptance import complaints, dump_tool_takes, loader_agrees
from tests.sim_engine.clusters import ORDERS, cluster, leader, said
from tests.sim_engine.rendered_cluster import RenderedCluster, readdressed
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.files.render import Beside, BrokerDisk
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.world import World

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.kafka]
__all__ = ["oracle"]

CONFIG = {
    "internal.segment.bytes": "4096",
    "segment.index.bytes": "8192",
    "retention.ms": "-1",
    "min.insync.replicas": "2",
}


SMALL_METADATA = Settings(
    metadata_segment_bytes=3_000,
    metadata_bytes_between_snapshots=4_000,
    metadata_retention_bytes=8_000,
    log_start_checkpoint_interval_ms=10_000,
)


def lived_through(*, clean: bool, settings: Settings | None = None) -> World:
    """Every second leader dies, the next one leads, and it comes back."""
    world = cluster(config=CONFIG, settings=settings)
    world = run_for(step(world, actions.StartProducer(client="idempotent", idempotent=True)), 1_000)
    world = run_for(step(world, actions.StartProducer(client="plain")), 1_000)
    for life in range(3):
        for number in range(30):
            world = run_for(said(world, "idempotent", f"{life} {number} " * 20, f"{life} {number} more"), 100)
            world = run_for(said(world, "plain", f"plain {life} {number} " * 10), 100)
        if life < 2:
            dying = leader(world)
            world = run_for(step(world, actions.Kill(dying)), 15_000)
            world = run_for(step(world, actions.Start(dying)), 15_000)
    world = run_for(world, 10_000)
    for broker_id in (3, 2, 1) if clean else ():
        world = run_for(step(world, actions.Stop(broker_id)), 8_000)
    return world


def upkept() -> World:
    """The same, and then a topic that came and went, while one broker was down, and many changes of settings."""
    world = lived_through(clean=False, settings=SMALL_METADATA)
    world = run_for(step(world, actions.CreateTopic(name="gone", assignment=((1, 2, 3),))), 5_000)
    world = run_for(step(world, actions.Stop(3)), 10_000)
    for number in range(60):
        world = run_for(step(world, actions.AlterConfig("orders", "max.message.bytes", str(1_000_000 + number))), 1_000)
    world = run_for(step(world, actions.DeleteTopic("gone")), 2_000)
    return run_for(step(world, actions.Start(3)), 25_000)


def committed(world: World) -> list[tuple[int, bytes | None]]:
    """Offsets and values that the truth says are committed."""
    batches = world.truth.lineage(ORDERS).committed
    return [(record.offset, record.value) for batch in batches for record in batch.records]


@pytest.fixture(scope="module", params=["stopped", "killed", "upkept"])
def world(request: pytest.FixtureRequest) -> World:
    if request.param != "upkept":
        return lived_through(clean=request.param == "stopped")
    world = upkept()
    assert all(disk.metadata.log_start_offset > 0 for disk in snapshot_of(world))
    assert {each.beside for disk in snapshot_of(world) for each in disk.renamed} == {Beside.DELETED, Beside.STRAY}
    return world


def test_the_dump_tool_reads_every_file_without_complaint(world: World, tmp_path: Path) -> None:
    assert dump_tool_takes(snapshot_of(world), tmp_path) > 40


def test_the_log_loader_finds_the_same_facts(world: World, oracle: Oracle, tmp_path: Path) -> None:
    for disk in snapshot_of(world):
        assert loader_agrees(oracle, disk, tmp_path / str(disk.broker_id)) > 100


def test_a_real_consumer_reads_what_the_truth_says(world: World, tmp_path: Path) -> None:
    def disks(quorum: Any, _: str) -> Iterable[BrokerDisk]:
        return [readdressed(disk, quorum) for disk in snapshot_of(world)]

    clean = all(disk.clean_broker_epoch is not None for disk in snapshot_of(world))
    expected = committed(world)
    assert len(expected) == 3 * 30 * 3
    running = RenderedCluster(tmp_path, nodes=3, disks=disks)
    with running:
        for committed_only in (False, True):
            found = running.read([TopicPartition("orders", 0)], committed_only=committed_only)[ORDERS]
            assert [(each.offset, each.value) for each in found] == expected
        for broker_id in running.broker_ids:
            assert complaints(running.said(broker_id), clean=clean) == []


def test_the_dump_tool_reads_what_a_tiered_cluster_keeps_locally(tmp_path: Path) -> None:
    moment = SCENARIOS["remote-object-lost"].play(1).moments[0]
    assert all(d.replicas[ORDERS].log.segments[0].base_offset > 0 for d in moment.disks)
    assert dump_tool_takes(moment.disks, tmp_path) > 20
