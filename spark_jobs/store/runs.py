"""A run's beginning and its end without a result.

The rule that must hold: a run that was killed leaves facts that nobody sees, and the next run of the same key removes
them; a run that still works is left alone. What tells the two apart is a lease: an advisory lock on a connection that
lives as long as the process that opened the run. Postgres lets go of it when that process dies, however it dies.
"""

import atexit
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import psycopg2
import psycopg2.errors

from spark_jobs.errors import StoreError
from spark_jobs.relations import RELATIONS
from spark_jobs.store.connection import connect, normalised, open_connection, store_errors

_LEASES: Final[dict[tuple[int, str], Any]] = {}
"""By process and run: a connection must not be used on the other side of a fork."""

_OPEN: Final = """
INSERT INTO tidegauge.audit_run
    (run_id, cluster, snapshot_id, ruleset_version, previous_snapshot_id, started_at, captured_at, consistency, source,
     status)
VALUES (%(run_id)s, %(cluster)s, %(snapshot_id)s, %(ruleset_version)s, %(previous_snapshot_id)s, %(started_at)s,
    coalesce(%(captured_at)s,
             (SELECT min(captured_at) FROM tidegauge.audit_run
              WHERE (cluster, snapshot_id) = (%(cluster)s, %(snapshot_id)s)),
             %(started_at)s),
    %(consistency)s, %(source)s, 'staging')
"""
_ABANDONED: Final = """
SELECT run_id FROM tidegauge.audit_run
WHERE (cluster, snapshot_id, ruleset_version) = (%(cluster)s, %(snapshot_id)s, %(ruleset_version)s)
  AND status = 'staging' AND run_id <> %(run_id)s
  AND pg_try_advisory_xact_lock(hashtextextended('tidegauge:run:' || run_id, 0))
"""
_KNOWN: Final = """
SELECT breach_id, code, subject FROM tidegauge.breach
WHERE cluster = %s AND state <> 'resolved' ORDER BY code, breach_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """What a run is about: of one key, one run is published."""

    cluster: str
    snapshot_id: str
    ruleset_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBreach:
    """A breach that no run has seen resolved."""

    breach_id: str
    code: str
    subject: Mapping[str, object]


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
    """Opens a run and returns its id: it takes facts, nobody sees it.

    `captured_at` orders the cluster's snapshots; without it a snapshot counts as captured when it was first audited.
    What killed runs of the same key left behind is removed. The run is this process's until it is published, discarded
    or released. Raises `StoreError`.
    """
    run_id = f"{started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    values = {
        "run_id": run_id,
        "cluster": key.cluster,
        "snapshot_id": key.snapshot_id,
        "ruleset_version": key.ruleset_version,
        "previous_snapshot_id": previous_snapshot_id,
        "started_at": started_at,
        "captured_at": captured_at,
        "consistency": consistency,
        "source": source,
    }
    keep(url, run_id)
    try:
        with connect(url, "open a run") as connection, connection.cursor() as cursor:
            cursor.execute(_OPEN, values)
            cursor.execute(_ABANDONED, values)
            for (abandoned,) in cursor.fetchall():
                give_up(cursor, abandoned)
    except StoreError:
        release(run_id)
        raise
    return run_id


def keep(url: str, run_id: str) -> None:
    """Makes an open run this process's, so that no other audit takes it for abandoned: for a step that is a process."""
    if (os.getpid(), run_id) in _LEASES:
        return
    where = normalised(url)
    with store_errors(where, f"keep run {run_id} open"):
        connection = open_connection(where)
        connection.autocommit = True
        with connection.cursor() as cursor, suppress(psycopg2.errors.LockNotAvailable):
            # The step before may have just let go of it: its server process takes a moment to notice.
            cursor.execute("SET lock_timeout = '5s'")
            cursor.execute("SELECT pg_advisory_lock(hashtextextended('tidegauge:run:' || %s, 0))", (run_id,))
    _LEASES[os.getpid(), run_id] = connection


def release(run_id: str) -> None:
    """Lets go of a run without ending it: a later step may keep it, the next audit of its snapshot may remove it."""
    connection = _LEASES.pop((os.getpid(), run_id), None)
    if connection is not None:
        try:
            connection.close()
        except psycopg2.Error:
            return  # the server let go of it before


@atexit.register
def _release_all() -> None:
    for process, run_id in list(_LEASES):
        if process == os.getpid():
            release(run_id)


def discard(url: str, run_id: str) -> None:
    """Gives up a run that was not published: its facts go, a line with status `failed` stays. Raises `StoreError`."""
    with connect(url, f"discard run {run_id}") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM tidegauge.audit_run WHERE run_id = %s AND status = 'staging' FOR UPDATE", (run_id,)
        )
        if cursor.fetchone() is not None:
            give_up(cursor, run_id)
    release(run_id)


def give_up(cursor: Any, run_id: str) -> None:
    """Removes what was staged under a run and marks it failed, in the caller's transaction."""
    cursor.execute(
        "UPDATE tidegauge.audit_run SET status = 'failed', finished_at = now() WHERE run_id = %s",
        (run_id,),
    )  # first: it waits for a task that still stages, and what that one wrote must go too
    remove_facts(cursor, run_id)
    cursor.execute("DELETE FROM tidegauge.staged_part WHERE run_id = %s", (run_id,))


def remove_facts(cursor: Any, run_id: str) -> None:
    """Removes a run's rows from every fact table, in the caller's transaction."""
    for relation in RELATIONS:
        cursor.execute(f"DELETE FROM tidegauge.{relation} WHERE run_id = %s", (run_id,))


def known_breaches(url: str, cluster: str) -> tuple[KnownBreach, ...]:
    """The cluster's breaches that are not resolved; an audit may say which it could not judge (`Report.undecided`)."""
    with connect(url, "list open breaches") as connection, connection.cursor() as cursor:
        cursor.execute(_KNOWN, (cluster,))
        return tuple(KnownBreach(breach_id=b, code=c, subject=s) for b, c, s in cursor.fetchall())
