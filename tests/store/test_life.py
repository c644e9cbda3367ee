"""The store on a real Postgres: the life of a breach over runs."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.store.helpers import audit, breach, broker, key, life, opened, report, rows
from tidegauge import store
from tidegauge.store.lifecycle import renew_breaches

# ------------------------------------------------------------------------------------------------- the life of a breach


def test_a_breach_is_open_then_still_open_then_resolved_then_open_again(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", day=1)
    assert life(url, cluster) == ()
    audit(url, cluster, "s2", breach("b1"), day=2)
    assert life(url, cluster) == ("open", "s2", "s2", "s2", None)
    audit(url, cluster, "s3", breach("b1", records=650), day=3)
    assert life(url, cluster) == ("still_open", "s2", "s2", "s3", None)
    assert rows(url, "SELECT records FROM tidegauge.v_breach_open WHERE cluster = %s", cluster) == [(650,)]
    audit(url, cluster, "s4", day=4)
    assert life(url, cluster) == ("resolved", "s2", "s2", "s3", "s4")
    assert rows(url, "SELECT * FROM tidegauge.v_breach_open WHERE cluster = %s", cluster) == []
    audit(url, cluster, "s5", day=5)
    assert life(url, cluster) == ("resolved", "s2", "s2", "s3", "s4")
    audit(url, cluster, "s6", breach("b1"), day=6)
    assert life(url, cluster) == ("open", "s2", "s6", "s6", None)
    assert rows(url, "SELECT times_opened FROM tidegauge.breach WHERE cluster = %s", cluster) == [(2,)]
    findings = rows(url, "SELECT snapshot_id FROM tidegauge.v_finding WHERE cluster = %s ORDER BY 1", cluster)
    assert findings == [("s2",), ("s3",), ("s6",)]


def test_auditing_an_older_snapshot_resolves_nothing_that_came_later(url: str, cluster: str) -> None:
    audit(url, cluster, "s3", breach("b1"), day=3)
    audit(url, cluster, "s1", day=1)
    assert life(url, cluster) == ("open", "s3", "s3", "s3", None)
    assert rows(url, "SELECT snapshot_id FROM tidegauge.v_run_latest WHERE cluster = %s", cluster) == [("s3",)]
    audit(url, cluster, "s2", breach("b1"), day=2)
    assert life(url, cluster) == ("still_open", "s2", "s2", "s3", None)


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
def test_the_order_of_audits_does_not_matter(url: str, cluster: str, order: Sequence[int]) -> None:
    for day in order:
        audit(url, cluster, f"s{day}", *([breach("b1")] if day in (1, 2, 4) else []), day=day)
    assert life(url, cluster) == ("open", "s1", "s4", "s4", None)
    assert rows(url, "SELECT times_opened FROM tidegauge.breach WHERE cluster = %s", cluster) == [(2,)]


def test_replacing_a_run_takes_back_what_it_said(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, cluster, "s2", day=2)
    audit(url, cluster, "s2", breach("b1"), day=2)
    assert life(url, cluster) == ("still_open", "s1", "s1", "s2", None)
    audit(url, cluster, "s2", day=2)
    assert life(url, cluster) == ("resolved", "s1", "s1", "s1", "s2")


def test_a_run_that_could_not_judge_an_invariant_does_not_resolve_its_breaches(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, cluster, "s2", day=2, unknown={"D06": 1})
    assert life(url, cluster) == ("still_open", "s1", "s1", "s1", None)
    assert rows(url, "SELECT seen_in_latest FROM tidegauge.v_breach_open WHERE cluster = %s", cluster) == [(False,)]
    audit(url, cluster, "s3", day=3, codes=["D02"])
    assert life(url, cluster) == ("still_open", "s1", "s1", "s1", None)
    audit(url, cluster, "s4", day=4)
    assert life(url, cluster) == ("resolved", "s1", "s1", "s1", "s4")


def test_a_run_may_say_exactly_which_breaches_it_could_not_judge(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), breach("b2"), day=1)
    audit(url, cluster, "s2", day=2, unknown={"D06": 1}, undecided=["b2"])
    assert life(url, cluster, "b1") == ("resolved", "s1", "s1", "s1", "s2")
    assert life(url, cluster, "b2") == ("still_open", "s1", "s1", "s1", None)


def test_a_snapshot_without_the_broker_resolves_nothing_about_it(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, cluster, "s2", day=2, brokers=[broker(1, captured=False), broker(2)])
    assert life(url, cluster) == ("still_open", "s1", "s1", "s1", None)
    audit(url, cluster, "s3", day=3)
    assert life(url, cluster) == ("resolved", "s1", "s1", "s1", "s3")


def test_a_snapshot_without_an_instant_keeps_its_place_when_it_is_audited_again(url: str, cluster: str) -> None:
    for snapshot_id in ("s1", "s2", "s1"):
        run_id = opened(url, key(cluster, snapshot_id), captured_at=None)
        store.publish(url, run_id, report(*([breach("b1")] if snapshot_id == "s2" else [])))
    assert life(url, cluster) == ("open", "s2", "s2", "s2", None)


def test_clusters_do_not_meddle_with_each_other(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, f"{cluster}-other", "s2", day=2)
    assert life(url, cluster)[0] == "open"


def test_a_breach_told_twice_is_kept_once(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), breach("b1", records=1))
    assert rows(url, "SELECT records FROM tidegauge.v_finding WHERE cluster = %s", cluster) == [(700,)]


# ------------------------------------------------------------------------------------------------ carried on, or anew


def lives(cursor: Any, cluster: str) -> list[tuple[Any, ...]]:
    cursor.execute("SELECT * FROM tidegauge.breach WHERE cluster = %s ORDER BY breach_id", (cluster,))
    return list(cursor.fetchall())


@pytest.mark.parametrize("seed", range(6))
def test_lives_that_are_carried_on_are_those_worked_out_anew(url: str, cluster: str, seed: int) -> None:
    """Histories at random: days in their order and out of it, audited again, by another ruleset; brokers missing;
    invariants unknown, in part or whole.
    """
    dice = random.Random(seed)
    newest = 0
    for _ in range(14):
        newest += dice.random() < 0.8
        day = newest if dice.random() < 0.85 else dice.randrange(newest + 1)
        found = [
            breach(name, code=dice.choice(["D06"] * 3 + ["D02"]), records=dice.randrange(3))
            for name in ("b1", "b2", "b3", "b4", "b5")
            if dice.random() < 0.4
        ]
        audit(
            url, cluster, f"s{day:02}", *found, day=day,
            ruleset_version=dice.choice("1112"),
            unknown={"D06": 1} if dice.random() < 0.3 else {},
            undecided=dice.choice([None, None, [], ["b1", "b3"]]),
            brokers=(broker(1, captured=dice.random() < 0.7), broker(2)),
        )  # fmt: skip
        with store.connect(url, "work lives out") as connection, connection.cursor() as cursor:
            carried_on = lives(cursor, cluster)
            renew_breaches(cursor, cluster, None)
            assert lives(cursor, cluster) == carried_on


def test_the_newest_run_asks_for_no_earlier_run_s_findings(url: str, cluster: str) -> None:
    for day in (1, 2):
        audit(url, cluster, f"s{day}", breach("b1"), day=day)
    with store.connect(url, "take away what is not needed") as connection, connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM tidegauge.finding WHERE breach_id = 'b1' AND run_id IN "
            "(SELECT run_id FROM tidegauge.audit_run WHERE cluster = %s)",
            (cluster,),
        )
    audit(url, cluster, "s3", breach("b1"), day=3)
    assert life(url, cluster) == ("still_open", "s1", "s1", "s3", None)


def test_a_breach_that_stays_open_is_written_beside_itself(url: str, cluster: str) -> None:
    """No index hears of it. On full pages each of them would, and publishing takes several times as long."""
    found = [breach(f"b{n}") for n in range(300)]
    audit(url, cluster, "s1", *found, day=1)
    with store.connect(url, "go on") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.breach SET last_seen_run = 'next', records = 1 WHERE cluster = %s", (cluster,))
        table = "'tidegauge.breach'::regclass"
        cursor.execute(f"SELECT pg_stat_get_xact_tuples_updated({table}), pg_stat_get_xact_tuples_hot_updated({table})")
        updated, beside = cursor.fetchone()
    assert updated == len(found)
    assert beside > 0.9 * updated
