"""Incidents as the store has them: a store in; sentences, members, what people said, out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, TypedDict, cast

from tidegauge.expectations.incidents.model import ToldStep
from tidegauge.expectations.incidents.wording import sentence
from tidegauge.store.connection import by_column, connect

WORST_FIRST: Final = """
state = 'over', array_position(ARRAY['critical', 'warning', 'info'], severity), records_lost + records_at_risk DESC,
records_possible DESC, last_seen_at DESC, incident_id
"""
"""The order of lists of incidents."""
_INCIDENTS: Final = f"""
SELECT * FROM tidegauge.v_incident
WHERE (%(cluster)s::text IS NULL OR cluster = %(cluster)s) AND (%(with_over)s OR state <> 'over')
ORDER BY {WORST_FIRST}
"""
_ONE: Final = "SELECT * FROM tidegauge.v_incident WHERE incident_id = %s"
_MEMBERS: Final = """
SELECT * FROM tidegauge.v_incident_member WHERE incident_id = %s
ORDER BY kind, implied_by NULLS FIRST, severity, code, member
"""
_EVENTS: Final = "SELECT * FROM tidegauge.v_incident_event WHERE incident_id = %s OR other_id = %s ORDER BY event_id"
_MERGED: Final = """
SELECT other_id FROM tidegauge.v_incident_event WHERE incident_id = %s AND action = 'merged'
ORDER BY event_id DESC LIMIT 1
"""
_CLUSTERS: Final = "SELECT EXISTS (SELECT FROM tidegauge.v_run_latest WHERE cluster = %s)"


class IncidentRow(TypedDict):
    """A row of `v_incident`."""

    cluster: str
    incident_id: str
    source: str
    state: str
    severity: str
    kind: str
    cause: str | None
    anchor: dict[str, str | int]
    what: str
    avoid: str
    began_at: datetime | None
    ended_at: datetime | None
    brokers: list[int]
    believe: list[int]
    records_read: int | None
    steps: list[ToldStep]
    records_lost: Decimal
    records_at_risk: Decimal
    records_possible: Decimal
    partitions: list[str]
    topics: list[str]
    groups_affected: list[str]
    open_breaches: int
    breaches: int
    undecided_losses: int
    losses: int
    risks: int
    first_seen_at: datetime
    last_seen_at: datetime
    times_opened: int
    split_from: str | None


class MemberRow(TypedDict):
    """A row of `v_incident_member`, as far as pages and terminals show it."""

    kind: str
    member: str
    topic: str | None
    partitions: list[int]
    rule: str
    because: str
    code: str | None
    name: str | None
    severity: str | None
    implied_by: str | None
    is_open: bool
    acknowledged: bool
    loss_state: str | None
    records_lost: Decimal
    records_at_risk: Decimal
    records_possible: Decimal


class EventRow(TypedDict):
    """A row of `v_incident_event`."""

    happened_at: datetime
    action: str
    incident_id: str
    other_id: str | None
    members: list[str] | None
    step: str | None
    said_by: str
    verification: str
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownIncident:
    """One incident with all that belongs to it."""

    row: IncidentRow
    members: Sequence[MemberRow]
    events: Sequence[EventRow]
    """What people said, the oldest first."""

    def done(self) -> Mapping[str, EventRow]:
        """By step, who ticked it off and when; what was taken back is not there."""
        found: dict[str, EventRow] = {}
        for event in self.events:
            step = event["step"]
            if event["action"] == "done" and step is not None:
                found[step] = event
            elif event["action"] == "undone" and step is not None:
                found.pop(step, None)
        return found


def headline(row: IncidentRow) -> str:
    """An incident of `v_incident` in one sentence, the same as a report's."""
    return sentence(
        row["what"],
        row["partitions"],
        row["topics"],
        lost=int(row["records_lost"]),
        at_risk=int(row["records_at_risk"]),
        possible=int(row["records_possible"]),
        believe=row["believe"],
        groups=row["groups_affected"],
        read=row["records_read"],
    )


def incidents(url: str, *, cluster: str | None = None, with_over: bool = False) -> Sequence[IncidentRow] | None:
    """Incidents, the worst first; those that are over only where they are asked for. None if the store has no run of
    the cluster that is asked for. Raises `StoreError`.
    """
    with connect(url, "list incidents") as connection, connection.cursor() as cursor:
        if cluster is not None:
            cursor.execute(_CLUSTERS, (cluster,))
            if not cursor.fetchone()[0]:
                return None
        cursor.execute(_INCIDENTS, {"cluster": cluster, "with_over": with_over})
        return cast(list[IncidentRow], list(by_column(cursor)))


def incident(url: str, incident_id: str) -> ShownIncident | str | None:
    """One incident; or the id of what it was merged into; None if there is none of this id. Raises `StoreError`."""
    with connect(url, "show an incident") as connection, connection.cursor() as cursor:
        cursor.execute(_ONE, (incident_id,))
        found = cast(list[IncidentRow], list(by_column(cursor)))
        if not found:
            cursor.execute(_MERGED, (incident_id,))
            merged = cursor.fetchone()
            return None if merged is None else str(merged[0])
        cursor.execute(_MEMBERS, (incident_id,))
        members = cast(list[MemberRow], list(by_column(cursor)))
        cursor.execute(_EVENTS, (incident_id, incident_id))
        events = cast(list[EventRow], list(by_column(cursor)))
        return ShownIncident(row=found[0], members=members, events=events)
