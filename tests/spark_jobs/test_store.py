"""The store on a real Postgres: whole runs or nothing, one run of a key, and the life of a breach."""

import json
import multiprocessing
import os
import pickle
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs import store
from spark_jobs.errors import AuditError, EvaluationError, SnapshotError, StoreError
from spark_jobs.relations import RELATIONS
from spark_jobs.store.rows import NUL_SHOWN, json_text, storable_json, text_value

START = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def url(store_url: str) -> str:
    with store.connect(store_url, "begin anew") as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS tidegauge CASCADE")
    store.migrate(store_url)
    return store_url


@pytest.fixture(autouse=True)
def cluster(request: pytest.FixtureRequest) -> str:
    """Each test has a cluster of its own, so that none sees another's runs."""
    return f"c-{request.node.name}"[:80]


def rows(url: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with store.connect(url, "look") as connection, connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def key(cluster: str, snapshot_id: str = "s1", ruleset_version: str = "1") -> store.RunKey:
    return store.RunKey(cluster=cluster, snapshot_id=snapshot_id, ruleset_version=ruleset_version)


def opened(url: str, run_key: store.RunKey, *, captured_at: datetime | None = START) -> str:
    return store.open_run(
        url, run_key, consistency="fuzzy", source="captured", started_at=datetime.now(UTC), captured_at=captured_at
    )


def table(relation: str, *values: Mapping[str, Any]) -> pa.Table:
    common = {"cluster": "c", "snapshot_id": "s"}
    return pa.Table.from_pylist([common | dict(v) for v in values], schema=RELATIONS[relation].arrow_schema)


def broker(broker_id: int, **values: object) -> dict[str, object]:
    return {"broker_id": broker_id, "captured": True, **values}


def breach(breach_id: str, code: str = "D06", **values: Any) -> dict[str, Any]:
    return {
        "breach_id": breach_id,
        "code": code,
        "name": "NoCommittedTruncation",
        "severity": "critical",
        "subject": {"topic": "orders", "partition": 0, "follower_id": 1},
        "start_offset": 800,
        "end_offset": 1500,
        "records": 700,
        "explanation": "Broker 1 holds offsets 800..1499.",
        "evidence": {"high_watermark": 872, "isr": [1]},
        "implied_by": None,
        "next": "tidegauge salvage",
    } | values


LOSS = {
    "topic": "orders",
    "partition": 0,
    "start_offset": 800,
    "end_offset": 1500,
    "records": 700,
    "leader_epoch": 0,
    "held_by": [1],
    "state": "at_risk",
    "declared_committed": 72,
    "cause": "unclean election",
    "groups_affected": ["billing"],
}


def report(
    *breaches: Mapping[str, Any],
    unknown: Mapping[str, int] | None = None,
    codes: Sequence[str] = ("D02", "D06"),
    losses: Sequence[Mapping[str, Any]] = (),
    **values: Any,
) -> store.Report:
    unknown = unknown or {}
    invariants = []
    for code in codes:
        found = sum(b["code"] == code for b in breaches)
        verdict = "breached" if found else "unknown" if unknown.get(code) else "holds"
        invariants.append(
            {
                "code": code,
                "name": code,
                "severity": "critical",
                "verdict": verdict,
                "checked": 6,
                "breached": found,
                "unknown": unknown.get(code, 0),
                "reasons": {"copy skew": unknown[code]} if unknown.get(code) else {},
            }
        )
    values = {"finished_at": START, "coverage": {"brokers": 3, "unread": []}} | values
    return store.Report(invariants=invariants, breaches=breaches, losses=losses, **values)


def audit(
    url: str,
    cluster: str,
    snapshot_id: str,
    *breaches: Mapping[str, Any],
    day: int = 0,
    ruleset_version: str = "1",
    brokers: Sequence[Mapping[str, Any]] = (broker(1), broker(2)),
    **values: Any,
) -> str:
    captured_at = START + timedelta(days=day)
    run_id = opened(url, key(cluster, snapshot_id, ruleset_version), captured_at=captured_at)
    store.stage(url, run_id, "brokers", table("brokers", *brokers))
    return store.publish(url, run_id, report(*breaches, **values))


def life(url: str, cluster: str, breach_id: str = "b1") -> tuple[Any, ...]:
    """State, and the snapshots of the runs that first saw, opened, last saw and resolved it."""
    found = rows(
        url,
        "SELECT b.state, f.snapshot_id, o.snapshot_id, l.snapshot_id, r.snapshot_id FROM tidegauge.breach b "
        "JOIN tidegauge.audit_run f ON f.run_id = first_seen_run JOIN tidegauge.audit_run o ON o.run_id = opened_run "
        "JOIN tidegauge.audit_run l ON l.run_id = last_seen_run "
        "LEFT JOIN tidegauge.audit_run r ON r.run_id = resolved_run "
        "WHERE b.cluster = %s AND b.breach_id = %s",
        cluster,
        breach_id,
    )
    assert len(found) <= 1
    return found[0] if found else ()


def leftovers(url: str, run_id: str) -> int:
    """Rows that a run has in any table but `audit_run`."""
    names = [n for (n,) in rows(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'tidegauge'")]
    keyed = [n for n in names if n not in ("audit_run", "alembic_version", "view_version", "breach")]
    return sum(rows(url, f"SELECT count(*) FROM tidegauge.{n} WHERE run_id = %s", run_id)[0][0] for n in keyed)


def visible(url: str, cluster: str) -> list[tuple[Any, ...]]:
    """What any view says of a cluster."""
    views = [n for (n,) in rows(url, "SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge' ORDER BY 1")]
    return [(v, *r) for v in views for r in rows(url, f"SELECT * FROM tidegauge.{v} WHERE cluster = %s", cluster)]


# ------------------------------------------------------------------------------------------------ one run, or nothing


def test_a_published_run_is_there_with_everything(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    replicas = table(
        "replicas", {"cluster": cluster, "broker_id": 1, "topic": "orders", "partition": 0, "log_end_offset": 1500}
    )
    partitions = table("partitions", {"cluster": cluster, "topic": "orders", "partition": 0, "isr": [2, 3], "elr": []})
    store.stage(url, run_id, "replicas", replicas)
    store.stage(url, run_id, "partitions", partitions)
    assert store.publish(url, run_id, report(breach("b1"), losses=[LOSS])) == run_id
    assert rows(url, "SELECT status, finished_at, coverage FROM tidegauge.audit_run WHERE run_id = %s", run_id) == [
        ("published", START, {"brokers": 3, "unread": []})
    ]
    assert rows(url, "SELECT run_id, brokers, unread_files FROM tidegauge.v_coverage WHERE cluster = %s", cluster) == [
        (run_id, 3, 0)
    ]
    assert rows(url, "SELECT log_end_offset FROM tidegauge.v_replica WHERE cluster = %s", cluster) == [(1500,)]
    assert rows(
        url,
        "SELECT isr, elr, breaches, critical_breaches, records_lost_or_at_risk FROM tidegauge.v_partition "
        "WHERE cluster = %s",
        cluster,
    ) == [([2, 3], [], 1, 1, 700)]
    assert rows(url, "SELECT held_by, groups_affected, state FROM tidegauge.v_loss WHERE cluster = %s", cluster) == [
        ([1], ["billing"], "at_risk")
    ]
    assert rows(
        url, "SELECT breach_id, state, evidence, next FROM tidegauge.v_breach_open WHERE cluster = %s", cluster
    ) == [("b1", "open", {"high_watermark": 872, "isr": [1]}, "tidegauge salvage")]
    assert rows(
        url, "SELECT code, verdict FROM tidegauge.v_invariant_status WHERE cluster = %s ORDER BY 1", cluster
    ) == [
        ("D02", "holds"),
        ("D06", "breached"),
    ]


def test_nothing_of_a_staged_run_is_visible(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    store.stage(url, run_id, "replicas", table("replicas", {"cluster": cluster, "broker_id": 1}))
    assert visible(url, cluster) == []
    assert leftovers(url, run_id) == 2
    store.discard(url, run_id)
    assert visible(url, cluster) == []
    assert leftovers(url, run_id) == 0
    assert rows(url, "SELECT status FROM tidegauge.audit_run WHERE run_id = %s", run_id) == [("failed",)]


def test_a_failure_in_the_middle_of_publishing_leaves_nothing(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    with pytest.raises(StoreError, match="violates check constraint"):
        store.publish(url, run_id, report(breach("b1"), losses=[LOSS | {"state": "misplaced"}]))
    assert visible(url, cluster) == []
    assert leftovers(url, run_id) == 0
    assert store.publish(url, run_id, report(breach("b1"), losses=[LOSS])) == run_id


def _killed(url: str, cluster: str, staged: Any) -> None:
    run_id = opened(url, key(cluster))
    store.stage(url, run_id, "replicas", table("replicas", {"broker_id": 1}))
    staged.put(run_id)
    signal.pause()


def test_a_killed_audit_leaves_nothing_visible_and_the_next_one_removes_what_it_staged(url: str, cluster: str) -> None:
    staged = SPAWN.Queue()
    process = SPAWN.Process(target=_killed, args=(url, cluster, staged))
    process.start()
    killed_run = staged.get()
    assert process.pid is not None
    other = opened(url, key(cluster))
    assert leftovers(url, killed_run) == 2, "an audit that still works is left alone"
    store.discard(url, other)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    _until_its_connections_are_gone(url, killed_run)
    assert visible(url, cluster) == []
    run_id = opened(url, key(cluster))
    assert leftovers(url, killed_run) == 0
    assert rows(url, "SELECT status FROM tidegauge.audit_run WHERE run_id = %s", killed_run) == [("failed",)]
    assert store.publish(url, run_id, report()) == run_id


def _until_its_connections_are_gone(url: str, run_id: str) -> None:
    """The server learns of a client's death a moment after it."""
    query = "SELECT pg_advisory_lock(k), pg_advisory_unlock(k) FROM hashtextextended('tidegauge:run:' || %s, 0) AS k"
    rows(url, query, run_id)


def _publishing(url: str, run_id: str) -> None:
    store.publish(url, run_id, report(breach("b1"), losses=[LOSS]))


def test_an_audit_that_is_killed_while_it_publishes_leaves_the_earlier_run(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", losses=[LOSS])
    before = visible(url, cluster)
    run_id = opened(url, key(cluster))
    with store.connect(url, "hold") as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE tidegauge.breach IN EXCLUSIVE MODE")  # almost the last thing that publishing needs
        process = SPAWN.Process(target=_publishing, args=(url, run_id))
        process.start()
        _until_somebody_waits_for(url, "relation")
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert visible(url, cluster) == before
    assert store.publish(url, run_id, report(breach("b1"), losses=[LOSS])) == run_id
    assert rows(url, "SELECT run_id FROM tidegauge.v_run WHERE cluster = %s", cluster) == [(run_id,)]


def _until_somebody_waits_for(url: str, event: str) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = %s AND datname = current_database()"
    for _ in range(10_000):
        if rows(url, query, event) != [(0,)]:
            return
    raise AssertionError(f"nobody waits for {event}")


def test_a_run_that_was_taken_for_abandoned_answers_with_the_one_that_replaced_it(url: str, cluster: str) -> None:
    first = opened(url, key(cluster))
    store.release(first)  # as between two steps that are processes of their own
    second = opened(url, key(cluster))
    with pytest.raises(StoreError, match="Start the audit again"):
        store.stage(url, first, "replicas", table("replicas", {"broker_id": 1}))
    with pytest.raises(StoreError, match="Start the audit again"):
        store.publish(url, first, report())
    store.publish(url, second, report())
    assert store.publish(url, first, report()) == second


def test_a_kept_run_is_not_taken_for_abandoned(url: str, cluster: str) -> None:
    first = opened(url, key(cluster))
    store.release(first)
    store.keep(url, first)
    second = opened(url, key(cluster))
    store.stage(url, first, "replicas", table("replicas", {"broker_id": 1}))
    assert store.publish(url, first, report()) == first
    store.discard(url, second)


# ---------------------------------------------------------------------------------------------------- parts, once each


def test_a_part_that_is_staged_again_changes_nothing_and_is_not_read(url: str, cluster: str) -> None:
    def unread() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a staged part is not read again")
        yield

    run_id = opened(url, key(cluster))
    values = table("replicas", {"broker_id": 1}, {"broker_id": 2})
    assert store.stage(url, run_id, "replicas", values, part="0") == 2
    assert store.stage(url, run_id, "replicas", unread(), part="0") == 2
    assert store.stage(url, run_id, "replicas", iter(values.to_batches()), part="1") == 2
    assert rows(url, "SELECT count(*) FROM tidegauge.replicas WHERE run_id = %s", run_id) == [(4,)]


def test_a_part_that_failed_half_way_is_staged_whole_by_the_next_try(url: str, cluster: str) -> None:
    values = table("replicas", *({"broker_id": n} for n in range(50_000)))

    def failing() -> Iterator[pa.RecordBatch]:
        yield from values.to_batches(max_chunksize=20_000)[:2]
        raise SnapshotError("broker-2/orders-0 vanished")

    run_id = opened(url, key(cluster))
    with pytest.raises(SnapshotError, match="vanished"):
        store.stage(url, run_id, "replicas", failing(), part="0")
    assert leftovers(url, run_id) == 0
    assert store.stage(url, run_id, "replicas", values, part="0") == 50_000


def test_many_tasks_stage_at_once_and_some_of_them_twice(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))

    def task(part: int) -> int:
        return store.stage(
            url, run_id, "replicas", table("replicas", *({"broker_id": part} for _ in range(100))), part=str(part)
        )

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(task, [*range(8), *range(8)])) == [100] * 16
    found = rows(
        url, "SELECT broker_id, count(*) FROM tidegauge.replicas WHERE run_id = %s GROUP BY 1 ORDER BY 1", run_id
    )
    assert found == [(part, 100) for part in range(8)]


def test_a_task_that_comes_after_the_end_is_refused(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    store.publish(url, run_id, report())
    with pytest.raises(StoreError, match="is published"):
        store.stage(url, run_id, "replicas", table("replicas", {"broker_id": 1}), part="late")
    assert leftovers(url, run_id) == 2  # two invariants, no fact


# --------------------------------------------------------------------------------------------------- one run of a key


def test_auditing_a_snapshot_again_changes_nothing(url: str, cluster: str) -> None:
    first = audit(url, cluster, "s1", breach("b1"), losses=[LOSS])
    before = visible(url, cluster)
    again = audit(
        url,
        cluster,
        "s1",
        breach("b1"),
        losses=[LOSS],
        coverage={"segments_reused": 12},
        finished_at=START + timedelta(1),
    )
    assert again == first
    assert visible(url, cluster) == before


def test_facts_staged_in_another_order_and_other_parts_are_the_same_facts(url: str, cluster: str) -> None:
    brokers = [broker(1, log_dirs=["a", "b"]), broker(2), broker(3)]
    first = audit(url, cluster, "s1", brokers=brokers)
    run_id = opened(url, key(cluster))
    for part, one in enumerate(reversed(brokers)):
        store.stage(url, run_id, "brokers", table("brokers", one), part=str(part))
    assert store.publish(url, run_id, report()) == first


@pytest.mark.parametrize("what", ["facts", "breaches", "losses"])
def test_an_audit_that_finds_something_else_replaces_the_earlier_one(url: str, cluster: str, what: str) -> None:
    first = audit(url, cluster, "s1")
    changed: dict[str, Any] = {"facts": {"brokers": [broker(1, rack="r1")]}, "losses": {"losses": [LOSS]}}.get(what, {})
    second = audit(url, cluster, "s1", *([breach("b1")] if what == "breaches" else []), **changed)
    assert second != first
    assert rows(url, "SELECT run_id FROM tidegauge.v_run WHERE cluster = %s", cluster) == [(second,)]
    assert rows(url, "SELECT count(*) FROM tidegauge.audit_run WHERE run_id = %s", first) == [(0,)]
    assert leftovers(url, first) == 0


def test_publishing_twice_is_publishing_once(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    assert store.publish(url, run_id, report(breach("b1"))) == run_id
    before = visible(url, cluster)
    assert store.publish(url, run_id, report(breach("b1"))) == run_id
    assert visible(url, cluster) == before


def test_publishing_again_what_an_earlier_run_says_gives_the_same_answer_again(url: str, cluster: str) -> None:
    first = audit(url, cluster, "s1")
    for _ in range(2):
        run_id = opened(url, key(cluster))
        store.stage(url, run_id, "brokers", table("brokers", broker(1), broker(2)))
        assert store.publish(url, run_id, report()) == first
        assert store.publish(url, run_id, report()) == first
    assert rows(url, "SELECT count(*) FROM tidegauge.audit_run WHERE cluster = %s", cluster) == [(2,)]


def test_two_audits_of_one_snapshot_at_once_end_in_one_run(url: str, cluster: str) -> None:
    both_open = threading.Barrier(2)

    def one(name: str) -> str:
        run_id = opened(url, key(cluster))
        store.stage(url, run_id, "brokers", table("brokers", broker(1)))
        both_open.wait()
        return store.publish(url, run_id, report(breach("b1")))

    with ThreadPoolExecutor(2) as pool:
        answers = set(pool.map(one, "ab"))
    assert len(answers) == 1
    assert rows(url, "SELECT run_id FROM tidegauge.v_run WHERE cluster = %s", cluster) == [(answers.pop(),)]
    assert rows(url, "SELECT count(*) FROM tidegauge.v_breach_open WHERE cluster = %s", cluster) == [(1,)]


def test_publishing_waits_for_another_one_of_the_cluster(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    with store.connect(url, "hold") as holder, holder.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:publish:' || %s, 0))", (cluster,))
        publishing = pool.submit(store.publish, url, run_id, report())
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        while rows(url, waiting) == [(0,)]:
            assert not publishing.done()
        assert visible(url, cluster) == []
        holder.commit()
        assert publishing.result() == run_id


def test_rulesets_stand_side_by_side_and_the_last_published_one_is_current(url: str, cluster: str) -> None:
    old = audit(url, cluster, "s1", breach("b1"), ruleset_version="1")
    new = audit(url, cluster, "s1", ruleset_version="2")
    found = rows(
        url, "SELECT run_id, is_current FROM tidegauge.v_run WHERE cluster = %s ORDER BY ruleset_version", cluster
    )
    assert found == [(old, False), (new, True)]
    assert life(url, cluster) == ()


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
    assert {(b.breach_id, b.code) for b in store.known_breaches(url, cluster)} == {("b1", "D06"), ("b2", "D06")}
    audit(url, cluster, "s2", day=2, unknown={"D06": 1}, undecided=["b2"])
    assert life(url, cluster, "b1") == ("resolved", "s1", "s1", "s1", "s2")
    assert life(url, cluster, "b2") == ("still_open", "s1", "s1", "s1", None)
    assert [b.breach_id for b in store.known_breaches(url, cluster)] == ["b2"]


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


# ----------------------------------------------------------------------------------------------------- hostile contents

HOSTILE = [
    "",
    " ",
    "\\N",
    "NULL",
    "\\.",
    '"',
    '""',
    "a,b",
    "tab\there",
    "new\nline",
    "\\.\n",
    "carriage\r\nreturn",
    "back\\slash",
    "{1,2}",
    "'; DROP TABLE tidegauge.breach; --",
    "%s %(run_id)s {name}",
    "naïve ☃ 𐍈",
    "‮rtl",
    "x" * 40_000,
]


def test_whatever_a_name_holds_comes_back_as_it_was(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    values = [{"broker_id": n, "rack": text, "log_dirs": [text, "d2", text]} for n, text in enumerate(HOSTILE)]
    assert store.stage(url, run_id, "brokers", table("brokers", *values)) == len(HOSTILE)
    found = rows(url, "SELECT rack, log_dirs FROM tidegauge.brokers WHERE run_id = %s ORDER BY broker_id", run_id)
    assert found == [(text, [text, "d2", text]) for text in HOSTILE]
    store.publish(
        url,
        run_id,
        report(*(breach(f"b{n}", explanation=text, subject={"topic": text}) for n, text in enumerate(HOSTILE))),
    )
    found = rows(url, "SELECT explanation, topic FROM tidegauge.v_breach WHERE cluster = %s ORDER BY 1", cluster)
    assert sorted(found) == sorted((text, text) for text in HOSTILE)


def test_nulls_empties_and_extremes_are_kept_apart(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    values = [
        {
            "topic": "a",
            "partition": 2**31 - 1,
            "log_end_offset": 2**63 - 1,
            "isr": [],
            "elr": None,
            "cluster_stopped": None,
        },
        {
            "topic": "b",
            "partition": -(2**31),
            "log_end_offset": -(2**63),
            "isr": [1, 2],
            "elr": [3],
            "cluster_stopped": False,
        },
    ]
    store.stage(url, run_id, "partitions", table("partitions", *values))
    query = (
        "SELECT topic, partition, log_end_offset, isr, elr, cluster_stopped FROM tidegauge.partitions "
        "WHERE run_id = %s ORDER BY 1"
    )
    assert rows(url, query, run_id) == [tuple(v.values()) for v in values]


def test_a_nul_character_is_shown_for_postgres_cannot_hold_it(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    damages = json.dumps([{"kind": "a\0b", "detail": "\\u0000 is no escape here"}])
    store.stage(url, run_id, "segments", table("segments", {"topic": "or\0ders", "path": "p", "damages": damages}))
    found = rows(url, "SELECT topic, damages FROM tidegauge.segments WHERE run_id = %s", run_id)
    assert found == [(f"or{NUL_SHOWN}ders", [{"kind": f"a{NUL_SHOWN}b", "detail": "\\u0000 is no escape here"}])]
    hostile = breach("b1", subject={"topic": "or\0ders\udcff"}, explanation="\0\udcff", evidence={"k\0": ["\ud800"]})
    store.publish(url, run_id, report(hostile))
    found = rows(url, "SELECT topic, explanation, evidence FROM tidegauge.v_breach WHERE cluster = %s", cluster)
    assert found == [(f"or{NUL_SHOWN}ders\ufffd", f"{NUL_SHOWN}\ufffd", {f"k{NUL_SHOWN}": ["\ufffd"]})]


@pytest.fixture(scope="module")
def scratch(url: str) -> Iterator[Any]:
    connection = psycopg2.connect(
        store.normalised(url).set(drivername="postgresql").render_as_string(hide_password=False)
    )
    connection.autocommit = True
    with connection.cursor() as cursor:
        yield cursor
    connection.close()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values)
def test_postgres_takes_any_json_and_changes_only_what_it_cannot_hold(scratch: Any, value: object) -> None:
    def shown(item: object) -> object:
        if isinstance(item, str):
            whole = item.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return whole.replace("\0", NUL_SHOWN)
        if isinstance(item, list):
            return [shown(i) for i in item]
        if isinstance(item, dict):
            return {shown(k): shown(v) for k, v in item.items()}
        return item

    scratch.execute("SELECT %s::jsonb", (json_text(value),))
    assert scratch.fetchone()[0] == json.loads(storable_json(json.dumps(value)))
    assert json.loads(json_text(value)) == shown(value)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(codec=None)))
def test_postgres_takes_any_text(scratch: Any, value: str) -> None:
    scratch.execute("SELECT %s::text", (text_value(value),))
    assert scratch.fetchone()[0] == re.sub("[\ud800-\udfff]", "\ufffd", value.replace("\0", NUL_SHOWN))


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "broken",
    [
        "postgresql+psycopg2://someone:s3cret@127.0.0.1:1/nowhere",
        "postgresql://someone:s3cret@127.0.0.1:1/nowhere",
        "postgresql+psycopg2://someone@127.0.0.1:1/nowhere?password=s3cret",
        "mysql://someone:s3cret@127.0.0.1/nowhere",
        "s3cret",
    ],
)
def test_an_unusable_store_is_named_without_its_password(broken: str) -> None:
    run_id = "20261121T030000Z-00000000"
    actions = (
        lambda: store.migrate(broken),
        lambda: opened(broken, key("c")),
        lambda: store.stage(broken, run_id, "brokers", table("brokers")),
        lambda: store.publish(broken, run_id, report()),
        lambda: store.discard(broken, run_id),
    )
    for action in actions:
        with pytest.raises(StoreError) as raised:
            action()
        told = str(raised.value)
        assert "store" in told
        assert "s3cret" not in told
        assert "s3cret" not in str(raised.value.__cause__)
        assert ("127.0.0.1" in told and "Check that" in told) or "Give postgresql" in told


def test_a_password_that_the_server_refuses_is_not_repeated(url: str) -> None:
    refused = store.normalised(url).set(username="nobody", password="s3cret")
    with pytest.raises(StoreError, match='role "nobody" does not exist') as raised:
        store.migrate(refused.render_as_string(hide_password=False))
    assert "s3cret" not in str(raised.value)


def test_a_store_that_was_never_migrated_says_so(postgres_server: Any, worker_id: str) -> None:
    empty = postgres_server.fresh_database(f"bare_{worker_id}")
    with pytest.raises(StoreError, match=r'relation "tidegauge\.audit_run" does not exist'):
        opened(empty, key("c"))


@pytest.mark.parametrize("error", [AuditError, SnapshotError, StoreError, EvaluationError])
def test_errors_come_through_pickle(error: type[AuditError]) -> None:
    copy = pickle.loads(pickle.dumps(error("what, where, what to do")))
    assert type(copy) is error
    assert str(copy) == "what, where, what to do"
