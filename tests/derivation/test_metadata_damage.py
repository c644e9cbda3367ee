"""One thing changed in the metadata of a real cluster's copy, and the invariant that alone tells of it as a root."""

import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, edit, place, segments
from tests.derivation.judging import Judge
from tests.derivation.metadata_damage import (
    at,
    metadata_logs,
    metadata_record,
    metadata_snapshots,
    records_of,
    rewrite,
    without_head,
)
from tests.derivation.pipeline import Derived, Row, derived
from tests.sampling import one_in
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, InvariantResult, fold
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.kafka_log.schemas import FieldValue

FAMILIES = "ABCDEFGHJKL"
HOUR_MS = 3_600_000


def topic_id(directory: Path, topic: str) -> FieldValue:
    records = (r for _, r in records_of(metadata_logs(directory)[0]) if r.name == "TopicRecord")
    return next(r.fields["topic_id"] for r in records if r.fields["name"] == topic)


def idle(directory: Path, after: int, *, place_in_line: int = 0) -> int:
    """The offset of a record that says nothing, to put another in its place."""
    found = [o for o, r in records_of(metadata_logs(directory)[0]) if r.name == "NoOpRecord" and o >= after]
    return found[place_in_line]


def said(record: MetadataRecord, **fields: FieldValue) -> MetadataRecord:
    return replace(record, fields={**record.fields, **fields})


def partition_change(directory: Path, topic: str, partition: int = 0, **fields: FieldValue) -> MetadataRecord:
    return metadata_record(
        "PartitionChangeRecord", 2, topic_id=topic_id(directory, topic), partition_id=partition, **fields
    )


def broker_epoch(directory: Path, broker_id: int) -> FieldValue:
    records = (r for _, r in records_of(metadata_logs(directory)[0]) if r.name == "RegisterBrokerRecord")
    return [r.fields["broker_epoch"] for r in records if r.fields["broker_id"] == broker_id][-1]


def bad_records(directory: Path) -> None:
    """What a controller gone wrong would write, on every node alike."""
    logs = metadata_logs(directory)
    nothing = metadata_record("NoOpRecord", 0)
    retained = topic_id(directory, "plain")
    wrong = {
        0: partition_change(directory, "live", 0, isr=(1, 2), eligible_leader_replicas=(3,)),
        1: partition_change(directory, "live", 1, leader_recovery_state=1),
        2: partition_change(directory, "live", 2, directories=("AAAAAAAAAAAAAAAAAAAAAQ",) * 2),
        3: metadata_record("EndTransactionRecord", 0),
    }
    for number, record in wrong.items():
        rewrite(logs, at(idle(directory, 300, place_in_line=number), record))

    def everywhere(_: int, record: MetadataRecord) -> MetadataRecord:
        if record.name == "BrokerRegistrationChangeRecord" and record.fields["broker_id"] == 2:
            return said(record, broker_epoch=7)
        gone = record.name == "PartitionRecord" and record.fields["topic_id"] == retained
        return nothing if gone and record.fields["partition_id"] == 1 else record

    rewrite([*logs, *metadata_snapshots(directory)], everywhere)


def bad_members(directory: Path) -> None:
    """A replica that comes from nowhere, and an ISR without its leader."""
    stranger, without = (idle(directory, 300, place_in_line=number) for number in range(2))
    rows = derived(directory).all("partition_changes", topic="live", partition=1)
    now = [row for row in rows if row["metadata_offset"] < without][-1]
    others = tuple(broker for broker in now["isr"] if broker != now["leader_id"])
    logs = metadata_logs(directory)
    rewrite(logs, at(stranger, partition_change(directory, "live", 0, adding_replicas=(9,))))
    rewrite(logs, at(without, partition_change(directory, "live", 1, isr=others)))


def bad_snapshot(directory: Path) -> None:
    """What one node counted and kept otherwise than the log, and a vote that it never gave."""
    counted, elected = topic_id(directory, "live"), topic_id(directory, "plain")

    def otherwise(_: int, record: MetadataRecord) -> MetadataRecord:
        fields = record.fields
        if record.name == "PartitionRecord" and fields["topic_id"] == counted and fields["partition_id"] == 0:
            return said(record, partition_epoch=7)
        if record.name == "PartitionRecord" and fields["topic_id"] == elected and fields["partition_id"] == 0:
            return said(record, leader_epoch=3)
        if record.name == "ConfigRecord" and fields["resource_name"] == "live":
            return said(record, value="77")
        return record

    rewrite([metadata_snapshots(directory)[1]], otherwise)
    path = directory / "broker-2/__cluster_metadata-0/quorum-state"  # The leader of epoch 2 was elected with its vote.
    text = path.read_text().replace('"votedId":1', '"votedId":3')
    path.unlink()
    path.write_text(text)


def fenced_in_sync(directory: Path) -> None:
    fence = metadata_record(
        "BrokerRegistrationChangeRecord", 3, broker_id=3, broker_epoch=broker_epoch(directory, 3), fenced=1
    )
    rewrite(metadata_logs(directory), at(idle(directory, 300), fence))


def taken_in_while_fenced(directory: Path) -> None:
    """Broker 3 is back 87 ms after it was taken into an ISR again: the two records change places."""
    logs = metadata_logs(directory)
    records = records_of(logs[0])
    back = next(o for o, r in reversed(records) if _unfences(r, broker_id=3))
    taken_in = [o for o, r in records if r.name == "PartitionChangeRecord" and o > back][1]
    exchanged = dict(records)
    rewrite(logs, at(back, exchanged[taken_in]))
    rewrite(logs, at(taken_in, exchanged[back]))


def _unfences(record: MetadataRecord, *, broker_id: int) -> bool:
    fields = record.fields
    changes = record.name == "BrokerRegistrationChangeRecord"
    return changes and (fields["broker_id"], fields["fenced"]) == (broker_id, -1)


def epoch_that_nobody_led(directory: Path) -> None:
    """A third of busy-0's leaders was none, as the metadata log has it, and what it wrote is there."""
    facts = derived(directory)
    written = {r["leader_epoch"] for r in facts.all("epoch_spans", topic="busy", partition=0) if r["batch_count"]}
    change = next(
        r for r in facts.all("partition_changes", topic="busy", partition=0) if _elects(r, min(written - {0}))
    )
    record = dict(records_of(metadata_logs(directory)[0]))[change["metadata_offset"]]
    rewrite(metadata_logs(directory), at(change["metadata_offset"], said(record, leader=-1)))


def _elects(change: Row, leader_epoch: int) -> bool:
    return bool(change["leader_epoch"] == leader_epoch != change["previous_leader_epoch"])


def epoch_that_was_never_given_out(directory: Path, partition: str = "busy-0") -> None:
    """On every replica the last batch is of an epoch that the metadata log has not come to, and so says the file."""
    for replica in directory.glob(f"broker-*/{partition}"):
        log = [path for path in segments(replica) if path.stat().st_size][-1]
        row = batches(log)[-1]
        edit(log, lambda b, row=row: struct.pack_into(">i", b, place(row)[0] + 12, 90))
        epochs = (replica / "leader-epoch-checkpoint").read_text().split("\n")
        lines = [*epochs[2:-1], f"90 {int(row['base_offset'])}"]
        (replica / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def transaction_without_an_end(directory: Path) -> None:
    """The one that every log begins with, on every node: snapshots and all that has happened since stand behind it."""
    logs = metadata_logs(directory)
    end = next(o for o, r in records_of(logs[0]) if r.name == "EndTransactionRecord")
    rewrite(logs, at(end, metadata_record("NoOpRecord", 0)))


def transaction_begins_and_time_goes_on(directory: Path) -> None:
    rewrite(metadata_logs(directory), at(idle(directory, 100), metadata_record("BeginTransactionRecord", 0)))


def another_quota(directory: Path) -> None:
    quota = metadata_record(
        "ClientQuotaRecord",
        0,
        entity=({"entity_type": "user", "entity_name": "alice"},),
        key="producer_byte_rate",
        value=1024.0,
    )
    snapshot = metadata_snapshots(directory)[1]
    first = next(o for o, r in records_of(snapshot) if r.name == "RegisterControllerRecord")
    rewrite([snapshot], at(first, quota))


def older_epoch_goes_on(directory: Path) -> None:
    for path in metadata_logs(directory):
        rows = batches(path)
        data = bytearray(path.read_bytes())
        struct.pack_into(">i", data, place(rows[len(rows) // 2])[0] + 12, 0)
        path.unlink()
        path.write_bytes(data)


def another_record(directory: Path) -> None:
    other = metadata_record("ClearElrRecord", 0, topic_name="nobody")
    rewrite([metadata_logs(directory)[1]], at(idle(directory, 300), other))


def foreign_disk(directory: Path) -> None:
    """A clone of broker 1's disk in broker 2, and a replica that came back with an old one."""
    (own,) = re.findall(r"directory.id=.*", (directory / "broker-1/meta.properties").read_text())
    path = directory / "broker-2/meta.properties"
    path.write_text(re.sub(r"directory.id=.*", lambda _: own, path.read_text()))
    shutil.copytree(directory / "broker-3/rf1-0", directory / "broker-1/rf1-0")


def stuck_move(directory: Path) -> None:
    logs = metadata_logs(directory)
    change = partition_change(directory, "pay", adding_replicas=(3,))
    rewrite(logs, at(idle(directory, 100), change), later_ms=-25 * HOUR_MS)


def restated(directory: Path) -> None:
    """A record that says all of a partition anew, with a partition epoch of before."""
    offset = idle(directory, 420)
    rows = derived(directory).all("partition_changes", topic="busy", partition=0)
    now = [row for row in rows if row["metadata_offset"] < offset][-1]
    first = next(
        r
        for _, r in records_of(metadata_logs(directory)[0])
        if r.name == "PartitionRecord" and r.fields["topic_id"] == now["topic_id"] and r.fields["partition_id"] == 0
    )
    again = said(
        first,
        isr=tuple(now["isr"]),
        leader=now["leader_id"],
        leader_epoch=now["leader_epoch"],
        partition_epoch=now["partition_epoch"] - 2,
    )
    rewrite(metadata_logs(directory), at(offset, again))


def judged(judge: Judge, directory: Path) -> tuple[Derived, tuple[Breach, ...]]:
    facts = derived(directory)
    return facts, fold(judge.verdicts(facts, FAMILIES)[1], CATALOGUE)


LEFT_OUT: dict[str, set[str]] = {}


def left_out(judge: Judge, copy: Path, name: str) -> set[str]:
    """What a copy of one partition has to say for itself, before anything is broken in it."""
    if name not in LEFT_OUT:
        LEFT_OUT[name] = {breach.code for breach in judged(judge, copy)[1]}
    return LEFT_OUT[name]


DAMAGED: tuple[tuple[str, str, Callable[[Path], None], set[str]], ...] = (
    ("healthy", "live-0", bad_records, {"K06", "K08", "K12", "K17", "K11", "K13"}),
    ("healthy", "live-0", bad_members, {"K04", "K05"}),
    ("healthy", "live-0", bad_snapshot, {"K01", "K02", "K03", "K16"}),
    ("healthy", "live-0", fenced_in_sync, {"K09"}),
    ("epochs", "busy-1", taken_in_while_fenced, {"K09"}),
    ("epochs", "busy-0", epoch_that_nobody_led, {"D15"}),
    ("epochs", "busy-0", epoch_that_was_never_given_out, {"D14"}),
    ("healthy", "live-0", transaction_without_an_end, {"K17"}),
    ("hanging-txn", "pay-0", transaction_begins_and_time_goes_on, {"K17"}),
    ("healthy", "live-0", another_quota, {"K20"}),
    ("healthy", "live-0", older_epoch_goes_on, {"K14"}),
    ("healthy", "live-0", another_record, {"K15"}),
    ("healthy", "rf1-0", foreign_disk, {"B22", "D17"}),
    ("hanging-txn", "pay-0", stuck_move, {"K18"}),
    ("epochs", "busy-0", restated, {"K19"}),
)
"""Capture, the partition that is copied, what is done to its metadata, and the only roots of that."""


@pytest.mark.parametrize(("capture", "partition", "break_it", "expected"), one_in(6, DAMAGED))
def test_what_is_wrong_is_the_root_and_nothing_else_is(
    judge: Judge,
    golden: Golden,
    tmp_path: Path,
    capture: str,
    partition: str,
    break_it: Callable[[Path], None],
    expected: set[str],
) -> None:
    copy = copy_of(golden(capture), tmp_path / "copy", "__cluster_metadata-0", partition)
    before = left_out(judge, copy, f"{capture} {partition}")
    break_it(copy)
    _, found = judged(judge, copy)
    assert {breach.code for breach in found if breach.implied_by is None} - before == expected


def known_of(result: InvariantResult) -> tuple[int, dict[str, int]]:
    """Rows that are breached, and why others are not known: those apart whose topics are not in the copy."""
    reasons = {reason: rows for reason, rows in result.reasons.items() if reason != Evidence.REPLICA.not_known}
    return result.breached, reasons


def test_of_an_epoch_above_the_metadata_logs_a_live_copy_knows_nothing(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    """Of a stopped cluster it is wrong; beside a running broker the metadata log may have been copied before."""
    for capture, partition, breached in (("epochs", "busy-0", 3), ("hanging-txn", "raw-0", 0)):
        copy = copy_of(golden(capture), tmp_path / capture, "__cluster_metadata-0", partition)
        epoch_that_was_never_given_out(copy, partition)
        results, _ = judge.verdicts(derived(copy), FAMILIES)
        for code in ("D14", "D15"):
            assert results[code].breached == breached
            assert ("metadata_log" in results[code].lacks) == (breached == 0), code


def test_a_transaction_at_the_very_end_of_the_log_is_in_flight(judge: Judge, golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("hanging-txn"), tmp_path / "copy", "__cluster_metadata-0", "pay-0")
    for log in metadata_logs(copy):
        last = records_of(log)[-1][0]
        rewrite([log], at(last, metadata_record("BeginTransactionRecord", 0)))
    results, _ = judge.verdicts(derived(copy), FAMILIES)
    assert (results["K17"].breached, results["K17"].reasons) == (0, {"in flight": 1})


@pytest.mark.parametrize(("place_in_line", "overdue"), [(-1, 0), (0, 3)])
def test_what_a_limit_of_a_moment_ago_asks_for_is_not_overdue_yet(
    judge: Judge, golden: Golden, tmp_path: Path, place_in_line: int, overdue: int
) -> None:
    """Who deletes comes by every five minutes. The copy is of an hour after the last record was written."""
    copy = copy_of(golden("hanging-txn"), tmp_path / "copy", "__cluster_metadata-0", "pay-0")
    logs = metadata_logs(copy)
    idle = [o for o, r in records_of(logs[0]) if r.name == "NoOpRecord" and o >= 100]
    limits = {"retention.ms": "1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    for number, (name, value) in enumerate(limits.items()):
        change = metadata_record("ConfigRecord", 0, resource_type=2, resource_name="pay", name=name, value=value)
        rewrite(
            logs,
            at(idle[number if place_in_line == 0 else number - 5], change),
            later_ms=HOUR_MS if place_in_line else 0,
        )
    rewrite(logs, at(idle[-1], metadata_record("ClearElrRecord", 0, topic_name="nobody")), later_ms=HOUR_MS)
    results, _ = judge.verdicts(derived(copy), "C")
    assert known_of(results["C05"]) == (overdue, {})


@pytest.mark.slow
def test_a_log_whose_head_is_gone_is_judged_from_its_snapshots_on(judge: Judge, golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("pair-clean-b2"), tmp_path / "copy", "__cluster_metadata-0", "plain-0")
    whole, _ = judged(judge, copy)
    without_head(copy, 200)
    facts, found = judged(judge, copy)
    assert {b.code for b in found if b.severity != "info"} == set()
    reasons = {row["end_offset"]: row["incomparable_reason"] for row in facts.rows["metadata_snapshots"]}
    assert reasons[821] is None, "the log behind the oldest snapshot leads to the later ones"
    (last,) = [r for r in facts.all("partition_changes", topic="plain", partition=0) if r["snapshot_end_offset"] == 821]
    assert last["snapshot_partition_epoch"] == last["partition_epoch"]
    entries = [{k: v for k, v in r.items() if k in ("kind", "name", "value")} for r in facts.rows["metadata_entries"]]
    assert entries == [{k: r[k] for k in ("kind", "name", "value")} for r in whole.rows["metadata_entries"]]


def test_damage_to_the_log_makes_what_follows_from_it_unknown(judge: Judge, golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "copy", "__cluster_metadata-0", "live-0")
    for log in metadata_logs(copy):
        data = bytearray(log.read_bytes())
        row = next(r for r in batches(log) if r["base_offset"] <= 118 <= r["last_offset"])
        _, end = place(row)
        data[end - 3] ^= 0x55
        log.unlink()
        log.write_bytes(data)
    results, breaches = judge.verdicts(derived(copy), FAMILIES)
    assert {b.code for b in breaches if b.severity != "info"} <= {"A03", "A16"}
    assert results["K03"].reasons == {"metadata log damaged": 3}


def without_batch(replica: Path, number: int = 3) -> None:
    """A log as a cleaner leaves it that removes a batch, and rebuilds the indexes; or as damage does."""
    log = segments(replica)[0]
    start, end = place(batches(log)[number])
    edit(log, lambda data: data[:start] + data[end:])
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).write_bytes(b"")


@pytest.mark.parametrize(
    ("head_gone", "brokers", "expected"),
    [(True, (1, 2, 3), set()), (True, (2,), {"A13"}), (False, (1, 2, 3), {"A13"})],
)
def test_holes_in_a_topic_that_may_have_been_compacted_once(
    judge: Judge, golden: Golden, tmp_path: Path, head_gone: bool, brokers: tuple[int, ...], expected: set[str]
) -> None:
    """Where nobody knows what its policy was, only another replica that has the records tells that they were lost."""
    copy = copy_of(golden("pair-clean-b2"), tmp_path / "copy", "__cluster_metadata-0", "plain-0")
    if head_gone:
        without_head(copy, 200)
    for broker in brokers:
        without_batch(copy / f"broker-{broker}" / "plain-0")
    results, breaches = judge.verdicts(derived(copy), FAMILIES)
    found = {b.code for b in fold(breaches, CATALOGUE) if b.implied_by is None and b.severity != "info"}
    assert found - {"D17", "D20"} == expected
    assert expected or known_of(results["A13"]) == (0, {"history of the policy not known": 3})


_FILE = r"(?:broker-\d/)?__cluster_metadata-0/(?:\d{20}\.log|\d{20}-\d{10}\.checkpoint)|quorum-state"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "partition", "break_it"),
    one_in(4, [(c, p, b) for c, p, b, codes in DAMAGED if any(k[0] == "K" for k in codes)]),
)
def test_what_the_metadata_log_says_wrong_is_told_with_the_node_and_the_file(
    judge: Judge, golden: Golden, tmp_path: Path, capture: str, partition: str, break_it: Callable[[Path], None]
) -> None:
    copy = copy_of(golden(capture), tmp_path / "copy", "__cluster_metadata-0", partition)
    break_it(copy)
    _, found = judged(judge, copy)
    told = [b for b in found if b.code[0] == "K" and b.code not in ("K10", "K18")]
    assert told or break_it is stuck_move
    for breach in told:
        files = re.findall(_FILE, breach.explanation)
        assert files, breach.explanation
        assert re.search(r"(?:[Nn]odes?|broker) \[?[123]", breach.explanation), breach.explanation
        assert all((copy / name).is_file() for name in files if name.startswith("broker-"))


def test_the_snapshots_that_count_otherwise_are_named_and_no_other(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "copy", "__cluster_metadata-0", "live-0")
    counted = topic_id(copy, "live")

    def otherwise(_: int, record: MetadataRecord) -> MetadataRecord:
        own = record.name == "PartitionRecord" and record.fields["topic_id"] == counted
        return said(record, partition_epoch=7) if own and record.fields["partition_id"] == 0 else record

    ends = {path.name for path in metadata_snapshots(copy)}
    wrong = [p for p in metadata_snapshots(copy) if p.name == max(ends) and "broker-1" not in str(p)]
    rewrite(wrong, otherwise)
    _, found = judged(judge, copy)
    (breach,) = [b for b in found if b.code == "K01"]
    assert breach.evidence["snapshot_nodes"] == [2, 3]
    assert breach.evidence["snapshot_paths"] == [str(p.relative_to(copy)) for p in wrong]
    assert "on nodes [2, 3]." in breach.explanation
