"""What the views count, on a real Postgres: the same as counting anew, and touched only where something changed."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs import store
from tests.spark_jobs.store.helpers import audit, breach, key, opened, report, rows, table

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
