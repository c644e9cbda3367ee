"""What has become old goes: instants in, runs and facts removed, counted.

The rules that must hold: of each cluster the newest run stays whole; the life of a breach that is open, or was seen or
resolved by a run that stays, comes out the same afterwards, to the last word; one transaction a cluster, under the lock
that publishing takes.

A life is worked out from findings (`lifecycle`), so it rests on the first run of each of its openings, on the runs that
resolved it, and on the last that saw it: those stay, with what they found of such breaches and nothing else. A run that
stays for one breach keeps what it found of the others that stay, since not having found them would resolve them.

Large tables have a partition for each month of runs. Months of which nothing stays, in any cluster, are emptied at
once; of the others rows are deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tidegauge.relations import RELATIONS
from tidegauge.store.connection import connect
from tidegauge.store.identity import LOCK
from tidegauge.store.incident_life import tidy_incidents
from tidegauge.store.lifecycle import LIFE, renew_breaches, renew_summaries
from tidegauge.store.runs import LEASE_IS_FREE, PUBLISHED_WITHIN, give_up, remove_facts

_CLUSTERS: Final = "SELECT DISTINCT cluster FROM tidegauge.audit_run ORDER BY cluster"
_ABANDONED: Final = f"""
SELECT run_id FROM tidegauge.audit_run
WHERE cluster = %(cluster)s AND status = 'staging' AND started_at < %(before)s
  AND (finished_at IS NULL OR finished_at < now() - %(published_within)s)
  AND {LEASE_IS_FREE}
"""
_FAILED: Final = """
DELETE FROM tidegauge.audit_run WHERE cluster = %(cluster)s AND status = 'failed'
  AND coalesce(finished_at, started_at) < %(before)s
"""
_NEWEST: Final = """
SELECT run_id FROM (
    SELECT DISTINCT ON (snapshot_id) run_id, captured_at, snapshot_id FROM tidegauge.audit_run
    WHERE cluster = %(cluster)s AND status = 'published'
    ORDER BY snapshot_id, published_at DESC, run_id DESC) AS latest_of_snapshot
ORDER BY captured_at DESC, snapshot_id DESC LIMIT 1
"""
_OLD: Final = """
SELECT run_id FROM tidegauge.audit_run
WHERE cluster = %(cluster)s AND status = 'published' AND published_at < %(before)s AND run_id <> %(newest)s
"""
_PLAN: Final = f"""
WITH {LIFE}, staying AS (  -- breaches whose life has to come out the same
    SELECT breach_id FROM tidegauge.breach WHERE cluster = %(cluster)s AND state <> 'resolved'
    UNION
    SELECT e.breach_id FROM episode e LEFT JOIN run z ON z.n = e.resolved_n
    WHERE e.run_id <> ALL (%(old)s) OR z.run_id <> ALL (%(old)s)
), resting AS (
    SELECT e.run_id FROM episode e JOIN staying USING (breach_id) WHERE e.opens
    UNION
    SELECT r.run_id FROM life l JOIN staying USING (breach_id) JOIN run r ON r.n = l.last_n
    UNION
    SELECT r.run_id FROM episode e JOIN staying USING (breach_id) JOIN run r ON r.n = e.resolved_n
)
SELECT ARRAY(SELECT breach_id FROM staying), ARRAY(SELECT run_id FROM resting)
"""
_WITH_FACTS: Final = f"""
SELECT run_id FROM tidegauge.audit_run a
WHERE run_id = ANY(%s) AND ({
    " OR ".join(f"EXISTS (SELECT 1 FROM tidegauge.{name} f WHERE f.run_id = a.run_id)" for name in RELATIONS)
})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What went, or would go, of one cluster."""

    runs: tuple[str, ...]
    facts_of: tuple[str, ...]
    failed: int
    kept: tuple[str, ...]
    """Old runs that stay: the life of a breach rests on them."""


def retain(url: str, *, runs_before: datetime, facts_before: datetime, dry_run: bool) -> Mapping[str, Removed]:
    """Removes published runs that were published before an instant, and the facts of those before another; by cluster.

    Raises `StoreError`. With `dry_run` nothing changes.
    """
    with connect(url, "look for old runs") as connection, connection.cursor() as cursor:
        cursor.execute(_CLUSTERS)
        clusters = [cluster for (cluster,) in cursor.fetchall()]
    unmarked: dict[str, list[str]] = {}
    if not dry_run:
        for cluster in clusters:
            with connect(url, f"remove old facts of {cluster}") as connection, connection.cursor() as cursor:
                unmarked[cluster] = _unmark(cursor, cluster, facts_before)
        _empty_partitions(url)
    removed = {}
    for cluster in clusters:
        with connect(url, f"remove old runs of {cluster}") as connection, connection.cursor() as cursor:
            removed[cluster] = _retain(cursor, cluster, runs_before, facts_before, unmarked.get(cluster, []))
            if dry_run:
                connection.rollback()
    if not dry_run:
        _empty_partitions(url)  # now those of findings: their runs are gone
    return removed


def _unmark(cursor: Any, cluster: str, facts_before: datetime) -> list[str]:
    """Runs whose facts go now: nothing says any more that they have some, so that a whole month may go."""
    cursor.execute(LOCK, (cluster,))
    cursor.execute(_NEWEST, {"cluster": cluster})
    newest = (cursor.fetchone() or ("",))[0]
    cursor.execute(_WITH_FACTS, (_old(cursor, cluster, facts_before, newest),))
    found = [run_id for (run_id,) in cursor.fetchall()]
    cursor.execute("DELETE FROM tidegauge.staged_part WHERE run_id = ANY(%s)", (found,))
    return found


def _empty_partitions(url: str) -> None:
    with connect(url, "empty old partitions") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM tidegauge.empty_partitions()")


def _retain(cursor: Any, cluster: str, runs_before: datetime, facts_before: datetime, unmarked: list[str]) -> Removed:
    cursor.execute(LOCK, (cluster,))
    of = {"cluster": cluster, "before": runs_before, "run_id": None, "published_within": PUBLISHED_WITHIN}
    cursor.execute(_ABANDONED, of)
    give_up(cursor, *(run_id for (run_id,) in cursor.fetchall()))
    cursor.execute(_FAILED, of)
    failed = cursor.rowcount
    cursor.execute(_NEWEST, of)
    newest = (cursor.fetchone() or ("",))[0]
    old, without = (_old(cursor, cluster, before, newest) for before in (runs_before, facts_before))
    cursor.execute(_PLAN, {**of, "old": old})
    staying, resting = cursor.fetchone()
    kept = sorted(set(old) & set(resting))
    gone = sorted(set(old) - set(resting))
    cursor.execute(_WITH_FACTS, ([r for r in {*without, *old} if r not in gone],))
    facts_of = sorted({run_id for (run_id,) in cursor.fetchall()} | (set(unmarked) - set(gone)))
    remove_facts(cursor, *facts_of, *gone)
    cursor.execute("DELETE FROM tidegauge.staged_part WHERE run_id = ANY(%s)", ([*facts_of, *gone],))
    cursor.execute("DELETE FROM tidegauge.finding WHERE run_id = ANY(%s) AND breach_id <> ALL (%s)", (kept, staying))
    cursor.execute("DELETE FROM tidegauge.audit_run WHERE run_id = ANY(%s)", (gone,))
    if gone or kept:
        renew_breaches(cursor, cluster, None)
        tidy_incidents(cursor, cluster)
    if gone or kept or facts_of:
        renew_summaries(cursor, cluster, None)
    return Removed(runs=tuple(gone), facts_of=tuple(facts_of), failed=failed, kept=tuple(kept))


def _old(cursor: Any, cluster: str, before: datetime, newest: str) -> list[str]:
    cursor.execute(_OLD, {"cluster": cluster, "before": before, "newest": newest})
    return [run_id for (run_id,) in cursor.fetchall()]
