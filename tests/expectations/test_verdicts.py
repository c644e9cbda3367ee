"""From counts to verdicts, and from rows to arguments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.verdicts import (
    EVIDENCE_MISSING,
    NOTHING_TO_CHECK,
    Breach,
    InvariantResult,
    breach_query,
    count_query,
    explain,
    fold,
    results,
    shown,
)

INVARIANT = Invariant(
    code="X01",
    key="EXAMPLE",
    name="Example",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="It holds.",
    because="It must.",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT broker_quiet"),
        Unknown(reason="compacted", evidence=None, when="ever_compacted"),
    ),
    breach_when="crc_errors > 0",
    severity_when=((Severity.WARNING, "crc_errors_in_tail"),),
    derived=(("twice", "crc_errors * 2"),),
    evidence=("crc_errors", "path"),
    explanation=(
        "{topic}-{partition} has {crc_errors} errors, {twice} when doubled.",
        "Recovery point {recovery_point_offset}.",
    ),
    details=("crc",),
    next="tool --topic {topic} --from {first_offset}",
    points_to="lost_flush",
    reference="none",
)
STATES = ("holds", "critical", "warning", "info", "missing", "unknown_0", "unknown_1")


def counted(**counts: int) -> InvariantResult:
    row = {f"X01_{state}": counts.get(state, 0) for state in STATES}
    return results([INVARIANT], row)[0]


def row(**values: Any) -> dict[str, Any]:
    return {
        "cluster": "c",
        "broker_id": 1,
        "topic": "orders",
        "partition": 0,
        "path": "broker-1/orders-0/00000000000000000000.log",
        "crc_errors": 2,
        "twice": 4,
        "first_offset": 7,
        "recovery_point_offset": None,
        "damages": None,
        "breach_severity": "critical",
        "breach_start_offset": None,
        "breach_end_offset": None,
        "breach_records": None,
    } | values


def breach(code: str, severity: str = "critical", **subject: Any) -> Breach:
    return Breach(
        breach_id=f"{code}-{'-'.join(map(str, subject.values()))}",
        code=code,
        name=code,
        severity=severity,
        subject=subject,
        start_offset=None,
        end_offset=None,
        records=None,
        explanation="",
        evidence={},
        implied_by=None,
        next="",
    )


def catalogue(**implies: tuple[str, ...]) -> Mapping[str, Invariant]:
    return {code: replace(INVARIANT, code=code, implies=codes) for code, codes in implies.items()}


def test_it_holds_when_every_row_could_be_decided() -> None:
    result = counted(holds=5)
    assert (result.verdict, result.checked, result.reasons) == ("holds", 5, {})


def test_one_row_that_cannot_be_decided_makes_it_unknown() -> None:
    result = counted(holds=5, unknown_0=1, missing=2)
    assert (result.verdict, result.checked, result.unknown) == ("unknown", 5, 3)
    assert result.reasons == {"copy skew": 1, EVIDENCE_MISSING: 2}


def test_nothing_to_check_is_unknown() -> None:
    result = counted()
    assert (result.verdict, result.checked, result.unknown) == ("unknown", 0, 0)
    assert result.reasons == {NOTHING_TO_CHECK: 0}


def test_a_breach_outweighs_what_is_unknown() -> None:
    result = counted(holds=5, critical=1, warning=2, unknown_1=4)
    assert (result.verdict, result.checked, result.breached, result.unknown) == ("breached", 8, 3, 4)


def test_its_severity_is_that_of_its_worst_breach() -> None:
    assert counted(warning=3, info=1).severity == "warning"
    assert counted(info=1).severity == "info"
    assert counted(holds=1).severity == "critical"


@given(st.fixed_dictionaries({state: st.integers(0, 3) for state in STATES}))
def test_it_is_green_only_when_all_is_known_and_something_was_checked(counts: dict[str, int]) -> None:
    result = counted(**counts)
    green = counts["holds"] > 0 and sum(counts.values()) == counts["holds"]
    assert (result.verdict == "holds") == green
    assert result.checked + result.unknown == sum(counts.values())


def test_a_relation_is_scanned_once_however_many_invariants_judge_it() -> None:
    other = replace(INVARIANT, code="X02")
    assert count_query("segments", [INVARIANT, other]).count("tidegauge.segments") == 1
    assert "mine.segments" in breach_query(INVARIANT, schema="mine")


def test_an_argument_leaves_out_the_steps_that_need_what_is_not_known() -> None:
    assert explain(INVARIANT, row()).explanation == "orders-0 has 2 errors, 4 when doubled."
    assert explain(INVARIANT, row(recovery_point_offset=5)).explanation.endswith("\nRecovery point 5.")


def test_it_quotes_the_damaged_places_that_it_is_about_and_no_others() -> None:
    places = [{"kind": "crc", "position": n, "end_position": n + 9, "detail": "mismatch"} for n in range(7)]
    text = explain(INVARIANT, row(damages=[{"kind": "length", "position": 99}, *places])).explanation
    assert "bytes 0..9: crc, mismatch" in text
    assert "99" not in text
    assert "… and 2 more places." in text


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"position": 0, "end_position": 61, "start_offset": 0, "end_offset": 4}, "bytes 0..61, offsets [0, 4): crc"),
        ({"position": 0, "end_position": None, "start_offset": None, "end_offset": 7}, "byte 0, offsets below 7: crc"),
        (
            {"position": None, "end_position": 9, "start_offset": 4, "end_offset": None},
            "bytes below 9, offsets from 4 on: crc",
        ),
        ({}, "crc"),
    ],
)
def test_damage_may_hide_either_end_of_a_place(known: dict[str, Any], told: str) -> None:
    """Of a file whose first batch cannot be read nobody knows the first offset, only where the next batch begins."""
    text = explain(INVARIANT, row(damages=[{"kind": "crc", **known}])).explanation
    assert text.splitlines()[-1] == told


def test_what_a_breach_is_about_names_it_and_what_changes_does_not() -> None:
    assert explain(INVARIANT, row()).breach_id == explain(INVARIANT, row(crc_errors=3, damages=[])).breach_id
    assert explain(INVARIANT, row()).breach_id != explain(INVARIANT, row(partition=1)).breach_id
    assert explain(INVARIANT, row()).breach_id != explain(INVARIANT, row(cluster="d")).breach_id
    assert explain(INVARIANT, row()).breach_id.startswith("X01-")


def test_the_next_command_can_be_pasted_whatever_the_names_are() -> None:
    assert explain(INVARIANT, row(topic="a; rm -rf /")).next == "tool --topic 'a; rm -rf /' --from 7"
    assert explain(INVARIANT, row(first_offset=None)).next == "tool --topic orders --from <first_offset>"


def test_names_cannot_drive_a_terminal_or_fill_in_a_template() -> None:
    text = explain(INVARIANT, row(topic="\x1b[31m{crc_errors}\n\u202e")).explanation
    assert text == "\\x1b[31m{crc_errors}\\n\\u202e-0 has 2 errors, 4 when doubled."


def test_values_read_as_a_person_writes_them() -> None:
    assert shown("max_transaction_timeout_ms", 900_000) == "900000"
    assert shown("at_ms", 0) == "1970-01-01 00:00:00.000 UTC"
    assert shown("committed_at_ms", 1795228011123) == "2026-11-21 02:26:51.123 UTC"
    assert shown("last_timestamp_ms", 9_223_372_036_854_775_807) == "9223372036854775807 ms"
    assert shown("seen_until_ms", 1795228011123) == "2026-11-21 02:26:51.123 UTC"
    assert shown("isr", [1, None]) == "[1, none]"
    assert shown("is_active", False) == "no"
    assert shown("detail", "x" * 500) == "x" * 400 + "…"


def test_breaches_come_worst_first_and_consequences_name_their_root() -> None:
    rules = catalogue(X01=("X02",), X02=("X03",), X03=())
    root = breach("X01", topic="orders", partition=0)
    middle = breach("X02", severity="warning", topic="orders", partition=0, broker_id=1)
    last = breach("X03", topic="orders", partition=0, broker_id=1)
    folded = fold([middle, last, root], rules)
    assert [b.code for b in folded] == ["X01", "X03", "X02"]
    assert [b.implied_by for b in folded] == [None, root.breach_id, root.breach_id]


def test_what_happens_elsewhere_implies_nothing_here() -> None:
    rules = catalogue(X01=("X02",), X02=())
    here = breach("X02", topic="orders", partition=0, broker_id=1)
    others = [
        breach("X01", topic="orders", partition=1, broker_id=1),
        breach("X01", topic="orders", partition=0, broker_id=2),
        breach("X01", topic="orders", partition=0, leader_id=1, follower_id=3),
    ]
    assert all(b.implied_by is None for b in fold([here, *others], rules))
    follower = breach("X01", topic="orders", partition=0, leader_id=2, follower_id=1)
    assert fold([here, follower], rules)[1].implied_by == follower.breach_id


def test_what_is_found_on_one_replica_may_be_the_fault_of_the_one_that_it_was_held_against() -> None:
    rules = catalogue(X01=("X02",), X02=())
    rotten = breach("X01", topic="t", partition=0, broker_id=2)
    seen = replace(breach("X02", topic="t", partition=0, broker_id=1), evidence={"elected_leader_id": 2})
    other = replace(breach("X02", topic="t", partition=0, broker_id=3), evidence={"elected_leader_id": 1})
    implied = {b.breach_id: b.implied_by for b in fold([rotten, seen, other], rules)}
    assert (implied[seen.breach_id], implied[other.breach_id]) == (rotten.breach_id, None)


def test_another_election_is_not_the_cause() -> None:
    rules = catalogue(X01=("X02",), X02=())
    election = breach("X01", topic="orders", partition=0, metadata_offset=194)
    mine = replace(breach("X02", topic="orders", partition=0, broker_id=1), evidence={"unclean_election_offset": 194})
    others = [
        replace(mine, breach_id="without one", evidence={"unclean_election_offset": None}),
        replace(mine, breach_id="a later one", evidence={"unclean_election_offset": 300}),
        replace(mine, breach_id="does not say", evidence={}),
    ]
    implied = {b.breach_id: b.implied_by for b in fold([election, mine, *others], rules)}
    assert [i for i, root in implied.items() if root == election.breach_id] == [mine.breach_id, "does not say"]


def test_records_that_every_replica_lacks_are_told_once_by_the_one_that_had_most() -> None:
    rules = {"X01": replace(INVARIANT, code="X01", one_event_on_all_replicas=True, implies=("X02",))}
    rules |= catalogue(X02=())

    def lost(broker_id: int, records: int | None, start: int = 800, **evidence: Any) -> Breach:
        one = breach("X01", topic="orders", partition=0, broker_id=broker_id)
        return replace(one, start_offset=start, records=records, evidence={"unclean_election_offset": 194} | evidence)

    consequence = breach("X02", topic="orders", partition=0, broker_id=1)
    folded = fold([lost(1, 50), lost(2, 700), lost(3, 700), consequence], rules)
    roots = [b.breach_id for b in folded if b.implied_by is None]
    assert roots == [lost(2, 700).breach_id]
    assert {b.implied_by for b in folded if b.breach_id not in roots} == set(roots)
    apart = [lost(1, 50), lost(2, 700, start=900), lost(3, 40, unclean_election_offset=300), lost(4, None)]
    assert [b.implied_by for b in fold(apart, rules)] == [None] * 4


def test_rules_that_imply_each_other_do_not_hide_both() -> None:
    rules = catalogue(X01=("X02",), X02=("X01",))
    folded = fold([breach("X01", topic="t", partition=0), breach("X02", topic="t", partition=0)], rules)
    assert len(folded) == 2


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [(0, "0 ms"), (230, "230 ms"), (999, "999 ms"), (1_000, "1 s"), (1_590, "1.5 s"), (9_000, "9 s"), (60_900, "60 s")],
)
def test_what_took_a_moment_did_not_take_0_s(milliseconds: int, told: str) -> None:
    assert shown("stayed_for_ms", milliseconds) == told
