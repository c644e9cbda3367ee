"""What the views count, on a real Postgres: the same as counting anew, and touched only where something changed."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.store.helpers import audit, breach, key, opened, report, rows, table
from tidegauge import store

COUNTED = (
    "SELECT code, severity, state, roots, breaches FROM tidegauge.v_breach_count WHERE cluster = %s ORDER BY 1, 2, 3"
)
COUNTED_ANEW = """
SELECT code, severity, state, count(*) FILTER (WHERE implied_by IS NULL), count(*) FROM tidegauge.breach
WHERE cluster = %s GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
OF_TOPICS = "SELECT topic, severity, roots FROM tidegauge.topic_breach_count WHERE cluster = %s ORDER BY 1, 2"
OF_TOPICS_ANEW = """
SELECT subject ->> 'topic', severity, count(*) FROM tidegauge.breach
WHERE cluster = %s AND state <> 'resolved' AND implied_by IS NULL AND subject ->> 'topic' IS NOT NULL
GROUP BY 1, 2 ORDER BY 1, 2
"""
TOPICS = ("orders", "it's; DROP TABLE\x01", "é" * 4000, None)


def same(url: str, cluster: str) -> None:
    assert rows(url, COUNTED, cluster) == rows(url, COUNTED_ANEW, cluster)
    assert rows(url, OF_TOPICS, cluster) == rows(url, OF_TOPICS_ANEW, cluster)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_counting_anew(url: str, cluster: str, seed: int) -> None:
    """Histories at random: days in any order, audited again with another result, then most of them removed."""
    dice = random.Random(seed)
    for _ in range(14):
        found = [
            breach(
                f"b{n}",
                code=dice.choice(("D02", "D06")),
                severity=dice.choice(("critical", "warning")),
                implied_by="b0" if n == 5 else None,
                subject={"topic": dice.choice(TOPICS), "partition": 0},
            )
            for n in range(6)
            if dice.random() < 0.5
        ]
        audit(url, cluster, f"s{(day := dice.randrange(8))}", *found, day=day)
        same(url, cluster)
    with store.connect(url, "age runs") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.audit_run SET published_at = now() - interval '50 days'")
    before = datetime.now(UTC) - timedelta(days=9)
    store.retain(url, runs_before=before, facts_before=before, dry_run=False)
    same(url, cluster)


def test_nothing_is_counted_of_breaches_that_are_all_gone(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1", subject={"topic": "orders"}))
    assert rows(url, COUNTED, cluster)
    assert rows(url, OF_TOPICS, cluster)
    with store.connect(url, "begin anew") as connection, connection.cursor() as cursor:
        cursor.execute("TRUNCATE tidegauge.breach")
    same(url, cluster)


def test_a_run_touches_only_what_it_changes(url: str, cluster: str) -> None:
    def touched() -> dict[str, str]:
        return dict(rows(url, "SELECT code, xmin::text FROM tidegauge.breach_count WHERE cluster = %s", cluster))

    many = [breach(f"a{n}", code="D02", severity="info") for n in range(50)]
    audit(url, cluster, "s1", *many, breach("b1"))
    audit(url, cluster, "s2", *many, breach("b1"), day=1)
    before = touched()
    audit(url, cluster, "s3", *many, breach("b1"), breach("b2", code="D07"), day=2, codes=("D02", "D06", "D07"))
    after = touched()
    assert (after["D02"], after["D06"]) == (before["D02"], before["D06"])
    same(url, cluster)


def test_an_older_snapshot_brings_the_topics_of_the_newest_up_to_date(url: str, cluster: str) -> None:
    """Its breaches are told of the newest run's topics, and that run's own numbers are not counted again."""
    newest = opened(url, key(cluster, "s9"))
    replicas = table("replicas", {"broker_id": 1, "topic": "orders", "partition": 0, "size_bytes": 7})
    store.stage(url, newest, "replicas", replicas)
    store.publish(url, newest, report(unknown={"D06": 1}))
    shown = "SELECT critical, size_bytes FROM tidegauge.v_topic WHERE cluster = %s AND topic = 'orders'"
    assert rows(url, shown, cluster) == [(0, 7)]
    written = "SELECT xmin::text FROM tidegauge.cluster_summary WHERE cluster = %s"
    before = rows(url, written, cluster)
    audit(url, cluster, "s1", breach("b1"), day=-1)
    assert rows(url, shown, cluster) == [(1, 7)]
    assert rows(url, written, cluster) == before


RISKS = """
SELECT failures, risks, losing, unavailable, unclean, refusing FROM tidegauge.v_risk_count
WHERE cluster = %s ORDER BY failures
"""


def risk(topic: str, failure: str, *brokers: int, **costs: int) -> dict[str, object]:
    nothing = {"losing": 0, "unavailable": 0, "unclean": 0, "refusing": 0}
    return {"topic": topic, "failure": failure, "brokers": list(brokers), "racks": [], **nothing, **costs}


def judged(url: str, cluster: str, day: int, *risks: dict[str, object], topics: tuple[str, ...] = ("a", "b")) -> None:
    run_id = opened(url, key(cluster, f"s{day}"), captured_at=datetime(2026, 11, day, tzinfo=UTC))
    store.stage(url, run_id, "postures", table("postures", *({"topic": topic} for topic in topics)))
    store.stage(url, run_id, "risks", table("risks", *risks))
    store.publish(url, run_id, report())


def test_risks_are_counted_by_what_has_to_fail_and_topics_by_what_it_costs(url: str, cluster: str) -> None:
    judged(
        url, cluster, 1,
        risk("a", "now", refusing=2),
        risk("a", "broker", 1, losing=1), risk("a", "broker", 2, losing=1, unclean=1),
        risk("b", "rack", 1, 2, losing=3),
        risk("b", "brokers", 1, 2, unavailable=1), risk("b", "racks", 1, 2, 3, unavailable=1),
    )  # fmt: skip
    assert rows(url, RISKS, cluster) == [("double", 2, 0, 1, 0, 0), ("now", 1, 0, 0, 0, 1), ("single", 3, 2, 0, 1, 0)]
    anew = (
        "SELECT failures, count(*) FROM tidegauge.v_risk JOIN tidegauge.v_run_latest r USING (run_id) "
        "WHERE r.cluster = %s GROUP BY 1 ORDER BY 1"
    )
    assert [row[:2] for row in rows(url, RISKS, cluster)] == rows(url, anew, cluster)


def test_risks_are_those_of_the_latest_run_and_of_none_that_could_not_judge(url: str, cluster: str) -> None:
    judged(url, cluster, 2, risk("a", "broker", 1, losing=1))
    judged(url, cluster, 1, risk("a", "broker", 1, losing=1), risk("b", "broker", 1, losing=1))
    assert ("single", 1, 1, 0, 0, 0) in rows(url, RISKS, cluster)
    judged(url, cluster, 3)
    assert [row[1:] for row in rows(url, RISKS, cluster)] == [(0, 0, 0, 0, 0)] * 3, "judged, and nothing found"
    judged(url, cluster, 4, topics=())
    assert rows(url, RISKS, cluster) == []


def test_a_replica_has_diverged_where_an_invariant_says_so(url: str, cluster: str) -> None:
    """A longer log that was only read later is a fact, too, and D05 does not know what it is."""
    run_id = opened(url, key(cluster))
    longer = ({"leader_id": 1, "follower_id": follower, "records_at_stake": 5} for follower in (2, 3))
    store.stage(url, run_id, "divergences", table("divergences", *longer))
    store.publish(url, run_id, report(breach("b1", code="D05"), codes=("D05",), unknown={"D05": 1}))
    assert rows(url, "SELECT diverged_replicas FROM tidegauge.v_cluster WHERE cluster = %s", cluster) == [(1,)]
