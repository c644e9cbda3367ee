"""The latest runs as metrics for Prometheus: a store in, text out. The words are those of Kafka's own metrics.

The rule that must hold: the number of series does not grow with the cluster. What is told of a single partition is told
of partitions that have an open breach, the worst first, at most `MOST_PARTITIONS` of them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from tidegauge.console.database import Reader, Row
from tidegauge.console.reading import clusters, losses
from tidegauge.console.reading.breaches import SEVERITIES

__all__ = ["CONTENT_TYPE", "MOST_PARTITIONS", "exposition"]

MOST_PARTITIONS: Final = 200

_OF_CLUSTER: Final = (
    ("brokers", "brokers", "Brokers in the latest snapshot"),
    ("brokers_missing", "brokers_missing", "Brokers that the cluster knows and the latest snapshot lacks"),
    ("topics", "topics", "Topics"),
    ("partitions", "partitions", "Partitions"),
    ("replicas", "replicas", "Replicas"),
    ("size_bytes", "log_size_bytes", "Bytes in the replicas' segments"),
    ("offline_partitions", "offline_partitions", "Partitions without a leader"),
    ("under_replicated_partitions", "under_replicated_partitions", "Partitions with an ISR that lacks a replica"),
    ("under_min_isr_partitions", "under_min_isr_partitions", "Partitions with an ISR below min.insync.replicas"),
    ("unclean_elections", "unclean_leader_elections", "Elections outside ISR and ELR on record"),
    ("diverged_replicas", "diverged_replicas", "Followers that Kafka will truncate"),
    ("open_transactions", "open_transactions", "Transactions without an end marker"),
    ("hanging_transactions", "hanging_transactions", "Transactions that no coordinator will end"),
    ("records_at_risk", "records_at_risk", "Records that Kafka will truncate when their replica rejoins"),
    ("records_lost", "records_lost", "Committed records that are on no replica any more"),
    ("records_possibly_lost", "records_possibly_lost", "Records of which it is open whether they are lost or at risk"),
    ("segments", "segments_read", "Segments that the latest run read"),
    ("unread_files", "files_unread", "Files that the latest run could not read"),
    ("acknowledged", "breaches_acknowledged", "Open breaches that somebody has acknowledged"),
)  # fmt: skip
_OF_PARTITION: Final = (
    ("leader_epoch", "leader_epoch", "Leader epoch"),
    ("log_start_offset", "log_start_offset", "Log start offset of the reference replica"),
    ("log_end_offset", "log_end_offset", "Log end offset of the reference replica"),
    ("high_watermark_lower", "high_watermark_lower", "High watermark, as checkpointed at least"),
    ("high_watermark_upper", "high_watermark_upper", "High watermark, as the in-sync replicas allow at most"),
    ("last_stable_offset", "last_stable_offset", "Last stable offset"),
)  # fmt: skip
_COSTS: Final = (
    ("losing", "lose committed records"), ("unavailable", "have no leader"),
    ("unclean", "get a leader that was not in sync"), ("refusing", "refuse acks=all"),
)  # fmt: skip
_UNDECIDED: Final = (
    ("losses_undecided", "Losses that nobody has decided, over all runs"),
    ("records_lost_undecided", "Records that are lost, over all runs, and that nobody has decided"),
    ("records_at_risk_undecided", "Records that are at risk, over all runs, and that nobody has decided"),
    ("records_possible_undecided", "Records that are possibly lost, over all runs, and that nobody has decided"),
)
_REASONS: Final = ("dated_ahead", "other_cluster")
_STATES: Final = ("open", "acknowledged")
_INCIDENTS: Final = """
SELECT cluster, severity, state, count(*) AS incidents FROM tidegauge.v_incident WHERE state <> 'over' GROUP BY 1, 2, 3
"""
_RISKS: Final = "SELECT * FROM tidegauge.v_risk_count ORDER BY cluster, failures"
"""A cluster that no topic could be judged of has no row: nothing known is not the same as no risk."""

_PARTITIONS: Final = """
SELECT p.* FROM (
    SELECT cluster, topic_key, topic, partition_key, min(severity_rank) AS rank FROM (
        SELECT cluster, topic_key, topic, partition_key, severity_rank FROM tidegauge.v_breach
        WHERE found_state <> 'resolved' AND implied_by IS NULL
        ORDER BY severity_rank, code, cluster, breach_id LIMIT 2000
    ) AS worst
    WHERE topic IS NOT NULL AND partition_key IS NOT NULL
    GROUP BY 1, 2, 3, 4 ORDER BY 5, 1, 2, 4 LIMIT :limit) AS b
JOIN tidegauge.v_cluster k ON k.cluster = b.cluster
JOIN tidegauge.v_run_partition p ON p.run_id = k.run_id AND p.topic_key = b.topic_key AND p.topic = b.topic
    AND p.partition::text = b.partition_key
"""


def exposition(store: Reader) -> bytes:
    """Everything, in Prometheus' text format. Raises `StoreError`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Latest(store))
    return generate_latest(registry)


class _Latest(Collector):
    def __init__(self, store: Reader) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Reads once, tells everything."""
        rows = clusters.clusters(self._store)
        for column, name, words in _OF_CLUSTER:
            yield _gauge(name, words, ("cluster",), [((row["cluster"],), row[column]) for row in rows])
        captured = [((row["cluster"],), row["captured_at"].timestamp()) for row in rows]
        yield _gauge("captured_timestamp_seconds", "When the latest snapshot was captured", ("cluster",), captured)
        yield _gauge(
            "open_breaches",
            "Root breaches that no run has seen resolved",
            ("cluster", "severity"),
            [((row["cluster"], s), row[s]) for row in rows for s in SEVERITIES],
        )
        yield _gauge(
            "invariants",
            "Invariants by the latest run's verdict",
            ("cluster", "verdict"),
            [((row["cluster"], v), row[v]) for row in rows for v in ("holds", "breached", "unknown")],
        )
        yield self._incidents([row["cluster"] for row in rows])
        yield _refusals([row["cluster"] for row in rows], clusters.refusals(self._store))
        yield from _risks(self._store.rows(_RISKS))
        yield from _losses(list(losses.totals(self._store).values()))
        worst = self._store.rows(_PARTITIONS, limit=MOST_PARTITIONS)
        for column, name, words in _OF_PARTITION:
            values = [(_names(row), row[column]) for row in worst]
            yield _gauge(
                f"partition_{name}",
                f"{words}, of partitions with an open breach",
                ("cluster", "topic", "partition"),
                values,
            )

    def _incidents(self, known: Sequence[str]) -> Metric:
        """Each cluster has all of its series: one that is over is a zero, and ends no series."""
        found = {(cluster, severity, state): 0 for cluster in known for severity in SEVERITIES for state in _STATES}
        for row in self._store.rows(_INCIDENTS):
            found[row["cluster"], row["severity"], row["state"]] = row["incidents"]
        return _gauge(
            "incidents",
            "Incidents that are not over; one is acknowledged if each open breach of it is",
            ("cluster", "severity", "state"),
            list(found.items()),
        )


def _refusals(known: Sequence[str], rows: Sequence[Row]) -> Metric:
    """Of clusters without a published run too: their first snapshot may be the one that was refused."""
    open_ones = {(cluster, reason): 0 for cluster in known for reason in _REASONS}
    open_ones |= {(row["cluster"], row["reason"]): row["open"] for row in rows}
    return _gauge(
        "open_refusals",
        "Refusals of snapshots that nobody has settled: another cluster.id than the name stands for, or a future date",
        ("cluster", "reason"),
        list(open_ones.items()),
    )


def _losses(totals: Sequence[Row]) -> Iterator[Metric]:
    """What the loss ledger holds that nobody has decided, over all runs."""
    for column, words in _UNDECIDED:
        yield _gauge(column, words, ("cluster",), [((row["cluster"],), row[column]) for row in totals])
    oldest = [((row["cluster"],), at.timestamp()) for row in totals if (at := row["oldest_undecided_at"]) is not None]
    yield _gauge(
        "oldest_undecided_loss_timestamp_seconds",
        "Capture that first told of the oldest loss that nobody has decided",
        ("cluster",),
        oldest,
    )


def _risks(rows: Sequence[Row]) -> Iterator[Metric]:
    """What failures would cost: now (nothing has to fail), single (a broker, a rack), double (two of them)."""
    yield _gauge(
        "risks",
        "Failures that would cost a topic something, each counted for each topic",
        ("cluster", "failures"),
        [((row["cluster"], row["failures"]), row["risks"]) for row in rows],
    )
    costs = "; ".join(f"{column}: they {words}" for column, words in _COSTS)
    yield _gauge(
        "topics_at_risk",
        f"Topics with partitions that a failure would cost something ({costs})",
        ("cluster", "failures", "cost"),
        [((row["cluster"], row["failures"], column), row[column]) for row in rows for column, _ in _COSTS],
    )


def _names(row: Row) -> tuple[str, ...]:
    return (row["cluster"], row["topic"], str(row["partition"]))


def _gauge(name: str, words: str, labels: Sequence[str], values: Sequence[tuple[Sequence[str], object]]) -> Metric:
    family = GaugeMetricFamily(f"tidegauge_{name}", f"{words}.", labels=labels)
    for names, value in values:
        if value is not None:
            family.add_metric(names, float(str(value)))
    return family
