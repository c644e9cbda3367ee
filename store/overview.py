"""A store at a glance: an address in, its schema, its size and its clusters out. It changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from tidegauge.store.connection import by_column, connect
from tidegauge.store.schema import VERSION, schema_problem

_SERVER: Final = """
SELECT current_setting('server_version'), pg_database_size(current_database()),
       to_regclass('tidegauge.v_schema_version') IS NOT NULL
"""
_CLUSTERS: Final = """
SELECT k.cluster, k.source, r.run_id::text AS run_id, r.snapshot_id, r.captured_at, r.published_at, r.ruleset_version,
       k.records_at_risk, k.records_lost, k.records_possibly_lost,
       coalesce(b.critical, 0) AS critical, coalesce(b.warning, 0) AS warning,
       coalesce(t.losses_undecided, 0) AS losses_undecided,
       (coalesce(t.records_lost_undecided, 0) + coalesce(t.records_at_risk_undecided, 0)
        + coalesce(t.records_possible_undecided, 0)) AS records_undecided
FROM tidegauge.v_cluster k
JOIN tidegauge.v_run_latest r ON r.cluster = k.cluster
LEFT JOIN (SELECT cluster, sum(roots) FILTER (WHERE severity = 'critical') AS critical,
                  sum(roots) FILTER (WHERE severity = 'warning') AS warning
           FROM tidegauge.v_breach_count WHERE state <> 'resolved' GROUP BY cluster) b ON b.cluster = k.cluster
LEFT JOIN tidegauge.v_loss_total t ON t.cluster = k.cluster
ORDER BY k.cluster
"""
_UNPUBLISHED: Final = """
SELECT cluster, count(*) FILTER (WHERE status = 'failed') AS failed,
       count(*) FILTER (WHERE status <> 'failed') AS staged
FROM tidegauge.audit_run WHERE status <> 'published' GROUP BY cluster ORDER BY cluster
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """The run about a cluster's newest snapshot, what is open of the cluster, and what waits for a decision."""

    cluster: str
    source: str
    run_id: str
    snapshot_id: str
    captured_at: datetime
    published_at: datetime
    ruleset_version: str
    records_at_risk: int
    records_lost: int
    records_possibly_lost: int
    critical: int
    warning: int
    losses_undecided: int
    records_undecided: int

    @property
    def verdict(self) -> str:
        """As an audit's exit code has it by default."""
        lost = self.records_at_risk or self.records_lost or self.records_possibly_lost
        return "breached" if self.critical or lost else "holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished:
    """How many runs of a cluster nobody sees."""

    cluster: str
    staged: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOverview:
    """What a store is, and what is in it.

    `schema`: the revision of its tables, None where it has none yet. `problem`: why this version cannot use it as it
    is; the rest is empty then. `unpublished` is None where this role may read views only.
    """

    server_version: str
    size_bytes: int
    schema: str | None
    problem: str | None
    clusters: Sequence[PublishedRun] = ()
    unpublished: Sequence[Unpublished] | None = None


def overview(url: str) -> StoreOverview:
    """Raises `StoreError`."""
    with connect(url, "be looked at") as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(_SERVER)
        server_version, size_bytes, has_schema = cursor.fetchone()
        said = None
        if has_schema:
            cursor.execute(VERSION)
            (said,) = cursor.fetchone() or (None,)
        problem, revision = schema_problem(said), said and said["revision"]
        if problem is not None:
            return StoreOverview(server_version=server_version, size_bytes=size_bytes, schema=revision, problem=problem)
        cursor.execute(_CLUSTERS)
        clusters = []
        for row in by_column(cursor):
            # Sums have no bound in the store, so they come as decimals.
            row |= {name: int(value) for name, value in row.items() if isinstance(value, Decimal)}
            clusters.append(PublishedRun(**row))
        cursor.execute("SELECT has_table_privilege('tidegauge.audit_run', 'SELECT')")
        unpublished = None
        if cursor.fetchone()[0]:
            cursor.execute(_UNPUBLISHED)
            unpublished = [Unpublished(**row) for row in by_column(cursor)]
        return StoreOverview(
            server_version=server_version,
            size_bytes=size_bytes,
            schema=revision,
            problem=None,
            clusters=clusters,
            unpublished=unpublished,
        )
