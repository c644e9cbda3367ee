"""What breaches point to: each sentence of the verdict logic as a case, and the rules themselves."""

from typing import Any

import pytest

from tidegauge.expectations.causes import CAUSES
from tidegauge.expectations.diagnosis import Copies, diagnose
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach

ORDERS = ("orders", 0)
THREE = {ORDERS: Copies(captured=frozenset({1, 2, 3}))}


def breach(code: str, broker: int | None = None, *, implied_by: str | None = None, **values: Any) -> Breach:
    subject: dict[str, Any] = {"topic": "orders", "partition": 0}
    if code in ("D02", "D03", "D05", "D06", "D07", "D12"):
        subject |= {"leader_id": values.pop("leader", 1), "follower_id": broker}
    elif broker is not None:
        subject |= {"broker_id": broker}
    place = {"start_offset": 100, "end_offset": 110} | {
        n: values.pop(n) for n in ("start_offset", "end_offset") if n in values
    }
    return Breach(
        breach_id=f"{code}-{broker}-{place['start_offset']}",
        code=code,
        name=CATALOGUE[code].name if code in CATALOGUE else code,
        severity=values.pop("severity", "critical"),
        subject=values.pop("subject", subject),
        **place,
        records=None,
        explanation="",
        evidence=values,
        implied_by=implied_by,
        next="",
    )


def told(*breaches: Breach) -> list[tuple[str | None, tuple[int, ...]]]:
    return [(b.points_to, b.believe) for b in diagnose(breaches, THREE)]


def test_a_wrong_checksum_on_one_replica_is_bit_rot_and_the_others_are_believed() -> None:
    assert told(breach("A03", 2)) == [("bit_rot", (1, 3))]
    # Two replicas that rotted in different places are each other's witness.
    far = breach("A03", 3, start_offset=900, end_offset=910)
    assert told(breach("A03", 2), far) == [("bit_rot", (1, 3)), ("bit_rot", (1, 2))]


def test_a_wrong_checksum_on_every_replica_leaves_nobody_to_believe() -> None:
    assert {believe for _, believe in told(*(breach("A03", b) for b in (1, 2, 3)))} == {()}


def test_where_the_leader_rotted_its_followers_are_believed_though_each_differs_from_it() -> None:
    found = told(breach("A03", 1), breach("D07", 2), breach("D07", 3))
    assert found == [("bit_rot", (2, 3))] * 3


def test_two_right_checksums_in_one_epoch_are_two_writers() -> None:
    assert told(breach("D03", 2)) == [("two_writers", (1, 3))]
    same = {"differing_batches": [{"offset": 100, "follower_batch": "x"}]}
    assert told(breach("D03", 2, **same), breach("D03", 3, **same)) == [("two_writers", (2, 3))] * 2
    other = {"differing_batches": [{"offset": 100, "follower_batch": "y"}]}
    assert told(breach("D03", 2, **same), breach("D03", 3, **other)) == [("two_writers", ())] * 2


def test_one_against_one_is_no_majority() -> None:
    two = {ORDERS: Copies(captured=frozenset({1, 2}))}
    (found,) = diagnose([breach("D03", 2)], two)
    assert (found.points_to, found.believe) == ("two_writers", ())


@pytest.mark.parametrize("code", ["D01", "B14"])
def test_wrong_epochs_everywhere_were_wrong_at_the_leader_and_on_one_replica_they_rotted(code: str) -> None:
    assert told(*(breach(code, b) for b in (1, 2, 3))) == [("leader_epoch_wrong", ())] * 3
    assert told(breach(code, 3)) == [("header_rot", (1, 2))]


def test_a_difference_above_or_below_the_divergence_point() -> None:
    below = breach("D02", 2, divergence_offset=90, first_differing_committed_offset=100)
    assert told(below) == [("untruncated_divergence", (1,))]
    above = breach("D02", 2, divergence_offset=500, first_differing_committed_offset=100)
    assert told(above) == [("equal_lineage_other_bytes", (1, 3))]


def test_a_gap_in_sequences_everywhere_is_the_producer_s_and_on_one_replica_its_own() -> None:
    assert told(*(breach("E01", b) for b in (1, 2, 3))) == [("producer_bug", ())] * 3
    assert told(breach("E01", 2)) == [("lost_batch", (1, 3))]


def test_a_shorter_log_is_an_unclean_loss_a_stale_disk_or_a_lost_flush() -> None:
    election = breach("K07", subject={"topic": "orders", "partition": 0, "metadata_offset": 7})
    assert told(breach("C08", 2), election)[0] == ("unclean_loss", ())
    assert told(breach("C08", 2, unclean_election_offset=7))[0][0] == "unclean_loss"
    assert told(breach("C08", 2, directory_replaced=True)) == [("stale_disk", (1, 3))]
    registration = breach("B21", subject={"broker_id": 2, "path": "x"})
    on_record = breach("C08", 2, elections_on_record=True)
    assert told(on_record, registration)[0] == ("stale_disk", (1, 3))
    elsewhere = breach("B21", subject={"broker_id": 3, "path": "x"})
    assert told(on_record, elsewhere)[0] == ("lost_flush", (1, 3))


@pytest.mark.parametrize("code", ["C08", "C10", "D06", "D10", "B16", "J02"])
def test_where_an_election_is_not_on_record_all_that_it_may_have_been_is_named(code: str) -> None:
    (found,) = told(breach(code, 2, elections_on_record=False))
    assert found[0] == "cut_or_lost"
    assert told(breach(code, 2, elections_on_record=True))[0][0] == "lost_flush"


def test_a_tail_of_which_nothing_tells_whether_it_was_committed_is_not_called_uncommitted() -> None:
    assert told(breach("D05", 3, commitment_lacks=None)) == [("uncommitted_tail", ())]
    assert told(breach("D05", 3, commitment_lacks="metadata_log")) == [("open_tail", ())]


def test_what_is_about_to_be_truncated_is_to_be_believed() -> None:
    assert told(breach("D06", 3, unclean_election_offset=7)) == [("unclean_loss", (3,))]
    assert told(breach("D06", 3, unclean_election_offset=None, elections_on_record=True)) == [("lost_flush", (3,))]


@pytest.mark.parametrize(
    ("beside", "cause"), [("F08", "hanging_transaction"), ("F10", "lost_marker"), ("F09", "write_outside_transaction")]
)
def test_a_last_stable_offset_that_stands_still(beside: str, cause: str) -> None:
    assert told(breach("F12", 1), breach(beside, severity="warning"))[0][0] == cause


def test_a_consequence_points_to_what_its_root_points_to() -> None:
    root = breach("D06", 3, unclean_election_offset=7)
    assert told(root, breach("D04", 3, implied_by=root.breach_id))[1] == ("unclean_loss", (3,))


def test_whoever_holds_the_same_is_believed_proven_or_not() -> None:
    cut = {"truncated_leader_epoch": 4, "unclean_election_offset": 7}
    told_of = breach("D06", 3, **cut), breach("D05", 2, severity="info", truncated_leader_epoch=4)
    assert told(*told_of)[0] == ("unclean_loss", (2, 3))
    of_another_epoch = breach("D05", 2, severity="info", truncated_leader_epoch=3)
    elsewhere = breach("D05", 2, severity="info", truncated_leader_epoch=4, start_offset=500, end_offset=510)
    assert told(breach("D06", 3, **cut), of_another_epoch, elsewhere)[0] == ("unclean_loss", (3,))


def test_what_is_only_worth_knowing_argues_nothing() -> None:
    gone = breach("C08", 2, elections_on_record=True)
    assert told(gone, breach("K07", severity="info"))[0][0] == "lost_flush"


def test_every_invariant_points_somewhere_and_every_rule_to_a_cause() -> None:
    rules = {rule for invariant in CATALOGUE.values() for rule in invariant.diagnosis}
    assert {spoken.points_to for spoken in (*rules, *CATALOGUE.values())} == set(CAUSES)
    assert {key for key, cause in CAUSES.items() if key != cause.key} == set()


DIAGNOSED = [pytest.param(i, id=i.code) for i in CATALOGUE.values() if i.diagnosis]


@pytest.mark.parametrize("invariant", DIAGNOSED)
def test_a_rule_speaks_of_invariants_that_there_are_and_of_evidence_that_its_own_gives(invariant: Invariant) -> None:
    for rule in invariant.diagnosis:
        assert {*rule.along, *rule.without} <= CATALOGUE.keys()
        asked = {*rule.known, *rule.missing, *rule.true, *(name for pair in rule.less for name in pair)}
        assert asked <= set(invariant.evidence), rule.points_to
