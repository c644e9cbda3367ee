"""Risks against a second opinion: every failure played out broker by broker, and counted by hand."""

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Golden
from tests.derivation.pipeline import derived_once
from tidegauge.facts.risk.posture import Holding, PartitionPosture, risk_rows

BROKERS = (1, 2, 3, 4)


@st.composite
def partitions(draw: st.DrawFn, number: int) -> PartitionPosture:
    replicas = draw(st.permutations(BROKERS))[: draw(st.integers(1, 3))]
    isr = frozenset(b for b in replicas if draw(st.booleans()))
    elr = frozenset(b for b in replicas if b not in isr and draw(st.booleans()))
    committed = draw(st.integers(0, 3))
    holdings = tuple(
        Holding(broker_id=b, log_start_offset=0, shared_end_offset=draw(st.integers(0, 3)), damaged=draw(st.booleans()))
        for b in replicas
        if draw(st.booleans())
    )
    held_by = frozenset(h.broker_id for h in holdings if h.shared_end_offset >= committed and not h.damaged)
    return PartitionPosture(
        topic="orders",
        partition=number,
        replicas=tuple(replicas),
        in_sync=isr,
        eligible=elr,
        last_known=(draw(st.sampled_from(replicas)),) if draw(st.booleans()) else (),
        alive=frozenset(b for b in BROKERS if draw(st.integers(0, 3))),
        min_insync_replicas=draw(st.integers(1, 3)),
        unclean_allowed=draw(st.booleans()),
        holdings=holdings,
        log_start_offset=0,
        committed_end_offset=committed,
        held_by=held_by if draw(st.booleans()) else None,
    )


def played(p: PartitionPosture, away: set[int]) -> tuple[str, bool]:
    """What a controller would do with the brokers that are left, and whether anybody has everything then."""
    up = [b for b in p.replicas if b in p.alive and b not in away]
    has_all = set()
    for broker in (*p.replicas,):
        copy = next((h for h in p.holdings if h.broker_id == broker), None)
        believed = broker in p.in_sync or broker in p.eligible
        if p.held_by is None:
            sound = believed and not (copy is not None and copy.damaged)
        else:
            sound = believed if copy is None else broker in p.held_by
        if sound and broker not in away:
            has_all.add(broker)
    something = p.committed_end_offset != 0
    minimum = min(p.min_insync_replicas, len(p.replicas))
    in_sync = [b for b in up if b in p.in_sync]
    eligible = [b for b in up if b in p.eligible]
    if not p.in_sync and not p.eligible:
        eligible = [b for b in up if (b,) == p.last_known]
    if in_sync:
        return ("full" if len(in_sync) >= minimum else "refusing"), something and not has_all
    if eligible:
        return ("full" if minimum == 1 else "refusing"), something and not has_all
    if up and p.unclean_allowed:
        return "unclean", something and up[0] not in has_all
    return "unavailable", something and not has_all


ORDER = ("full", "refusing", "unclean", "unavailable")


def worse(after: tuple[str, bool], before: tuple[str, bool]) -> bool:
    return ORDER.index(after[0]) > ORDER.index(before[0]) or after[1] > before[1]


def expected(topic: list[PartitionPosture], racks: dict[int, str | None]) -> Iterator[tuple[Any, ...]]:
    def row(kind: str, away: tuple[int, ...], named: tuple[str, ...], hit: list[PartitionPosture]) -> tuple[Any, ...]:
        after = {p.partition: played(p, set(away)) for p in hit}
        lists = [[n for n, (state, _) in after.items() if state == word] for word in ORDER[:0:-1]]
        return kind, away, named, [n for n, (_, loses) in after.items() if loses], *lists

    def hit_by(away: tuple[int, ...]) -> list[PartitionPosture]:
        return [p for p in topic if worse(played(p, set(away)), played(p, set()))]

    now = [p for p in topic if played(p, set()) != ("full", False)]
    if now:
        yield row("now", (), (), now)
    groups: dict[str, tuple[int, ...]] = {}
    for rack in sorted({r for r in racks.values() if r}):
        groups[rack] = tuple(b for b in BROKERS if racks[b] == rack)
    for kind, both, parts in (
        ("broker", "brokers", {b: (b,) for b in BROKERS}),
        ("rack", "racks", groups),
    ):
        for name, away in parts.items():
            if hit_by(away):
                yield row(kind, away, (name,) if kind == "rack" else (), hit_by(away))
        for one, other in combinations(sorted(parts), 2):
            away = tuple(sorted({*parts[one], *parts[other]}))
            if any(
                all(worse(played(p, set(away)), played(p, set(less))) for less in (parts[one], parts[other], ()))
                for p in topic
            ):
                yield row(both, away, (one, other) if kind == "rack" else (), hit_by(away))


@settings(max_examples=50)
@given(
    topic=st.integers(1, 3).flatmap(lambda n: st.tuples(*(partitions(number) for number in range(n)))),
    racks=st.fixed_dictionaries({b: st.sampled_from(["a", "b", "c", None]) for b in BROKERS}),
)
def test_every_single_and_double_failure_costs_what_playing_it_out_costs(
    topic: tuple[PartitionPosture, ...], racks: dict[int, str | None]
) -> None:
    found = [
        (
            r["failure"], tuple(r["brokers"]), tuple(r["racks"]), r["losing_partitions"], r["unavailable_partitions"],
            r["unclean_partitions"], r["refusing_partitions"],
        )
        for r in risk_rows(topic, racks)
    ]  # fmt: skip
    assert sorted(map(str, found)) == sorted(map(str, expected(list(topic), racks)))


def test_a_real_cluster_with_a_dead_broker(golden: Golden) -> None:
    facts = derived_once(golden("unclean-before"))
    risks = {(r["topic"], r["failure"], tuple(r["brokers"])): r for r in facts.rows["risks"]}
    # Broker 1 is dead, and holds 800 of the 1100 records that brokers 2 and 3 both have.
    both = risks["orders", "brokers", (2, 3)]
    assert (both["losing_partitions"], both["unavailable_partitions"]) == ([0], [0])
    assert (both["records_at_risk"], both["records_at_risk_known"]) == (300, True)
    assert ("orders", "broker", (2,)) not in risks
    # min.insync.replicas=2: either of the two brokers that are left takes writes with it.
    assert risks["safe", "broker", (2,)]["refusing_partitions"] == [0]
    posture = facts.one("postures", topic="safe")
    assert (posture["acknowledged_copies"], posture["refusal_after"], posture["loss_after"]) == (2, 1, 1)
    holdings = json.loads(facts.one("partitions", topic="orders", partition=0)["holdings"])
    assert {h["broker_id"]: h["shared_end_offset"] for h in holdings} == {1: 800, 2: 1100, 3: 1100}


def test_a_stopped_cluster_is_judged_as_it_would_come_back(golden: Golden) -> None:
    facts = derived_once(golden("healthy"))
    assert facts.one("postures", topic="__consumer_offsets")["smallest_isr"] == 0
    assert not [r for r in facts.rows["risks"] if r["failure"] == "now"]
    assert not [r for r in facts.all("risks", topic="__consumer_offsets") if r["losing"] or r["unavailable"]]


def test_a_broker_s_life_is_told(golden: Golden) -> None:
    changes = derived_once(golden("unclean-before")).all("broker_changes", broker_id=1)
    assert [c["change"] for c in changes][:2] == ["registered", "unfenced"]
    assert changes[-1]["fenced"]


def test_copies_of_different_moments_do_not_tell_how_many_records_are_at_risk() -> None:
    """Broker 2 is not in sync by the metadata, which was copied earlier than its log, and that has everything."""
    partition = PartitionPosture(
        topic="t", partition=0, replicas=(1, 2), in_sync=frozenset({1}), eligible=frozenset(), last_known=(),
        alive=frozenset({1, 2}), min_insync_replicas=1, unclean_allowed=False, log_start_offset=0,
        holdings=tuple(Holding(broker_id=b, log_start_offset=0, shared_end_offset=10) for b in (1, 2)),
        committed_end_offset=10, held_by=None,
    )  # fmt: skip
    (row,) = [r for r in risk_rows([partition], {}) if r["failure"] == "broker"]
    assert (row["losing_partitions"], row["records_at_risk"], row["records_at_risk_known"]) == ([0], 0, False)


def test_racks_are_spread_or_not() -> None:
    def partition(number: int, *replicas: int) -> PartitionPosture:
        return PartitionPosture(
            topic="t", partition=number, replicas=replicas, in_sync=frozenset(replicas), eligible=frozenset(),
            last_known=(), alive=frozenset(BROKERS), min_insync_replicas=1, unclean_allowed=False, holdings=(),
            log_start_offset=0, committed_end_offset=10, held_by=None,
        )  # fmt: skip

    rows = list(risk_rows([partition(0, 1, 2), partition(1, 1, 3)], {1: "a", 2: "a", 3: "b", 4: "b"}))
    (rack,) = [r for r in rows if r["failure"] == "rack"]
    assert (rack["racks"], rack["losing_partitions"], rack["partition_count"]) == (["a"], [0], 2)
