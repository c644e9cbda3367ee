"""Kafka takes a world in which transactions were committed and aborted, and its coordinators go on from what they find.

A real consumer of committed data reads the values of committed transactions only, a group's offset is the one that was
committed in a transaction, and a real producer that takes over a transactional id has its producer id.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.conftest import oracle
from tests.oracle.kafka import Oracle
from tests.sim_engine.acceptance import complaints, dump_tool_takes, loader_agrees
from tests.sim_engine.rendered_cluster import RenderedCluster, readdressed
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    SendInTransaction,
    SendOffsetsInTransaction,
    StartTransactionalProducer,
)
from tidegauge.sim_engine.engine import new_world, run_for, scheduled_all, step
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.world import World

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.kafka]
__all__ = ["oracle"]

PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
GROUP = "readers"
ABORTED = frozenset({2, 5, 11})
COUNT = 14


def lived_through() -> World:
    """Two producers, of both versions, take turns; some transactions are aborted; the brokers stop in good order."""
    settings = Settings(broker_config={"min.insync.replicas": "2"})
    world = run_for(new_world(seed=3, settings=settings), 3_000)
    compacted = {"cleanup.policy": "compact"}
    for name, config in (
        ("__transaction_state", compacted),
        ("__consumer_offsets", compacted),
        ("orders", {"retention.ms": "-1", "internal.segment.bytes": "2048"}),
    ):
        assignment = [[1, 2, 3], [2, 3, 1], [3, 1, 2]][: 2 if name == "orders" else 3]
        world = step(world, actions.CreateTopic(name=name, assignment=assignment, config=config))
    world = run_for(world, 2_000)
    for version in (1, 2):
        started = StartTransactionalProducer(client=f"v{version}", transactional_id=f"id-{version}", version=version)
        world = run_for(step(world, started), 2_000)
    for number in range(COUNT):
        client = f"v{1 + number % 2}"
        events: list[object] = [BeginTransaction(client)]
        for partition in PARTITIONS:
            values = tuple(NewRecord(timestamp=-1, key=None, value=f"{number} {i}".encode()) for i in range(3))
            events.append(SendInTransaction(client=client, partition=partition, records=values))
        offsets = {PARTITIONS[0]: 3 * number}
        events.append(SendOffsetsInTransaction(client=client, group=GROUP, offsets=offsets))
        events.append(EndTransaction(client, number not in ABORTED))
        world = run_for(scheduled_all(world, [(world.now_ms + i, each) for i, each in enumerate(events)]), 2_000)
    world = run_for(world, 10_000)
    for broker_id in (3, 2, 1):
        world = run_for(step(world, actions.Stop(broker_id)), 8_000)
    return world


@pytest.fixture(scope="module")
def world() -> World:
    return lived_through()


def test_the_dump_tool_reads_every_file_without_complaint(world: World, tmp_path: Path) -> None:
    assert dump_tool_takes(snapshot_of(world), tmp_path) > 80


def test_the_log_loader_finds_the_same_facts(world: World, oracle: Oracle, tmp_path: Path) -> None:
    for disk in snapshot_of(world):
        assert loader_agrees(oracle, disk, tmp_path / str(disk.broker_id)) > 100


def test_a_real_cluster_goes_on_where_the_world_ended(world: World, tmp_path: Path) -> None:
    def disks(quorum: Any, _: str) -> Iterable[BrokerDisk]:
        return [readdressed(disk, quorum) for disk in snapshot_of(world)]

    written = [f"{number} {i}".encode() for number in range(COUNT) for i in range(3)]
    kept = [value for value in written if int(value.split()[0]) not in ABORTED]
    known = set(world.brokers[2].disk.replicas[PARTITIONS[1]].log.producers.states)
    assert len(known) == 2
    running = RenderedCluster(tmp_path, nodes=3, disks=disks)
    with running:
        for committed_only, expected in ((False, written), (True, kept)):
            found = running.read(PARTITIONS, committed_only=committed_only)
            for partition in PARTITIONS:
                assert [each.value for each in found[partition]] == expected, (partition, committed_only)
        last = max(number for number in range(COUNT) if number not in ABORTED)
        assert running.committed(GROUP, PARTITIONS[0]) == 3 * last
        for version in (1, 2):
            running.commit_one(f"id-{version}", PARTITIONS[1], f"later {version}".encode())
            assert last_producer(running.log_dirs(2)[0] / str(PARTITIONS[1])) in known
        for broker_id in running.broker_ids:
            assert complaints(running.said(broker_id), clean=True) == []


def last_producer(directory: Path) -> int:
    """Whose the last batch of a log is."""
    rows = [row for path in sorted(directory.glob("*.log")) for row in scan_buffer(path.read_bytes())[0]]
    return int(rows[-1]["producer_id"])
