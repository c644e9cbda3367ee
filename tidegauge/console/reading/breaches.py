"""Breaches: lists by filter, one breach with its life, and invariants with theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.console.database import Reader, Row
from tidegauge.console.reading.paging import Slice, sliced, unpack

STATES = ("open", "acknowledged", "resolved")
SEVERITIES = ("critical", "warning", "info")

_COLUMNS = """
cluster, breach_id, state, found_state, code, name, severity, severity_rank, subject, start_offset, end_offset, records,
explanation, implied_by, opened_at, last_seen_at, resolved_at, acknowledged_by, acknowledged_until,
times_opened, acknowledgement_verification
"""
_KEY = {"severity_rank": int, "code": str, "cluster": str, "breach_id": str}
_BEHIND = (
    " AND (severity_rank, code, cluster, breach_id) > (:severity_rank, :code_after, :cluster_after, :breach_after)"
)
_STATE = {
    "open": "found_state <> 'resolved' AND implied_by IS NULL",
    "resolved": "found_state = 'resolved'",
    "acknowledged": "state = 'acknowledged'",
}
_ACKNOWLEDGED = """(
    SELECT b.* FROM (SELECT cluster, breach_id FROM tidegauge.v_acknowledgement WHERE in_force) a
    CROSS JOIN LATERAL (SELECT * FROM tidegauge.v_breach b
                        WHERE b.cluster = a.cluster AND b.breach_id = a.breach_id OFFSET 0) b
) AS acknowledged"""
"""Few, so each is looked up: the order of all breaches is never walked to find them (OFFSET keeps it so)."""

_COUNTS = """
SELECT severity, sum(roots) FILTER (WHERE state <> 'resolved') AS open,
       sum(breaches) FILTER (WHERE state = 'resolved') AS resolved
FROM tidegauge.v_breach_count WHERE CAST(:cluster AS text) IS NULL OR cluster = :cluster GROUP BY severity
"""
_BREACH = "SELECT * FROM tidegauge.v_breach WHERE cluster = :cluster AND breach_id = :breach_id"
_CONSEQUENCES = f"""
SELECT {_COLUMNS} FROM tidegauge.v_breach WHERE cluster = :cluster AND implied_by = :breach_id
ORDER BY severity_rank, code, breach_id LIMIT :limit
"""
_SIGHTINGS = """
SELECT run_id, snapshot_id, captured_at, severity, start_offset, end_offset, records FROM tidegauge.v_finding
WHERE breach_id = :breach_id AND cluster = :cluster ORDER BY captured_at DESC, run_id DESC LIMIT :limit
"""
_WORDS = """
SELECT * FROM tidegauge.v_acknowledgement WHERE cluster = :cluster AND breach_id = :breach_id
ORDER BY acknowledged_at DESC LIMIT 100
"""
_EVENTS = "SELECT * FROM tidegauge.v_acknowledgement_event WHERE true"
_STATUS = """
SELECT h.code, h.cluster, h.run_id, h.captured_at, h.verdict, h.severity, h.checked, h.breached, h.unknown, h.reasons
FROM tidegauge.v_cluster k JOIN tidegauge.v_invariant_history h ON h.run_id = k.run_id
WHERE CAST(:code AS text) IS NULL OR h.code = :code ORDER BY h.code, h.cluster
"""
_VERDICTS = """
SELECT h.code, h.verdict, count(*) AS clusters, sum(h.breached) AS breached,
       (array_agg(h.cluster ORDER BY h.cluster) FILTER (WHERE h.verdict <> 'holds'))[1:20] AS named
FROM tidegauge.v_cluster k JOIN tidegauge.v_invariant_history h ON h.run_id = k.run_id
GROUP BY h.code, h.verdict
"""
_HISTORY = """
SELECT h.cluster, r.captured_at, r.run_id, r.snapshot_id, h.verdict, h.severity, h.checked, h.breached, h.unknown
FROM tidegauge.v_cluster k
CROSS JOIN LATERAL (SELECT run_id, captured_at, snapshot_id FROM tidegauge.v_run
                    WHERE cluster = k.cluster AND is_current ORDER BY captured_at DESC, snapshot_id DESC LIMIT 90) r
JOIN tidegauge.v_invariant_history h ON h.run_id = r.run_id AND h.code = :code
WHERE CAST(:clusters AS text[]) IS NULL OR k.cluster = ANY(:clusters)
ORDER BY h.cluster, r.captured_at, r.snapshot_id
"""
_OF_CODE = f"""
SELECT {_COLUMNS} FROM tidegauge.v_breach WHERE code = :code AND found_state <> 'resolved'
ORDER BY severity_rank, cluster, breach_id LIMIT :limit
"""
_LOST_OF_CODE = f"""
SELECT {_COLUMNS} FROM tidegauge.v_breach b WHERE code = :code AND found_state = 'resolved' AND EXISTS (
    SELECT FROM tidegauge.v_breach_loss x WHERE x.cluster = b.cluster AND x.breach_id = b.breach_id AND x.undecided)
ORDER BY severity_rank, cluster, breach_id LIMIT :limit
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list of breaches is narrowed to; None for all."""

    state: str = "open"
    severity: str | None = None
    cluster: str | None = None
    code: str | None = None


def listed(store: Reader, filters: Filters, *, after: str | None, size: int) -> Slice:
    """Breaches that pass the filters, worst first; of open ones the roots. Raises `ValueError` for a position that is
    none.
    """
    conditions = [_STATE[filters.state]]
    values: dict[str, object] = {"limit": size + 1}
    if filters.severity is not None:
        conditions.append("severity_rank = :rank")
        values["rank"] = SEVERITIES.index(filters.severity) + 1
    for name in ("cluster", "code"):
        if (value := getattr(filters, name)) is not None:
            conditions.append(f"{name} = :{name}")
            values[name] = value
    source = _ACKNOWLEDGED if filters.state == "acknowledged" else "tidegauge.v_breach"
    query = f"SELECT {_COLUMNS} FROM {source} WHERE {' AND '.join(conditions)}"
    key = unpack(after, **_KEY)
    if key is not None:
        query += _BEHIND
        values |= {
            "severity_rank": key["severity_rank"],
            "code_after": key["code"],
            "cluster_after": key["cluster"],
            "breach_after": key["breach_id"],
        }
    query += " ORDER BY severity_rank, code, cluster, breach_id LIMIT :limit"
    return sliced(store.rows(query, **values), size, *_KEY)


def counts(store: Reader, cluster: str | None = None) -> dict[str, Row]:
    """By severity how many roots are open, and how many breaches are resolved."""
    return {row["severity"]: row for row in store.rows(_COUNTS, cluster=cluster)}


def breach(store: Reader, cluster: str, breach_id: str) -> Row | None:
    """One breach with its life."""
    return store.row(_BREACH, cluster=cluster, breach_id=breach_id)


def consequences(store: Reader, cluster: str, breach_id: str, limit: int) -> Sequence[Row]:
    """Breaches that follow from this one."""
    return store.rows(_CONSEQUENCES, cluster=cluster, breach_id=breach_id, limit=limit)


def sightings(store: Reader, cluster: str, breach_id: str, limit: int) -> Sequence[Row]:
    """The runs that saw it, the latest first."""
    return store.rows(_SIGHTINGS, cluster=cluster, breach_id=breach_id, limit=limit)


def acknowledgements(store: Reader, cluster: str, breach_id: str) -> Sequence[Row]:
    """Who said what about it, the latest first."""
    return store.rows(_WORDS, cluster=cluster, breach_id=breach_id)


def events(store: Reader, *, cluster: str | None, breach_id: str | None, after: str | None, size: int) -> Slice:
    """The trail of acknowledgements, the latest first. Raises `ValueError` for a position that is none."""
    query, values = _EVENTS, dict[str, object](limit=size + 1)
    for column, value in (("cluster", cluster), ("breach_id", breach_id)):
        if value is not None:
            query += f" AND {column} = :{column}"
            values[column] = value
    if (key := unpack(after, event_id=int)) is not None:
        query += " AND event_id < :event_id"
        values |= key
    return sliced(store.rows(f"{query} ORDER BY event_id DESC LIMIT :limit", **values), size, "event_id")


def invariant_status(store: Reader, code: str | None = None) -> Sequence[Row]:
    """The latest word on each invariant in each cluster, or on one."""
    return store.rows(_STATUS, code=code)


def invariant_verdicts(store: Reader) -> Mapping[str, Mapping[str, Row]]:
    """By code and verdict: of how many clusters the latest run says that, and the first names of these."""
    found: dict[str, dict[str, Row]] = {}
    for row in store.rows(_VERDICTS):
        found.setdefault(row["code"], {})[row["verdict"]] = row
    return found


def invariant_history(store: Reader, code: str, clusters: Sequence[str] | None) -> Sequence[Row]:
    """What the latest runs of clusters, None for all, said about an invariant, oldest first."""
    return store.rows(_HISTORY, code=code, clusters=None if clusters is None else list(clusters))


def breaches_of_invariant(store: Reader, code: str, limit: int, *, lost: bool = False) -> Sequence[Row]:
    """Its breaches that are not resolved, in all clusters. `lost`: those instead that no audit finds any more since
    their records were lost, as long as nobody has decided that.
    """
    return store.rows(_LOST_OF_CODE if lost else _OF_CODE, code=code, limit=limit)
