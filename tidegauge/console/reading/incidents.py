"""Incidents: the list, the worst first; one with what belongs to it and what people said."""

from collections.abc import Sequence
from typing import cast

from tidegauge.console.database import Reader
from tidegauge.store.incident_reading import (
    WORST_FIRST,
    EventRow,
    IncidentRow,
    MemberRow,
    ShownIncident,
    headline,
)  # fmt: skip

_LISTED = f"""
SELECT * FROM tidegauge.v_incident
WHERE (CAST(:cluster AS text) IS NULL OR cluster = :cluster) AND (:with_over OR state <> 'over')
ORDER BY {WORST_FIRST} LIMIT :limit
"""
_ONE = "SELECT * FROM tidegauge.v_incident WHERE cluster = :cluster AND incident_id = :incident_id"
_MEMBERS = """
SELECT * FROM tidegauge.v_incident_member WHERE cluster = :cluster AND incident_id = :incident_id
ORDER BY kind DESC, is_open DESC, implied_by NULLS FIRST, severity, code, member LIMIT :limit
"""
_EVENTS = """
SELECT * FROM tidegauge.v_incident_event
WHERE cluster = :cluster AND (incident_id = :incident_id OR other_id = :incident_id) ORDER BY event_id LIMIT 1000
"""
_MERGED = """
SELECT other_id FROM tidegauge.v_incident_event
WHERE cluster = :cluster AND incident_id = :incident_id AND action = 'merged' ORDER BY event_id DESC LIMIT 1
"""


class ListedIncident(IncidentRow):
    """An incident as a list shows it."""

    headline: str


def listed(store: Reader, *, cluster: str | None, with_over: bool = False, limit: int) -> Sequence[ListedIncident]:
    """The worst ones, each with its `headline`."""
    rows = store.rows(_LISTED, cluster=cluster, with_over=with_over, limit=limit)
    return [cast(ListedIncident, {**row, "headline": headline(cast(IncidentRow, row))}) for row in rows]


def incident(store: Reader, cluster: str, incident_id: str, *, limit: int) -> ShownIncident | str | None:
    """One of them; or the id of what it was merged into; None if there is none."""
    of = {"cluster": cluster, "incident_id": incident_id}
    row = store.row(_ONE, **of)
    if row is None:
        merged = store.row(_MERGED, **of)
        return None if merged is None else str(merged["other_id"])
    return ShownIncident(
        row=cast(IncidentRow, row),
        members=cast(Sequence[MemberRow], store.rows(_MEMBERS, **of, limit=limit)),
        events=cast(Sequence[EventRow], store.rows(_EVENTS, **of)),
    )
