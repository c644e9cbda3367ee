"""Whoever writes one snapshot plants no summary that is believed for the bytes of another."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tidegauge.derivation import index
from tidegauge.derivation.index_columns import values_of
from tidegauge.derivation.plan import segment_tasks
from tidegauge.derivation.segment_pieces import whole_table
from tidegauge.derivation.segment_tasks import Digests, SegmentTask
from tidegauge.facts.coordinators.tables import CoordinatorTable
from tidegauge.runs.run import new_run
from tidegauge.snapshots.location import Location


@pytest.fixture
def task(tmp_path: Path) -> SegmentTask:
    """A segment of the groups' coordinator, with its true digests, as an honest manifest has them."""
    snapshot = taken(written(tmp_path / "snapshot", small_world()))
    run = new_run(tmp_path / "run", (str(snapshot),), store_url="none", fail_on="never", started_at_ms=0)
    found = next(t for t in segment_tasks(run) if t.topic == "__consumer_offsets" and t.stored_bytes)
    digests = ("" if path is None else sha256((snapshot / path).read_bytes()).hexdigest() for path in found.files)
    return replace(found, digests=Digests(sha256=tuple(digests), at_ns=0))


def committed(batch: pa.RecordBatch) -> CoordinatorTable:
    return whole_table(values_of("coordinator_records", batch.column("coordinator_records")))


def test_a_log_that_is_exchanged_between_two_readings_is_not_kept_as_what_it_was(
    task: SegmentTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (honest,) = index.index_rows([task])
    assert honest.column("content")[0].is_valid
    log = Path(task.root, task.stored_path)
    opened: list[Location] = []
    really: Callable[[Location], IO[bytes]] = index.open_bytes

    def exchanging(path: Location) -> IO[bytes]:
        opened.append(path)
        if len(opened) == 2:  # The first reading is over: the scan has seen the honest bytes.
            log.write_bytes(bytes(task.stored_bytes))
        return really(path)

    monkeypatch.setattr(index, "open_bytes", exchanging)
    (row,) = index.index_rows([task])
    assert len(opened) == 2
    forged, sound = (committed(r) for r in (row, honest))
    assert forged != sound, "the attack has its effect on this audit, which reads the attacker's own snapshot"
    assert not row.column("content")[0].is_valid, "and on no other"
