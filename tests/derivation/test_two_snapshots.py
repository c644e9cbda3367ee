"""Two snapshots, derived and judged: what an invariant says of sound changes, of losses, and of rewritten history."""

import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, edit, place, sealed, segments
from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, Row, derived, topic_partition
from tests.derivation.rejoined import CUTS, empty, later_copy, old_leader_rejoined, set_high_watermark, truncate
from tests.derivation.storage_breaks import rewritten
from tests.sampling import one_in
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, InvariantResult, fold

HISTORY = {"C07", "C08", "C09", "C10", "C11"}
BROKERS = ("broker-1", "broker-2", "broker-3")
PARTITIONS = ("__cluster_metadata-0", "live-0", "compacted-0")
LIVE_END, LIVE_LAST_BATCH = 977, 976
"""Of live-0: its log end, and where its last batch begins."""


@pytest.fixture(scope="module")
def before(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return later_copy(golden("healthy"), tmp_path_factory.mktemp("earlier") / "before", *PARTITIONS)


@pytest.fixture
def after(golden: Golden, tmp_path: Path) -> Path:
    return later_copy(golden("healthy"), tmp_path / "after", *PARTITIONS)


def judged(judge: Judge, facts: Derived) -> tuple[dict[str, InvariantResult], list[Breach]]:
    """Results of the invariants over time, and every breach of any, folded."""
    results, breaches = judge.verdicts(facts, {i.code[0] for i in CATALOGUE.values()})
    return {code: results[code] for code in HISTORY}, list(fold(breaches, CATALOGUE))


def of_history(breaches: list[Breach]) -> set[tuple[Any, ...]]:
    """(code, severity, topic-partition, broker, start, end) of what is breached over time."""
    return {
        (
            b.code,
            b.severity,
            f"{b.subject['topic']}-{b.subject['partition']}",
            b.subject["broker_id"],
            b.start_offset,
            b.end_offset,
        )
        for b in breaches
        if b.code in HISTORY
    }


# ------------------------------------------------------------------------------------------------------- sound changes


@pytest.mark.slow
def test_a_clean_pair_of_captures_breaches_nothing_and_tells_what_changed(golden: Golden, judge: Judge) -> None:
    facts = derived(golden("pair-clean-b2"), previous=golden("pair-clean-b1"))
    results, breaches = judged(judge, facts)
    assert [b for b in breaches if b.code in HISTORY or b.severity != "info"] == []
    assert facts.all("losses") == []
    assert all(result.checked > 40 for result in results.values()), results
    reasons = {code: set(result.reasons) for code, result in results.items()}
    assert reasons == {"C07": set(), "C08": set(), "C09": set(), "C10": {"compacted"}, "C11": {"compacted"}}
    truth = json.loads((golden("pair-clean-b2") / "GROUND_TRUTH.json").read_text())
    told = {name: rows_of_partition(facts, name) for name in truth["partitions"] | truth["changes_by_partition"]}
    for partition, rows in told.items():
        changed = truth["changes_by_partition"].get(partition, {})
        assert {row["continuity"] for row in rows} == {changed.get("change", "same")}, partition
        assert {row["first_changed_offset"] for row in rows} == {None}
        if "change" in changed:
            continue
        for ours, theirs in (("high_watermark", "hw"), ("log_start_offset", "log_start")):
            same = [truth["partitions"][partition][theirs]] * 2
            found = {(row[f"previous_{ours}"], row[ours]) for row in rows if row["is_leader"]}
            assert found == {tuple(changed.get(theirs, same))}, (partition, theirs)


def rows_of_partition(facts: Derived, partition: str) -> list[Row]:
    topic, number = topic_partition(partition)
    return facts.all("changes", topic=topic, partition=number)


def without_the_first_segments(later: Path) -> None:
    """Retention, as every broker does it by its own clock: broker 3 has not come to it yet."""
    for broker in BROKERS[:2]:
        for log in segments(later / broker / "live-0")[:2]:
            for file in log.parent.glob(f"{log.stem}.*"):
                file.unlink()


def without_the_first_segments_anywhere(later: Path) -> None:
    without_the_first_segments(later)
    for log in segments(later / "broker-3/live-0")[:2]:
        for file in log.parent.glob(f"{log.stem}.*"):
            file.unlink()


def with_a_raised_log_start(later: Path) -> None:
    """DeleteRecords: the log start moves before any segment goes."""
    for broker in BROKERS:
        path = later / broker / "log-start-offset-checkpoint"
        version, count, *entries = path.read_text().splitlines()
        path.write_text("\n".join([version, str(int(count) + 1), *entries, "live 0 500"]) + "\n")


def without_producer_snapshots(later: Path) -> None:
    for broker in BROKERS:
        for file in (later / broker).glob("*/*.snapshot"):
            file.unlink()


def without_a_sealed_batch_of_a_compacted_log(later: Path) -> None:
    """A cleaner takes whole batches out of a sealed segment, each broker by its own clock."""
    log = segments(later / "broker-1/compacted-0")[0]
    start, end = place(batches(log)[0])
    edit(log, lambda b: b[:start] + b[end:])


@pytest.mark.parametrize(
    "change",
    one_in(
        3,
        [
            without_the_first_segments,
            without_the_first_segments_anywhere,
            with_a_raised_log_start,
            without_producer_snapshots,
            without_a_sealed_batch_of_a_compacted_log,
        ],
    ),
)
def test_a_sound_change_breaches_nothing(
    change: Callable[[Path], None], before: Path, after: Path, judge: Judge
) -> None:
    change(after)
    facts = derived(after, previous=before)
    assert of_history(judged(judge, facts)[1]) == set()
    assert facts.all("losses") == []


# -------------------------------------------------------------------------------------------------------------- losses


def test_an_unclean_election_is_told_once_and_in_full(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    facts = derived(
        old_leader_rejoined(golden("unclean-before"), tmp_path / "after"), previous=golden("unclean-before")
    )
    lost = {f"{x['topic']}-{x['partition']}": x for x in facts.all("losses", state="lost")}
    assert {partition: x["start_offset"] for partition, x in lost.items()} == CUTS
    _, breaches = judged(judge, facts)
    ends = {partition: x["end_offset"] for partition, x in lost.items()}
    assert of_history(breaches) == {
        (code, "critical", partition, 1, start, ends[partition])
        for code in ("C08", "C10")
        for partition, start in CUTS.items()
    }
    told = next(b for b in breaches if b.code == "C10" and b.subject["topic"] == "orders")
    assert (told.records, told.implied_by) == (700, None)
    for part in (
        "broker 1 held orders-0 up to 1500",
        "700 of these records, at offsets 800..1499, are on no replica now",
        "Election: offset 194 of the metadata log",
        "while ISR was [1]: unclean",
        "No consumer group had committed",
    ):
        assert part in told.explanation
    assert told.next.endswith("--topic orders --partition 0 --from 800 --to 1500 --out salvaged")
    roots = {b.code for b in breaches if b.implied_by is None and b.severity == "critical"}
    assert roots == {"C10", "K07"}
    by_id = {b.breach_id: b for b in breaches}
    assert {by_id[b.implied_by].code for b in breaches if b.code == "C08" and b.implied_by} == {"C10"}


def test_a_tail_that_every_replica_lost_is_one_critical_root(before: Path, after: Path, judge: Judge) -> None:
    for broker in BROKERS:
        truncate(after / broker / "live-0", LIVE_LAST_BATCH)
    facts = derived(after, previous=before)
    (loss,) = facts.all("losses", state="lost")
    assert (loss["start_offset"], loss["end_offset"]) == (LIVE_LAST_BATCH, LIVE_END)
    _, breaches = judged(judge, facts)
    expected = {
        (code, "critical", "live-0", broker, LIVE_LAST_BATCH, LIVE_END)
        for code in ("C07", "C08", "C10")
        for broker in (1, 2, 3)
    }
    assert of_history(breaches) == expected
    (root,) = [b for b in breaches if b.code in HISTORY and b.implied_by is None]
    assert (root.code, root.records) == ("C10", loss["records"])
    assert "No unclean election is on record: a log lost its tail" in root.explanation
    assert all(b.implied_by == root.breach_id for b in breaches if b.code in HISTORY and b is not root)


def test_a_tail_that_one_replica_lost_is_no_loss(before: Path, after: Path, judge: Judge) -> None:
    truncate(after / "broker-2/live-0", LIVE_LAST_BATCH)
    facts = derived(after, previous=before)
    assert facts.all("losses", state="lost") == []
    assert of_history(judged(judge, facts)[1]) == {
        (code, "warning", "live-0", 2, LIVE_LAST_BATCH, LIVE_END) for code in ("C07", "C08")
    }


@pytest.mark.parametrize("everywhere", [False, True])
def test_an_exchanged_disk_is_a_loss_only_where_nobody_has_the_records(
    everywhere: bool, before: Path, after: Path, judge: Judge
) -> None:
    for broker in BROKERS if everywhere else BROKERS[:1]:
        empty(after / broker / "live-0")
        properties = after / broker / "meta.properties"
        lines = [line for line in properties.read_text().splitlines() if not line.startswith("directory.id")]
        properties.write_text("\n".join([*lines, "directory.id=AAAAAAAAAAAAAAAAAAAAAA"]) + "\n")
    facts = derived(after, previous=before)
    severities = {(b.code, b.severity) for b in judged(judge, facts)[1] if b.code in HISTORY}
    if not everywhere:
        assert facts.all("losses", state="lost") == []
        assert severities == {("C07", "info"), ("C08", "info")}
        return
    assert [(x["start_offset"], x["end_offset"]) for x in facts.all("losses", state="lost")] == [(0, LIVE_END)]
    assert severities == {("C07", "critical"), ("C08", "critical"), ("C10", "critical")}


# -------------------------------------------------------------------------------------------------------------- history


def rewrite(log: Path, at: int) -> int:
    """Other bytes in a batch, under its epoch and with a checksum that fits. Returns its base offset."""
    row = batches(log)[at]
    start, end = place(row)

    def change(data: bytearray) -> None:
        data[end - 3] ^= 0x55
        sealed(data, start, end)

    edit(log, change)
    return int(row["base_offset"])


@pytest.mark.slow
def test_bytes_that_one_replica_exchanged_are_told_of_it_alone(before: Path, after: Path, judge: Judge) -> None:
    offset = rewrite(segments(after / "broker-2/live-0")[0], 5)
    facts = derived(after, previous=before)
    assert facts.all("losses", state="lost") == []
    _, breaches = judged(judge, facts)
    assert of_history(breaches) == {
        ("C10", "critical", "live-0", 2, offset, LIVE_END),
        ("C11", "critical", "live-0", 2, offset, None),
    }
    root = next(b for b in breaches if b.code == "C10")
    assert f"From offset {offset} on it holds other bytes under the same leader epoch." in root.explanation
    assert f"offset {offset}: held before" in root.explanation
    assert "What it held is still on another replica." in root.explanation
    consequences = {b.code for b in breaches if b.implied_by == root.breach_id}
    assert {"C11", "D02", "D03"} <= consequences


def test_bytes_that_every_replica_exchanged_are_lost(before: Path, after: Path, judge: Judge) -> None:
    (offset,) = {rewrite(segments(after / broker / "live-0")[0], 5) for broker in BROKERS}
    facts = derived(after, previous=before)
    assert [x["start_offset"] for x in facts.all("losses", state="lost")] == [offset]
    _, breaches = judged(judge, facts)
    roots = [b for b in breaches if b.code in HISTORY and b.implied_by is None]
    assert [(b.code, b.start_offset, b.end_offset, b.records) for b in roots] == [("C10", offset, offset + 1, 1)]
    assert {b.code for b in breaches if b.implied_by == roots[0].breach_id} >= {"C10", "C11"}


def test_of_a_compacted_batch_that_lacks_a_record_one_record_is_lost(before: Path, after: Path, judge: Judge) -> None:
    """The last batch of compacted-0 has 85 records and lies in the active segment, where no cleaner works."""
    for broker in BROKERS:
        active = segments(after / broker / "compacted-0")[-1]
        assert int(batches(active)[-1]["record_count"]) == 85
        rewritten(active, -1, lambda batch: replace(batch, records=(*batch.records[:3], *batch.records[4:])))
    facts = derived(after, previous=before)
    (loss,) = facts.all("losses", state="lost")
    assert (loss["start_offset"], loss["end_offset"]) == (1915, 2000)
    assert (loss["records"], loss["declared_committed"]) == (1, 1)
    _, breaches = judged(judge, facts)
    (root,) = [b for b in breaches if b.code in HISTORY and b.implied_by is None]
    assert (root.code, root.records) == ("C10", 1)
    assert "1 of these records, at offsets 1915..1999, are on no replica now" in root.explanation


CHANGELOG = "counting-classic-counts-changelog-0"
"""Compacted. Broker 1 of `streams-unclean` wrote 183 to 214 alone, under epoch 0, which ends at 183 for broker 2."""


def written_on(replica: Path, *bases: int) -> None:
    """A leader's log goes on in epoch 2, each batch in a segment of its own but for the first: offsets and epochs lie
    outside of what checksums cover.
    """
    active = segments(replica)[-1]
    start, end = place(max(batches(active), key=lambda row: int(row["record_count"])))
    batch = bytearray(active.read_bytes()[start:end])
    for number, base in enumerate(bases):
        struct.pack_into(">q", batch, 0, base)
        struct.pack_into(">i", batch, 12, 2)
        log = active if number == 0 else replica / f"{base:020d}.log"
        with log.open("ab") as file:
            file.write(batch)


def test_a_loss_that_leader_epochs_prove_is_told_below_the_active_segment_of_a_compacted_log(
    golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    earlier = later_copy(golden("streams-unclean"), tmp_path / "earlier", "__cluster_metadata-0", CHANGELOG)
    later = later_copy(golden("streams-unclean"), tmp_path / "later", "__cluster_metadata-0", CHANGELOG)
    leader = later / "broker-2" / CHANGELOG
    written_on(leader, 183, 276)
    for broker in ("broker-1", "broker-3"):
        shutil.rmtree(later / broker / CHANGELOG)
        shutil.copytree(leader, later / broker / CHANGELOG)
    for broker in BROKERS:
        set_high_watermark(later / broker / CHANGELOG, 276)
    facts = derived(later, previous=earlier)
    assert int(segments(leader)[-1].stem) == 276
    (loss,) = facts.all("losses")
    told = {name: loss[name] for name in ("start_offset", "end_offset", "records", "markers", "leader_epoch", "state")}
    assert told == {
        "start_offset": 183,
        "end_offset": 215,
        "records": 30,
        "markers": 2,
        "leader_epoch": 0,
        "state": "lost",
    }
    assert loss["cause"].startswith("unclean election: record 408 of the metadata log made broker 2 leader")
    _, breaches = judged(judge, facts)
    (root,) = [b for b in breaches if b.code == "C10" and b.implied_by is None]
    assert (root.subject["broker_id"], root.start_offset, root.records) == (1, 183, 30)


def test_a_high_watermark_that_went_back_alone_is_a_warning(before: Path, after: Path, judge: Judge) -> None:
    set_high_watermark(after / "broker-3/live-0", 900)
    assert of_history(judged(judge, derived(after, previous=before))[1]) == {
        ("C07", "warning", "live-0", 3, 900, LIVE_END)
    }


def test_a_copy_without_a_broker_leaves_its_past_open(before: Path, after: Path, judge: Judge) -> None:
    shutil.rmtree(after / "broker-3")
    for broker in BROKERS[:2]:
        truncate(after / broker / "live-0", LIVE_LAST_BATCH)
    facts = derived(after, previous=before)
    assert facts.all("losses", state="lost") == []
    results, breaches = judged(judge, facts)
    assert {(code, severity) for code, severity, *_ in of_history(breaches)} == {
        ("C07", "warning"),
        ("C08", "critical"),
    }
    assert all("broker not captured" in result.reasons for result in results.values())
    assert results["C10"].reasons["not every replica was captured"] == 2
