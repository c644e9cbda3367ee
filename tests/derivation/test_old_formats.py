"""Logs of message formats 0 and 1: their batches are compared, counted and judged like any other.

On clusters with a ZooKeeper that Kafka 3.9 ran (`tests/real_kafka/lives/old_formats.py`), and on their files with bytes
edited. That nothing is cried of the sound one is held by `test_lives.py`.
"""

import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Golden
from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, derived, derived_once
from tests.derivation.test_ground_truth import truth_of
from tests.derivation.test_lives import cried, losses_found, losses_told, place_of, told
from tidegauge.derivation.key_reading import key_reader
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.old_formats import of_old_format
from tidegauge.kafka_log.records import read_batch
from tidegauge.kafka_log.scan import scan_buffer

Offsets = tuple[str, int, int, int]


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden("format-1"), tmp_path / "later"))


def segment(capture: Path, partition: str, broker: int, number: int = 0) -> Path:
    return sorted((capture / f"broker-{broker}" / partition).glob("*.log"))[number]


def rewrite_checksum(log: bytearray, position: int, size_bytes: int) -> None:
    struct.pack_into(">I", log, position + 12, zlib.crc32(log[position + 16 : position + size_bytes]))


def cut_last(path: Path, batches: int) -> int:
    """Takes the last batches of a log away; returns the offset that it ends at now."""
    log = path.read_bytes()
    rows, _ = scan_buffer(log)
    path.write_bytes(log[: int(rows[-batches]["position"])])
    return int(rows[-batches]["base_offset"])


def found_of(facts: Derived, state: str) -> set[Offsets]:
    return {
        (r["topic"], r["partition"], r["start_offset"], r["end_offset"])
        for r in facts.rows["losses"]
        if r["state"] == state
    }


# ---------------------------------------------------------------------------------------------------------- sound files


def test_records_are_counted_as_the_brokers_count_them(golden: Golden) -> None:
    facts, truth = derived_once(golden("format-1")), truth_of(golden("format-1"))
    ends = truth["probe_at_capture"]["list_offsets"]["latest"]
    for topic, partition in (("orders", 0), ("orders", 1), ("ancient", 0)):
        for broker in (1, 2, 3):
            rows = facts.all("segments", topic=topic, partition=partition, broker_id=broker)
            assert sum(r["record_count"] for r in rows) == ends[f"{topic}-{partition}"]["offset"] == 160
            assert sum(r["older_format_batches"] for r in rows) == sum(r["batch_count"] for r in rows) > 0
            assert {(r["offset_gaps"], r["record_count_errors"], r["magic_errors"]) for r in rows} == {(0, 0, 0)}
            assert {r["record_batches_read"] == r["batch_count"] for r in rows} == {True}
    assert {r["damaged_batches"] for r in facts.rows["replicas"]} == {0}


def test_that_there_are_no_epochs_is_told_as_what_is_missing_and_why_it_may_be_so(golden: Golden) -> None:
    told = [m.why for m in derived_once(golden("format-1")).missing() if "leader-epoch-checkpoint" in m.why]
    assert len(told) == 3
    assert all("keep none where a topic's message format is 0 or 1" in why for why in told)


def test_groups_are_known_by_their_commits(golden: Golden) -> None:
    facts, truth = derived_once(golden("format-1")), truth_of(golden("format-1"))
    wanted = {
        (group, place, x["offset"])
        for group, of in truth["groups"].items()
        for place, x in of.items()
        if x["offset"] >= 0
    }
    found = {
        (r["group"], f"{r['topic']}-{r['partition']}", r["committed_offset"]) for r in facts.rows["committed_offsets"]
    }
    assert found == wanted
    assert len(wanted) == 4


def test_keys_of_a_compacted_log_are_those_of_its_records(golden: Golden) -> None:
    facts = derived_once(golden("format-1"))
    tables = {}
    for broker, replica in facts.replicas_of("accounts", 0).items():
        table = key_reader(facts.root)(replica)
        assert not isinstance(table, str)
        assert table.unkeyed_records == 0
        tables[broker] = set(table.records["key_digest"].tolist())
    assert all(len(keys) == 37 for keys in tables.values())
    assert tables[1] == tables[2] == tables[3]


@pytest.mark.slow
def test_a_log_that_was_upgraded_is_of_sound_formats(golden: Golden, judge: Judge) -> None:
    facts = derived_once(golden("format-upgraded"))
    rows = [r for r in facts.rows["segments"] if r["topic"] in ("orders", "ancient", "safe", "accounts")]
    assert {r["older_format_batches"] > 0 for r in rows} == {True, False}
    results, _ = judge.verdicts(facts, {"A"})
    for code in ("A02", "A05", "A06", "A09", "A10", "A13"):
        assert (results[code].verdict, results[code].unknown) == ("holds", 0), code


# -------------------------------------------------------------------------------------------------------- what was lost


def test_two_logs_that_part_without_epochs_are_told_of_both_sides(golden: Golden, judge: Judge) -> None:
    """Nothing at hand tells who leads: what only broker 1 holds is at risk, and what the others wrote may be."""
    name = "format-1-unclean"
    facts, truth = derived_once(golden(name)), truth_of(golden(name))
    assert {loss for loss in losses_found(facts) if loss[5] == "at_risk"} == losses_told(truth)
    for topic, number, loss in told(truth):
        (row,) = facts.all("losses", topic=topic, partition=number, state="at_risk")
        assert row["records"] == row["declared_committed"] == loss["count"]
        assert "message format without leader epochs" in row["cause"]
        (other,) = facts.all("losses", topic=topic, partition=number, state="possible")
        assert (other["start_offset"], other["held_by"]) == (loss["start_offset"], [2, 3])
    found = cried(judge, facts)
    assert {b.code for b in found} <= {"D06", "D07"}, [(b.code, b.explanation) for b in found]
    assert {place_of(b) for b in found} <= {(topic, number) for topic, number, _ in told(truth)}
    results, _ = judge.verdicts(facts, {"D"})
    assert results["D03"].breached == 0, "an epoch that nobody gave out has no one leader"
    assert results["D03"].reasons["message format without leader epochs"] > 0
    assert results["D06"].verdict == "unknown"
    assert "no metadata log tells whether they were committed" in results["D06"].reasons


def test_what_kafka_left_different_is_told_after_the_upgrade(golden: Golden, judge: Judge) -> None:
    """Without epochs a follower is cut to its high watermark, or to its leader's end: what lies below stays."""
    name = "format-upgraded"
    facts = derived_once(golden(name))
    places = {(topic, number) for topic, number, _ in told(truth_of(golden(name)))}
    found = cried(judge, facts)
    assert {b.code for b in found} == {"D02", "D07"}
    assert {place_of(b) for b in found} == places
    lost = {(t, n): (x["start_offset"], x["end_offset"]) for t, n, x in told(truth_of(golden(name)))}
    for row in facts.rows["losses"]:
        start, end = lost[row["topic"], row["partition"]]
        assert start <= row["start_offset"] < row["end_offset"] <= end
        assert row["held_by"] in ([1], [2, 3])


def test_committed_records_that_are_gone_from_every_replica_are_lost(golden: Golden, judge: Judge, copy: Path) -> None:
    (end,) = {cut_last(segment(copy, "orders-0", broker, -1), 2) for broker in (1, 2, 3)}
    facts = derived(copy, previous=golden("format-1"))
    assert found_of(facts, "lost") == {("orders", 0, end, 160)}
    (row,) = facts.all("losses", topic="orders", state="lost")
    assert row["records"] == row["declared_committed"] == 160 - end > 20
    assert "billing" in row["groups_affected"]
    assert ("orders", 0) in {place_of(b) for b in cried(judge, facts) if b.code == "C10"}


def test_what_another_replica_holds_is_not_lost(golden: Golden, copy: Path) -> None:
    end = cut_last(segment(copy, "orders-0", 2, -1), 2)
    assert end < 160
    assert derived(copy, previous=golden("format-1")).rows["losses"] == []


@pytest.mark.slow
@pytest.mark.parametrize("partition", ["orders-0", "ancient-0"])
def test_a_record_that_was_changed_with_its_checksum_differs(
    golden: Golden, judge: Judge, copy: Path, partition: str
) -> None:
    path = segment(copy, partition, 3)
    log = bytearray(path.read_bytes())
    rows, _ = scan_buffer(log)
    position, size = int(rows[4]["position"]), int(rows[4]["size_bytes"])
    log[position + size - 5] ^= 1
    rewrite_checksum(log, position, size)
    path.write_bytes(log)
    found = cried(judge, derived(copy))
    topic, number = partition.rsplit("-", 1)
    assert {place_of(b) for b in found} == {(topic, int(number))}
    assert {"D02", "D07"} <= {b.code for b in found}
    results, breaches = judge.verdicts(derived(copy, previous=golden("format-1")), {"C"})
    assert {(b.code, place_of(b)) for b in breaches if b.severity == "critical"} == {("C10", (topic, int(number)))}
    assert results["C11"].reasons["message format without leader epochs"] == 1


def test_a_byte_that_rotted_is_a_wrong_checksum_and_nothing_else(judge: Judge, copy: Path) -> None:
    path = segment(copy, "orders-0", 3)
    log = bytearray(path.read_bytes())
    rows, _ = scan_buffer(log)
    log[int(rows[4]["position"] + rows[4]["size_bytes"]) - 5] ^= 1
    path.write_bytes(log)
    found = cried(judge, derived(copy))
    assert "A03" in {b.code for b in found if b.implied_by is None}
    assert {place_of(b) for b in found} == {("orders", 0)}
    assert "A13" not in {b.code for b in found}
    assert "A02" not in {b.code for b in found}


# -------------------------------------------------------------------------------------------------------- which formats


def test_an_older_format_behind_a_newer_one_is_told(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(golden("format-upgraded"), tmp_path / "copy"))
    old = segment(golden("format-1"), "orders-0", 1).read_bytes()
    entry = bytearray(old[: 12 + int.from_bytes(old[8:12], "big")])
    path = segment(copy, "orders-1", 2, -1)
    rows, _ = scan_buffer(path.read_bytes())
    end = int(rows[-1]["last_offset"]) + 1
    struct.pack_into(">q", entry, 0, end)
    path.write_bytes(path.read_bytes() + entry)
    (breach,) = [b for b in cried(judge, derived(copy)) if b.code == "A02"]
    assert place_of(breach) == ("orders", 1)
    assert f"the first begins at offset {end}" in breach.explanation


def test_a_magic_that_nobody_writes_is_told_as_it_is(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(golden("format-upgraded"), tmp_path / "copy"))
    path = segment(copy, "orders-1", 2, -1)
    log = bytearray(path.read_bytes())
    rows, _ = scan_buffer(log)
    position = int(rows[rows["magic"] == 2][1]["position"])
    log[position + 16] = 9
    path.write_bytes(log)
    (breach,) = [b for b in cried(judge, derived(copy)) if b.code == "A02"]
    assert "the magic is 9, not 2" in breach.explanation
    assert "older" not in breach.explanation.split("A log's format rises")[0]


def first_of_old_format(copy: Path, partition: str, broker: int) -> Path:
    paths = sorted((copy / f"broker-{broker}" / partition).glob("*.log"))
    return next(path for path in paths if of_old_format(scan_buffer(path.read_bytes())[0]).sum() > 2)


def rewritten(copy: Path, *, partition: str, at: int, count: int = 2) -> None:
    """Does to all replicas what a cleaner of Kafka 4 does to an entry of an old format of which it keeps a part."""
    for broker in (1, 2, 3):
        path = first_of_old_format(copy, partition, broker)
        log = path.read_bytes()
        rows, _ = scan_buffer(log)
        parts, done = [], 0
        for number, row in enumerate(rows):
            entry = log[int(row["position"]) : int(row["position"] + row["size_bytes"])]
            if number >= at and done < count and of_old_format(row):
                batch = read_batch(entry)
                assert not isinstance(batch, Corruption)
                assert batch.partition_leader_epoch == -1
                entry, done = write_batch(batch), done + 1
            parts.append(entry)
        path.write_bytes(b"".join(parts))
        for index in path.parent.glob(f"{path.stem}.*index"):
            index.unlink()


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize(("capture", "partition"), [("format-1", "accounts-0"), ("format-upgraded", "orders-1")])
def test_what_a_cleaner_of_kafka_4_wrote_of_old_entries_has_no_epoch_and_is_sound(
    golden: Golden, judge: Judge, tmp_path: Path, capture: str, partition: str, at: int
) -> None:
    copy = Path(shutil.copytree(golden(capture), tmp_path / "copy"))
    rewritten(copy, partition=partition, at=at)
    facts = derived(copy)
    results, _ = judge.verdicts(facts, {"A"})
    assert [results[code].breached for code in ("A02", "A09", "A13")] == [0, 0, 0]
    paths = sorted((copy / "broker-1" / partition).glob("*.log"))
    log = np.concatenate([scan_buffer(path.read_bytes())[0] for path in paths])
    assert ((log["magic"] == 2) & (log["partition_leader_epoch"] < 0)).sum() == 2


def test_a_lost_epoch_behind_one_is_rot(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(golden("format-upgraded"), tmp_path / "copy"))
    path = segment(copy, "orders-1", 2, -1)
    log = bytearray(path.read_bytes())
    rows, _ = scan_buffer(log)
    position = int(rows[rows["partition_leader_epoch"] >= 0][2]["position"])
    struct.pack_into(">i", log, position + 12, -1)
    path.write_bytes(log)
    (breach,) = [b for b in cried(judge, derived(copy)) if b.code == "A09"]
    assert place_of(breach) == ("orders", 1)
