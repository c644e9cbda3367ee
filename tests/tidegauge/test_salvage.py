"""Salvage from a snapshot that has no records."""

from pathlib import Path

import pytest

from snapshots.errors import SnapshotError
from tests.conftest import Golden
from tests.snapshots.headers_copies import headers_copy
from tests.spark_jobs.damage import copy_of
from tidegauge.salvage import salvage


def test_a_headers_snapshot_has_nothing_to_salvage(golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("unclean-before"), tmp_path / "copy", "orders-0")
    headers_copy(copy, tmp_path / "headers")
    with pytest.raises(SnapshotError, match=r"captured with --mode headers.* orders-0 .*--mode full") as raised:
        salvage(tmp_path / "headers", topic="orders", partition=0, out=tmp_path / "out", broker=1)
    assert str(tmp_path / "headers") in str(raised.value)
    assert not (tmp_path / "out").exists()
    full = salvage(copy, topic="orders", partition=0, out=tmp_path / "full", start=800, broker=1)
    assert full.records == 700
