"""Segments whose rows are in pieces: the same facts, and no row that grows."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tidegauge.derivation import segment_pieces
from tidegauge.derivation.in_process import Derived, derive_here
from tidegauge.derivation.index import index_rows
from tidegauge.derivation.index_columns import INDEX_SCHEMA, WITHOUT_RECORDS, rows_of
from tidegauge.derivation.plan import segment_tasks
from tidegauge.derivation.segment_pieces import whole_rows
from tidegauge.facts.segments.summary_pieces import entries
from tidegauge.runs.run import AuditedSnapshot, Run, new_run
from tidegauge.snapshots.adopt import open_snapshot

Golden = Callable[[str], Path]


def a_run(directory: Path, snapshot: Path) -> Run:
    return new_run(directory, (str(snapshot),), store_url="none", fail_on="never", started_at_ms=0)


def derived(target: Path, snapshot: Path) -> Derived:
    opened = open_snapshot(snapshot)
    return derive_here(AuditedSnapshot(root=opened.root, manifest=opened.manifest, target=target, previous=None))


@pytest.mark.parametrize("capture", ["hanging-txn", "shares"])
def test_facts_are_the_same_however_small_the_pieces(
    tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch, capture: str
) -> None:
    whole = derived(tmp_path, golden(capture)).tables
    monkeypatch.setattr(segment_pieces, "ROOM", 3)
    assert derived(tmp_path, golden(capture)).tables == whole


def test_a_row_has_no_more_than_there_is_room_for(
    tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = segment_tasks(a_run(tmp_path / "run", golden("hanging-txn")))
    whole = pa.Table.from_batches(list(index_rows(tasks)), schema=INDEX_SCHEMA)
    monkeypatch.setattr(segment_pieces, "ROOM", 20)
    table = pa.Table.from_batches(list(index_rows(tasks)), schema=INDEX_SCHEMA)
    rows = rows_of(table)
    assert len(rows) > len(whole)
    assert max(sum(entries(s) for s in row["summaries"] or ()) for row in rows) <= 20
    first = {row["path"]: row["pieces"] for row in rows if row["piece"] == 0}
    assert first == {path: sum(row["path"] == path for row in rows) for path in first}
    joined = whole_rows(rows_of(table.select(WITHOUT_RECORDS)))
    assert [row["path"] for row in joined] == [row["path"] for row in rows_of(whole)]
    for row, expected in zip(joined, rows_of(whole), strict=True):
        assert row["range_offsets"] == expected["range_offsets"]
        for one, other in zip(row["summaries"], expected["summaries"], strict=True):
            assert (one.batch_count, one.events.tolist()) == (other.batch_count, other.events.tolist())
