"""The life of a loss: laws over random histories, in any order; and what proves what, one case each."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegauge.store.loss_life import (
    Decided,
    EpochSpan,
    LossKey,
    LossRow,
    LossState,
    Moment,
    PartitionSight,
    Stretch,
    ToldRange,
    merged,
    told_stretches,
    with_sight,
)

START = datetime(2026, 11, 20, tzinfo=UTC)
END = 24
KEY = LossKey(cluster="c", topic="orders", topic_id="t", partition=0, leader_epoch=3)
UNTIMED = [HealthCheck.too_slow]
BROKERS = frozenset({1, 2, 3})
POSSIBLE, AT_RISK, LOST, BACK = LossState.POSSIBLE, LossState.AT_RISK, LossState.LOST, LossState.BACK


@dataclass(frozen=True)
class Run:
    """What one run tells of `KEY`, and shows."""

    moment: Moment
    rows: tuple[LossRow, ...]
    sight: PartitionSight


def row(start: int, end: int, state: LossState, records: int | None = None) -> LossRow:
    return LossRow(
        start_offset=start, end_offset=end, records=end - start if records is None else records, declared_committed=0,
        state=state, held_by=() if state is LOST else (1,), cause=f"{state}", groups=(),
    )  # fmt: skip


def moment(day: int, run: str = "") -> Moment:
    return Moment(captured_at=START + timedelta(days=day), snapshot_id=f"s{day}", run_id=f"r{day}{run}")


def sight(*spans: tuple[int, int, int, int], leader: int | None = 2, **known: object) -> PartitionSight:
    whole: dict[str, object] = {
        "leader_id": leader, "leader_epoch": 4, "log_start_offset": 0, "high_watermark": END, "sound": [(0, END)],
        "assigned": BROKERS, "read": BROKERS,
        "spans": [EpochSpan(broker_id=b, leader_epoch=e, start_offset=s, end_offset=x) for b, e, s, x in spans],
    }  # fmt: skip
    return PartitionSight(**(whole | known))  # type: ignore[arg-type]


def run(day: int, *rows: LossRow, shows: PartitionSight | None = None, name: str = "") -> Run:
    return Run(moment(day, name), rows, shows or PartitionSight())


def carried(runs: Sequence[Run]) -> tuple[Stretch, ...]:
    """As `loss_ledger.carry_losses` does it, one run after the other in this order."""
    ledger: tuple[Stretch, ...] = ()
    done: list[Run] = []
    for new in runs:
        ledger = merged(ledger, told_stretches(new.rows, new.moment, leader_epoch=4))
        later = [r for r in done if r.moment.instant > new.moment.instant] if new.rows else []
        for each in (new, *later):
            ledger = with_sight(ledger, KEY, each.moment, each.sight)
        done.append(new)
    return ledger


def states(ledger: Sequence[Stretch]) -> dict[int, LossState]:
    return {offset: s.state for s in ledger for offset in range(s.start_offset, s.end_offset)}


# ------------------------------------------------------------------------------------------------- a second judge


def by_the_book(runs: Sequence[Run]) -> dict[int, LossState]:
    """An offset at a time, a snapshot after the other: how the rules read, without ranges, joins or orders."""
    found = {}
    for offset in range(END):
        state: LossState | None = None
        was_at_risk = False
        for instant in sorted({r.moment.instant for r in runs}):
            here = [r for r in runs if r.moment.instant == instant]
            told = {w.state for r in here for w in r.rows if w.start_offset <= offset < w.end_offset}
            if state is not None and any(_is_back(r.sight, offset) for r in here):
                state = BACK
            if LOST in told:
                state = LOST
            elif AT_RISK in told:
                state = AT_RISK
            elif POSSIBLE in told and state in (None, BACK):
                state = POSSIBLE
            if (
                state is AT_RISK
                and AT_RISK not in told
                and was_at_risk
                and any(_is_absent(r.sight, offset) for r in here)
            ):
                state = LOST
            was_at_risk = was_at_risk or AT_RISK in told
        if state is not None:
            found[offset] = state
    return found


def _is_back(shown: PartitionSight, offset: int) -> bool:
    return (
        shown.leader_id is not None and shown.leader_epoch >= 4
        and any(s.broker_id == shown.leader_id and s.leader_epoch == 3 and offset < s.end_offset for s in shown.spans)
        and (shown.log_start_offset or 0) <= offset < (shown.high_watermark or 0)
        and any(low <= offset < high for low, high in shown.sound)
    )  # fmt: skip


def _is_absent(shown: PartitionSight, offset: int) -> bool:
    return (
        shown.leader_id is not None and shown.leader_epoch >= 4 and shown.read == BROKERS
        and offset >= (shown.log_start_offset or 0)
        and not any(s.leader_epoch <= 3 and s.start_offset <= offset < s.end_offset for s in shown.spans)
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[Run]:
    """A handful of days; some have two runs about one snapshot, some copies are old, or lack a broker."""
    made = []
    for number in range(draw(st.integers(1, 7))):
        bounds = st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted).filter(lambda b: b[0] < b[1])
        rows = tuple(
            row(low, high, draw(st.sampled_from([POSSIBLE, AT_RISK, LOST])))
            for low, high in draw(st.lists(bounds, max_size=3))
        )
        spans = []
        for broker in sorted(BROKERS):
            cut = sorted((0, draw(st.integers(0, END)), draw(st.integers(0, END))))
            epochs = [2, draw(st.sampled_from([3, 4]))]
            spans += [
                (broker, e, low, high) for e, (low, high) in zip(epochs, pairwise(cut), strict=True) if low < high
            ]
        shown = sight(
            *spans,
            leader=draw(st.sampled_from([None, 1, 2])),
            leader_epoch=draw(st.sampled_from([3, 4, 5])),
            log_start_offset=draw(st.integers(0, 4)),
            high_watermark=draw(st.sampled_from([None, END // 2, END])),
            sound=draw(st.sampled_from([[(0, END)], [(0, 8), (8, END)], [(0, 10), (14, END)]])),
            read=draw(st.sampled_from([BROKERS, BROKERS - {1}])),
        )
        made.append(Run(moment(draw(st.integers(0, 5)), f"-{number}"), rows, shown))
    return made


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=UNTIMED)
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_in_which_runs_are_carried_changes_nothing(history: list[Run], chance: random.Random) -> None:
    in_order = carried(sorted(history, key=lambda r: r.moment))
    shuffled = chance.sample(history, len(history))
    assert carried(shuffled) == in_order
    assert carried([*shuffled, *chance.sample(history, len(history))]) == in_order, "each of them twice"


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=UNTIMED)
@given(histories())
def test_each_offset_is_in_the_state_that_the_rules_say(history: list[Run]) -> None:
    assert states(carried(history)) == by_the_book(history)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=UNTIMED)
@given(histories())
def test_nothing_that_was_told_is_ever_forgotten(history: list[Run]) -> None:
    told = {o for r in history for w in r.rows for o in range(w.start_offset, w.end_offset)}
    assert states(carried(history)).keys() == told
    blind = [replace(r, sight=PartitionSight()) for r in history]
    assert BACK not in states(carried(blind)).values(), "where nothing is left to see, nothing is over"


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=UNTIMED)
@given(histories())
def test_stretches_are_disjoint_in_order_and_as_few_as_can_be(history: list[Run]) -> None:
    ledger = carried(history)
    for one, other in pairwise(ledger):
        assert one.start_offset < one.end_offset <= other.start_offset
        same = replace(one, end_offset=other.end_offset) == replace(other, start_offset=one.start_offset)
        assert not (same and one.end_offset == other.start_offset)


@settings(deadline=None, suppress_health_check=UNTIMED)
@given(st.integers(1, 40), st.data())
def test_records_of_the_parts_add_up_to_those_of_the_whole(length: int, data: st.DataObject) -> None:
    records = data.draw(st.integers(0, length))
    told = ToldRange(start_offset=100, end_offset=100 + length, records=records, declared_committed=0)
    cuts = sorted({100, 100 + length, *data.draw(st.lists(st.integers(100, 100 + length)))})
    parts = [told.part(records, low, high) for low, high in pairwise(cuts)]
    assert sum(parts) == records
    assert all(0 <= part <= high - low for part, (low, high) in zip(parts, pairwise(cuts), strict=True))


# ------------------------------------------------------------------------------------------------ what proves what


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (sight((2, 3, 0, 20)), BACK),
        (sight((2, 3, 0, 12)), {o: BACK if o < 12 else LOST for o in range(10, 20)}),
        (sight((2, 3, 0, 20), high_watermark=15), {o: BACK if o < 15 else AT_RISK for o in range(10, 20)}),
        (sight((2, 3, 0, 20), high_watermark=None), AT_RISK),
        (sight((2, 3, 0, 20), leader=None), AT_RISK),
        (sight((2, 3, 0, 20), leader_epoch=3), AT_RISK),
        (sight((2, 3, 0, 20), sound=[]), AT_RISK),
        (sight((1, 3, 0, 20), (2, 4, 10, 24)), AT_RISK),
        (sight((2, 4, 10, 24)), LOST),
        (sight((2, 4, 10, 24), read=BROKERS - {1}), AT_RISK),
        (sight((2, 4, 10, 24), assigned=BROKERS - {1}, read=BROKERS - {1}), AT_RISK),
        (sight((2, 4, 10, 24), leader_epoch=3), AT_RISK),
        (sight((2, 4, 22, 24), log_start_offset=22), AT_RISK),
        (sight((2, 2, 0, 20), (3, 4, 20, 24)), AT_RISK),
        (PartitionSight(), AT_RISK),
    ],
    ids=[
        "the leader has them", "the leader has some", "not all committed", "no high watermark", "no leader",
        "a view of before", "a log with a hole", "still on the disk of broker 1", "on no disk",
        "broker 1 not in the copy", "who held them is no replica any more, and not in the copy",
        "on no disk by a view of before",
        "retained away since", "of an epoch before, maybe the same", "nothing to see",
    ],
)  # fmt: skip
def test_what_a_later_snapshot_proves(shown: PartitionSight, expected: LossState | Mapping[int, LossState]) -> None:
    ledger = carried([run(0, row(10, 20, AT_RISK)), run(1, shows=shown)])
    assert states(ledger) == (dict.fromkeys(range(10, 20), expected) if isinstance(expected, LossState) else expected)


def test_what_was_lost_and_is_found_on_a_disk_is_at_risk_and_may_be_lost_again() -> None:
    history = [run(0, row(10, 20, AT_RISK)), run(1, row(10, 20, LOST)), run(2, row(10, 20, AT_RISK))]
    assert set(states(carried(history)).values()) == {AT_RISK}
    assert set(states(carried([*history, run(3, shows=sight((2, 4, 10, 24)))])).values()) == {LOST}


def test_records_of_an_older_epoch_are_others_where_the_range_is_known_to_hold_none() -> None:
    told = replace(row(10, 20, AT_RISK), lowest_epoch=3)
    older = sight((2, 2, 0, 20), (3, 4, 20, 24))
    assert set(states(carried([run(0, told), run(1, shows=older)])).values()) == {LOST}
    begins = replace(told, lowest_epoch=2)
    assert set(states(carried([run(0, told), run(0, begins, name="b"), run(1, shows=older)])).values()) == {AT_RISK}


def test_without_leader_epochs_nothing_is_proven() -> None:
    told = told_stretches([row(10, 20, AT_RISK)], moment(0), leader_epoch=4)
    assert with_sight(told, replace(KEY, leader_epoch=None), moment(1), sight((2, 3, 0, 20))) == told


def test_another_topic_of_the_name_and_another_cluster_are_other_losses() -> None:
    others = [
        replace(KEY, topic_id="u"),
        replace(KEY, cluster="d"),
        replace(KEY, leader_epoch=None),
        replace(KEY, partition=1),
    ]
    assert len({key.loss_id for key in (KEY, *others)}) == 5
    assert replace(KEY, topic="renamed").loss_id == KEY.loss_id


def test_a_decision_covers_what_it_was_about_and_no_more() -> None:
    ledger = tuple(
        replace(s, decided=Decided(decision_id=1, state=s.state, back_at=None))
        for s in carried([run(0, row(10, 20, AT_RISK))])
    )
    assert not any(s.is_undecided for s in ledger)
    grown = merged(ledger, told_stretches([row(10, 24, AT_RISK)], moment(1), leader_epoch=4))
    assert [(s.start_offset, s.end_offset) for s in grown if s.is_undecided] == [(20, 24)]
    worse = merged(grown, told_stretches([row(12, 14, LOST)], moment(2), leader_epoch=4))
    assert [(s.start_offset, s.end_offset) for s in worse if s.is_undecided] == [(12, 14), (20, 24)]
    back = with_sight(ledger, KEY, moment(3), sight((2, 3, 0, 20)))
    again = merged(back, told_stretches([row(10, 20, AT_RISK)], moment(4), leader_epoch=4))
    assert [s.is_undecided for s in back] == [False]
    assert [s.is_undecided for s in again] == [True], "they had come back since it was decided"
