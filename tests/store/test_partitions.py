"""Large tables by month, on a real Postgres: where rows go, what retention empties, who may have it done."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.store.helpers import audit, breach, broker, key, report, rows, table
from tidegauge import store
from tidegauge.embedded.postgres import EmbeddedPostgres

NOW = datetime.now(UTC)
NEXT_MONTH = (NOW.replace(day=1) + timedelta(days=32)).replace(day=2)
"""Runs that start then have a partition of their own; those of now are in the default partition."""
LEAF = f"{NEXT_MONTH:%Y_%m}"


@pytest.fixture(autouse=True)
def _nobody_else(url: str) -> Iterator[None]:
    """A month is emptied when no cluster needs it: each test begins with none."""
    yield
    with store.connect(url, "begin anew") as connection, connection.cursor() as cursor:
        cursor.execute("TRUNCATE tidegauge.audit_run, tidegauge.replicas, tidegauge.breach CASCADE")


def run_of(
    url: str, cluster: str, snapshot_id: str, started_at: datetime, *, breaches: int = 1, old: bool = True
) -> str:
    run_id = store.open_run(
        url, key(cluster, snapshot_id), consistency="fuzzy", source="captured", started_at=started_at,
        captured_at=started_at,
    )  # fmt: skip
    store.stage(url, run_id, "replicas", table("replicas", *(broker(n) for n in range(3))))
    store.publish(url, run_id, report(*(breach(f"b{n}") for n in range(breaches))))
    if old:
        with store.connect(url, "age a run") as connection, connection.cursor() as cursor:
            at = NOW - timedelta(days=50)
            cursor.execute("UPDATE tidegauge.audit_run SET published_at = %s WHERE run_id = %s", (at, run_id))
    return run_id


def places(url: str, table_name: str) -> dict[str, int]:
    found = rows(url, f"SELECT tableoid::regclass::text, count(*) FROM tidegauge.{table_name} GROUP BY 1")
    return {name.removeprefix("tidegauge."): count for name, count in found}


def size(url: str, leaf: str) -> int:
    return int(rows(url, f"SELECT pg_relation_size('tidegauge.{leaf}')")[0][0])


def retain(url: str, *, runs_days: int = 100, facts_days: int = 10, dry_run: bool = False):
    before, facts_before = NOW - timedelta(days=runs_days), NOW - timedelta(days=facts_days)
    return store.retain(url, runs_before=before, facts_before=facts_before, dry_run=dry_run)


def test_runs_lie_in_the_partition_of_their_month(url: str, cluster: str) -> None:
    run_of(url, cluster, "s1", NOW)
    run_of(url, cluster, "s2", NEXT_MONTH)
    assert places(url, "replicas") == {"replicas_default": 3, f"replicas_{LEAF}": 3}
    assert places(url, "finding") == {"finding_default": 1, f"finding_{LEAF}": 1}
    plan = rows(url, "EXPLAIN SELECT * FROM tidegauge.replicas WHERE run_id = %s", f"{NEXT_MONTH:%Y%m%dT%H%M%SZ}-x")
    assert "replicas_default" not in str(plan), "one partition is read, not all"


def test_a_month_that_no_cluster_needs_is_emptied_at_once(url: str, cluster: str) -> None:
    old = run_of(url, cluster, "s1", NEXT_MONTH)
    run_of(url, cluster, "s2", NOW, old=False)
    with store.connect(url, "make s2 the newest") as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidegauge.audit_run SET captured_at = %s WHERE snapshot_id = 's2'", (NEXT_MONTH + timedelta(9),)
        )
    told = retain(url, dry_run=True)
    assert size(url, f"replicas_{LEAF}") > 0
    assert retain(url) == told
    assert told[cluster].facts_of == (old,)
    assert size(url, f"replicas_{LEAF}") == 0, "deleted rows would still take their space"
    assert places(url, "replicas") == {"replicas_default": 3}
    assert places(url, "finding")[f"finding_{LEAF}"] == 1, "the life of its breach rests on the run"
    assert retain(url)[cluster].facts_of == ()


def test_a_month_that_one_cluster_needs_loses_the_other_s_rows_only(url: str, cluster: str) -> None:
    run_of(url, cluster, "s1", NEXT_MONTH)
    run_of(url, cluster, "s2", NEXT_MONTH + timedelta(days=1), old=False)
    run_of(url, f"{cluster}-too", "s1", NEXT_MONTH)
    retain(url)
    assert places(url, "replicas") == {f"replicas_{LEAF}": 6}, "the newest run of each cluster stays"


def test_findings_of_a_month_go_with_its_last_run(url: str, cluster: str) -> None:
    run_of(url, cluster, "s1", NEXT_MONTH)
    run_of(url, cluster, "s2", NEXT_MONTH + timedelta(days=1), breaches=0)
    audit(url, cluster, "s3", day=99)
    assert size(url, f"finding_{LEAF}") > 0
    retain(url, runs_days=20, facts_days=20)
    assert rows(url, "SELECT snapshot_id FROM tidegauge.audit_run") == [("s3",)]
    assert size(url, f"finding_{LEAF}") == 0


def test_what_is_staged_meanwhile_stays(url: str, cluster: str) -> None:
    run_id = store.open_run(
        url, key(cluster), consistency="fuzzy", source="captured", started_at=NEXT_MONTH, captured_at=NOW
    )
    store.stage(url, run_id, "replicas", table("replicas", broker(1)))
    retain(url)
    assert places(url, "replicas") == {f"replicas_{LEAF}": 1}
    store.discard(url, run_id)


def test_a_reader_holds_nobody_up(url: str, cluster: str) -> None:
    """A page or a dump that reads the month: its rows go one by one, and the space next time."""
    run_of(url, cluster, "s1", NEXT_MONTH)
    audit(url, cluster, "s2", day=99)
    with store.connect(url, "read") as reader, reader.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM tidegauge.replicas_{LEAF}")
        retain(url)
    assert places(url, "replicas") == {}
    assert size(url, f"replicas_{LEAF}") > 0
    retain(url)
    assert size(url, f"replicas_{LEAF}") == 0


@pytest.mark.slow
def test_months_are_made_ahead_once_and_by_who_writes(own_server: EmbeddedPostgres, cluster: str) -> None:
    url = own_server.fresh_database("by_month")
    store.migrate(url)
    after = (NEXT_MONTH + timedelta(days=32)).replace(day=1)
    with store.connect(url, "lose a month") as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE tidegauge.finding_{after:%Y_%m}, tidegauge.replicas_{after:%Y_%m}")
    store.grant_roles(url)
    with store.connect(url, "make a writer") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE by_month LOGIN IN ROLE tidegauge_writer")
    writer = url.replace("postgres@", "by_month@")
    run_of(writer, cluster, "s1", after.replace(day=2))
    assert places(url, "replicas") == {f"replicas_{after:%Y_%m}": 3}
    audit(writer, cluster, "s2", day=999)
    retain(writer)
    assert size(url, f"replicas_{after:%Y_%m}") == 0
