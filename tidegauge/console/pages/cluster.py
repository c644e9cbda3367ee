"""A cluster, and a topic."""

from fastapi import APIRouter

from tidegauge.console.database import Row
from tidegauge.console.figures import figure
from tidegauge.console.pages.breaches import BREACH_COLUMNS
from tidegauge.console.pages.charts import SEVERITY_SERIES, over_time
from tidegauge.console.pages.fleet import AHEAD_COLUMNS, REFUSED_COLUMNS, TREND_COLUMNS
from tidegauge.console.reading import breaches, clusters, incidents, partitions
from tidegauge.console.reading import losses as ledger
from tidegauge.console.refusal import not_found
from tidegauge.console.web import Asked, Page, add_page

_TOPIC_COLUMNS = (
    "cluster", "topic", "partitions", "replicas", "size_bytes", "offline_partitions", "under_replicated_partitions",
    "critical", "warning", "info", "records_lost_or_at_risk",
)  # fmt: skip
_BROKER_COLUMNS = (
    "cluster", "broker_id", "rack", "registered", "fenced", "captured", "clean_shutdown", "replica_count", "size_bytes",
    "read_started_at", "read_finished_at",
)  # fmt: skip
_PARTITION_COLUMNS = (
    "cluster", "topic", "partition", "leader_id", "leader_epoch", "replicas", "isr", "elr", "log_start_offset",
    "log_end_offset", "high_watermark_lower", "high_watermark_upper", "last_stable_offset", "replica_count",
    "size_bytes", "critical", "warning", "info", "records_lost_or_at_risk",
)  # fmt: skip
_COVERAGE_COLUMNS = ("cluster", "captured_at", "snapshot_id", "run_id", "replicas", "segments", "bytes", "unread_files")
_RISK_COLUMNS = (
    "cluster", "topic", "failure", "failures", "brokers", "racks", "partition_count", "losing", "unavailable",
    "unclean", "refusing", "records_at_risk", "records_at_risk_known",
)  # fmt: skip
_TRANSACTION_COLUMNS = (
    "cluster", "topic", "partition", "first_offset", "hanging", "transactional_id", "producer_id", "producer_epoch",
    "began_at",
)  # fmt: skip
LOSS_COLUMNS = (
    "cluster", "topic", "partition", "start_offset", "end_offset", "records", "state", "leader_epoch", "held_by",
    "declared_committed", "cause", "groups_affected",
)  # fmt: skip
_WORST_SHOWN = 10
_SIDE_SHOWN = 10


def add(router: APIRouter) -> None:
    """`/clusters/CLUSTER`, `/clusters/CLUSTER/topics/TOPIC`"""
    add_page(router, "/clusters/{cluster}", cluster)
    add_page(router, "/clusters/{cluster}/topics/{topic}", topic)


def of_address(asked: Asked) -> Row:
    """The latest run of the cluster that the address names. Raises `RefusalError`."""
    return _known(clusters.latest(asked.store, asked.path["cluster"]), asked)


def _known(row: Row | None, asked: Asked) -> Row:
    if row is None:
        raise not_found(f"No run of a cluster named {asked.path['cluster']!r} is published.")
    return row


def cluster(asked: Asked) -> Page:
    """One cluster: what is wrong, how it went, its topics and brokers."""
    row = _known(clusters.cluster(asked.store, asked.path["cluster"]), asked)
    name, run_id = row["cluster"], row["run_id"]
    prefix = asked.query.get("topic", "")
    topics = clusters.topics(asked.store, name, prefix=prefix, after=asked.after, size=asked.size)
    points = clusters.trend(asked.store, name).get(name, ())
    worst = breaches.listed(asked.store, breaches.Filters(cluster=name), after=None, size=_WORST_SHOWN)
    losses = clusters.losses(asked.store, run_id, asked.size)
    brokers = clusters.brokers(asked.store, name)
    risks = clusters.risks(asked.store, run_id, asked.size)
    open_transactions = clusters.open_transactions(asked.store, run_id, asked.size)
    unread = clusters.unread(asked.store, run_id, asked.size)
    refused = clusters.refused(asked.store, asked.size, name)
    ahead = clusters.dated_ahead(asked.store, asked.size, name)
    return Page(
        template="cluster.html.j2",
        values={
            "cluster": row,
            "refused": refused,
            "ahead": ahead,
            "topics": topics,
            "prefix": prefix,
            "brokers": brokers,
            "incidents": incidents.listed(asked.store, cluster=name, limit=_WORST_SHOWN),
            "worst": worst.rows,
            "more": worst.after is not None,
            "losses": losses,
            "total": ledger.totals(asked.store, name).get(name),
            "risks": risks[:_SIDE_SHOWN],
            "more_risks": len(risks) > _SIDE_SHOWN,
            "open_transactions": open_transactions[:_SIDE_SHOWN],
            "unread": unread[:_SIDE_SHOWN],
            "chart": over_time(points, *SEVERITY_SERIES),
            "coverage_chart": over_time(
                points, ("segments", "segments read", "line"), ("unread_files", "files not read", "warning")
            ),
            "docs": asked.docs.runs().get(run_id),
        },
        figures={
            "topics": figure(
                topics.rows,
                *_TOPIC_COLUMNS,
                next_page=asked.links.cluster(name, topic=prefix, after=topics.after) if topics.after else None,
            ),
            "brokers": figure(brokers, *_BROKER_COLUMNS),
            "trend": figure(points, *TREND_COLUMNS),
            "coverage": figure(points, *_COVERAGE_COLUMNS),
            "unread": figure(unread, "path", "reason"),
            "refused": figure(refused, *REFUSED_COLUMNS),
            "dated-ahead": figure(ahead, *AHEAD_COLUMNS),
            "risks": figure(risks, *_RISK_COLUMNS),
            "transactions": figure(open_transactions, *_TRANSACTION_COLUMNS),
            "breaches": figure(worst.rows, *BREACH_COLUMNS),
            "losses": figure(losses, *LOSS_COLUMNS),
        },
    )


def topic(asked: Asked) -> Page:
    """One topic: its partitions."""
    row = of_address(asked)
    name = asked.path["topic"]
    found = partitions.topic(asked.store, row["cluster"], name)
    if found is None:
        raise not_found(f"The latest run of cluster {row['cluster']!r} saw no topic named {name!r}.")
    listed = partitions.partitions(asked.store, row["run_id"], name, after=asked.after, size=asked.size)
    return Page(
        template="topic.html.j2",
        values={
            "cluster": row,
            "topic": found,
            "partitions": listed,
            "waiting": ledger.headline_of(asked.store, row["cluster"], name),
        },
        figures={
            "partitions": figure(
                listed.rows,
                *_PARTITION_COLUMNS,
                next_page=asked.links.topic(row["cluster"], name, after=listed.after) if listed.after else None,
            )
        },
    )
