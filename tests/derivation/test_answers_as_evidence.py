"""A real cluster's copy without its metadata log, and with what the cluster answered when it was copied.

In: safe-0 of `racks`: brokers 4, 5 and 1, min.insync.replicas 2. The answers are those that its metadata log bears out.
Who leads, who is in sync and what is set, as answered, count as the metadata log's word does; what nobody was asked
stays unknown.
"""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, segments, with_holes
from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, derived
from tests.derivation.rejoined import set_high_watermark, truncate
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.cluster_answers import (
    ANSWERS_NAME,
    CapturedAnswers,
    ClusterAnswers,
    ConfigAnswer,
    PartitionAnswer,
    TopicAnswer,
    to_json,
)
from tidegauge.snapshots.manifest import Consistency

METADATA = "__cluster_metadata-0"
ANSWERED = ("leader_id", "leader_epoch", "replicas", "isr", "min_insync_replicas", "high_watermark_upper")


def answers_of(facts: Derived, *, at_ms: int) -> CapturedAnswers:
    """What the cluster would have said of safe-0 when it stood as the metadata log has it."""
    row = facts.one("partitions", topic="safe", partition=0)
    said = PartitionAnswer(
        partition=0,
        leader_id=row["leader_id"],
        leader_epoch=row["leader_epoch"],
        replicas=tuple(row["replicas"]),
        isr=tuple(row["isr"]),
        log_start_offset=row["log_start_offset"],
        high_watermark=row["high_watermark_lower"],
        last_stable_offset=row["last_stable_offset"],
        producers=None,
    )
    setting = ConfigAnswer(value=str(row["min_insync_replicas"]), source="topic")
    topic = TopicAnswer(
        topic="safe", topic_id=row["topic_id"], partitions=(said,), configs={"min.insync.replicas": setting}
    )
    answers = ClusterAnswers(
        started_at_ms=at_ms,
        finished_at_ms=at_ms + 10,
        cluster_id=None,
        controller_id=None,
        brokers=(),
        topics=(topic,),
        groups=None,
        transactions=None,
    )
    return CapturedAnswers(before=None, after=answers)


@pytest.fixture
def whole(golden: Golden, tmp_path: Path) -> Derived:
    return derived(copy_of(golden("racks"), tmp_path / "whole", METADATA, "safe-0"))


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    """Without any metadata log."""
    return copy_of(golden("racks"), tmp_path / "copy", "safe-0")


def said(directory: Path, whole: Derived) -> Path:
    """With the answers, and adopted as a copy of one moment."""
    at_ms = whole.context.partitions["safe", 0].cluster.captured_at_ms
    assert at_ms is not None
    (directory / ANSWERS_NAME).write_text(to_json(answers_of(whole, at_ms=at_ms)))
    adopt(directory, cluster="racks", consistency=Consistency.QUIESCED)
    return directory


@pytest.mark.slow
def test_what_was_answered_is_known_as_by_the_metadata_log(copy: Path, whole: Derived) -> None:
    expected = whole.one("partitions", topic="safe", partition=0)
    silent = derived(copy).one("partitions", topic="safe", partition=0)
    assert {silent[name] for name in ANSWERED[:5]} == {None}
    answered = derived(said(copy, whole)).one("partitions", topic="safe", partition=0)
    assert {n: answered[n] for n in ANSWERED} == {n: expected[n] for n in ANSWERED}


@pytest.mark.slow
def test_members_as_answered_are_held_to_what_is_committed(copy: Path, whole: Derived, judge: Judge) -> None:
    shutil.copytree(copy / "broker-5/safe-0", copy / "broker-2/safe-0", copy_function=with_holes)
    for broker in (5, 1):
        replica = copy / f"broker-{broker}/safe-0"
        before = whole.one("replicas", topic="safe", partition=0, broker_id=broker)["high_watermark"]
        truncate(replica, int(batches(segments(replica)[-1])["base_offset"][-1]))
        set_high_watermark(replica, before)
    silent, breaches = judge.verdicts(derived(copy), "D")
    assert (silent["D10"].verdict, silent["D20"].verdict) == ("unknown", "unknown")
    assert not {b.code for b in breaches} & {"D10", "D20"}
    _, breaches = judge.verdicts(derived(said(copy, whole)), "D")
    found = {(b.code, b.subject.get("follower_id")) for b in breaches if b.severity != "info"}
    assert {("D10", 5), ("D10", 1), ("D20", None)} <= found
    (copies,) = [b for b in breaches if b.code == "D20"]
    assert copies.evidence["complete_replicas"] == [4], "broker 2 is not assigned"


def test_what_was_not_asked_stays_unknown(copy: Path, whole: Derived, judge: Judge) -> None:
    facts = derived(said(copy, whole))
    results, breaches = judge.verdicts(facts, "DK")
    assert not [b for b in breaches if b.severity != "info"]
    assert results["D11"].verdict == "unknown"
    assert "not known: metadata log" in results["K07"].reasons
    assert set(results["D15"].reasons) == {"metadata log not in the copy", "not known: replica"}
