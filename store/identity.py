"""Which cluster a name stands for: a run that is about to be published in, a reason to refuse it out.

The rules that must hold: a name stands for the cluster.id that was first published under it, until somebody says that
the cluster was rebuilt; what says otherwise, or does not say, resolves no breach of that cluster and is the newest of
nothing. What contradicts is kept, so that it is told until somebody settles it.

A cluster.id is no secret, so this finds mistakes and careless forgeries; who wrote a snapshot is told by a signature.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from tidegauge.snapshots.errors import SnapshotError
from tidegauge.store.connection import NamedValues, by_column, connect

LONGEST_CLUSTER_ID: Final = 200
"""Kafka's own have 22 characters (Uuid); older ones were any text."""

Outcome = Literal["rebuilt", "not_ours"]

_RUN: Final = """
SELECT cluster, cluster_id, snapshot_id, captured_at, place, status FROM tidegauge.audit_run
WHERE run_id = %s FOR UPDATE
"""
_KNOWN: Final = """
SELECT cluster_id, snapshot_id, known_at, retired_at FROM tidegauge.cluster_identity WHERE cluster = %s
ORDER BY retired_at IS NOT NULL
"""
_LEARN: Final = """
INSERT INTO tidegauge.cluster_identity (cluster, cluster_id, snapshot_id, known_at)
VALUES (%s, %s, %s, clock_timestamp())
"""
_CONTRADICTED: Final = """
WITH last AS (
    SELECT coalesce(max(opening), 0) AS opening, coalesce(bool_or(settled_at IS NULL), false) AS is_open
    FROM tidegauge.cluster_contradiction WHERE (cluster, cluster_id) = (%(cluster)s, %(cluster_id)s)
)
INSERT INTO tidegauge.cluster_contradiction AS c
    (cluster, cluster_id, opening, known_cluster_id, snapshot_id, place, captured_at, began_at, refused_at, refusals)
SELECT %(cluster)s, %(cluster_id)s, opening + (NOT is_open)::integer, %(known)s, %(snapshot_id)s, %(place)s,
       %(captured_at)s, clock_timestamp(), clock_timestamp(), 1 FROM last
ON CONFLICT (cluster, cluster_id, opening) DO UPDATE SET known_cluster_id = excluded.known_cluster_id,
    snapshot_id = excluded.snapshot_id, place = excluded.place, captured_at = excluded.captured_at,
    refused_at = excluded.refused_at, refusals = c.refusals + 1
"""
_SETTLE: Final = """
UPDATE tidegauge.cluster_contradiction
SET settled_at = clock_timestamp(), settled_by = %(by)s, outcome = %(outcome)s, note = %(note)s
WHERE (cluster, cluster_id) = (%(cluster)s, %(cluster_id)s) AND settled_at IS NULL
"""
_RETIRE: Final = """
UPDATE tidegauge.cluster_identity SET retired_at = clock_timestamp() WHERE cluster = %s AND retired_at IS NULL
"""
_TAKE: Final = """
INSERT INTO tidegauge.cluster_identity (cluster, cluster_id, known_at, settled_by, note)
VALUES (%(cluster)s, %(cluster_id)s, clock_timestamp(), %(by)s, %(note)s)
ON CONFLICT (cluster, cluster_id) DO UPDATE
SET retired_at = NULL, settled_by = excluded.settled_by, note = excluded.note
"""
_SHARED: Final = """
SELECT own.cluster, array_agg(other.cluster ORDER BY other.cluster) FROM tidegauge.cluster_identity own
JOIN tidegauge.cluster_identity other ON other.cluster_id = own.cluster_id AND other.cluster <> own.cluster
WHERE own.cluster = ANY(%s) AND own.retired_at IS NULL AND other.retired_at IS NULL GROUP BY own.cluster
"""
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:publish:' || %s, 0))"
"""What publishes for a cluster, and what says which cluster that is, go one after the other."""


class UnidentifiedError(SnapshotError):
    """Nothing at hand tells which cluster a snapshot is of, and its name stands for one here. Its verdicts stand by
    themselves: a missing file contradicts nothing.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A cluster.id that a name stands for, or (`retired_at`) stood for."""

    cluster: str
    cluster_id: str
    snapshot_id: str | None
    known_at: datetime
    retired_at: datetime | None
    settled_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Snapshots of another cluster.id than the name's, which were refused and of which nobody has said why."""

    cluster: str
    cluster_id: str
    known_cluster_id: str
    snapshot_id: str
    place: str | None
    refused_at: datetime
    refusals: int


def reason_to_refuse(cursor: Any, run_id: str) -> SnapshotError | None:
    """Why a staged run must not be published, if anything says so; learns whose name it is from the first that may be.

    In the transaction of its publishing, under the cluster's lock; a contradiction is noted there. Not staged any more:
    None.
    """
    cursor.execute(_RUN, (run_id,))
    found = cursor.fetchone()
    if found is None or found[5] != "staging":
        return None
    cluster, cluster_id, snapshot_id, captured_at, place, _ = found
    if cluster_id is not None and len(cluster_id) > LONGEST_CLUSTER_ID:
        return SnapshotError(
            f"{cluster}/{snapshot_id} has a cluster.id of {len(cluster_id)} characters, and Kafka's have 22: its "
            "meta.properties is damaged or made up. Nothing of it was published; capture it again."
        )
    cursor.execute(_KNOWN, (cluster,))
    known = cursor.fetchall()
    if not known:
        if cluster_id is not None:
            cursor.execute(_LEARN, (cluster, cluster_id, snapshot_id))
        return None
    now, since, known_at, _ = known[0]
    if cluster_id is None:
        return UnidentifiedError(
            f"{cluster}/{snapshot_id} does not say which cluster it is of: no meta.properties names a cluster.id. "
            f"{cluster} is known here as {now}, and a name alone is no evidence of that. Bring the brokers' "
            "meta.properties along to have it published."
        )
    if any(cluster_id == i and (retired is None or captured_at < retired) for i, _, _, retired in known):
        return None
    noted = {
        "cluster": cluster,
        "cluster_id": cluster_id,
        "known": now,
        "snapshot_id": snapshot_id,
        "place": place,
        "captured_at": captured_at,
    }
    cursor.execute(_CONTRADICTED, noted)
    first = f", since {since} was published" if since is not None else ""
    return SnapshotError(
        f"{cluster}/{snapshot_id} is of cluster.id {cluster_id}, and {cluster} is known here as {now}{first} on "
        f"{known_at:%Y-%m-%d}. Nothing of it was published, and it resolves no breach. If it is of another cluster, "
        f"give it that one's name. If {cluster} was rebuilt: `{settling(cluster, cluster_id)} --rebuilt`; if "
        f"{cluster_id} is not {cluster}: the same with --not-ours."
    )


def settling(cluster: str, cluster_id: str) -> str:
    """The command by which somebody says what a contradiction means, but for the word that says it."""
    return f"tidegauge store settle {shlex.quote(cluster)} {shlex.quote(cluster_id)} --by NAME"


def settle(url: str, cluster: str, cluster_id: str, outcome: Outcome, *, by: str, note: str = "") -> int:
    """Says what a cluster.id is to a name: the cluster rebuilt, which the name stands for from now on, or another one,
    which stays refused. How many contradictions are over by that. Raises `SnapshotError`, where the name is not known
    or stands for that one already, and `StoreError`.
    """
    told = {"cluster": cluster, "cluster_id": cluster_id, "outcome": outcome, "by": by, "note": note}
    with connect(url, f"settle which cluster {cluster} is") as connection, connection.cursor() as cursor:
        cursor.execute(LOCK, (cluster,))
        cursor.execute(_KNOWN, (cluster,))
        known = cursor.fetchall()
        if not known:
            raise SnapshotError(
                f"No cluster.id is known of {cluster}, so there is nothing to settle: the first snapshot that is "
                "published under a name says which cluster it stands for. `tidegauge store names` lists what is known."
            )
        if known[0][0] == cluster_id:
            raise SnapshotError(
                f"{cluster} stands for {cluster_id} already: its snapshots are published under that name."
            )
        if outcome == "rebuilt":
            if not 0 < len(cluster_id) <= LONGEST_CLUSTER_ID:
                raise SnapshotError(f"{cluster_id!r} is no cluster.id: give it as the brokers' meta.properties has it.")
            cursor.execute(_RETIRE, (cluster,))
            cursor.execute(_TAKE, told)
        cursor.execute(_SETTLE, told)
        return int(cursor.rowcount)


def identities(url: str) -> tuple[Identity, ...]:
    """What every name stands for and stood for. Raises `StoreError`."""
    query = """
        SELECT cluster, cluster_id, snapshot_id, known_at, retired_at, settled_by FROM tidegauge.v_cluster_identity
        ORDER BY cluster, retired_at DESC NULLS FIRST
    """
    return tuple(Identity(**row) for row in _rows(url, query))


def contradictions(url: str) -> tuple[Contradiction, ...]:
    """Those that nobody has settled. Raises `StoreError`."""
    query = """
        SELECT cluster, cluster_id, known_cluster_id, snapshot_id, place, refused_at, refusals
        FROM tidegauge.v_cluster_contradiction WHERE is_open ORDER BY cluster, began_at
    """
    return tuple(Contradiction(**row) for row in _rows(url, query))


def shared_names(url: str, clusters: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Of these, each whose cluster.id stands under other names too, with those. Raises `StoreError`."""
    with connect(url, "look for other names") as connection, connection.cursor() as cursor:
        cursor.execute(_SHARED, (sorted(set(clusters)),))
        return {cluster: tuple(others) for cluster, others in cursor.fetchall()}


def _rows(url: str, query: str) -> list[NamedValues]:
    with connect(url, "tell which clusters are known") as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(by_column(cursor))
