"""Incidents as alerts: what is open of each, in; alerts that begin and end, out.

The rules that must hold: an incident is told once, however many breaches and losses it has, and again when it was over
and is open again, or a loss of it grows, gets worse or is opened again; it is over when its breaches are resolved and
its losses decided or back, whatever audits see meanwhile. What is there of it as a risk only is told as a risk.
"""

from collections.abc import Iterator
from datetime import UTC
from typing import Any, Final, cast

from tidegauge.alerts.model import INCIDENT, Alert, AlertKey
from tidegauge.store.connection import NamedValues
from tidegauge.store.incident_reading import IncidentRow, headline

_OPEN: Final = """
SELECT i.*, m.codes, m.explanation,
       CASE m.rank WHEN 1 THEN 'critical' WHEN 2 THEN 'warning' ELSE 'info' END AS told_severity,
       coalesce(i.began_at, i.first_seen_at) AS since,
       (SELECT max(s.state_at) FROM tidegauge.incident_member l
        JOIN tidegauge.v_loss_stretch s ON s.loss_id = l.member AND s.state <> 'back'
        WHERE l.incident_id = i.incident_id AND l.kind = 'loss') AS worse_at,
       (SELECT count(*) FROM tidegauge.incident_member l JOIN tidegauge.v_loss_decision d ON d.loss_id = l.member
        WHERE l.incident_id = i.incident_id AND l.kind = 'loss' AND d.action = 'reopened') AS reopenings
FROM tidegauge.v_incident i
CROSS JOIN LATERAL (
    SELECT array_agg(DISTINCT o.code ORDER BY o.code) FILTER (WHERE o.kind = 'breach') AS codes,
           min(CASE WHEN o.kind = 'breach' THEN CASE o.severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END
                    WHEN o.loss_state = 'possible' THEN 2 ELSE 1 END) AS rank,
           (array_agg(b.explanation ORDER BY b.implied_by IS NOT NULL, b.severity_rank, b.code, b.breach_id)
               FILTER (WHERE b.breach_id IS NOT NULL))[1] AS explanation
    FROM tidegauge.v_incident_member o
    LEFT JOIN tidegauge.v_breach b ON o.kind = 'breach' AND b.cluster = o.cluster AND b.breach_id = o.member
    WHERE o.incident_id = i.incident_id AND o.is_open AND o.kind <> 'risk') AS m
WHERE m.rank IS NOT NULL
"""
_OVER: Final = """
SELECT DISTINCT ON (i.incident_id) i.*, t.opening, coalesce(i.began_at, i.first_seen_at) AS since,
       greatest((SELECT max(m.resolved_at) FROM tidegauge.v_incident_member m WHERE m.incident_id = i.incident_id),
                (SELECT max(greatest(s.decided_at, s.back_at)) FROM tidegauge.incident_member m
                 JOIN tidegauge.v_loss_stretch s ON s.loss_id = m.member
                 WHERE m.incident_id = i.incident_id AND m.kind = 'loss')) AS over_at,
       (SELECT string_agg(DISTINCT
                   format('%s decided a loss (%s): %s', d.decided_by, replace(d.action, '_', ' '), d.note), '; ')
        FROM tidegauge.incident_member m JOIN tidegauge.v_loss_decision d ON d.loss_id = m.member
        WHERE m.incident_id = i.incident_id AND m.kind = 'loss') AS decided
FROM tidegauge.alert_told t JOIN tidegauge.v_incident i ON i.cluster = t.cluster AND i.incident_id = t.name
WHERE t.word = 'firing' AND i.open_breaches = 0 AND i.undecided_losses = 0
ORDER BY i.incident_id, t.told_at DESC, t.opening DESC
"""


def alerts(rows: Any) -> Iterator[Alert]:
    """Those that are open, and those that were told and are over. `rows` asks the store."""
    yield from map(_open, list(rows(_OPEN)))
    yield from map(_over, rows(_OVER))


def _open(row: NamedValues) -> Alert:
    codes = f"Breaches: {', '.join(row['codes'])}." if row["codes"] else "No audit finds a breach of it any more."
    losses = f" Losses that wait for a decision: {row['undecided_losses']}." if row["undecided_losses"] else ""
    worse = "" if row["worse_at"] is None else f"/{row['worse_at'].astimezone(UTC).isoformat()}"
    return Alert(
        key=AlertKey(row["cluster"], row["incident_id"], f"{row['times_opened']}{worse}/{row['reopenings']}"),
        severity=row["told_severity"],
        name=INCIDENT,
        subject={},
        explanation=(row["avoid"], codes + losses, *(row["explanation"] or "").splitlines()),
        records=int(row["records_lost"] + row["records_at_risk"] + row["records_possible"]) or None,
        next=f"tidegauge plan {row['incident_id']}",
        began_at=row["since"],
        acknowledged=row["state"] == "acknowledged",
        headline=headline(cast(IncidentRow, row)),
    )


def _over(row: NamedValues) -> Alert:
    return Alert(
        key=AlertKey(row["cluster"], row["incident_id"], row["opening"]),
        severity=row["severity"],
        name=INCIDENT,
        subject={},
        explanation=(row["decided"] or "no audit finds its breaches any more",),
        began_at=row["since"],
        resolved_at=row["over_at"] or row["last_seen_at"],
        headline=row["what"],
    )
