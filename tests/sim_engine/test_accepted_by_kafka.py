"""Kafka takes what the simulator renders: its dump tool, its log loader, a broker alone, a cluster of three."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.conftest import oracle
from tests.oracle.kafka import Oracle
from tests.sim_engine.acceptance import STRAY, complaints, dump_tool_takes, dumped, faults, loader_agrees
from tests.sim_engine.handmade import (
    COMMITTED_OFFSET,
    GROUP,
    TRANSACTIONAL_ID,
    TRANSACTIONAL_PRODUCER_ID,
    Handmade,
    Written,
    handmade,
    voters,
    with_leftovers,
)
from tests.sim_engine.rendered_cluster import RenderedCluster, write_disk
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.metadata.metadata_image import image_records
from tidegauge.sim_engine.metadata.metadata_snapshot import bootstrap_records

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.kafka]
__all__ = ["oracle"]

DIRECTORY_IDS = {1: "AQEBAQEBAQEBAQEBAQEBAQ", 2: "AgICAgICAgICAgICAgICAg", 3: "AwMDAwMDAwMDAwMDAwMDAw"}
CLUSTER_ID = "BAQEBAQEBAQEBAQEBAQEBA"
UNFINISHED = (".swap", ".cleaned", ".deleted")


def three(*, clean: bool, cut_metadata: bool = False) -> Handmade:
    quorum = voters({1: 29091, 2: 29092, 3: 29093}, DIRECTORY_IDS)
    return handmade(quorum, cluster_id=CLUSTER_ID, clean=clean, cut_metadata=cut_metadata)


@pytest.mark.parametrize("clean", [True, False])
def test_the_dump_tool_reads_every_file_without_complaint(tmp_path: Path, clean: bool) -> None:
    world = three(clean=clean, cut_metadata=clean)
    assert dump_tool_takes(map(with_leftovers, world.disks), tmp_path) > 100
    checkpoints = sorted(tmp_path.glob("*/__cluster_metadata-0/*.checkpoint"))
    said = dumped(checkpoints, "--cluster-metadata-decoder")
    assert sum("SnapshotFooter" in line for line in said) == len(checkpoints) == 3
    records = len(image_records(world.disks[0].snapshots[-1].image)) if clean else len(bootstrap_records())
    assert sum("payload: {" in line for line in said) == 3 * records


def test_the_dump_tool_would_have_complained(tmp_path: Path) -> None:
    disk = three(clean=True).disks[0]
    write_disk(disk, tmp_path)
    log = tmp_path / "many-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data[:-9])
    assert len(faults(dumped([log]))) == 2


@pytest.mark.parametrize("clean", [True, False])
def test_the_log_loader_finds_the_same_facts(oracle: Oracle, tmp_path: Path, clean: bool) -> None:
    assert loader_agrees(oracle, three(clean=clean).disks[0], tmp_path) > 100


def bare(records: Iterable[Written]) -> list[Written]:
    return [replace(each, committed=True) for each in records]


def read_by_a_real_consumer(
    directory: Path, *, nodes: int, clean: bool, cut_metadata: bool = False, leftovers: bool = False
) -> None:
    worlds: list[Handmade] = []

    def disks(quorum: Any, cluster_id: str) -> Iterable[BrokerDisk]:
        worlds.append(handmade(quorum, cluster_id=cluster_id, clean=clean, cut_metadata=cut_metadata))
        return map(with_leftovers, worlds[-1].disks) if leftovers else worlds[-1].disks

    cluster = RenderedCluster(directory, nodes=nodes, disks=disks)
    with cluster:
        (world,) = worlds
        for committed_only in (False, True):
            expected = world.visible(committed_only=committed_only)
            found = cluster.read(world.records, committed_only=committed_only)
            for partition, records in expected.items():
                assert found[partition] == bare(records), (partition, committed_only)
        assert cluster.committed(GROUP, TopicPartition("many", 0)) == COMMITTED_OFFSET
        cluster.commit_one(TRANSACTIONAL_ID, TopicPartition("many", 1), b"later")
        for broker_id in cluster.broker_ids:
            # The coordinator knew the id: its producer goes on, in the next epoch.
            assert (TRANSACTIONAL_PRODUCER_ID, 1) in last_producers(cluster.log_dirs(broker_id)[0] / "many-1")
        for broker_id in cluster.broker_ids:
            said = cluster.said(broker_id)
            assert complaints(said, clean=clean) == []
            assert any(STRAY in line for line in said) is leftovers


def last_producers(directory: Path) -> list[tuple[int, int]]:
    """Whose the last two batches are: producer id and epoch. The last of all may be a transaction's marker."""
    rows = [row for path in sorted(directory.glob("*.log")) for row in scan_buffer(path.read_bytes())[0]]
    return [(int(row["producer_id"]), int(row["producer_epoch"])) for row in rows[-2:]]


def test_a_broker_alone_starts_on_a_rendered_directory(tmp_path: Path) -> None:
    read_by_a_real_consumer(tmp_path, nodes=1, clean=True, leftovers=True)
    assert [p.name for p in (tmp_path / "broker-1").rglob("*") if p.suffix in UNFINISHED] == []


def test_a_broker_alone_recovers_a_rendered_directory_of_one_that_was_killed(tmp_path: Path) -> None:
    read_by_a_real_consumer(tmp_path, nodes=1, clean=False, cut_metadata=True, leftovers=True)
    assert [p.name for p in (tmp_path / "broker-1").rglob("*") if p.suffix in UNFINISHED] == []


def test_three_brokers_start_on_three_rendered_directories(tmp_path: Path) -> None:
    read_by_a_real_consumer(tmp_path, nodes=3, clean=True, cut_metadata=True)
