"""Producer snapshots of a real cluster that was stopped cleanly, with one of them changed or gone: B11 and B23.

In: partitions of `healthy`. What another broker's memory and the log bear out is told; what an upgrade leaves, or a
producer's expiry may have taken, is not.
"""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import (
    batches,
    copy_of,
    edit,
    open_producer,
    place,
    producers_in,
    sealed,
    segments,
    with_producers,
)
from tests.derivation.judging import Judge, roots
from tests.derivation.pipeline import derived
from tests.derivation.rejoined import truncate
from tests.derivation.storage_breaks import BROKERS, only_what_is_there
from tidegauge.expectations.verdicts import Breach, InvariantResult

PARTITIONS = ("__cluster_metadata-0", "live-0", "txn-0", "livetx-0")
DAY_MS = 86_400_000


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    directory = copy_of(golden("healthy"), tmp_path / "copy", *PARTITIONS)
    only_what_is_there(directory)
    return directory


def snapshots(replica: Path) -> list[Path]:
    return sorted(replica.glob("*.snapshot"))


def without(path: Path, producer_id: int) -> None:
    kept = [e for e in producers_in(path) if struct.unpack_from(">q", e)[0] != producer_id]
    assert len(kept) == len(producers_in(path)) - 1
    with_producers(path, kept)


def b11(judge: Judge, directory: Path) -> tuple[InvariantResult, list[Breach]]:
    verdicts, breaches = judge.verdicts(derived(directory), "B")
    return verdicts["B11"], [b for b in breaches if b.code == "B11"]


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_empty_snapshot_beside_older_ones_that_are_not_is_told(at: int, copy: Path, judge: Judge) -> None:
    path = snapshots(copy / "broker-1/live-0")[at]
    with_producers(path, [])
    (root,) = [b for b in roots(judge, copy, a_part=True) if b.subject.get("topic") == "live"]
    assert (root.code, root.subject["path"]) == ("B11", f"broker-1/live-0/{path.name}")
    assert "producer 8 wrote up to offset" in root.explanation


def test_an_empty_snapshot_with_none_before_it_is_what_an_upgrade_leaves(copy: Path, judge: Judge) -> None:
    with_producers(snapshots(copy / "broker-1/live-0")[0], [])
    result, breaches = b11(judge, copy)
    assert (breaches, result.reasons["empty, as an upgrade writes it"]) == ([], 1)


@pytest.mark.parametrize(("producer_id", "did"), [(5, "wrote up to offset 240"), (2001, "ended a transaction")])
def test_a_producer_that_other_brokers_snapshots_at_the_log_end_have_is_missed(
    producer_id: int, did: str, copy: Path, judge: Judge
) -> None:
    """They wrote a minute before the last metadata record; no setting tells when an idle one is forgotten."""
    (path,) = snapshots(copy / "broker-1/txn-0")
    without(path, producer_id)
    _, (told,) = b11(judge, copy)
    assert told.subject["path"] == f"broker-1/txn-0/{path.name}"
    assert f"producer {producer_id} {did} and is not in it" in told.explanation
    assert "snapshot at the same offset has it" in told.explanation


@pytest.mark.slow
def test_without_a_witness_a_producer_may_have_expired(copy: Path, judge: Judge) -> None:
    for broker in BROKERS:
        path = snapshots(copy / broker / "txn-0")[-1]
        without(path, struct.unpack_from(">q", producers_in(path)[0])[0])
    result, breaches = b11(judge, copy)
    assert breaches == []
    assert result.verdict == "unknown"


def none_at_all(replica: Path) -> None:
    for path in snapshots(replica):
        path.unlink()


def no_newest(replica: Path) -> None:
    snapshots(replica)[-1].unlink()


@pytest.mark.parametrize(("break_it", "severity"), [(none_at_all, "critical"), (no_newest, "warning")])
def test_a_clean_stop_without_a_snapshot_at_the_log_end_is_told_alone(
    break_it: Callable[[Path], None], severity: str, copy: Path, judge: Judge
) -> None:
    break_it(copy / "broker-2/live-0")
    (root,) = [b for b in roots(judge, copy, a_part=True) if b.subject.get("topic") is not None]
    assert (root.code, root.severity, root.subject["broker_id"]) == ("B23", severity, 2)
    assert (root.subject["topic"], root.subject["partition"]) == ("live", 0)


# ---------------------------------------------------------------------------------- a transactional producer that idles


def idle_before(replica: Path, offset: int, *, idle_ms: int) -> None:
    """All batches before an offset are of so much earlier."""
    for log in segments(replica):
        rows = [row for row in batches(log) if int(row["base_offset"]) < offset]

        def earlier(data: bytearray, rows: list[object] = rows) -> None:
            for row in rows:
                start, end = place(row)
                for field in (27, 35):
                    (at,) = struct.unpack_from(">q", data, start + field)
                    struct.pack_into(">q", data, start + field, at - idle_ms)
                sealed(data, start, end)

        edit(log, earlier)


def rolled_before_its_marker(replica: Path, *, coordinator_epoch: int) -> None:
    """livetx-0 as it stood before its last marker: the transaction that begins at 747 is open, and its snapshot says so
    together with the coordinator epoch that the broker remembers.
    """
    truncate(replica, 755)
    (row,) = [row for row in batches(segments(replica)[-1]) if int(row["base_offset"]) == 747]
    path = replica / f"{755:020d}.snapshot"
    path.write_bytes(snapshots(replica)[-1].read_bytes())
    with_producers(path, [open_producer(row, coordinator_epoch=coordinator_epoch)])


@pytest.mark.parametrize(
    ("idle_ms", "wrong", "undecided"),
    [(0, 1, 0), (DAY_MS // 24, 0, 1), (DAY_MS, 0, 0)],
    ids=["not idle", "idle for an hour", "idle for a day"],
)
def test_a_producer_that_idled_for_a_day_has_no_coordinator_epoch_until_its_next_marker(
    idle_ms: int, wrong: int, undecided: int, copy: Path, judge: Judge
) -> None:
    """No file tells producer.id.expiration.ms: after a day even Kafka's default would have let the producer go."""
    replica = copy / "broker-1/livetx-0"
    rolled_before_its_marker(replica, coordinator_epoch=-1)
    idle_before(replica, 747, idle_ms=idle_ms)
    path = f"broker-1/livetx-0/{755:020d}.snapshot"
    row = derived(copy).one("index_files", path=path)
    assert (row["content_checkable"], row["wrong_entries"], row["undecided_entries"]) == (True, wrong, undecided)
    result, breaches = b11(judge, copy)
    assert [b.subject["path"] for b in breaches if b.subject["path"] == path] == [path] * wrong
    assert result.reasons.get("setting not known", 0) == undecided
