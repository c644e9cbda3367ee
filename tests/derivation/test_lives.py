"""Clusters of many topologies and versions, captured on a sound day and after an unclean election.

`tests/golden/README.md` says what happened to each. Of a sound one nothing is cried, alone and beside an earlier one;
of the others exactly what GROUND_TRUTH.json says was acknowledged and lost: which records, who holds them, who had read
them. Nothing here is told of a capture that its own ground truth does not say.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, derived, derived_once, topic_partition
from tests.derivation.test_ground_truth import Truth, truth_of
from tests.sampling import chosen, one_in
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, fold

SOUND = (
    "controllers",
    "quorum-changed",
    "one-controller",
    "forgotten",
    "racks",
    "failed-disk",
    "streams",
    "mirror",
    "shares",
    "format-1",
    "zookeeper",
    "migrating",
    "migrated",
)
UNCLEAN = (
    "quorum-changed-unclean",
    "one-controller-unclean",
    "forgotten-unclean",
    "deaf-unclean",
    "racks-unclean",
    "mirror-unclean",
    "streams-unclean",
    "shares-unclean",
    "migrated-unclean",
    "zookeeper-unclean",
)
AFTER = (
    ("quorum-changed-unclean", "quorum-changed"),
    ("one-controller-unclean", "one-controller"),
    ("one-controller-rejoined", "one-controller-unclean"),
    ("forgotten-unclean", "forgotten"),
    ("racks-unclean", "racks"),
    ("mirror-unclean", "mirror"),
    ("streams-unclean", "streams"),
    ("shares-unclean", "shares"),
    ("migrated-unclean", "migrated"),
    ("migrated-unclean", "zookeeper"),
)
"""Captures of one cluster: the later, the earlier."""
FEW = {*SOUND[::5], *UNCLEAN[::4]}
"""The fast run derives these, each once for all tests; the whole suite takes every capture."""

Loss = tuple[str, int, int, int, tuple[int, ...], str, tuple[str, ...]]
"""Topic, partition, where it starts and ends, who holds it, its state, the groups that had read it."""


def told(truth: Truth) -> list[tuple[str, int, dict[str, Any]]]:
    return [(*topic_partition(place), loss) for place, losses in truth["acked_then_lost"].items() for loss in losses]


def losses_told(truth: Truth) -> set[Loss]:
    return {
        (topic, number, x["start_offset"], x["end_offset"], tuple(x["held_by"]), x["state"], tuple(x["groups"]))
        for topic, number, x in told(truth)
    }


def losses_found(facts: Derived) -> set[Loss]:
    return {
        (
            row["topic"],
            row["partition"],
            row["start_offset"],
            row["end_offset"],
            tuple(row["held_by"]),
            row["state"],
            tuple(row["groups_affected"]),
        )
        for row in facts.rows["losses"]
    }


def cried(judge: Judge, facts: Derived) -> list[Breach]:
    """Every breach above info, those that follow from others, too."""
    _, breaches = judge.verdicts(facts, {code[0] for code in CATALOGUE})
    return [b for b in fold(breaches, CATALOGUE) if b.severity in ("critical", "warning")]


def place_of(breach: Breach) -> tuple[str | None, int | None]:
    return breach.subject.get("topic"), breach.subject.get("partition")


@pytest.mark.parametrize("name", chosen(FEW, SOUND))
def test_nothing_is_cried_of_a_sound_cluster_and_nothing_is_lost(golden: Golden, judge: Judge, name: str) -> None:
    facts, truth = derived_once(golden(name)), truth_of(golden(name))
    assert truth["acked_then_lost"] == {}
    assert facts.rows["losses"] == []
    assert [(b.code, b.subject, b.explanation) for b in cried(judge, facts)] == []


@pytest.mark.parametrize("name", chosen(FEW, UNCLEAN))
def test_exactly_what_was_acknowledged_and_lost_is_reported(golden: Golden, name: str) -> None:
    facts, truth = derived_once(golden(name)), truth_of(golden(name))
    assert losses_found(facts) == losses_told(truth)
    for topic, number, loss in told(truth):
        of_place = facts.all("losses", topic=topic, partition=number, start_offset=loss["start_offset"])
        assert all(0 < row["declared_committed"] <= row["records"] for row in of_place)
        # Whether ends of transactions count as records is for the product to say; that they are lost, too, is not.
        assert {row["records"] - loss["count"] for row in of_place} <= {0, len(loss["control_offsets"])}
        assert {row["leader_epoch"] for row in of_place} == {loss["leader_epoch"]}


@pytest.mark.parametrize("name", chosen(FEW, UNCLEAN))
def test_all_of_a_loss_is_proven_committed(golden: Golden, name: str) -> None:
    for row in derived_once(golden(name)).rows["losses"]:
        assert row["declared_committed"] == row["records"], row


@pytest.mark.parametrize("name", chosen(FEW, UNCLEAN))
def test_each_loss_is_cried_where_it_is_and_nothing_anywhere_else(golden: Golden, judge: Judge, name: str) -> None:
    truth = truth_of(golden(name))
    found = cried(judge, derived_once(golden(name)))
    places = {(topic, number) for topic, number, _ in told(truth)}
    assert {place_of(b) for b in found} == places, [(b.code, b.subject, b.explanation) for b in found]
    assert {place_of(b) for b in found if b.code == "D06"} == places
    forgotten = {topic_partition(place) for place in truth.get("elections_forgotten", ())}
    assert {place_of(b) for b in found if b.code == "K07"} == places - forgotten


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "earlier"),
    [
        ("quorum-changed", "controllers"),
        ("migrating", "zookeeper"),
        ("migrated", "migrating"),
        ("migrated", "zookeeper"),
    ],
)
def test_nothing_is_cried_of_a_sound_cluster_beside_an_earlier_copy(
    golden: Golden, judge: Judge, name: str, earlier: str
) -> None:
    facts = derived(golden(name), previous=golden(earlier))
    assert facts.rows["losses"] == []
    assert [(b.code, b.subject, b.explanation) for b in cried(judge, facts)] == []


@pytest.mark.parametrize(("name", "earlier"), one_in(5, AFTER))
def test_the_same_is_reported_beside_an_earlier_copy(golden: Golden, judge: Judge, name: str, earlier: str) -> None:
    facts, truth = derived(golden(name), previous=golden(earlier)), truth_of(golden(name))
    assert losses_found(facts) == losses_told(truth)
    places = {(topic, number) for topic, number, _ in told(truth)}
    found = cried(judge, facts)
    assert {place_of(b) for b in found} == places, [(b.code, b.subject, b.explanation) for b in found]


def test_each_election_of_a_row_is_credited_with_its_own(golden: Golden) -> None:
    facts = derived_once(golden("racks-unclean"))
    found = {
        (r["leader_epoch"], r["records_at_stake"], tuple(r["old_lineage_holders"]), r["records_at_stake_known"])
        for r in facts.all("partition_changes", topic="orders", partition=0, election="unclean")
    }
    assert found == {(2, 60, (1,), True), (4, 40, (2,), True)}


def test_an_election_is_credited_with_what_was_committed(golden: Golden) -> None:
    """What a leader wrote alone, under an ISR whose others no longer fetched, nobody had promised."""
    facts = derived_once(golden("deaf-unclean"))
    (row,) = facts.all("partition_changes", topic="orders", partition=0, election="unclean")
    assert (row["records_at_stake"], row["old_lineage_holders"]) == (20, [1, 2])


def test_a_group_of_shares_that_is_beyond_an_epochs_end_is_told(golden: Golden, judge: Judge) -> None:
    (breach,) = [b for b in cried(judge, derived_once(golden("shares-unclean"))) if b.code == "J07"]
    assert place_of(breach) == ("shared", 0)
    assert str(breach.implied_by).startswith("D06")
    assert "was delivered offsets up to 708 under leader epoch 0, which ends at 648" in breach.explanation


@pytest.mark.slow
def test_what_only_a_failed_disk_held_is_told_beside_an_earlier_copy(golden: Golden, judge: Judge) -> None:
    name = "failed-disk-unclean"
    facts, truth = derived(golden(name), previous=golden("failed-disk")), truth_of(golden(name))
    assert {found[:5] for found in losses_found(facts)} == {of[:5] for of in losses_told(truth)}
    found = cried(judge, facts)
    assert {place_of(b) for b in found} == {(t, n) for t, n, _ in told(truth)}


def test_what_only_a_failed_disk_held_is_lost_as_far_as_its_readers_prove(golden: Golden, judge: Judge) -> None:
    name = "failed-disk-unclean"
    facts, ((topic, number, loss),) = derived_once(golden(name)), told(truth_of(golden(name)))
    ((*where, state, groups),) = losses_found(facts)
    assert where == [topic, number, loss["start_offset"], loss["end_offset"], ()]
    assert state in ("possible", "lost"), "the disk itself may still be readable, and is not in the copy"
    assert groups == tuple(loss["groups"])
    found = cried(judge, facts)
    assert {place_of(b) for b in found} == {(topic, number)}, [(b.code, b.subject, b.explanation) for b in found]


@pytest.mark.slow
def test_the_failed_disk_brought_back_holds_what_was_lost(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    name = "failed-disk-unclean"
    (disk, place), *_ = truth_of(golden(name))["elsewhere"].items()
    whole = tmp_path / name
    shutil.copytree(golden(name), whole)
    shutil.copytree(golden(name) / "elsewhere" / disk, whole / place)
    facts, ((topic, number, loss),) = derived(whole), told(truth_of(golden(name)))
    groups = tuple(loss["groups"])
    lost = (topic, number, loss["start_offset"], loss["end_offset"], (loss["written_by"],), "at_risk", groups)
    assert losses_found(facts) == {lost}
    found = cried(judge, facts)
    assert {place_of(b) for b in found} == {(topic, number)}, [(b.code, b.subject, b.explanation) for b in found]
