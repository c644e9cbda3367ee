"""A cluster is forgotten: all of it goes, nothing of another, and never below an audit that runs."""

from typing import Any

import pytest

from tests.store.helpers import LOSS, audit, breach, broker, key, opened, rows, table
from tidegauge import store
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.store import forgetting
from tidegauge.store.incident_word import Speaker, split
from tidegauge.store.runs import remove_facts

TABLES = """
SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'tidegauge' AND c.column_name = 'cluster' AND t.table_type = 'BASE TABLE'
"""
TRAIL = {"acknowledgement_event", "incident_event", "loss_decision"}


def left_of(url: str, cluster: str) -> set[str]:
    """Tables that still know a cluster."""
    tables = [name for (name,) in rows(url, TABLES)]
    return {name for name in tables if rows(url, f"SELECT 1 FROM tidegauge.{name} WHERE cluster = %s LIMIT 1", cluster)}


def filled(url: str, cluster: str) -> None:
    """Two runs, a loss that somebody decided, a breach that somebody acknowledged, an alert that was told."""
    audit(url, cluster, "s1", breach("b1"), breach("b2"), losses=[LOSS])
    audit(url, cluster, "s2", breach("b1"), day=1)
    ((loss_id,),) = rows(url, "SELECT loss_id FROM tidegauge.loss_ledger WHERE cluster = %s", cluster)
    store.decide(url, loss_id, "accepted", by="ada", note="seen")
    ((incident_id,),) = rows(url, "SELECT incident_id FROM tidegauge.v_incident WHERE cluster = %s", cluster)
    speaker = Speaker(by="ada")
    assert split(url, incident_id, ["b2"], speaker=speaker, note="another cause").outcome == "split"
    with store.connect(url, "tell") as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO tidegauge.alert_told VALUES ('mail', %s, 'b1', '1', 'firing', now())", (cluster,))


def test_all_of_it_goes_and_nothing_of_another(url: str, cluster: str) -> None:
    other = f"{cluster}-other"
    filled(url, cluster)
    filled(url, other)
    before = left_of(url, other)
    runs = [run_id for (run_id,) in rows(url, "SELECT run_id FROM tidegauge.audit_run WHERE cluster = %s", cluster)]
    told = store.forget(url, cluster, dry_run=True)
    assert (told.runs, told.open_breaches, told.undecided_losses) == (2, 1, 0)
    assert left_of(url, cluster) >= {"audit_run", "breach", "incident", "loss_ledger", "alert_told"}
    assert store.forget(url, cluster, dry_run=False) == told
    assert left_of(url, cluster) <= TRAIL
    assert rows(url, "SELECT said_by FROM tidegauge.incident_event WHERE cluster = %s", cluster) == [("ada",)]
    assert rows(url, "SELECT decided_by FROM tidegauge.loss_decision WHERE cluster = %s", cluster) == [("ada",)]
    assert rows(url, "SELECT 1 FROM tidegauge.finding WHERE run_id = ANY(%s)", runs) == []
    assert left_of(url, other) == before
    assert rows(url, "SELECT 1 FROM tidegauge.v_loss_ledger WHERE cluster = %s", cluster) == []


def test_it_may_come_again_as_a_new_one(url: str, cluster: str) -> None:
    filled(url, cluster)
    store.forget(url, cluster, dry_run=False)
    audit(url, cluster, "s1", breach("b1"))
    assert rows(url, "SELECT times_opened FROM tidegauge.breach WHERE cluster = %s", cluster) == [(1,)]


def test_not_below_an_audit_that_runs(url: str, cluster: str) -> None:
    filled(url, cluster)
    running = opened(url, key(cluster, "s3"))
    with pytest.raises(SnapshotError, match=rf"An audit of {cluster} runs \({running}\)"):
        store.forget(url, cluster, dry_run=False)
    assert "audit_run" in left_of(url, cluster)
    store.discard(url, running)
    assert store.forget(url, cluster, dry_run=False).runs == 3


def test_a_run_that_was_killed_before_its_publishing_keeps_a_cluster_for_a_day(url: str, cluster: str) -> None:
    filled(url, cluster)
    judged = opened(url, key(cluster, "s3"))
    store.mark_judged(url, judged)
    store.release(judged)
    with pytest.raises(SnapshotError, match=rf"runs \({judged}\), or waits for its publishing"):
        store.forget(url, cluster, dry_run=False)
    with store.connect(url, "age a run") as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidegauge.audit_run SET finished_at = now() - interval '25 hours' WHERE run_id = %s", (judged,)
        )
    assert store.forget(url, cluster, dry_run=False).runs == 3


def test_an_audit_that_begins_meanwhile_makes_the_cluster_known_again(
    url: str, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(url, cluster)
    begun: list[str] = []

    def removed_meanwhile(cursor: Any, *run_ids: str) -> None:
        remove_facts(cursor, *run_ids)
        begun.append(opened(url, key(cluster, "s3")))

    monkeypatch.setattr(forgetting, "remove_facts", removed_meanwhile)
    assert store.forget(url, cluster, dry_run=False).runs == 2
    assert rows(url, "SELECT run_id FROM tidegauge.audit_run WHERE cluster = %s", cluster) == [(begun[0],)]
    assert store.stage(url, begun[0], "brokers", table("brokers", broker(1))) == 1
    store.discard(url, *begun)


def test_a_name_that_nobody_knows(url: str) -> None:
    with pytest.raises(SnapshotError, match="knows no cluster named nobody's"):
        store.forget(url, "nobody's", dry_run=False)
