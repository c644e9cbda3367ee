"""The store on a real Postgres: whole runs or nothing, parts once each, one run of a key."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from tests.store.helpers import (
    LOSS,
    SPAWN,
    START,
    audit,
    breach,
    broker,
    key,
    leftovers,
    life,
    opened,
    report,
    rows,
    table,
    visible,
)
from tidegauge import store
from tidegauge.runs.errors import SnapshotError, StoreError

# ------------------------------------------------------------------------------------------------ one run, or nothing


def test_a_server_that_ends_during_a_copy_is_told_of_once(
    url: str, cluster: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run_id = opened(url, key(cluster))

    def ended_meanwhile() -> Iterator[pa.RecordBatch]:
        yield from table("brokers", broker(1)).to_batches()
        ended = rows(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(query, 'COPY')",
        )
        assert ended == [(True,)]
        time.sleep(0.2)
        yield from table("brokers", *(broker(at) for at in range(2, 5_000))).to_batches()

    with pytest.raises(StoreError, match="cannot take facts"):
        store.stage(url, run_id, "brokers", ended_meanwhile())
    assert capfd.readouterr().err == ""


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


def test_ctrl_c_in_the_middle_of_a_copy_is_no_error_of_the_store(url: str, cluster: str) -> None:
    """psycopg2 asks for rows from C, and tells whatever is raised there as an error of Postgres."""
    run_id = opened(url, key(cluster))
    whole = table("replicas", {"cluster": cluster, "broker_id": 1})

    def interrupted() -> Iterator[pa.RecordBatch]:
        signal.raise_signal(signal.SIGINT)
        yield from whole.to_batches()

    with pytest.raises(KeyboardInterrupt):
        store.stage(url, run_id, "replicas", interrupted())
    assert rows(url, "SELECT relation FROM tidegauge.staged_part WHERE run_id = %s", run_id) == []
    assert store.stage(url, run_id, "replicas", whole) == 1


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


@pytest.mark.slow
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


@pytest.mark.slow
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
    store.release(first)  # as when it is killed
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


def between_judging_and_publishing(url: str, cluster: str) -> str:
    """A run as one step leaves it to another, when both are processes of their own."""
    run_id = opened(url, key(cluster))
    store.stage(url, run_id, "replicas", table("replicas", {"broker_id": 1}))
    store.mark_judged(url, run_id)
    store.release(run_id)
    return run_id


def test_a_judged_run_waits_for_its_publishing_whoever_audits_the_snapshot_meanwhile(url: str, cluster: str) -> None:
    first = between_judging_and_publishing(url, cluster)
    look = opened(url, key(cluster))
    store.discard(url, look)  # as a look at some partitions ends: nothing would ever have stood for the first
    second = between_judging_and_publishing(url, cluster)
    assert store.publish(url, first, report()) == first
    assert store.publish(url, second, report()) == first
    assert rows(url, "SELECT run_id FROM tidegauge.v_run WHERE cluster = %s", cluster) == [(first,)]


def test_what_a_judged_run_found_is_not_visible_before_it_is_published(url: str, cluster: str) -> None:
    between_judging_and_publishing(url, cluster)
    assert visible(url, cluster) == []


def test_a_judged_run_that_nobody_publishes_goes_with_the_next_audit_a_day_later(url: str, cluster: str) -> None:
    left = between_judging_and_publishing(url, cluster)
    with store.connect(url, "wait") as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidegauge.audit_run SET finished_at = finished_at - interval '25 hours' WHERE run_id = %s", (left,)
        )
    opened(url, key(cluster, "s2"))
    assert leftovers(url, left) == 2
    opened(url, key(cluster))
    assert leftovers(url, left) == 0


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
        both_open.wait(timeout=120)  # Else the failure of one leaves the other here for ever.
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
