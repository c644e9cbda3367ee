"""Which breaches, losses and risks are one incident: the laws for all of them, and each rule as a case."""

import random
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.expectations.causes import CAUSES
from tidegauge.expectations.incidents.grouping import incidents_of
from tidegauge.expectations.incidents.model import Election, Found, Incident, Kind, Rule
from tidegauge.expectations.verdicts import Breach
from tidegauge.relations import CommittedOffsetRow, LossRow, RiskRow

AT_MS = 1_795_227_121_481
SECOND = 1_000


def election(topic: str, partition: int, offset: int, *, at_ms: int | None = AT_MS, epoch: int = 1) -> Election:
    return Election(
        topic=topic, partition=partition, metadata_offset=offset, at_ms=at_ms, election="unclean", leader_id=2,
        leader_epoch=epoch, led_before=1,
    )  # fmt: skip


def breach(breach_id: str, subject: dict[str, Any], **values: Any) -> Breach:
    return Breach(
        breach_id=breach_id,
        code=breach_id.split("-")[0],
        name="",
        severity=values.pop("severity", "critical"),
        subject=subject,
        start_offset=values.pop("start", None),
        end_offset=values.pop("end", None),
        records=None,
        explanation="",
        evidence=values.pop("evidence", {}),
        implied_by=values.pop("implied_by", None),
        next="",
        **values,
    )


def cut(name: str, topic: str, start: int, end: int, *, partition: int = 0, offset: int | None = None) -> Breach:
    """A follower, broker 1, holds what leader 2 lacks."""
    subject = {"topic": topic, "partition": partition, "leader_id": 2, "follower_id": 1}
    evidence = {"truncated_leader_epoch": 0, "unclean_election_offset": offset, "unclean_election_at_ms": AT_MS}
    return breach(
        f"D06-{name}", subject, start=start, end=end, evidence=evidence, believe=(1,),
        points_to="unclean_loss" if offset is not None else "cut_or_lost",
    )  # fmt: skip


def loss(topic: str, start: int, end: int, **values: Any) -> LossRow:
    row = {
        "topic": topic, "partition": 0, "start_offset": start, "end_offset": end, "records": end - start,
        "leader_epoch": 0, "held_by": [1], "state": "at_risk", "declared_committed": 0, "cause": "",
        "groups_affected": [], "markers": 0,
    } | values  # fmt: skip
    return cast(LossRow, row)


def risk(topic: str, failure: str = "now") -> RiskRow:
    columns = ("losing_partitions", "unavailable_partitions", "unclean_partitions")
    return cast(RiskRow, {"topic": topic, "failure": failure, "refusing_partitions": [0], **{c: [] for c in columns}})


def incidents(**found: Any) -> tuple[Incident, ...]:
    return incidents_of(Found(cluster="payments", **found))


def rules(found: Incident) -> dict[str, Rule]:
    return {m.breach_id or f"{m.topic}-{m.partition}": m.rule for m in found.members}


def test_nothing_found_is_no_incident() -> None:
    assert incidents() == ()
    # What a failure would cost is no incident: nothing of it has happened.
    assert incidents(risks=[risk("orders", "broker")]) == ()


def test_elections_within_seconds_are_one_incident_and_its_losses_are_counted_once() -> None:
    found = incidents(
        breaches=[cut("a", "orders", 100, 150, offset=10), cut("b", "accounts", 0, 30, offset=12)],
        losses=[loss("orders", 100, 150), loss("accounts", 0, 30)],
        elections=[election("orders", 0, 10), election("accounts", 0, 12, at_ms=AT_MS + 4 * SECOND)],
    )
    (one,) = found
    assert one.headline == (
        "Unclean election 2026-11-21 02:12:01 UTC, broker 1 -> 2: accounts-0, orders-0, 80 records at risk; "
        "believe broker 1"
    )
    assert one.avoid == "Keep broker 1 down: when it rejoins, it cuts the only copy of these records off."
    assert (one.kind, one.records_at_risk, one.records_lost, one.records_possible) == (Kind.ELECTION, 80, 0, 0)
    assert (one.began_at_ms, one.ended_at_ms) == (AT_MS, AT_MS + 4 * SECOND)
    assert rules(one)["D06-a"] is Rule.ELECTION
    assert rules(one)["D06-b"] is Rule.SERIES
    assert rules(one)["orders-0"] is Rule.SAME_RECORDS


def test_elections_apart_are_two_incidents() -> None:
    later = election("accounts", 0, 12, at_ms=AT_MS + 15 * SECOND)
    found = incidents(
        breaches=[cut("a", "orders", 100, 150, offset=10), cut("b", "accounts", 0, 30, offset=12)],
        elections=[election("orders", 0, 10), later],
    )
    assert [i.kind for i in found] == [Kind.ELECTION] * 2


def test_records_of_two_epochs_that_overlap_are_two_losses_of_two_elections() -> None:
    second = replace(
        cut("b", "orders", 120, 190, offset=20), evidence={"truncated_leader_epoch": 2, "unclean_election_offset": 20}
    )
    found = incidents(
        breaches=[cut("a", "orders", 100, 150, offset=10), second],
        losses=[loss("orders", 100, 150), loss("orders", 120, 190, leader_epoch=2)],
        elections=[election("orders", 0, 10), election("orders", 0, 20, at_ms=AT_MS + 60 * SECOND, epoch=3)],
    )
    assert sorted(i.records_at_risk for i in found) == [50, 70]


def test_a_loss_that_no_breach_tells_of_goes_to_the_first_election_that_could_give_it_up() -> None:
    found = incidents(
        losses=[loss("orders", 100, 150, leader_epoch=3, state="lost", held_by=[])],
        elections=[election("orders", 0, 10, epoch=2), election("orders", 0, 20, at_ms=AT_MS + 60 * SECOND, epoch=4)],
    )
    (one,) = found
    assert one.anchor == {"metadata_offset": 20}
    assert one.records_lost == 50
    assert one.avoid.startswith("Do not delete earlier snapshots")


def test_a_loss_that_nothing_tells_of_is_an_incident_of_its_own() -> None:
    (one,) = incidents(losses=[loss("orders", 100, 150, state="possible")])
    assert (one.kind, one.cause, one.severity) == (Kind.RECORDS, None, "warning")
    assert one.headline == "Records cut off: orders-0, 50 records possibly lost"


def test_without_an_election_on_record_what_one_broker_holds_is_one_incident() -> None:
    other = replace(cut("c", "safe", 5, 9), subject={"topic": "safe", "partition": 0, "leader_id": 3, "follower_id": 1})
    found = incidents(breaches=[cut("a", "orders", 100, 150), cut("b", "accounts", 0, 30), other])
    assert [(i.kind, i.brokers, len(i.members)) for i in found] == [(Kind.BROKER, (1,), 3)]


def test_rot_of_one_disk_is_one_incident_and_no_part_of_an_election_whose_records_it_hit() -> None:
    rot = [
        breach(f"A03-{n}", {"broker_id": 1, "topic": "orders", "partition": 0, "path": f"{n}.log"}, start=110, end=120,
               points_to="bit_rot", believe=(2, 3))
        for n in range(3)
    ]  # fmt: skip
    found = incidents(
        breaches=[*rot, cut("a", "orders", 100, 150, offset=10)],
        losses=[loss("orders", 100, 150)],
        elections=[election("orders", 0, 10)],
    )
    assert [(i.kind, i.cause, len(i.members)) for i in found] == [
        (Kind.ELECTION, "unclean_loss", 2),
        (Kind.DISK, "bit_rot", 3),
    ]
    assert found[1].headline == "Bit rot, broker 1: orders-0, no loss known; believe brokers 2, 3"


def test_a_group_that_had_read_lost_records_belongs_to_what_lost_them() -> None:
    fell = breach(
        "J04-x", {"group": "billing", "topic": "orders", "partition": 0}, start=110, end=140, severity="info",
        points_to="client_behaviour",
    )  # fmt: skip
    asked = {
        "breaches": [fell, cut("a", "orders", 100, 150, offset=10)],
        "elections": [election("orders", 0, 10)],
    }
    (one,) = incidents(losses=[loss("orders", 100, 150, groups_affected=["billing"])], **asked)
    assert rules(one)["J04-x"] is Rule.SAME_RECORDS
    # Another group's offset is that group's own affair.
    assert len(incidents(losses=[loss("orders", 100, 150)], **asked)) == 2


@pytest.mark.parametrize(
    ("committed", "read_end", "told"),
    [
        (140, None, "had read up to 40 of them"),
        (500, 130, "had read up to 30 of them"),
        (None, None, "had read past the first"),
    ],
)
def test_how_many_of_the_records_groups_had_read(committed: int | None, read_end: int | None, told: str) -> None:
    row = {"group": "billing", "topic": "orders", "partition": 0, "committed_offset": committed} | {
        "read_end_offset": read_end
    }
    (one,) = incidents(
        losses=[loss("orders", 100, 150, groups_affected=["billing"])],
        committed_offsets=[cast(CommittedOffsetRow, row)] if committed is not None else [],
    )
    assert f"group billing {told}" in one.headline


def test_of_two_lineages_a_group_has_read_one_and_nobody_is_to_be_kept_down() -> None:
    row = {"group": "billing", "topic": "orders", "partition": 0, "committed_offset": 180, "read_end_offset": None}
    (one,) = incidents(
        losses=[
            loss("orders", 100, 150, leader_epoch=None, groups_affected=["billing"]),
            loss("orders", 100, 130, leader_epoch=None, held_by=[2, 3], groups_affected=["billing"]),
        ],
        committed_offsets=[cast(CommittedOffsetRow, row)],
    )
    assert (one.records_at_risk, one.records_read) == (80, 50)
    assert one.avoid.startswith("Do not move leadership")


def test_what_brokers_that_are_away_cost_now_is_one_incident() -> None:
    below = breach(
        "K10-x", {"topic": "orders", "partition": 4}, severity="info", points_to="broker_down",
        evidence={"replicas": [1, 2, 3], "isr": [3]},
    )  # fmt: skip
    (one,) = incidents(breaches=[below], risks=[risk("orders"), risk("safe")])
    assert (one.kind, one.brokers, one.severity, len(one.members)) == (Kind.BROKER, (1, 2), "warning", 3)
    assert one.partitions == {"orders": (0, 4), "safe": (0,)}


def test_a_breach_of_the_controller_at_the_record_of_an_election_is_no_part_of_it() -> None:
    counted = breach("K02-x", {"topic": "orders", "partition": 0, "metadata_offset": 10}, points_to="controller_bug")
    found = incidents(
        breaches=[counted, cut("a", "orders", 100, 150, offset=10)], elections=[election("orders", 0, 10)]
    )
    assert {i.kind for i in found} == {Kind.CONTROLLER, Kind.ELECTION}


def test_a_consequence_whose_root_is_not_there_stands_for_itself() -> None:
    follows = replace(cut("a", "orders", 100, 150), implied_by="C10-gone")
    (one,) = incidents(breaches=[follows])
    assert rules(one) == {"D06-a": Rule.CONSEQUENCE}


def test_an_election_that_the_log_no_longer_holds_is_known_by_the_breach() -> None:
    (one,) = incidents(breaches=[cut("a", "orders", 100, 150, offset=10)])
    assert (one.anchor, one.began_at_ms) == ({"metadata_offset": 10}, AT_MS)
    (known,) = incidents(breaches=[cut("a", "orders", 100, 150, offset=10)], elections=[election("orders", 0, 10)])
    assert known.incident_id == one.incident_id


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_each_cause_has_a_place_and_a_thing_not_to_do(cause: str) -> None:
    (one,) = incidents(breaches=[breach("X99-a", {"broker_id": 1, "topic": "orders", "partition": 0}, points_to=cause)])
    assert one.kind is not Kind.RECORDS
    assert one.avoid.startswith("Do not ")
    assert "snapshot" not in one.avoid, "that is what is said where nothing tells the cause"


# ------------------------------------------------------------------------------------------------------ laws for all

TOPICS = st.sampled_from(["orders", "safe"])
OFFSETS = st.integers(0, 6)
EPOCHS = st.sampled_from([None, 0, 1, 2])


@st.composite
def breaches(draw: st.DrawFn) -> list[Breach]:
    found: list[Breach] = []
    for n in range(draw(st.integers(0, 7))):
        code = draw(st.sampled_from(["D06", "K07", "A03", "J02", "J04", "K10", "E01"]))
        subject: dict[str, Any] = {"topic": draw(TOPICS), "partition": draw(st.integers(0, 1))}
        subject |= draw(
            st.sampled_from([{}, {"broker_id": 1}, {"leader_id": 2, "follower_id": 1}, {"group": "g"},
                             {"metadata_offset": 3}, {"producer_id": 9}])
        )  # fmt: skip
        start = draw(OFFSETS)
        evidence = {"truncated_leader_epoch": draw(EPOCHS)}
        if draw(st.booleans()):
            evidence["unclean_election_offset"] = draw(st.integers(0, 5))
        root = draw(st.sampled_from([None, *(b.breach_id for b in found if b.implied_by is None)]))
        found.append(
            breach(
                f"{code}-{n}", subject, start=start, end=start + draw(st.integers(0, 3)), evidence=evidence,
                points_to=draw(st.sampled_from([None, *sorted(CAUSES)])), implied_by=root,
                believe=draw(st.sampled_from([(), (1,), (2,)])), severity=draw(st.sampled_from(["critical", "info"])),
            )
        )  # fmt: skip
    return found


@st.composite
def losses(draw: st.DrawFn) -> list[LossRow]:
    return [
        loss(
            draw(TOPICS), start := draw(OFFSETS), start + draw(st.integers(1, 4)), partition=draw(st.integers(0, 1)),
            leader_epoch=draw(EPOCHS), state=draw(st.sampled_from(["lost", "at_risk", "possible"])),
            held_by=draw(st.sampled_from([[], [1], [2, 3]])), groups_affected=draw(st.sampled_from([[], ["g"]])),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]  # fmt: skip


@st.composite
def founds(draw: st.DrawFn) -> Found:
    elections = [
        election(
            draw(TOPICS), draw(st.integers(0, 1)), offset, epoch=draw(st.integers(0, 3)),
            at_ms=draw(st.sampled_from([None, AT_MS, AT_MS + 5 * SECOND, AT_MS + 60 * SECOND])),
        )
        for offset in draw(st.sets(st.integers(0, 5), max_size=4))
    ]  # fmt: skip
    risks = [risk(topic, draw(st.sampled_from(["now", "broker"]))) for topic in draw(st.sets(TOPICS))]
    return Found(cluster="payments", breaches=draw(breaches()), losses=draw(losses()), elections=elections, risks=risks)


@given(founds())
def test_each_breach_loss_and_risk_of_now_is_a_member_of_one_incident(found: Found) -> None:
    members = [m for incident in incidents_of(found) for m in incident.members]
    assert sorted(m.breach_id for m in members if m.breach_id is not None) == sorted(
        b.breach_id for b in found.breaches
    )
    told = {(row["topic"], row["partition"], row["leader_epoch"]) for row in found.losses}
    in_members = [(m.topic, m.partition, m.leader_epoch) for m in members if m.kind == "loss"]
    assert sorted(in_members, key=repr) == sorted(told, key=repr)
    now = sorted(r["topic"] for r in found.risks if r["failure"] == "now")
    assert sorted(m.topic or "" for m in members if m.kind == "risk") == now


@given(founds())
def test_no_record_is_counted_twice_or_left_out(found: Found) -> None:
    incidents = incidents_of(found)
    for state, counted in (
        ("lost", sum(i.records_lost for i in incidents)),
        ("at_risk", sum(i.records_at_risk for i in incidents)),
        ("possible", sum(i.records_possible for i in incidents)),
    ):
        assert counted == sum(row["records"] for row in found.losses if row["state"] == state)


@given(founds(), st.randoms(use_true_random=False))
def test_the_order_of_what_was_found_changes_nothing(found: Found, chance: random.Random) -> None:
    def shuffled(rows: Any) -> list[Any]:
        return chance.sample(list(rows), len(rows))

    other = replace(
        found,
        breaches=shuffled(found.breaches),
        losses=shuffled(found.losses),
        elections=shuffled(found.elections),
        risks=shuffled(found.risks),
    )
    assert set(map(repr, incidents_of(other))) == set(map(repr, incidents_of(found)))


@given(founds())
def test_ids_are_of_one_incident_each_and_consequences_are_with_their_roots(found: Found) -> None:
    incidents = incidents_of(found)
    assert len({i.incident_id for i in incidents}) == len(incidents)
    where = {m.breach_id: i.incident_id for i in incidents for m in i.members if m.breach_id is not None}
    for each in found.breaches:
        if each.implied_by is not None:
            assert where[each.breach_id] == where[each.implied_by]
    elsewhere = incidents_of(replace(found, cluster="billing"))
    assert not {i.incident_id for i in incidents} & {i.incident_id for i in elsewhere}
