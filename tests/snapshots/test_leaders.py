"""Who leads what, by real metadata logs."""

import json
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.pipeline import derived_once
from tidegauge.kafka_log.sources import no_zeros
from tidegauge.snapshots.leaders import Leaders, read_leaders


def leaders_of(broker: Path) -> Leaders:
    directory = broker / "__cluster_metadata-0"
    files = [*sorted(directory.glob("*.checkpoint"))[-1:], *sorted(directory.glob("*.log"))]
    opened = [path.open("rb") for path in files]
    try:
        return read_leaders([(file.readinto, no_zeros) for file in opened])
    finally:
        for file in opened:
            file.close()


@pytest.mark.parametrize("name", ["unclean-before", "healthy", "hanging-txn"])
def test_leaders_are_those_of_the_whole_replay(golden: Golden, name):
    found = max((leaders_of(golden(name) / f"broker-{b}") for b in (1, 2, 3)), key=lambda x: x.reach)
    partitions = derived_once(golden(name)).rows["partitions"]
    expected = {
        (r["topic"], r["partition"]): r["leader_id"]
        for r in partitions
        if r["leader_id"] is not None and r["topic"] != "__cluster_metadata"
    }
    assert found.by_name() == expected


def test_damage_only_costs_the_order(golden: Golden, tmp_path):
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    log = golden("healthy") / "broker-1/__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    (directory / log.name).write_bytes(data)
    assert json.dumps(sorted(leaders_of(tmp_path).names.values())) != "[]"
    (directory / log.name).write_bytes(b"\xff" * 4096)
    assert leaders_of(tmp_path).by_name() == {}
