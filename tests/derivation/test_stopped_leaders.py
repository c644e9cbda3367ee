"""A cleanly stopped leader's log with one thing wrong in it: that is told, and nothing that is not so.

In: `healthy`, of which every broker stopped cleanly and broker 1 led each partition last. After a clean stop Kafka
loads the leader epochs and the log as they are, so a changed header is no new epoch and a broken length is no end; a
tail that is truly gone is told once, end markers of transactions in it, too.
"""

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, edit, place, segments
from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, derived
from tests.derivation.rejoined import truncate
from tests.derivation.storage_breaks import only_what_is_there
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, fold

GROUPS = tuple(f"__consumer_offsets-{n}" for n in range(3))
TRANSACTIONS = tuple(f"__transaction_state-{n}" for n in range(3))
LISTED = tuple(f"txn-{n}" for n in range(3))
"""Read by groups up to their ends, 242, and written in transactions."""
NOT_SO = {"D06", "F10", "J01", "J02", "D20", "D11"}


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    directory = copy_of(golden("healthy"), tmp_path / "copy", "__cluster_metadata-0", *GROUPS, *TRANSACTIONS, *LISTED)
    only_what_is_there(directory)
    return directory


def folded(judge: Judge, facts: Derived) -> list[Breach]:
    _, breaches = judge.verdicts(facts, {code[0] for code in CATALOGUE})
    return list(fold(breaches, CATALOGUE))


def of_txn(breaches: Iterable[Breach]) -> list[Breach]:
    return [b for b in breaches if b.subject.get("topic") == "txn" and b.subject.get("partition") == 0]


def with_field(log: Path, at: int, place_in_header: int, value: int) -> None:
    """Another number of four bytes in a batch's header, outside of what its checksum covers."""
    start, _ = place(batches(log)[at])
    edit(log, lambda data: struct.pack_into(">i", data, start + place_in_header, value))


@pytest.mark.slow
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_header_with_a_higher_epoch_is_no_new_epoch(broker: int, copy: Path, judge: Judge) -> None:
    with_field(segments(copy / f"broker-{broker}/txn-0")[0], 3, 12, 7)
    facts = derived(copy)
    found = of_txn(folded(judge, facts))
    (root,) = [b for b in found if b.implied_by is None]
    assert (root.code, root.subject["broker_id"]) == ("D01", broker)
    assert not {b.code for b in found} & NOT_SO
    assert {b.subject["broker_id"] for b in found if b.code == "D15"} == {broker}, "the others' epochs are right"
    assert facts.rows["losses"] == []
    assert {d["divergence_offset"] for d in facts.all("divergences", topic="txn", partition=0)} == {242}


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, -3], ids=["near the start", "near the end"])
def test_a_broken_length_is_no_end_of_the_log(at: int, copy: Path, judge: Judge) -> None:
    with_field(segments(copy / "broker-1/txn-0")[0], at, 8, 0x7FFFFF)
    facts = derived(copy)
    found = of_txn(folded(judge, facts))
    assert [b.code for b in found if b.implied_by is None] == ["A01"]
    assert not {b.code for b in found} & NOT_SO
    assert facts.rows["losses"] == []
    assert facts.one("replicas", broker_id=1, topic="txn", partition=0)["log_end_offset"] == 242


@pytest.mark.slow
@pytest.mark.parametrize("log", [TRANSACTIONS[0], GROUPS[1]])
def test_a_broken_length_in_a_coordinators_log_is_told_of_that_log_alone(log: str, copy: Path, judge: Judge) -> None:
    with_field(segments(copy / f"broker-1/{log}")[0], 3, 8, 0x7FFFFF)
    facts = derived(copy)
    found = [b for b in folded(judge, facts) if b.code not in ("D17", "D20")]
    assert [(b.code, b.subject["topic"]) for b in found if b.implied_by is None] == [("A01", log.rsplit("-", 1)[0])]
    assert facts.rows["losses"] == []


@pytest.mark.slow
def test_a_committed_end_marker_that_is_about_to_go_is_a_loss(copy: Path, judge: Judge) -> None:
    """The last batch of txn-0 commits what stands from 231 on; brokers 2 and 3 still have it."""
    marker = batches(segments(copy / "broker-1/txn-0")[0])[-1]
    assert (int(marker["base_offset"]), int(marker["control_type"])) == (241, 1)
    truncate(copy / "broker-1/txn-0", 241)
    facts = derived(copy)
    (loss,) = facts.rows["losses"]
    told = {name: loss[name] for name in ("start_offset", "end_offset", "markers", "held_by", "state")}
    assert told == {"start_offset": 241, "end_offset": 242, "markers": 1, "held_by": [2, 3], "state": "at_risk"}
    assert (loss["records"], loss["declared_committed"]) == (1, 1)
    found = of_txn(folded(judge, facts))
    assert {b.subject["follower_id"] for b in found if b.code == "D06" and b.implied_by is None} == {2, 3}
    (uncommitted,) = [b for b in found if b.code == "F10"]
    assert str(uncommitted.implied_by).startswith("D06"), "two replicas hold the marker"
    open_again = "1 end markers of transactions, which are open again without them"
    assert all(open_again in b.explanation for b in found if b.code == "D05")
