"""A run's beginning and its end without a result.

A run that was killed leaves facts that nobody sees, and the next run of the same key removes them; a run that still
works is left alone. What tells the two apart is a lease: an advisory lock on a connection that lives as long as the
process that opened the run. Postgres lets go of it when that process dies, however it dies. Runs that were opened
together share a connection.

Between the step that judges a run and the one that publishes it there may be no process at all: such a run waits for
`PUBLISHED_WITHIN`, whoever audits its snapshot meanwhile.
"""

import atexit
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg2
import psycopg2.errors

from tidegauge.relations import RELATIONS
from tidegauge.runs.errors import StoreError
from tidegauge.runs.store_address import normalised
from tidegauge.store.connection import connect, open_connection, store_errors
from tidegauge.store.rows import text_value

_LEASES: Final[dict[tuple[int, str], Any]] = {}
"""By process and run: a connection must not be used on the other side of a fork."""

PUBLISHED_WITHIN: Final = timedelta(days=1)
"""For so long after it was judged nobody takes a run for abandoned: its publishing may be queued, or be tried again."""

_OPEN: Final = """
INSERT INTO tidegauge.audit_run
    (run_id, cluster, snapshot_id, ruleset_version, previous_snapshot_id, started_at, captured_at, consistency, source,
     place, cluster_id, status)
VALUES (%(run_id)s, %(cluster)s, %(snapshot_id)s, %(ruleset_version)s, %(previous_snapshot_id)s, %(started_at)s,
    coalesce(%(captured_at)s,
             (SELECT min(captured_at) FROM tidegauge.audit_run
              WHERE (cluster, snapshot_id) = (%(cluster)s, %(snapshot_id)s)),
             %(started_at)s),
    %(consistency)s, %(source)s, %(place)s, %(cluster_id)s, 'staging')
"""
LEASE_IS_FREE: Final = "pg_try_advisory_xact_lock(hashtextextended('tidegauge:run:' || run_id, 0))"
"""Of a run: no process works on it."""
_ABANDONED: Final = f"""
SELECT run_id FROM tidegauge.audit_run
WHERE (cluster, snapshot_id, ruleset_version) = (%(cluster)s, %(snapshot_id)s, %(ruleset_version)s)
  AND status = 'staging' AND run_id <> %(run_id)s
  AND (finished_at IS NULL OR finished_at < now() - %(published_within)s)
  AND {LEASE_IS_FREE}
"""
_JUDGED: Final = """
UPDATE tidegauge.audit_run SET finished_at = now() WHERE run_id = ANY(%s) AND status = 'staging'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """What a run is about: of one key, one run is published."""

    cluster: str
    snapshot_id: str
    ruleset_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be opened.

    `captured_at` orders the cluster's snapshots; without it a snapshot counts as captured when it was first audited.
    """

    key: RunKey
    consistency: str
    source: str
    started_at: datetime
    captured_at: datetime | None = None
    previous_snapshot_id: str | None = None
    place: str | None = None
    """Directory or URL of the snapshot, for a later audit that compares with it."""
    cluster_id: str | None = None
    """By what its log dirs say; the cluster's name has to stand for it."""


def open_run(
    url: str,
    key: RunKey,
    *,
    consistency: str,
    source: str,
    started_at: datetime,
    captured_at: datetime | None = None,
    previous_snapshot_id: str | None = None,
) -> str:
    """Opens a run and returns its id: it takes facts, nobody sees it. See `open_runs`."""
    new = NewRun(
        key=key,
        consistency=consistency,
        source=source,
        started_at=started_at,
        captured_at=captured_at,
        previous_snapshot_id=previous_snapshot_id,
    )
    return open_runs(url, [new])[0]


def open_runs(url: str, new: Sequence[NewRun]) -> tuple[str, ...]:
    """Opens runs and returns their ids, in the same order: they take facts, nobody sees them.

    What killed runs of the same keys left behind is removed. The runs are this process's until they are published,
    discarded or released; once they are judged (`mark_judged`) they wait without one. Raises `StoreError`.
    """
    run_ids = tuple(f"{n.started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}" for n in new)
    keep(url, *run_ids)
    try:
        with connect(url, "open a run") as connection, connection.cursor() as cursor:
            for run_id, run in zip(run_ids, new, strict=True):
                values = {
                    "run_id": run_id,
                    "cluster": run.key.cluster,
                    "snapshot_id": run.key.snapshot_id,
                    "ruleset_version": run.key.ruleset_version,
                    "previous_snapshot_id": run.previous_snapshot_id,
                    "started_at": run.started_at,
                    "captured_at": run.captured_at,
                    "consistency": run.consistency,
                    "source": run.source,
                    "place": run.place,
                    "cluster_id": None if run.cluster_id is None else text_value(run.cluster_id),
                    "published_within": PUBLISHED_WITHIN,
                }
                cursor.execute(_OPEN, values)
                cursor.execute(_ABANDONED, values)
                give_up(cursor, *(abandoned for (abandoned,) in cursor.fetchall()))
            cursor.execute("SELECT tidegauge.make_partitions()")
    except StoreError:
        release(*run_ids)
        raise
    return run_ids


def keep(url: str, *run_ids: str) -> None:
    """Makes open runs this process's, so that no other audit takes them for abandoned: for a step that is a process."""
    new = [run_id for run_id in run_ids if (os.getpid(), run_id) not in _LEASES]
    if not new:
        return
    where = normalised(url)
    with store_errors(where, f"keep run {new[0]} open"):
        connection = open_connection(where)
        connection.autocommit = True
        with connection.cursor() as cursor:
            # The step before may have just let go of it: its server process takes a moment to notice.
            cursor.execute("SET lock_timeout = '5s'")
            for run_id in new:
                with suppress(psycopg2.errors.LockNotAvailable):
                    cursor.execute("SELECT pg_advisory_lock(hashtextextended('tidegauge:run:' || %s, 0))", (run_id,))
    for run_id in new:
        _LEASES[os.getpid(), run_id] = connection


def mark_judged(url: str, *run_ids: str) -> None:
    """Says of open runs that all of them is there, so that they wait for the step that publishes them: see
    `PUBLISHED_WITHIN`. Raises `StoreError`.
    """
    with connect(url, "keep what was judged") as connection, connection.cursor() as cursor:
        cursor.execute(_JUDGED, (list(run_ids),))


def release(*run_ids: str) -> None:
    """Lets go of runs without ending them: a later step may keep them, the next audit of a snapshot may remove its."""
    for run_id in run_ids:
        connection = _LEASES.pop((os.getpid(), run_id), None)
        if connection is None:
            continue
        with suppress(psycopg2.Error):  # the server let go of it before
            if any(other is connection for other in _LEASES.values()):
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_advisory_unlock(hashtextextended('tidegauge:run:' || %s, 0))", (run_id,))
            else:
                connection.close()


@atexit.register
def _release_all() -> None:
    release(*(run_id for process, run_id in list(_LEASES) if process == os.getpid()))


def discard(url: str, *run_ids: str) -> None:
    """Gives up runs that were not published: facts go, a line with status `failed` stays. Raises `StoreError`."""
    if not run_ids:
        return
    with connect(url, f"discard run {run_ids[0]}") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT run_id FROM tidegauge.audit_run WHERE run_id = ANY(%s) AND status = 'staging' FOR UPDATE",
            (list(run_ids),),
        )
        give_up(cursor, *(run_id for (run_id,) in cursor.fetchall()))
    release(*run_ids)


def give_up(cursor: Any, *run_ids: str) -> None:
    """Removes what was staged under runs and marks them failed, in the caller's transaction."""
    if not run_ids:
        return
    cursor.execute(
        "UPDATE tidegauge.audit_run SET status = 'failed', finished_at = now() WHERE run_id = ANY(%s)",
        (list(run_ids),),
    )  # first: it waits for a task that still stages, and what that one wrote must go too
    remove_facts(cursor, *run_ids)
    cursor.execute("DELETE FROM tidegauge.staged_part WHERE run_id = ANY(%s)", (list(run_ids),))


def remove_facts(cursor: Any, *run_ids: str) -> None:
    """Removes runs' rows from every fact table, in the caller's transaction."""
    for relation in RELATIONS:
        cursor.execute(f"DELETE FROM tidegauge.{relation} WHERE run_id = ANY(%s)", (list(run_ids),))
