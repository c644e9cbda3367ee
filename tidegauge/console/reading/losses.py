"""The loss ledger: totals, a cluster's losses, one loss with its life, and breaches whose records were lost."""

from collections.abc import Mapping, Sequence

from tidegauge.console.database import Reader, Row
from tidegauge.console.reading.paging import Slice, sliced, unpack
from tidegauge.store.loss_reading import waiting_in

_TOTALS = """
SELECT * FROM tidegauge.v_loss_total WHERE CAST(:cluster AS text) IS NULL OR cluster = :cluster ORDER BY cluster
"""
_LISTED = """
SELECT * FROM (
    SELECT *,
           CASE WHEN NOT undecided THEN 3 WHEN state = 'lost' THEN 0 WHEN state = 'at_risk' THEN 1 ELSE 2 END AS place
    FROM tidegauge.v_loss_ledger WHERE cluster = :cluster) AS l
WHERE NOT CAST(:has_key AS boolean) OR (place, loss_id) > (:place, :loss_id) ORDER BY place, loss_id LIMIT :limit
"""
_LOSS = "SELECT * FROM tidegauge.v_loss_ledger WHERE cluster = :cluster AND loss_id = :loss_id"
_WAITING = """
SELECT coalesce(sum(records_lost), 0) AS records_lost_undecided,
       min(since) FILTER (WHERE records_lost > 0) AS lost_since,
       coalesce(sum(records_at_risk), 0) AS records_at_risk_undecided,
       min(since) FILTER (WHERE records_at_risk > 0) AS at_risk_since,
       coalesce(sum(records_possible), 0) AS records_possible_undecided,
       min(since) FILTER (WHERE records_possible > 0) AS possible_since
FROM tidegauge.v_loss_ledger
WHERE cluster = :cluster AND topic_key = left(:topic, 249) COLLATE "C" AND topic = :topic
  AND (CAST(:partition AS integer) IS NULL OR partition = :partition) AND undecided
"""
_STRETCHES = """
SELECT * FROM tidegauge.v_loss_stretch WHERE cluster = :cluster AND loss_id = :loss_id
ORDER BY start_offset LIMIT :limit
"""
_DECISIONS = """
SELECT * FROM tidegauge.v_loss_decision WHERE cluster = :cluster AND loss_id = :loss_id ORDER BY decision_id LIMIT 1000
"""
_BREACHES = """
SELECT x.breach_id, x.records_lost, b.code, b.name, b.state, b.subject
FROM tidegauge.v_breach_loss x JOIN tidegauge.v_breach b ON b.cluster = x.cluster AND b.breach_id = x.breach_id
WHERE x.cluster = :cluster AND x.loss_id = :loss_id ORDER BY b.severity_rank, b.code, x.breach_id LIMIT :limit
"""
_OF_BREACHES = """
SELECT cluster, breach_id, loss_id, records_lost, undecided, lost_at FROM tidegauge.v_breach_loss
WHERE cluster = ANY(:clusters) AND breach_id = ANY(:breach_ids) ORDER BY records_lost DESC, loss_id
"""


def totals(store: Reader, cluster: str | None = None) -> Mapping[str, Row]:
    """What the ledger comes to, by cluster, with its `headline`, None where nothing waits for a decision, and how many
    `records` do.
    """
    waiting = ((row, waiting_in([dict(row)])) for row in store.rows(_TOTALS, cluster=cluster))
    return {row["cluster"]: {**row, "headline": of.headline, "records": of.records} for row, of in waiting}


def headline_of(store: Reader, cluster: str, topic: str, partition: int | None = None) -> str | None:
    """What waits for a decision of a topic, or of one partition of it; None where nothing does."""
    return waiting_in(map(dict, store.rows(_WAITING, cluster=cluster, topic=topic, partition=partition))).headline


def listed(store: Reader, cluster: str, *, after: str | None, size: int) -> Slice:
    """A cluster's losses, those that nobody has decided first. Raises `ValueError` for a position that is none."""
    key = unpack(after, place=int, loss_id=str) or {"place": 0, "loss_id": ""}
    rows = store.rows(_LISTED, cluster=cluster, has_key=after is not None, limit=size + 1, **key)
    return sliced(rows, size, "place", "loss_id")


def loss(store: Reader, cluster: str, loss_id: str) -> Row | None:
    """One loss."""
    return store.row(_LOSS, cluster=cluster, loss_id=loss_id)


def stretches(store: Reader, cluster: str, loss_id: str, limit: int) -> Sequence[Row]:
    """Its offsets."""
    return store.rows(_STRETCHES, cluster=cluster, loss_id=loss_id, limit=limit)


def decisions(store: Reader, cluster: str, loss_id: str) -> Sequence[Row]:
    """What people decided of it, the oldest first."""
    return store.rows(_DECISIONS, cluster=cluster, loss_id=loss_id)


def breaches(store: Reader, cluster: str, loss_id: str, limit: int) -> Sequence[Row]:
    """Breaches about the same offsets."""
    return store.rows(_BREACHES, cluster=cluster, loss_id=loss_id, limit=limit)


def of_breaches(store: Reader, rows: Sequence[Row]) -> Mapping[tuple[str, str], Row]:
    """Of these breaches, those whose records were lost: the largest loss of each, by cluster and breach."""
    if not rows:
        return {}
    asked = {"clusters": sorted({r["cluster"] for r in rows}), "breach_ids": sorted({r["breach_id"] for r in rows})}
    found: dict[tuple[str, str], Row] = {}
    for row in store.rows(_OF_BREACHES, **asked):
        found.setdefault((row["cluster"], row["breach_id"]), row)
    return found
