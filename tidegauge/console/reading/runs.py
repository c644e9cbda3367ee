"""Runs, and search."""

from collections.abc import Sequence

from tidegauge.console.database import Reader, Row
from tidegauge.console.reading.paging import Slice, sliced, unpack

_RUNS = """
SELECT r.cluster, r.run_id, r.snapshot_id, r.captured_at, r.ruleset_version, r.is_current, r.critical, r.warning,
       r.info, r.findings, r.replicas, r.bytes, r.unread_files,
       to_char(r.captured_at, 'YYYY-MM-DD HH24\\:MI\\:SS.US+00') AS captured_key
FROM tidegauge.v_trend r
WHERE (CAST(:cluster AS text) IS NULL OR r.cluster = :cluster)
  AND (CAST(:captured_key AS text) IS NULL OR (r.captured_at, r.run_id) < (CAST(:captured_key AS timestamptz), :run_id))
ORDER BY r.captured_at DESC, r.run_id DESC LIMIT :limit
"""
_RUN = "SELECT * FROM tidegauge.v_run WHERE run_id = :run_id"
_INVARIANTS = "SELECT * FROM tidegauge.v_invariant_history WHERE run_id = :run_id ORDER BY code"
_FINDINGS = """
SELECT cluster, breach_id, code, name, severity, severity_rank, subject, start_offset, end_offset, records, explanation,
       implied_by
FROM tidegauge.v_finding WHERE run_id = :run_id
  AND (CAST(:has_key AS boolean) IS FALSE
       OR (severity_rank, code, breach_id) > (:severity_rank, :code, :breach_id))
ORDER BY severity_rank, code, breach_id LIMIT :limit
"""
_TOPICS = """
SELECT cluster, topic, critical, warning, partitions FROM tidegauge.v_topic
WHERE strpos(lower(topic_key), :part) > 0
ORDER BY strpos(lower(topic_key), :part) > 1, topic_key, cluster LIMIT :limit
"""
_CLUSTERS = """
SELECT cluster, captured_at FROM tidegauge.v_cluster WHERE strpos(lower(cluster), :part) > 0
ORDER BY strpos(lower(cluster), :part) > 1, cluster LIMIT :limit
"""
_INCIDENTS = """
SELECT cluster, incident_id, what, state, severity FROM tidegauge.v_incident
WHERE starts_with(incident_id, :prefix) ORDER BY incident_id, cluster LIMIT :limit
"""
_BREACHES = """
SELECT cluster, breach_id, code, name, severity, state, subject FROM tidegauge.v_breach
WHERE breach_id COLLATE "C" >= :prefix AND breach_id COLLATE "C" < :prefix || chr(1114111)
ORDER BY breach_id COLLATE "C", cluster LIMIT :limit
"""
_RUNS_FOUND = """
SELECT cluster, run_id, snapshot_id, captured_at FROM tidegauge.v_run
WHERE starts_with(run_id, :prefix) OR starts_with(snapshot_id, :prefix) ORDER BY captured_at DESC LIMIT :limit
"""


def runs(store: Reader, *, cluster: str | None, after: str | None, size: int) -> Slice:
    """Runs, the newest snapshot first. Raises `ValueError` for a position that is none."""
    key = unpack(after, captured_key=str, run_id=str) or {"captured_key": None, "run_id": ""}
    return sliced(store.rows(_RUNS, cluster=cluster, limit=size + 1, **key), size, "captured_key", "run_id")


def run(store: Reader, run_id: str) -> Row | None:
    """One run."""
    return store.row(_RUN, run_id=run_id)


def invariants(store: Reader, run_id: str) -> Sequence[Row]:
    """What a run said of each invariant."""
    return store.rows(_INVARIANTS, run_id=run_id)


def findings(store: Reader, run_id: str, *, after: str | None, size: int) -> Slice:
    """What a run found, worst first. Raises `ValueError` for a position that is none."""
    key = unpack(after, severity_rank=int, code=str, breach_id=str) or {"severity_rank": 0, "code": "", "breach_id": ""}
    rows = store.rows(_FINDINGS, run_id=run_id, has_key=after is not None, limit=size + 1, **key)
    return sliced(rows, size, "severity_rank", "code", "breach_id")


def search(store: Reader, typed: str, limit: int) -> dict[str, Sequence[Row]]:
    """Clusters and topics whose names hold what was typed, those first that begin so; incidents, breaches and runs
    whose ids begin so.
    """
    part = typed.lower()
    return {
        "clusters": store.rows(_CLUSTERS, part=part, limit=limit),
        "topics": store.rows(_TOPICS, part=part, limit=limit),
        "incidents": store.rows(_INCIDENTS, prefix=typed, limit=limit),
        "breaches": store.rows(_BREACHES, prefix=typed, limit=limit),
        "runs": store.rows(_RUNS_FOUND, prefix=typed, limit=limit),
    }
