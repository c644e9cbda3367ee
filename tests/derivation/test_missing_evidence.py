"""Real clusters' files with a piece of evidence gone: what is unknown is not called sound, and nothing is made up."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.apart import say
from tests.derivation.damage import batches, copy_of, with_holes
from tests.derivation.judging import Judge, roots
from tests.derivation.metadata_damage import head_forgotten, metadata_logs, records_of
from tests.derivation.pipeline import Derived, derived
from tests.derivation.storage_breaks import only_what_is_there
from tests.sampling import one_in
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.lacking import OLDER_COPY
from tidegauge.expectations.verdicts import Breach, InvariantResult
from tidegauge.facts.replicas.replica import INDEXES_GONE
from tidegauge.runs.pairs import check_pair
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.stage import ORDERS, A
from tidegauge.sim_engine.scenarios.write_moment import write_moment
from tidegauge.snapshots.adopt import adopt, open_snapshot
from tidegauge.snapshots.errors import SnapshotError

ALL = "ABCDEFGHJKL"
AT_STAKE = {("orders", 0): (800, 1500), ("payments", 0): (463, 713), ("payments", 1): (463, 713)}
Judged = tuple[Derived, dict[str, InvariantResult], list[Breach]]


def copied(golden: Golden, name: str, directory: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(golden(name), directory / name, copy_function=with_holes))


def judged(judge: Judge, directory: Path, *, previous: Path | None = None) -> Judged:
    facts = derived(directory, previous=previous)
    verdicts, breaches = judge.verdicts(facts, ALL)
    return facts, verdicts, breaches


def told(facts: Derived) -> list[tuple[Any, ...]]:
    """Topic, partition, range, records, state and what is declared committed of each loss."""
    fields = ("topic", "partition", "start_offset", "end_offset", "records", "state", "declared_committed")
    return sorted(tuple(row[name] for name in fields) for row in facts.rows["losses"])


def alarms(breaches: list[Breach]) -> set[tuple[str, str | None]]:
    return {(b.code, b.subject.get("topic")) for b in breaches if b.severity != "info"}


def without_metadata_logs(directory: Path) -> None:
    for broker in directory.glob("broker-*"):
        shutil.rmtree(broker / "__cluster_metadata-0")


def without_second_segment(directory: Path, brokers: str, partition: str) -> tuple[int, int]:
    """Takes the second segment of a log with its indexes; returns the offsets that went with it."""
    for log_dir in directory.glob(f"{brokers}/{partition}"):
        bases = sorted(int(log.stem) for log in log_dir.glob("*.log"))
        for path in log_dir.glob(f"{bases[1]:020d}.*"):
            path.unlink()
    return bases[1], bases[2]


@pytest.mark.slow
def test_segments_that_are_listed_and_cannot_be_read_are_unknown(judge: Judge, golden: Golden, tmp_path: Path) -> None:
    copy = copied(golden, "healthy", tmp_path)
    adopt(copy, cluster="kafka")
    for segment in (copy / "broker-1/__consumer_offsets-1").glob("*.log"):
        segment.unlink()
    facts, verdicts, breaches = judged(judge, copy)
    assert (alarms(breaches), told(facts)) == (set(), [])
    assert facts.one("replicas", broker_id=1, topic="__consumer_offsets", partition=1)["log_end_offset"] is None
    compared = facts.all("divergences", topic="__consumer_offsets", partition=1)
    assert all(1 not in (row["leader_id"], row["follower_id"]) for row in compared)
    for code in ("A03", "B16", "C01", "C02", "D02", "D06", "E01"):
        assert (verdicts[code].verdict, "segment" in verdicts[code].lacks) == ("unknown", True), code
        assert "not known: segment" in verdicts[code].reasons


def test_without_a_metadata_log_what_may_have_been_committed_is_a_possible_loss(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    without_metadata_logs(copy)
    for broker in copy.glob("broker-*"):
        shutil.rmtree(broker / "orders-0")
    facts, verdicts, breaches = judged(judge, copy)
    assert told(facts) == [("payments", p, 463, 713, 250, "possible", 0) for p in (0, 1)]
    assert {tuple(row["held_by"]) for row in facts.rows["losses"]} == {(1,)}
    assert verdicts["D06"].verdict == "unknown"
    assert verdicts["D06"].reasons == {
        "no metadata log tells whether they were committed": 2,
        "not known: metadata log": 6,  # Nothing tells who else has a replica of any of these partitions.
        "not known: replica": 3,  # What the checkpoints of those that were asked list.
    }
    assert "not known: metadata log" in verdicts["K07"].reasons
    (tail,) = [b for b in breaches if b.code == "D05" and b.subject["partition"] == 0]
    assert "250 of them may have been committed: no metadata log in the copy" in tail.explanation
    assert not alarms(breaches)


def test_what_logs_and_checkpoints_tell_is_told_without_a_metadata_log(golden: Golden, tmp_path: Path) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    before = {(r["topic"], r["partition"]): r for r in derived(copy).rows["partitions"]}
    without_metadata_logs(copy)
    facts = derived(copy)
    rows = {(r["topic"], r["partition"]): r for r in facts.rows["partitions"]}
    assert rows.keys() == before.keys()
    for key, row in rows.items():
        for name in ("log_start_offset", "log_end_offset", "high_watermark_lower", "last_stable_offset"):
            assert row[name] == before[key][name], (key, name)
        assert (row["leader_id"], row["isr"], row["replicas"]) == (None, None, None)
    assert {r["topic"] for r in facts.rows["postures"]} == {topic for topic, _ in rows}


def test_an_election_before_the_metadata_log_begins_is_not_taken_for_a_clean_one(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    head_forgotten(copy, 200, 2, 3)
    shutil.rmtree(copy / "broker-1/__cluster_metadata-0")
    facts, verdicts, breaches = judged(judge, copy)
    assert {row[:2]: row[2:] for row in told(facts)} == {
        ("orders", 0): (800, 1500, 700, "at_risk", 72),
        ("payments", 0): (463, 713, 250, "possible", 0),
        ("payments", 1): (463, 713, 250, "possible", 0),
    }
    assert verdicts["K07"].verdict == "unknown"
    assert "metadata_log_start" in verdicts["K07"].lacks
    (orders,) = [b for b in breaches if b.code == "D06"]
    assert "not every one is on record: an unclean election may have done it" in orders.explanation
    assert "No unclean election is on record" not in orders.explanation
    for row in facts.rows["losses"]:
        assert "it may have been an unclean election, a log that lost its tail, or a disk" in row["cause"]


def test_a_committed_tail_that_goes_by_an_election_that_nobody_recorded_is_one_root(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copy_of(golden("unclean-before"), tmp_path / "copy", "__cluster_metadata-0", "orders-0")
    head_forgotten(copy, 200, 2, 3)
    shutil.rmtree(copy / "broker-1/__cluster_metadata-0")
    only_what_is_there(copy)
    assert {b.code for b in roots(judge, copy, a_part=True)} == {"D06"}


def test_what_the_dead_leader_knew_proves_its_commits_where_the_election_is_forgotten(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    """Its own copy ends before the others' begin, and has it as the only in-sync replica of its epoch."""
    copy = copied(golden, "unclean-before", tmp_path)
    head_forgotten(copy, 200, 2, 3)
    facts, verdicts, _ = judged(judge, copy)
    expected = [(*key, *span, span[1] - span[0], "at_risk", span[1] - span[0]) for key, span in AT_STAKE.items()]
    assert told(facts) == expected
    assert verdicts["D06"].breached == 3
    assert {tuple(row["held_by"]) for row in facts.rows["losses"]} == {(1,)}
    assert all("not every election since is on record" in row["cause"] for row in facts.rows["losses"])
    changes = facts.all("partition_changes", topic="orders", partition=0)
    assert changes[0]["created"] is True
    assert [c["sequence_in_log"] for c in changes] == list(range(len(changes)))


def test_copies_that_join_are_one_history(golden: Golden, tmp_path: Path) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    whole = derived(copy)
    head_forgotten(copy, 150, 2)
    head_forgotten(copy, 200, 3)
    joined = derived(copy)
    assert told(joined) == told(whole)
    assert elections(joined) == elections(whole)
    assert not [m for m in joined.missing() if m.evidence == "metadata_log_start"]


def elections(facts: Derived) -> list[tuple[Any, ...]]:
    rows = facts.rows["partition_changes"]
    return [(r["topic"], r["partition"], r["metadata_offset"], r["leader_id"], r["election"], r["isr"]) for r in rows]


def test_a_log_that_begins_late_without_a_snapshot_tells_nothing(judge: Judge, golden: Golden, tmp_path: Path) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    head_forgotten(copy, 200, 2, 3)
    shutil.rmtree(copy / "broker-1/__cluster_metadata-0")
    for path in copy.glob("broker-*/__cluster_metadata-0/*.checkpoint"):
        path.unlink()
    facts, verdicts, _ = judged(judge, copy)
    assert {row[5] for row in told(facts)} == {"at_risk", "possible"}
    (piece,) = [m for m in facts.missing() if m.evidence == "metadata_log"]
    assert "can be read from offset 200 on, and no metadata snapshot reaches back to it" in piece.why
    assert verdicts["K07"].verdict == "unknown"


def test_a_metadata_log_that_ends_too_early_does_not_say_who_leads(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    """The only copy at hand is the dead leader's, who is the leader by it: that is over, as the others' epochs say."""
    copy = copied(golden, "unclean-before", tmp_path)
    for broker in (2, 3):
        shutil.rmtree(copy / f"broker-{broker}/__cluster_metadata-0")
    facts, verdicts, breaches = judged(judge, copy)
    assert {row[:4] for row in told(facts)} == {(t, p, *at) for (t, p), at in AT_STAKE.items()}
    assert alarms(breaches) == {("D02", "orders")}, "below its high watermark the old leader holds other records"
    assert facts.reference_of("orders", 0).broker_id != 1
    piece = next(m for m in facts.missing() if "too early" in m.why)
    assert (piece.evidence, piece.subjects) == (Evidence.METADATA_LOG, 4)
    for code in ("D06", "D07", "K07"):
        assert (verdicts[code].verdict, "metadata_log" in verdicts[code].lacks) == ("unknown", True), code


def test_a_metadata_log_that_was_copied_before_the_election_does_not_say_that_there_was_none(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    """As a plain copy of running brokers has it, file by file: __cluster_metadata-0 goes first."""
    copy = copied(golden, "mirror-unclean", tmp_path)
    for log in metadata_logs(copy):
        if batches(log)[-1]["last_offset"] >= 183:  # The dead leader's ends before.
            cut_metadata_log(log, 183)
    facts, verdicts, _ = judged(judge, copy)
    assert [row[:5] for row in told(facts)] == [("A.orders", 0, 121, 163, 40)]
    assert verdicts["D06"].verdict == "breached", "a group had read them"
    assert (verdicts["K07"].verdict, "metadata_log" in verdicts["K07"].lacks) == ("unknown", True)


def test_a_metadata_log_dir_without_its_log_is_no_foreign_disk(judge: Judge, golden: Golden, tmp_path: Path) -> None:
    copy = copied(golden, "controllers", tmp_path)
    shutil.rmtree(next((copy / "broker-1").glob("**/__cluster_metadata-0")))
    facts, _, breaches = judged(judge, copy)
    assert (alarms(breaches), told(facts)) == (set(), [])


def test_without_a_majority_of_the_voters_copies_the_metadata_log_may_go_on(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    for broker in (2, 3):
        shutil.rmtree(copy / f"broker-{broker}")
    facts, verdicts, _ = judged(judge, copy)
    assert any("of its voters [1, 2, 3] the copies of [1] alone" in m.why for m in facts.missing() if m.subjects)
    assert (verdicts["K07"].verdict, "metadata_log" in verdicts["K07"].lacks) == ("unknown", True)


def test_an_index_without_its_log_behind_the_last_one_is_a_segment_that_was_not_copied(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "one-controller", tmp_path)
    for directory in (copy / "broker-3").glob("**/*-0"):
        logs = sorted(directory.glob("*.log"))
        if logs and "__cluster_metadata" not in directory.name and logs[-1].with_suffix(".index").exists():
            logs[-1].unlink()
    facts, verdicts, breaches = judged(judge, copy)
    assert (alarms(breaches), told(facts)) == (set(), [])
    for code in ("B16", "D06"):
        assert (verdicts[code].verdict, "segment" in verdicts[code].lacks) == ("unknown", True), code


@pytest.mark.parametrize("first_bytes", [None, 4096])
def test_a_metadata_log_whose_first_records_cannot_be_read_is_not_at_hand(
    first_bytes: int | None, judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    for log in metadata_logs(copy):
        log.write_bytes(b"" if first_bytes is None else bytes(first_bytes) + log.read_bytes()[first_bytes:])
    facts, verdicts, _ = judged(judge, copy)
    assert {row[:4] for row in told(facts)} == {(t, p, *at) for (t, p), at in AT_STAKE.items()}
    assert "metadata_log" in {m.evidence for m in facts.missing()}
    for code in ("D11", "D15", "K07"):
        assert (verdicts[code].verdict, "metadata_log" in verdicts[code].lacks) == ("unknown", True), code


@pytest.mark.slow
def test_a_replica_without_a_segment_is_one_whose_log_is_not_in_the_copy(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "healthy", tmp_path)
    for log in (copy / "broker-1").glob("*/*.log"):
        if "__cluster_metadata" not in log.parent.name:
            log.unlink()
    facts, verdicts, breaches = judged(judge, copy)
    assert (alarms(breaches), told(facts)) == (set(), [])
    assert facts.one("replicas", broker_id=1, topic="plain", partition=0)["log_end_offset"] is None
    for code in ("B16", "D02", "D06"):
        assert (verdicts[code].verdict, "segment" in verdicts[code].lacks) == ("unknown", True), code


def test_what_is_in_the_copy_and_no_evidence_of_this_cluster_is_missing(golden: Golden, tmp_path: Path) -> None:
    """Without a metadata log nothing else says that anybody else belongs to the cluster."""
    copy = copied(golden, "unclean-before", tmp_path)
    without_metadata_logs(copy)
    say(copy / "broker-1", cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
    missing = {m.evidence: m.why for m in derived(copy).missing() if m.subjects}
    assert missing[Evidence.LOG_DIR].startswith("broker-1/meta.properties: ")
    shutil.rmtree(copy / "broker-1")
    (copy / "broker-1").mkdir()
    missing = {m.evidence: m.why for m in derived(copy).missing() if m.subjects}
    assert missing[Evidence.BROKER].startswith("broker-1: no log dir of a broker")


@pytest.mark.parametrize("left_out", one_in(2, ["broker-1", "broker-1/grow-0"]))
def test_what_the_earlier_copy_lacked_is_not_held_to_have_been_sound(
    left_out: str, judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    earlier = copied(golden, "pair-clean-b1", tmp_path)
    shutil.rmtree(earlier / left_out)
    facts, verdicts, breaches = judged(judge, golden("pair-clean-b2"), previous=earlier)
    assert (alarms(breaches), told(facts)) == (set(), [])
    kind = "not captured before" if left_out == "broker-1" else "missing before"
    assert facts.one("changes", topic="grow", partition=0, broker_id=1)["continuity"] == kind
    assert facts.one("changes", topic="grow", partition=1, broker_id=1)["continuity"] == "created", "grown since"
    for code in ("C07", "C08", "C09", "C10", "C11"):
        assert (verdicts[code].verdict, "earlier_snapshot" in verdicts[code].lacks) == ("unknown", True), code


@pytest.mark.parametrize("brokers", one_in(2, ["broker-1", "broker-*"]))
def test_segments_that_the_earlier_copy_lacked_are_nothing_to_hold_a_log_to(
    brokers: str, judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    earlier = copied(golden, "pair-clean-b2", tmp_path)
    without_second_segment(earlier, brokers, "plain-1")
    facts, verdicts, breaches = judged(judge, golden("pair-clean-b2"), previous=earlier)
    assert (alarms(breaches), told(facts)) == (set(), [])
    assert facts.one("changes", topic="plain", partition=1, broker_id=1)["damaged"]
    assert verdicts["C10"].reasons["log damaged"] == (1 if brokers == "broker-1" else 3)


def test_an_earlier_copy_without_a_cluster_id_is_of_no_other_cluster(golden: Golden, tmp_path: Path) -> None:
    earlier = copied(golden, "pair-clean-b1", tmp_path)
    for path in earlier.rglob("meta.properties"):
        path.unlink()
    now, then = (open_snapshot(path).manifest for path in (golden("pair-clean-b2"), earlier))
    with pytest.raises(SnapshotError, match=r"no meta\.properties of pair-clean-b1/.* names a cluster\.id\. Copy"):
        check_pair(now, then)
    now, then = (open_snapshot(path, cluster="prod").manifest for path in (golden("pair-clean-b2"), earlier))
    check_pair(now, then)


@pytest.mark.slow
def test_a_segment_that_was_there_and_is_on_no_replica_now_is_lost(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    now = copied(golden, "pair-clean-b2", tmp_path)
    start, end = without_second_segment(now, "broker-*", "plain-1")
    facts, _, breaches = judged(judge, now, previous=golden("pair-clean-b2"))
    assert [(row[:4], row[5]) for row in told(facts)] == [(("plain", 1, start, end), "lost")]
    assert {b.severity for b in breaches if b.code == "C10"} == {"critical"}


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_one_broker_without_a_metadata_log_does_not_tell_whose_log_commits_are_held_against(
    broker_id: int, judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "zookeeper-unclean", tmp_path)
    for other in copy.glob("broker-*"):
        if other.name != f"broker-{broker_id}":
            shutil.rmtree(other)
    facts, verdicts, _ = judged(judge, copy)
    assert facts.rows["committed_offsets"]
    for code in ("J01", "J02"):
        assert verdicts[code].verdict != "holds"
        assert verdicts[code].verdict == "breached" or "metadata_log" in verdicts[code].lacks, code


@pytest.mark.slow
@pytest.mark.parametrize("name", ["healthy", "epochs"])
def test_index_files_that_nobody_copied_are_not_missing(
    name: str, judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, name, tmp_path)
    for pattern in ("*.index", "*.timeindex", "*.txnindex"):
        for path in copy.rglob(pattern):
            path.unlink()
    facts, verdicts, breaches = judged(judge, copy)
    assert (alarms(breaches), told(facts)) == (set(), [])
    assert verdicts["B06"].verdict == "unknown"
    assert set(verdicts["B06"].reasons) == {INDEXES_GONE}


@pytest.mark.slow
def test_a_transaction_index_that_is_missing_beside_its_offset_index_is(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "epochs", tmp_path)
    for path in copy.glob("broker-1/bursty-0/*.txnindex"):
        path.unlink()
    _, _, breaches = judged(judge, copy)
    assert ("B06", "critical") in {(b.code, b.severity) for b in breaches}


@pytest.mark.slow
def test_a_disk_as_it_was_before_its_broker_led_proves_nothing_of_what_it_wrote_then(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "one-controller-unclean", tmp_path)
    shutil.rmtree(copy / "broker-1")
    shutil.copytree(golden("one-controller") / "broker-1", copy / "broker-1", copy_function=with_holes)
    facts, verdicts, breaches = judged(judge, copy)
    assert told(facts) == [("orders", 0, 120, 200, 80, "possible", 80)], "what a group had read"
    for code in ("D05", "D06"):
        assert verdicts[code].reasons[OLDER_COPY] == 2
        assert "one_moment" in verdicts[code].lacks
    assert verdicts["D18"].verdict == "unknown"
    elections = [b.explanation for b in breaches if b.code == "K07"]
    assert len(elections) == 2
    assert all("Of the old ISR not all of them were captured with their old logs" in text for text in elections)


def test_a_newer_epoch_whose_log_is_not_at_hand_makes_what_it_gives_up_a_possible_loss(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    for broker in ("broker-2", "broker-3"):
        for log in (copy / broker).rglob("*.log"):
            log.unlink()
    facts, _, breaches = judged(judge, copy)
    assert told(facts) == [
        (topic, partition, start, end, end - start, "possible", 72 if topic == "orders" else 0)
        for (topic, partition), (start, end) in AT_STAKE.items()
    ]
    assert {tuple(row["held_by"]) for row in facts.rows["losses"]} == {(1,)}
    assert not alarms(breaches)


def test_first_segments_that_nobody_copied_are_told_by_the_leader_epochs(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "unclean-before", tmp_path)
    for partition in copy.glob("broker-*/*-[0-9]"):
        newest = max((log.stem for log in partition.glob("*.log")), default="")
        for path in partition.iterdir():
            if path.stem < newest and path.stem.isdigit() and partition.name != "__cluster_metadata-0":
                path.unlink()
    facts, verdicts, breaches = judged(judge, copy)
    assert {row[:4] + row[5:6] for row in told(facts)} == {
        (*key, *offsets, "at_risk") for key, offsets in AT_STAKE.items()
    }
    assert {b.evidence["newer_epoch_start_offset"] for b in breaches if b.code == "D06"} == {800, 463}
    assert "segment" in verdicts["D02"].lacks
    assert alarms(breaches) <= {(code, topic) for code in ("D06", "D18", "K07") for topic, _ in AT_STAKE}
    missing = {m.evidence: m.why for m in facts.missing()}
    assert "broker-1/orders-0" in missing[Evidence.SEGMENT]


def test_what_a_checkpoint_lists_and_no_directory_holds_is_named_without_a_metadata_log(
    golden: Golden, tmp_path: Path
) -> None:
    copy = copied(golden, "zookeeper-unclean", tmp_path)
    shutil.rmtree(copy / "broker-1/orders-0")
    missing = {m.evidence: m.why for m in derived(copy).missing()}
    assert missing[Evidence.REPLICA] == (
        "no log directory in the copy holds orders-0 of broker 1, which replication-offset-checkpoint lists"
    )


def test_what_groups_had_read_and_no_captured_disk_holds_is_a_loss(judge: Judge, tmp_path: Path) -> None:
    """Offsets 100 to 200 are on the disk of broker 1 alone, which nobody copied; a group has committed 201."""
    moment = SCENARIOS["unclean-election"].play(1).moment("b-is-elected")
    snapshot = write_moment(moment, tmp_path / "snapshot", cluster="simulated", seed=1)
    (snapshot / "MANIFEST.json").unlink()
    shutil.rmtree(snapshot / f"broker-{A}")
    facts, verdicts, breaches = judged(judge, snapshot)
    assert told(facts) == [(ORDERS.topic, ORDERS.partition, 100, 201, 101, "possible", 101)]
    (loss,) = facts.rows["losses"]
    assert f"the replicas of brokers [{A}] are not in the copy" in loss["cause"]
    assert loss["groups_affected"]
    assert {"K07", "J02"} <= {code for code, _ in alarms(breaches)}
    assert verdicts["D06"].verdict == "unknown"
    assert "broker" in verdicts["D06"].lacks


def test_what_a_leader_alone_in_the_isr_wrote_is_committed_only_if_it_knew_that_it_was_alone(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    """The record that left broker 1 alone in the ISR comes after the end of its own copy of the metadata log. It had
    asked for it itself, so it may have known all the same.
    """
    copy = copied(golden, "unclean-before", tmp_path)
    (log,) = [p for p in metadata_logs(copy) if "broker-1" in p.parts]
    alone = [
        offset
        for offset, record in records_of(log)
        if record.name == "PartitionChangeRecord" and tuple(record.fields["isr"] or ()) == (1,)
    ]
    cut_metadata_log(log, min(alone))
    facts, _, breaches = judged(judge, copy)
    assert {row[5:] for row in told(facts) if row[0] == "payments"} == {("possible", 0)}
    committed = [b for b in breaches if b.code == "D06"]
    assert [b.subject["topic"] for b in committed] == ["orders"]
    assert "committed as it was written" not in committed[0].explanation


def cut_metadata_log(log: Path, offset: int) -> None:
    """Ends a node's copy before the batch that holds a record."""
    rows = batches(log)
    position = int(rows[rows["last_offset"] >= offset][0]["position"])
    data = log.read_bytes()
    log.unlink()
    log.write_bytes(data[:position])
