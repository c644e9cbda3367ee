"""The fleet: every cluster, how fresh its picture is, what is wrong, and how that went."""

from fastapi import APIRouter

from tidegauge.console.figures import figure
from tidegauge.console.pages.charts import SEVERITY_SERIES, over_time
from tidegauge.console.reading import breaches, clusters, incidents, losses
from tidegauge.console.web import Asked, Page, add_page
from tidegauge.store.loss_reading import waiting_in

_COLUMNS = (
    "cluster", "captured_at", "snapshot_id", "run_id", "consistency", "critical", "warning", "info", "acknowledged",
    "holds", "breached", "unknown", "brokers", "brokers_missing", "topics", "partitions", "replicas", "segments",
    "batches", "size_bytes", "unread_files", "offline_partitions", "under_replicated_partitions",
    "under_min_isr_partitions", "unclean_elections", "open_transactions", "hanging_transactions",
    "records_at_risk", "records_lost", "records_possibly_lost",
)  # fmt: skip
TREND_COLUMNS = (
    "cluster", "captured_at", "snapshot_id", "run_id", "critical", "warning", "info", "replicas", "segments", "bytes",
    "unread_files",
)  # fmt: skip
REFUSED_COLUMNS = (
    "cluster", "cluster_id", "known_cluster_id", "snapshot_id", "place", "captured_at", "began_at", "refused_at",
    "refusals",
)  # fmt: skip
AHEAD_COLUMNS = (
    "cluster", "snapshot_id", "place", "claimed_at", "believed_at", "met_by", "began_at", "met_at", "times_met",
)  # fmt: skip
LOSS_TOTAL_COLUMNS = (
    "cluster", "source", "losses_undecided", "records_lost_undecided", "records_at_risk_undecided",
    "records_possible_undecided", "lost_since", "oldest_undecided_at", "records_decided", "records_back", "headline",
)  # fmt: skip
_WORST_SHOWN = 8
_CARDS = 12
"""Clusters that are shown as cards with their charts. More are lines of a table."""


def add(router: APIRouter) -> None:
    """`/`"""
    add_page(router, "/", fleet)


def fleet(asked: Asked) -> Page:
    """Everything at one look."""
    rows = clusters.clusters(asked.store)
    in_cards = len(rows) <= _CARDS
    totals = losses.totals(asked.store)
    waiting = {name: total["records"] for name, total in totals.items()}
    rows = sorted(rows, key=lambda row: -waiting.get(row["cluster"], 0))  # stable: else as they came
    trends = clusters.trend(asked.store) if in_cards or asked.is_download else {}
    worst = breaches.listed(asked.store, breaches.Filters(), after=None, size=_WORST_SHOWN)
    refused = clusters.refused(asked.store, asked.size)
    ahead = clusters.dated_ahead(asked.store, asked.size)
    real = [total for total in totals.values() if total["source"] != "simulated" and total["headline"]]
    return Page(
        template="fleet.html.j2",
        values={
            "clusters": rows,
            "in_cards": in_cards,
            "are_more": len(rows) == clusters.MOST_CLUSTERS,
            "refused": refused,
            "ahead": ahead,
            "totals": totals,
            "headline": waiting_in(map(dict, real)).headline,
            "undecided_clusters": len(real),
            "counts": breaches.counts(asked.store),
            "incidents": incidents.listed(asked.store, cluster=None, limit=_WORST_SHOWN),
            "worst": worst.rows,
            "more": worst.after is not None,
            "charts": {name: over_time(points, *SEVERITY_SERIES) for name, points in trends.items()},
        },
        figures={
            "clusters": figure(rows, *_COLUMNS),
            "refused": figure(refused, *REFUSED_COLUMNS),
            "dated-ahead": figure(ahead, *AHEAD_COLUMNS),
            "losses": figure(totals.values(), *LOSS_TOTAL_COLUMNS),
            "trend": figure((p for points in trends.values() for p in points), *TREND_COLUMNS),
        },
    )
