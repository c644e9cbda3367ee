"""The fleet, a cluster and its topics."""

from collections.abc import Mapping, Sequence

from tidegauge.console.database import Reader, Row
from tidegauge.console.reading.paging import Slice, sliced, unpack

TREND_RUNS = 90
_FLEET_RUNS = 30
MOST_CLUSTERS = 2_000
"""That one page lists."""

_CLUSTERS = """
SELECT k.*, coalesce(b.critical, 0) AS critical, coalesce(b.warning, 0) AS warning, coalesce(b.info, 0) AS info,
       coalesce(a.acknowledged, 0) AS acknowledged, i.holds, i.breached, i.unknown, i.checked
FROM tidegauge.v_cluster k
LEFT JOIN (SELECT cluster, sum(roots) FILTER (WHERE severity = 'critical') AS critical,
                  sum(roots) FILTER (WHERE severity = 'warning') AS warning,
                  sum(roots) FILTER (WHERE severity = 'info') AS info
           FROM tidegauge.v_breach_count WHERE state <> 'resolved' GROUP BY cluster) b ON b.cluster = k.cluster
LEFT JOIN (SELECT cluster, count(*) AS acknowledged FROM tidegauge.v_acknowledgement WHERE in_force GROUP BY cluster) a
       ON a.cluster = k.cluster
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE verdict = 'holds') AS holds, count(*) FILTER (WHERE verdict = 'breached') AS breached,
           count(*) FILTER (WHERE verdict = 'unknown') AS unknown, coalesce(sum(checked), 0) AS checked
    FROM tidegauge.v_invariant_history h WHERE h.run_id = k.run_id) i
"""
_WORST_FIRST = """
ORDER BY k.records_lost + k.records_at_risk DESC NULLS LAST, coalesce(b.critical, 0) DESC, coalesce(b.warning, 0) DESC,
         k.cluster LIMIT :limit
"""
_TREND = """
SELECT t.* FROM tidegauge.v_cluster k
CROSS JOIN LATERAL (SELECT cluster, captured_at, run_id, snapshot_id, critical, warning, info, replicas, segments,
                           bytes, unread_files
                    FROM tidegauge.v_trend WHERE cluster = k.cluster AND is_current
                    ORDER BY captured_at DESC, snapshot_id DESC LIMIT :runs) t
WHERE CAST(:cluster AS text) IS NULL OR k.cluster = :cluster
ORDER BY t.cluster, t.captured_at, t.snapshot_id
"""
_BROKERS = "SELECT * FROM tidegauge.v_broker WHERE cluster = :cluster ORDER BY broker_id LIMIT 1000"
_TOPICS_BY_TROUBLE = """
SELECT * FROM tidegauge.v_topic WHERE cluster = :cluster
  AND (CAST(:has_key AS boolean) IS FALSE OR (trouble_order, topic_key) > (:trouble_order, :topic_key))
  AND (:prefix = '' OR (topic_key >= :prefix AND topic_key < :prefix || chr(1114111)))
ORDER BY trouble_order, topic_key LIMIT :limit
"""
_LOSSES = """
SELECT * FROM tidegauge.v_run_loss WHERE run_id = :run_id ORDER BY topic_key, partition, start_offset LIMIT :limit
"""
_OPEN_TRANSACTIONS = """
SELECT * FROM tidegauge.v_run_transaction WHERE run_id = :run_id AND outcome = 'open'
ORDER BY began_at NULLS LAST LIMIT :limit
"""
_RISKS = """
SELECT cluster, topic, failure, failures, brokers, racks, partition_count, losing, unavailable, unclean, refusing,
       records_at_risk, records_at_risk_known
FROM tidegauge.v_risk WHERE run_id = :run_id
ORDER BY failures = 'double', failure <> 'now', losing DESC, unavailable DESC, refusing DESC, unclean DESC,
         left(topic, 249) COLLATE "C", failure, brokers, racks
LIMIT :limit
"""
_REFUSED = """
SELECT cluster, cluster_id, known_cluster_id, snapshot_id, place, captured_at, began_at, refused_at, refusals
FROM tidegauge.v_cluster_contradiction
WHERE is_open AND (CAST(:cluster AS text) IS NULL OR cluster = :cluster) ORDER BY refused_at DESC LIMIT :limit
"""
_AHEAD = """
SELECT cluster, snapshot_id, place, to_char(claimed_at_utc, 'YYYY-MM-DD HH24:MI "UTC"') AS claimed_at, believed_at,
       met_by, began_at, met_at, times_met
FROM tidegauge.v_dated_ahead
WHERE is_open AND (CAST(:cluster AS text) IS NULL OR cluster = :cluster) ORDER BY met_at DESC LIMIT :limit
"""
_REFUSALS = """
SELECT cluster, 'other_cluster' AS reason, count(*) AS open FROM tidegauge.v_cluster_contradiction
WHERE is_open GROUP BY 1
UNION ALL
SELECT cluster, 'dated_ahead', count(*) FROM tidegauge.v_dated_ahead WHERE is_open GROUP BY 1
ORDER BY 1, 2
"""
_UNREAD = """
SELECT u ->> 'path' AS path, u ->> 'reason' AS reason
FROM tidegauge.v_run r, jsonb_array_elements(coalesce(r.coverage -> 'unread', '[]')) AS u
WHERE r.run_id = :run_id LIMIT :limit
"""


def clusters(store: Reader) -> Sequence[Row]:
    """Every cluster, the worst first: by records, then by severity."""
    return store.rows(_CLUSTERS + _WORST_FIRST, limit=MOST_CLUSTERS)


def cluster(store: Reader, name: str) -> Row | None:
    """One cluster."""
    return store.row(_CLUSTERS + " WHERE k.cluster = :cluster", cluster=name)


def latest(store: Reader, name: str) -> Row | None:
    """One cluster, without what was counted of its breaches and invariants."""
    return store.row("SELECT * FROM tidegauge.v_cluster WHERE cluster = :cluster", cluster=name)


def trend(store: Reader, name: str | None = None) -> Mapping[str, Sequence[Row]]:
    """The latest runs of each cluster, or of one, oldest first."""
    found: dict[str, list[Row]] = {}
    for row in store.rows(_TREND, cluster=name, runs=_FLEET_RUNS if name is None else TREND_RUNS):
        found.setdefault(row["cluster"], []).append(row)
    return found


def refused(store: Reader, limit: int, name: str | None = None) -> Sequence[Row]:
    """Refused snapshots of other clusters than their names stand for, of which nobody has said what they are."""
    return store.rows(_REFUSED, cluster=name, limit=limit)


def dated_ahead(store: Reader, limit: int, name: str | None = None) -> Sequence[Row]:
    """Clusters with snapshots that are dated in the future, of which nobody has said why."""
    return store.rows(_AHEAD, cluster=name, limit=limit)


def refusals(store: Reader) -> Sequence[Row]:
    """How many refusals of each kind nobody has settled, by cluster; none of a cluster without."""
    return store.rows(_REFUSALS)


def brokers(store: Reader, name: str) -> Sequence[Row]:
    """The cluster's brokers."""
    return store.rows(_BROKERS, cluster=name)


def topics(store: Reader, name: str, *, prefix: str, after: str | None, size: int) -> Slice:
    """A cluster's topics, those in trouble first. Raises `ValueError` for a position that is none."""
    key = unpack(after, trouble_order=int, topic_key=str) or {"trouble_order": 0, "topic_key": ""}
    rows = store.rows(_TOPICS_BY_TROUBLE, cluster=name, prefix=prefix, has_key=after is not None, limit=size + 1, **key)
    return sliced(rows, size, "trouble_order", "topic_key")


def losses(store: Reader, run_id: str, limit: int) -> Sequence[Row]:
    """What a run found lost or at risk."""
    return store.rows(_LOSSES, run_id=run_id, limit=limit)


def open_transactions(store: Reader, run_id: str, limit: int) -> Sequence[Row]:
    """Transactions that a run found without an end, the oldest first."""
    return store.rows(_OPEN_TRANSACTIONS, run_id=run_id, limit=limit)


def risks(store: Reader, run_id: str, limit: int) -> Sequence[Row]:
    """Of a cluster's latest run: what is wrong before anything fails, then what a failure would cost, the dearest of
    one failure first.
    """
    return store.rows(_RISKS, run_id=run_id, limit=limit)


def unread(store: Reader, run_id: str, limit: int) -> Sequence[Row]:
    """Files that a run did not read, and why."""
    return store.rows(_UNREAD, run_id=run_id, limit=limit)
