"""What consumers see of each batch: against what the brokers said, and where an index is wrong."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conftest import Golden
from tests.derivation.coordinator_breaks import without_index_entry
from tests.derivation.damage import batches, copy_of, segments
from tests.snapshots.headers_copies import headers_copy
from tidegauge.cli.main import main
from tidegauge.cli.visibility import ReplicaVisibility, replica_visibility
from tidegauge.snapshots.errors import SnapshotError


def told(directory: Path, topic: str, partition: int, **more: int) -> ReplicaVisibility:
    return replica_visibility(directory, topic=topic, partition=partition, **more)


def records(seen: ReplicaVisibility) -> Counter[tuple[str, bool, bool]]:
    """Records of data by transaction, and whether each kind of consumer reads them."""
    counts: Counter[tuple[str, bool, bool]] = Counter()
    for batch in seen.batches:
        if batch.kind == "data":
            counts[batch.transaction or "plain", batch.read_uncommitted, batch.read_committed] += batch.records
    return counts


def test_an_open_transaction_holds_readers_of_committed_records(golden: Golden) -> None:
    truth = json.loads((golden("hanging-txn") / "GROUND_TRUTH.json").read_text(encoding="utf-8"))
    listed = truth["probe_at_capture"]["list_offsets"]
    for topic, partition in (("pay", 0), ("raw", 0), ("pay", 1)):
        seen = told(golden("hanging-txn"), topic, partition)
        assert seen.last_stable_offset == listed["latest_read_committed"][f"{topic}-{partition}"]["offset"]
        assert seen.high_watermark == listed["latest"][f"{topic}-{partition}"]["offset"]
        assert all(b.end_offset <= seen.last_stable_offset for b in seen.batches if b.read_committed)
        assert not [b for b in seen.batches if b.wrong is not None]
    (opened,) = {
        b.transaction_first_offset for b in told(golden("hanging-txn"), "pay", 0).batches if b.transaction == "open"
    }
    assert opened == 115


def test_each_batch_is_seen_as_its_marker_says(golden: Golden) -> None:
    counts = records(told(golden("healthy"), "txn", 0))
    assert {(kind, committed) for kind, _, committed in counts} == {("committed", True), ("aborted", False)}
    assert all(uncommitted for _, uncommitted, _ in counts)


def test_a_snapshot_without_records_tells_the_same(golden: Golden, tmp_path: Path) -> None:
    whole = copy_of(golden("healthy"), tmp_path / "whole", "__cluster_metadata-0", "txn-0")
    headers_copy(whole, tmp_path / "headers")
    assert records(told(tmp_path / "headers", "txn", 0)) == records(told(whole, "txn", 0))


def test_an_entry_that_the_index_lacks_shows_aborted_records(golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "c", "__cluster_metadata-0", "txn-0")
    path = segments(copy / "broker-1" / "txn-0")[0]
    rows = batches(path)
    abort = rows[rows["control_type"] == 0][0]
    without_index_entry(path.with_suffix(".txnindex"), int(abort["base_offset"]))
    wrong = [b for b in told(copy, "txn", 0, broker=1).batches if b.wrong is not None]
    assert wrong
    assert all(b.transaction == "aborted" and b.read_committed for b in wrong)
    assert {b.marker_offset for b in wrong} == {int(abort["base_offset"])}
    assert not [b for b in told(copy, "txn", 0, broker=2).batches if b.wrong is not None]


def test_the_command_answers_for_a_range_and_for_people(golden: Golden) -> None:
    asked = [
        "visibility",
        str(golden("hanging-txn")),
        "--topic",
        "raw",
        "--partition",
        "0",
        "--from",
        "70",
        "--to",
        "90",
    ]
    answer = CliRunner().invoke(main, asked)
    assert answer.exit_code == 0, answer.output
    assert "last stable offset 84" in answer.output
    assert "its transaction is open" in answer.output
    value = json.loads(CliRunner().invoke(main, [*asked, "--json"]).output)
    assert (value["topic"], value["last_stable_offset"]) == ("raw", 84)
    assert all(b["end_offset"] > 70 and b["start_offset"] < 90 for b in value["batches"])
    assert {b["transaction"] for b in value["batches"]} >= {"committed", "open"}


@pytest.mark.parametrize(("topic", "broker"), [("nothing", None), ("raw", 9)])
def test_what_is_not_there_is_said(golden: Golden, topic: str, broker: int | None) -> None:
    with pytest.raises(SnapshotError, match="holds no replica of"):
        replica_visibility(golden("hanging-txn"), topic=topic, partition=0, broker=broker)
