"""The store on a real Postgres: what has become old goes, and no life that matters comes out otherwise."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.store.helpers import audit, breach, life, rows
from tidegauge import store

NOW = datetime.now(UTC)
LIVES = """
SELECT breach_id, state, first_seen_run, opened_run, last_seen_run, resolved_run, times_opened, explanation
FROM tidegauge.breach WHERE cluster = %s
"""


def published(url: str, run_id: str, days_ago: float) -> None:
    with store.connect(url, "age a run") as connection, connection.cursor() as cursor:
        at = NOW - timedelta(days=days_ago)
        cursor.execute("UPDATE tidegauge.audit_run SET published_at = %s WHERE run_id = %s", (at, run_id))


def retain(url: str, cluster: str, *, days: float, facts_days: float | None = None, dry_run: bool = False):
    before, facts_before = NOW - timedelta(days=days), NOW - timedelta(days=days if facts_days is None else facts_days)
    return store.retain(url, runs_before=before, facts_before=facts_before, dry_run=dry_run)[cluster]


def kept(url: str, cluster: str) -> list[str]:
    found = rows(url, "SELECT snapshot_id FROM tidegauge.audit_run WHERE cluster = %s ORDER BY 1", cluster)
    return [snapshot for (snapshot,) in found]


def facts_of(url: str, run_id: str) -> int:
    return rows(url, "SELECT count(*) FROM tidegauge.brokers WHERE run_id = %s", run_id)[0][0]


def test_old_runs_go_and_the_newest_stays_however_old(url: str, cluster: str) -> None:
    runs = {day: audit(url, cluster, f"s{day}", breach("b1"), day=day) for day in (1,)}
    runs |= {day: audit(url, cluster, f"s{day}", day=day) for day in (2, 3, 4)}
    for day, run_id in runs.items():
        published(url, run_id, 100 - day)
    told = retain(url, cluster, days=10, dry_run=True)
    assert kept(url, cluster) == ["s1", "s2", "s3", "s4"]
    assert retain(url, cluster, days=10) == told
    assert set(told.runs) == {runs[1], runs[2], runs[3]}
    assert kept(url, cluster) == ["s4"]
    assert facts_of(url, runs[4]) == 2
    assert life(url, cluster) == ()
    assert retain(url, cluster, days=10).runs == ()


def test_what_an_open_breach_rests_on_stays_and_only_that(url: str, cluster: str) -> None:
    first = audit(url, cluster, "s1", breach("b1"), breach("b2"), day=1)
    for day in (2, 3, 4):
        audit(url, cluster, f"s{day}", breach("b1"), day=day)
    for (run_id,) in rows(url, "SELECT run_id FROM tidegauge.audit_run WHERE cluster = %s", cluster):
        published(url, run_id, 50)
    told = retain(url, cluster, days=10)
    assert kept(url, cluster) == ["s1", "s4"]
    assert told.kept == (first,)
    assert life(url, cluster) == ("still_open", "s1", "s1", "s4", None)
    found = rows(url, "SELECT breach_id FROM tidegauge.finding WHERE run_id = %s", first)
    assert found == [("b1",)]
    assert facts_of(url, first) == 0


def test_facts_go_before_their_run(url: str, cluster: str) -> None:
    old, new = (audit(url, cluster, f"s{day}", day=day) for day in (1, 2))
    published(url, old, 20)
    told = retain(url, cluster, days=100, facts_days=10)
    assert (told.runs, told.facts_of) == ((), (old,))
    assert kept(url, cluster) == ["s1", "s2"]
    assert [facts_of(url, run_id) for run_id in (old, new)] == [0, 2]
    assert rows(url, "SELECT count(*) FROM tidegauge.invariant_result WHERE run_id = %s", old) == [(2,)]


def test_a_run_that_is_at_work_is_left_alone_and_a_dead_one_is_not(url: str, cluster: str) -> None:
    from tests.store.helpers import key, opened

    working, dead = opened(url, key(cluster, "s1")), opened(url, key(cluster, "s2"))
    store.release(dead)
    with store.connect(url, "age runs") as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidegauge.audit_run SET started_at = %s WHERE cluster = %s", (NOW - timedelta(9), cluster)
        )
    retain(url, cluster, days=1)
    states = dict(rows(url, "SELECT run_id, status FROM tidegauge.audit_run WHERE cluster = %s", cluster))
    assert states.get(working) == "staging"
    assert states.get(dead) in ("failed", None)
    store.discard(url, working)


def test_a_run_that_was_judged_today_waits_for_its_publishing_whenever_it_began(url: str, cluster: str) -> None:
    from tests.store.helpers import key, opened

    judged = opened(url, key(cluster, "s1"))
    store.mark_judged(url, judged)
    store.release(judged)
    with store.connect(url, "age runs") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.audit_run SET started_at = %s WHERE run_id = %s", (NOW - timedelta(9), judged))
    retain(url, cluster, days=1)
    assert rows(url, "SELECT status FROM tidegauge.audit_run WHERE run_id = %s", judged) == [("staging",)]
    with store.connect(url, "age runs") as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidegauge.audit_run SET finished_at = %s WHERE run_id = %s", (NOW - timedelta(9), judged)
        )
    retain(url, cluster, days=1)
    assert rows(url, "SELECT 1 FROM tidegauge.audit_run WHERE run_id = %s AND status = 'staging'", judged) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_life_that_matters_comes_out_otherwise(url: str, cluster: str, seed: int) -> None:
    """Histories at random: breaches come, go, cannot be judged; brokers are missing; days are audited in any order."""
    dice = random.Random(seed)
    names = [f"b{n}" for n in range(4)]
    days = list(range(12))
    dice.shuffle(days)
    for day in days:
        found = [breach(name, code=dice.choice(["D06"] * 3 + ["D02"])) for name in names if dice.random() < 0.12]
        unknown = {"D06": 1} if dice.random() < 0.3 else {}
        run_id = audit(url, cluster, f"s{day:02}", *found, day=day, unknown=unknown)
        published(url, run_id, dice.uniform(0, 40))
    with store.connect(url, "work lives out") as connection, connection.cursor() as cursor:
        from tidegauge.store.lifecycle import renew_breaches

        renew_breaches(cursor, cluster, None)
    before = {row[0]: row for row in rows(url, LIVES, cluster)}
    told = retain(url, cluster, days=15)
    after = {row[0]: row for row in rows(url, LIVES, cluster)}
    assert told.runs
    recent = {r for (r,) in rows(url, "SELECT run_id FROM tidegauge.audit_run WHERE cluster = %s", cluster)}
    recent -= set(told.kept)
    seen = {
        b for (b,) in rows(url, "SELECT DISTINCT breach_id FROM tidegauge.finding WHERE run_id = ANY(%s)", list(recent))
    }
    for name, lived in before.items():
        if lived[1] != "resolved" or lived[5] in recent or name in seen:
            assert after[name] == lived
        else:
            assert name not in after
    assert retain(url, cluster, days=15).runs == ()
    assert {row[0]: row for row in rows(url, LIVES, cluster)} == after
