"""A directory of an earlier topic that does not say so: no partition.metadata, and epochs that nobody gave out."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.apart import METADATA, whole_copy
from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, derived
from tests.derivation.test_captured_nodes import judged

STALE = ("idempotent", 0)


def with_stale_directory(golden: Golden, target: Path, *, named: bool = False) -> Path:
    """Broker 3 has another cluster's log, with nine leader epochs, in the place of its replica."""
    copy = whole_copy(golden("kafka-4.1"), target)
    replica = copy / "broker-3" / "idempotent-0"
    kept = (replica / "partition.metadata").read_bytes()
    shutil.rmtree(replica)
    shutil.copytree(golden("epochs") / "broker-3" / "busy-0", replica)
    (replica / "partition.metadata").unlink()
    if named:
        (replica / "partition.metadata").write_bytes(kept)
    return copy


def forget_the_beginning(copy: Path) -> None:
    """Of the metadata log there are snapshots only, as where it was cut long ago."""
    for file in copy.glob(f"broker-*/{METADATA}/{'[0-9]' * 20}.*"):
        file.unlink()


def verdict(judge: Judge, facts: Derived) -> tuple[int, int]:
    results, _ = judge.verdicts(facts, {"D"})
    return results["D14"].breached, results["D14"].reasons.get("no partition.metadata", 0)


@pytest.mark.slow
def test_where_an_earlier_topic_cannot_be_ruled_out_it_is_neither_judged_nor_compared(
    golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    copy = with_stale_directory(golden, tmp_path / "copy")
    forget_the_beginning(copy)
    facts = derived(copy)
    assert verdict(judge, facts) == (0, 1)
    # Its recovery point is what the checkpoint knows of the right log: the directory was exchanged.
    assert {b.code for b in judged(judge, facts)} == {"B17"}
    row = facts.one("replicas", topic=STALE[0], partition=STALE[1], broker_id=3)
    assert (row["may_be_earlier_topics"], row["in_isr"], row["is_leader"]) == (True, False, False)
    assert {r["follower_id"] for r in facts.all("divergences", topic=STALE[0], partition=STALE[1])} <= {1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True])
def test_where_no_earlier_topic_explains_it_or_it_says_whose_it_is_the_epoch_was_never_given_out(
    named: bool, golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    copy = with_stale_directory(golden, tmp_path / "copy", named=named)
    if named:
        forget_the_beginning(copy)
    facts = derived(copy)
    row = facts.one("replicas", topic=STALE[0], partition=STALE[1], broker_id=3)
    assert row["may_be_earlier_topics"] is False
    breached, unknown = verdict(judge, facts)
    assert unknown == 0
    assert breached == (not named), "without its log the metadata may be older than the copy"


def test_a_directory_that_does_not_say_and_fits_is_compared(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    copy = whole_copy(golden("kafka-4.1"), tmp_path / "copy")
    (copy / "broker-3/idempotent-0/partition.metadata").unlink()
    forget_the_beginning(copy)
    facts = derived(copy)
    assert judged(judge, facts) == ()
    assert facts.one("replicas", topic=STALE[0], partition=STALE[1], broker_id=3)["may_be_earlier_topics"] is True
    pairs = facts.all("divergences", topic=STALE[0], partition=STALE[1])
    assert {n for r in pairs for n in (r["leader_id"], r["follower_id"])} == {1, 2, 3}
