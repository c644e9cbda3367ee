"""One thing broken in what coordinators, groups and transactional producers wrote: what an audit calls the root."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.coordinator_breaks import (
    BROKERS,
    each,
    everywhere,
    flipped_marker,
    header,
    nth,
    records,
    renamed,
    snapshot_sequence,
    with_fields,
    without_index_entry,
)
from tests.derivation.damage import batches, copy_of, open_producer, segments, with_producers
from tests.derivation.judging import Judge, roots
from tests.derivation.metadata_damage import at, metadata_logs, metadata_record, records_of, rewrite, without_head
from tests.derivation.pipeline import derived
from tidegauge.derivation.metadata.metadata_log import read_metadata
from tidegauge.expectations.verdicts import Breach
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.coordinator_records import OtherCoordinatorRecord
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.manifest import Consistency

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
METADATA = "__cluster_metadata-0"
STATES = ("__transaction_state-0", "__transaction_state-1", "__transaction_state-2")
OFFSETS = ("__consumer_offsets-0", "__consumer_offsets-1", "__consumer_offsets-2")
SHARES = ("__share_group_state-0", "__share_group_state-1", "__share_group_state-2", "plain-0", "plain-1", "plain-2")
Wanted = Callable[[OtherCoordinatorRecord], bool]


def alarms(found: list[Breach]) -> set[str]:
    return {b.code for b in found if b.severity != "info"}


def record_of(name: str, **values: Any) -> Wanted:
    """Records of a type, with these fields in key or value."""

    def wanted(record: OtherCoordinatorRecord) -> bool:
        said = {**record.key, **(record.value or {})}
        return record.name == name and all(said.get(field) == value for field, value in values.items())

    return wanted


# ------------------------------------------------------------------------------------------------- coordinators' logs


def state_may_not_follow(d: Path) -> None:
    begun = record_of("TransactionLog", transactional_id="tx-a", transaction_status=1)
    records(d, "__transaction_state", 0, nth(0, begun, transaction_status=4))


def transactional_id_elsewhere(d: Path) -> None:
    records(d, "__transaction_state", 1, renamed("transactional_id", "tx-b", 3))


def group_elsewhere(d: Path) -> None:
    records(d, "__consumer_offsets", 0, renamed("group", "g-tx", 3))


def generation_back(d: Path) -> None:
    records(d, "__consumer_offsets", 1, nth(2, record_of("GroupMetadata", group="g-classic"), generation=0))


def group_epoch_back(d: Path) -> None:
    records(d, "__consumer_offsets", 1, nth(1, record_of("ConsumerGroupMetadata", group_id="g-kip848"), epoch=0))


def topic_id_of_another(d: Path) -> None:
    commit = record_of("OffsetCommit", group="g-classic", topic="plain", partition=0)
    records(d, "__consumer_offsets", 1, each(commit, topic_id="Bq2Q3i7TQ1mB5h3nFh8vYg"))


def commit_of_an_epoch_never_given_out(d: Path) -> None:
    commit = record_of("OffsetCommit", group="g-classic", topic="plain", partition=0)
    records(d, "__consumer_offsets", 1, nth(1, commit, leader_epoch=9))


def batch_in_a_state_never_written(d: Path) -> None:
    def acquired(old: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**batch, "delivery_state": 1} for batch in old]

    share = record_of("ShareUpdate", group_id="g-share")
    records(d, "__share_group_state", 0, nth(0, share, state_batches=acquired, delivery_complete_count=0))


def share_leader_ahead(d: Path) -> None:
    records(d, "__share_group_state", 0, nth(0, record_of("ShareUpdate", group_id="g-share"), leader_epoch=40))


def share_state_epoch_back(d: Path) -> None:
    records(d, "__share_group_state", 0, nth(0, record_of("ShareUpdate", group_id="g-share"), snapshot_epoch=-1))


def share_start_beyond(d: Path) -> None:
    records(d, "__share_group_state", 0, nth(0, record_of("ShareUpdate", group_id="g-share"), start_offset=5_000))


def share_count_off(d: Path) -> None:
    change = nth(0, record_of("ShareUpdate", group_id="g-share"), delivery_complete_count=99)
    records(d, "__share_group_state", 0, change)


# -------------------------------------------------------------------------------------------- transactions in a log


def _marker(path: Path, *, control_type: int, nth_one: int = 3) -> Any:
    rows = batches(path)
    return rows[rows["control_type"] == control_type][nth_one]


def abort_called_commit(d: Path) -> None:
    def change(path: Path) -> None:
        marker = _marker(path, control_type=0)
        flipped_marker(path, marker)
        without_index_entry(path.with_suffix(".txnindex"), int(marker["base_offset"]))

    everywhere(d, "livetx-0", _first_only(change))


def marker_missing(d: Path) -> None:
    """The last marker: in its place a batch of nobody stands, on every replica."""

    def change(path: Path) -> None:
        marker = batches(path)[-1]
        assert int(marker["control_type"]) >= 0
        without_index_entry(path.with_suffix(".txnindex"), int(marker["base_offset"]))
        (snapshot,) = [s for s in path.parent.glob("*.snapshot") if int(s.stem) > int(marker["base_offset"])]
        with_producers(snapshot, [open_producer(batches(path)[-2], coordinator_epoch=0)])
        header(path, marker, layout.ATTRIBUTES_AT, ">h", 0)
        header(path, marker, layout.PRODUCER_ID_AT, ">q", -1)
        header(path, marker, layout.PRODUCER_EPOCH_AT, ">h", -1)

    everywhere(d, "livetx-0", lambda path: change(path) if path == segments(path.parent)[-1] else None)


def plain_batch_inside(d: Path) -> None:
    def change(path: Path) -> None:
        row = _second_of_its_transaction(path)
        header(path, row, layout.ATTRIBUTES_AT, ">h", int(row["attributes"]) & ~layout.TRANSACTIONAL_BIT)

    everywhere(d, "livetx-0", _first_only(change))


def stale_data_behind_a_marker(d: Path) -> None:
    def change(path: Path) -> None:
        rows = batches(path)
        at = int((rows["control_type"] == 1).nonzero()[0][3]) + 1
        epoch = int(rows[at]["producer_epoch"])
        for row in rows[at:]:
            if int(row["control_type"]) >= 0:
                return
            if int(row["producer_epoch"]) == epoch and int(row["attributes"]) & layout.TRANSACTIONAL_BIT:
                header(path, row, layout.PRODUCER_EPOCH_AT, ">h", epoch - 1)

    everywhere(d, "livetx-0", _first_only(change))


def _second_of_its_transaction(path: Path) -> Any:
    rows = batches(path)
    data = rows[(rows["control_type"] < 0) & (rows["attributes"] & layout.TRANSACTIONAL_BIT != 0)]
    same = (data["producer_epoch"][1:] == data["producer_epoch"][:-1]).nonzero()[0]
    return data[int(same[0]) + 1]


def _first_only(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Only in the first segment of each replica."""

    def of(path: Path) -> None:
        if path == segments(path.parent)[0]:
            change(path)

    return of


def producer_snapshot_of_a_compacted_log(d: Path) -> None:
    """Where a cleaner has been, nobody can work the snapshot out from the log again; the other replicas' remain."""
    ours, theirs = ({p.name for p in (d / b / "compacted-0").glob("*.snapshot")} for b in ("broker-2", "broker-1"))
    snapshot_sequence(d / "broker-2" / "compacted-0" / max(ours & theirs))


BREAKS: dict[Callable[[Path], None], tuple[str, tuple[str, ...]]] = {
    state_may_not_follow: ("F11", STATES),
    transactional_id_elsewhere: ("F15", STATES),
    group_elsewhere: ("J08", OFFSETS),
    generation_back: ("J09", OFFSETS),
    group_epoch_back: ("J09", OFFSETS),
    topic_id_of_another: ("J03", (*OFFSETS, "plain-0")),
    commit_of_an_epoch_never_given_out: ("J02", (*OFFSETS, "plain-0")),
    batch_in_a_state_never_written: ("J05", SHARES),
    share_leader_ahead: ("J06", SHARES),
    share_state_epoch_back: ("J06", SHARES),
    share_start_beyond: ("J07", SHARES),
    share_count_off: ("J07", SHARES),
    abort_called_commit: ("F07", (*STATES, "livetx-0", "livetx-1")),
    marker_missing: ("F10", (*STATES, "livetx-0", "livetx-1")),
    plain_batch_inside: ("F01", (*STATES, "livetx-0")),
    stale_data_behind_a_marker: ("F04", (*STATES, "livetx-0")),
    producer_snapshot_of_a_compacted_log: ("D16", ("compacted-0",)),
}


@pytest.mark.parametrize(("break_it", "expected"), BREAKS.items(), ids=[b.__name__ for b in BREAKS])
def test_one_break_and_what_is_called_its_root(
    break_it: Callable[[Path], None],
    expected: tuple[str, tuple[str, ...]],
    golden: Golden,
    tmp_path: Path,
    judge: Judge,
) -> None:
    code, partitions = expected
    copy = copy_of(golden("healthy"), tmp_path / "c", METADATA, *partitions)
    break_it(copy)
    assert alarms(roots(judge, copy)) == {code}


# ------------------------------------------------------------------------------- a transaction that was never ended


@pytest.fixture
def hanging(golden: Golden, tmp_path: Path) -> Path:
    """A copy of the capture with an open transaction, all of one moment."""
    return copy_of(golden("hanging-txn"), tmp_path / "c", METADATA, *STATES, *OFFSETS, "pay-0")


def test_commits_of_an_older_epoch_than_the_open_transaction(hanging: Path, judge: Judge) -> None:
    everywhere(hanging, "__consumer_offsets-0", _older_epoch)
    adopt(hanging, cluster="c", consistency=Consistency.QUIESCED)
    (found,) = (b for b in roots(judge, hanging) if b.severity != "info")
    assert (found.code, found.subject["group"], found.start_offset) == ("F14", "g-hang", 0)


def _older_epoch(path: Path) -> None:
    for row in batches(path):
        header(path, row, layout.PRODUCER_EPOCH_AT, ">h", int(row["producer_epoch"]) - 1)


def test_a_transaction_in_the_last_epoch(hanging: Path, judge: Judge) -> None:
    ghost = record_of("TransactionLog", transactional_id="ghost-tx")
    records(hanging, "__transaction_state", 1, nth(0, ghost, producer_epoch=32_767))
    adopt(hanging, cluster="c", consistency=Consistency.QUIESCED)
    (found,) = (b for b in roots(judge, hanging) if b.severity != "info")
    assert (found.code, found.subject["transactional_id"]) == ("F13", "ghost-tx")


# ------------------------------------------------------------------------------------------------- two snapshots


def test_a_commit_that_went_back_is_told_for_information(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    before = copy_of(golden("healthy"), tmp_path / "before", METADATA, *OFFSETS, "plain-2")
    after = copy_of(golden("healthy"), tmp_path / "after", METADATA, *OFFSETS, "plain-2")
    commit = record_of("OffsetCommit", group="g-classic", topic="plain", partition=2)
    records(after, "__consumer_offsets", 1, each(commit, offset=40))
    # That the log was written anew is told beside it: a broker appends the commit, and leaves the old one.
    (told,) = (b for b in roots(judge, after, previous=before) if b.code == "J04")
    assert (told.severity, told.subject["group"], told.start_offset, told.end_offset) == ("info", "g-classic", 40, 380)


def test_a_lower_commit_behind_another_is_told_without_an_earlier_snapshot(
    golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "c", METADATA, *OFFSETS, "plain-2")
    commit = record_of("OffsetCommit", group="g-classic", topic="plain", partition=2)
    records(copy, "__consumer_offsets", 1, nth(1, commit, offset=40))
    (told,) = (b for b in roots(judge, copy) if b.code == "J04")
    assert (told.severity, told.subject["group"], told.start_offset, told.end_offset) == ("info", "g-classic", 40, 150)


def test_a_live_copy_may_have_commits_of_an_epoch_that_its_metadata_log_has_not_come_to(
    golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "c", METADATA, *OFFSETS, "plain-0")
    commit_of_an_epoch_never_given_out(copy)
    (copy / "broker-3/.kafka_cleanshutdown").unlink()
    results, _ = judge.verdicts(derived(copy), "J")
    assert (results["J02"].breached, results["J02"].reasons["copy skew"]) == (0, 1)


def test_the_same_commits_twice_are_no_step_back(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    before = copy_of(golden("healthy"), tmp_path / "before", METADATA, *OFFSETS, "plain-2")
    after = copy_of(golden("healthy"), tmp_path / "after", METADATA, *OFFSETS, "plain-2")
    assert {b.code for b in roots(judge, after, previous=before)} & {"J04", "F12"} == set()


@pytest.mark.parametrize(
    ("hours_since_anybody_wrote", "found"),
    [((-1, 0), {("F12", "pay", 115, 466)}), ((1, 2), set())],
    ids=["of a cluster that runs", "of one that is dead"],
)
def test_a_last_stable_offset_that_stays_for_longer_than_a_transaction_may_run(
    hours_since_anybody_wrote: tuple[int, int],
    found: set[tuple[object, ...]],
    golden: Golden,
    tmp_path: Path,
    judge: Judge,
) -> None:
    """Where nobody writes any more, nothing moves, and no transaction of it is too long."""
    copies = []
    for number, (name, high_watermark) in enumerate((("before", 460), ("after", 466))):
        copy = copy_of(golden("hanging-txn"), tmp_path / name, METADATA, *STATES, *OFFSETS, "pay-0")
        for broker in BROKERS:
            listed = copy / broker / "replication-offset-checkpoint"
            listed.write_text(listed.read_text().replace("pay 0 466", f"pay 0 {high_watermark}"))
        manifest = adopt(copy, cluster="c", consistency=Consistency.QUIESCED).manifest
        end = read_metadata(copy, listing(manifest), []).history.last_record_at_ms
        assert end is not None
        _read_at(copy, end + hours_since_anybody_wrote[number] * HOUR_MS)
        copies.append(copy)
    breaches = roots(judge, copies[1], previous=copies[0])
    told = {(b.code, b.subject["topic"], b.start_offset, b.end_offset) for b in breaches if b.severity != "info"}
    assert told == found


def _read_at(snapshot: Path, at_ms: int) -> None:
    path = snapshot / "MANIFEST.json"
    manifest = json.loads(path.read_text())
    for broker in manifest["brokers"]:
        broker["read_started_at_ms"] = broker["read_finished_at_ms"] = at_ms
    path.write_text(json.dumps(manifest))


def test_a_group_that_read_what_was_cut_off_is_named_without_an_earlier_snapshot(tmp_path: Path, judge: Judge) -> None:
    moment = next(m for m in SCENARIOS["unclean-election"].play(1).moments if m.name == "a-is-back")
    write_snapshot(tmp_path / "s", moment.disks, cluster="c", snapshot_id="s", consistency=Consistency.ATOMIC, truth={})
    found = roots(judge, tmp_path / "s")
    (told,) = (b for b in found if b.code == "J02")
    assert (told.start_offset, told.end_offset) == (100, 201)
    assert alarms(found) == {"J02", "K07"}


# ------------------------------------------------------------------------- a share group that skips aborted records

ABORTED_ONES = 21
"""Transactions that were aborted in livetx-1, each of some records."""


def of_livetx(d: Path, *, counted: int, isolation: str | None) -> None:
    """The share group's state of plain-1 becomes one of livetx-1, which counts so many deliveries more than written."""
    logs = metadata_logs(d)
    ids = {r.fields["name"]: r.fields["topic_id"] for _, r in records_of(logs[0]) if r.name == "TopicRecord"}
    if isolation is not None:
        idle = next(o for o, r in records_of(logs[0]) if r.name == "NoOpRecord" and o >= 300)
        config = {"resource_type": 32, "resource_name": "g-share", "name": "share.isolation.level", "value": isolation}
        rewrite(logs, at(idle, metadata_record("ConfigRecord", 0, **config)))

    def change(record: OtherCoordinatorRecord) -> OtherCoordinatorRecord | None:
        named: dict[str, Any] = dict(record.key)
        if (named.get("topic_id"), named.get("partition")) != (ids["plain"], 1) or record.value is None:
            return None
        found = with_fields(record, delivery_complete_count=lambda old: old + counted if old >= 0 else old)
        return replace(found, key={**named, "topic_id": ids["livetx"]})

    records(d, "__share_group_state", 2, lambda: change)


@pytest.mark.parametrize(
    ("counted", "isolation", "expected"),
    [
        (ABORTED_ONES, "read_committed", (0, {})),
        (ABORTED_ONES, None, (1, {})),
        (ABORTED_ONES, "read_uncommitted", (1, {})),
        (10_000, "read_committed", (1, {})),
        (-1, "read_committed", (1, {})),
    ],
)
def test_aborted_records_are_counted_and_not_written_for_who_reads_committed_ones_only(
    golden: Golden,
    tmp_path: Path,
    judge: Judge,
    counted: int,
    isolation: str | None,
    expected: tuple[int, dict[str, int]],
) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "c", METADATA, *SHARES, "livetx-1")
    of_livetx(copy, counted=counted, isolation=isolation)
    results, _ = judge.verdicts(derived(copy), "J")
    assert (results["J07"].breached, results["J07"].reasons) == expected


def test_what_a_share_group_reads_is_not_known_where_the_metadata_log_does_not_reach_back(
    golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "c", METADATA, *SHARES, "livetx-1")
    of_livetx(copy, counted=ABORTED_ONES, isolation=None)
    without_head(copy, 200)
    results, _ = judge.verdicts(derived(copy), "J")
    assert (results["J07"].breached, results["J07"].reasons) == (0, {"history of the setting not known": 1})
