"""A cluster goes out of the store, with all that was found of it.

In: its name. Out: how much went. The rules that must hold: all of it or nothing, under the lock that publishing takes;
a cluster of which an audit runs is not forgotten, since that audit would publish into what is gone; nothing of another
cluster is touched; and the trail of what people said, to which rows are only ever added, stays.
"""

from dataclasses import dataclass
from typing import Any, Final

from tidegauge.relations import RELATIONS
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.store.connection import connect
from tidegauge.store.identity import LOCK
from tidegauge.store.rows import text_value
from tidegauge.store.runs import LEASE_IS_FREE, PUBLISHED_WITHIN, remove_facts

_RUNNING: Final = f"""
SELECT run_id FROM tidegauge.audit_run
WHERE cluster = %s AND status = 'staging' AND (finished_at >= now() - %s OR NOT {LEASE_IS_FREE}) ORDER BY run_id LIMIT 1
"""
"""A run that somebody works on, or that waits for its publishing: not one that was killed before it, for ever."""
_COUNTED: Final = """
SELECT (SELECT count(*) FROM tidegauge.audit_run WHERE cluster = %(cluster)s),
       (SELECT count(*) FROM tidegauge.breach WHERE cluster = %(cluster)s AND state <> 'resolved'),
       (SELECT count(*) FROM tidegauge.loss_ledger l WHERE cluster = %(cluster)s
           AND EXISTS (SELECT FROM tidegauge.loss_stretch s WHERE s.loss_id = l.loss_id AND s.undecided))
"""
_TABLES_OF_CLUSTERS: Final = """
SELECT c.table_name FROM information_schema.columns c
JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'tidegauge' AND c.column_name = 'cluster' AND t.table_type = 'BASE TABLE'
ORDER BY c.table_name = 'audit_run', c.table_name
"""
"""Runs last: what they hold goes with them."""
_NOT_BY_NAME: Final = frozenset({"acknowledgement_event", "incident_event", "loss_decision", *RELATIONS})
"""The trail, which stays, and facts, which go with their runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What went, or would go: runs of any kind, breaches that were open, losses that nobody had decided."""

    runs: int
    open_breaches: int
    undecided_losses: int


def forget(url: str, cluster: str, *, dry_run: bool) -> Forgotten:
    """Removes a cluster. Raises `SnapshotError` where there is none of this name or an audit of it runs, `StoreError`
    where the store cannot.
    """
    with connect(url, "forget a cluster") as connection, connection.cursor() as cursor:
        cursor.execute(LOCK, (text_value(cluster),))
        found = _forget(cursor, text_value(cluster))
        if dry_run:
            connection.rollback()
    return found


def _forget(cursor: Any, cluster: str) -> Forgotten:
    cursor.execute(_TABLES_OF_CLUSTERS)
    tables = [name for (name,) in cursor.fetchall() if name not in _NOT_BY_NAME and not name.endswith("_default")]
    cursor.execute(
        " UNION ALL ".join(f"(SELECT 1 FROM tidegauge.{name} WHERE cluster = %(cluster)s LIMIT 1)" for name in tables),
        {"cluster": cluster},
    )
    if cursor.fetchone() is None:
        raise SnapshotError(
            f"The store knows no cluster named {cluster}. `tidegauge store names` lists those it knows."
        )
    cursor.execute(_RUNNING, (cluster, PUBLISHED_WITHIN))
    if (running := cursor.fetchone()) is not None:
        raise SnapshotError(
            f"An audit of {cluster} runs ({running[0]}), or waits for its publishing, and would publish into what is "
            "forgotten. Nothing was removed. Stop it or wait for its end, then run the same command again; one that "
            "was killed between judging and publishing counts as waiting for a day."
        )
    cursor.execute(_COUNTED, {"cluster": cluster})
    runs, open_breaches, undecided = cursor.fetchone()
    cursor.execute("SELECT run_id FROM tidegauge.audit_run WHERE cluster = %s", (cluster,))
    run_ids = [run_id for (run_id,) in cursor.fetchall()]
    remove_facts(cursor, *run_ids)
    cursor.execute("DELETE FROM tidegauge.finding WHERE run_id = ANY(%s)", (run_ids,))
    cursor.execute(
        "DELETE FROM tidegauge.loss_stretch WHERE loss_id IN "
        "(SELECT loss_id FROM tidegauge.loss_ledger WHERE cluster = %s)",
        (cluster,),
    )
    for name in tables:
        if name == "audit_run":  # by id: one that an audit has begun meanwhile is that audit's, and its facts need it
            cursor.execute("DELETE FROM tidegauge.audit_run WHERE run_id = ANY(%s)", (run_ids,))
        else:
            cursor.execute(f"DELETE FROM tidegauge.{name} WHERE cluster = %s", (cluster,))
    return Forgotten(runs=runs, open_breaches=open_breaches, undecided_losses=undecided)
