"""The drawing of a partition, from rows to places."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegauge import sql
from tidegauge.console.leadership import leadership
from tidegauge.console.lineage import MOST_TRANSACTIONS, Axis, lineage
from tidegauge.expectations.invariants.shared.divergences import ONLY_THE_END_DIFFERS

START = datetime(2026, 11, 21, 2, 10, tzinfo=UTC)


def replica(broker_id: int, end: int | None, **values: Any) -> dict[str, Any]:
    return {
        "broker_id": broker_id, "is_leader": False, "is_future": False, "in_isr": False, "in_elr": False,
        "assigned": True, "log_start_offset": 0, "log_end_offset": end, "high_watermark": None,
        "last_stable_offset": None,
    } | values  # fmt: skip


def span(broker_id: int, epoch: int, start: int, end: int) -> dict[str, Any]:
    return {"broker_id": broker_id, "leader_epoch": epoch, "start_offset": start, "end_offset": end, "batch_count": 3,
            "elected_leader_id": 1}  # fmt: skip


def transaction(first: int, **values: Any) -> dict[str, Any]:
    return {"first_offset": first, "last_offset": first + 5, "marker_offset": first + 6, "outcome": "committed",
            "hanging": False, "transactional_id": "t", "producer_id": 1, "producer_epoch": 0} | values  # fmt: skip


DIVERGENCE = {"leader_id": 2, "follower_id": 1, "divergence_offset": 800, "follower_log_end_offset": 1500,
              "records_at_stake": 700, "declared_committed": 72, "only_end_differs": False}  # fmt: skip
LOSS = {"start_offset": 800, "end_offset": 1500, "records": 700, "state": "at_risk", "held_by": [1], "cause": "unclean"}


def drawn(**rows: Any) -> Any:
    nothing: dict[str, list[Any]] = {
        "replicas": [], "spans": [], "divergences": [], "losses": [], "transactions": [], "gaps": []
    }  # fmt: skip
    return lineage(**(nothing | rows))


def test_an_unclean_election_s_partition() -> None:
    picture = drawn(
        replicas=[replica(1, 1500, high_watermark=872), replica(2, 1100, is_leader=True, in_isr=True)],
        spans=[span(1, 0, 0, 1500), span(2, 0, 0, 800), span(2, 1, 800, 1100)],
        divergences=[DIVERGENCE],
        losses=[LOSS],
    )
    leader, follower = picture.bands
    assert (leader.broker_id, leader.role) == (2, "leader")
    assert [(s.kind, s.start, s.end) for s in leader.spans] == [("epoch-0", 0, 800), ("epoch-1", 800, 1100)]
    assert leader.hatches == []
    assert follower.role == "out of sync"
    assert [(h.kind, h.start, h.end) for h in follower.hatches] == [("diverged", 800, 1500), ("at-risk", 800, 1500)]
    assert "72 declared committed" in follower.hatches[0].words
    assert {(m.kind, m.offset) for m in follower.marks} == {
        ("log-start", 0),
        ("log-end", 1500),
        ("high-watermark", 872),
    }
    assert [f.name for f in picture.focuses] == ["Divergence [800, 1,500)", "Log end"]
    assert picture.axis.percent(750) == 50


def test_a_copy_that_was_read_later_and_is_longer_has_not_diverged() -> None:
    replicas = [replica(1, 1500), replica(2, 1100, is_leader=True)]
    picture = drawn(replicas=replicas, divergences=[DIVERGENCE | {"only_end_differs": True}])
    assert [band.hatches for band in picture.bands] == [[], []]


def test_the_view_says_so_where_the_invariants_do() -> None:
    view = (Path(sql.__file__).parent / "views" / "73_v_run_divergence.sql").read_text()
    assert f"{ONLY_THE_END_DIFFERS} AS only_end_differs" in " ".join(view.split()).replace("f.", "")


def test_what_is_lost_on_every_replica_is_hatched_on_every_replica() -> None:
    picture = drawn(
        replicas=[replica(1, 100), replica(2, 100)], losses=[LOSS | {"held_by": [], "state": "lost", "end_offset": 900}]
    )
    assert [[h.kind for h in band.hatches] for band in picture.bands] == [["lost"], ["lost"]]


def test_nothing_is_drawn_of_what_is_not_known() -> None:
    assert drawn(replicas=[replica(1, None, log_start_offset=None)]) is None
    picture = drawn(
        replicas=[replica(1, 5, log_start_offset=None), replica(2, 5, in_isr=None)], spans=[span(3, 0, 0, 5)]
    )
    assert [m.kind for m in picture.bands[0].marks] == ["log-end"]
    assert picture.bands[1].role == "ISR not known"


def test_an_empty_log_and_offsets_at_the_end_of_64_bits_have_an_axis() -> None:
    assert drawn(replicas=[replica(1, 0)]).axis == Axis(low=0, high=1)
    high = Axis(low=2**63 - 101, high=2**63 - 1)
    assert high.percent(2**63 - 51) == 50
    assert len(high.ticks) in range(4, 9)
    assert all(high.low <= tick <= high.high for tick in high.ticks)


def test_transactions_that_overlap_lie_under_one_another_and_the_open_one_reaches_the_end() -> None:
    rows = [
        transaction(0),
        transaction(3, producer_id=2),
        transaction(20),
        transaction(30, outcome="open", hanging=True, marker_offset=None),
    ]
    picture = drawn(replicas=[replica(1, 100)], transactions=rows)
    assert [(t.start, t.end, t.lane, t.kind) for t in picture.transactions] == [
        (0, 7, 0, "committed"), (3, 10, 1, "committed"), (20, 27, 0, "committed"), (30, 100, 0, "hanging"),
    ]  # fmt: skip


def test_of_many_transactions_the_open_ones_are_never_left_out() -> None:
    rows = [transaction(n * 10) for n in range(1, 2 * MOST_TRANSACTIONS)] + [
        transaction(0, outcome="open", marker_offset=None)
    ]
    picture = drawn(replicas=[replica(1, 10**6)], transactions=rows)
    assert picture.transactions_left_out == MOST_TRANSACTIONS
    assert [t.start for t in picture.transactions if t.kind == "open"] == [0]


def change(seconds: float | None, leader: int | None, epoch: int, isr: list[int], **values: Any) -> dict[str, Any]:
    at = None if seconds is None else START + timedelta(seconds=seconds)
    return {"at": at, "leader_id": leader, "leader_epoch": epoch, "isr": isr, "elr": [], "replicas": [1, 2],
            "election": "none", "topic_deleted": False, "previous_leader_id": 1,
            "previous_isr": [1], "metadata_offset": 9, "records_at_stake": None} | values  # fmt: skip


def test_terms_and_isr_over_time() -> None:
    rows = [
        change(None, 1, 0, [1, 2]),
        change(0, 1, 0, [1, 2]),
        change(50, 1, 0, [1]),
        change(100, 2, 1, [2], election="unclean"),
    ]
    picture = leadership(rows, {0: 0, 1: 1}, START + timedelta(seconds=150))
    assert picture is not None
    assert [(t.kind, t.start - picture.start, t.end - picture.start) for t in picture.terms] == [
        ("epoch-0", 0, 100), ("epoch-1", 100, 150),
    ]  # fmt: skip
    assert [(p.start - picture.start, p.end - picture.start) for p in picture.in_sync[2]] == [(0, 50), (100, 150)]
    assert [(e.kind, e.at - picture.start) for e in picture.elections] == [("unclean", 100)]


@pytest.mark.parametrize("captured_s", [-3600, 0, 10**7])
def test_a_capture_s_clock_may_be_anywhere(captured_s: int) -> None:
    picture = leadership([change(0, None, 3, [])], {}, START + timedelta(seconds=captured_s))
    assert picture is not None
    assert picture.terms[0].kind == "no-leader"
    assert 0 < picture.end - picture.start <= 60


def test_history_without_an_instant_is_not_drawn() -> None:
    assert leadership([change(None, 1, 0, [1])], {}, START) is None
