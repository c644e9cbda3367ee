"""Risks as alerts: what a failure would cost by each cluster's latest run, in; alerts that begin and end, out.

A risk is no breach: nothing of it has happened, and no audit resolves it. `alert_risk` keeps when it began and ended. A
risk is over only when the latest run judged its topic and did not find it, or the topic is gone; one that comes back is
a new alert.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from psycopg2.extras import Json, execute_values

from tidegauge.alerts.model import RISK, Alert, AlertKey

_PRESENT: Final = """
SELECT cluster, topic, failure, failures, brokers, racks, partition_count, losing, unavailable, unclean, refusing,
       records_at_risk, records_at_risk_known, losing_partitions, unavailable_partitions, captured_at
FROM tidegauge.v_risk WHERE topic IS NOT NULL
"""
_KNOWN: Final = """
SELECT r.cluster, r.name, r.opening, r.failures, r.subject, r.began_at, r.ended_at, l.captured_at AS latest_at,
       EXISTS (SELECT FROM tidegauge.v_posture p WHERE p.cluster = r.cluster AND p.topic = r.subject ->> 'topic')
       OR NOT EXISTS (SELECT FROM tidegauge.v_topic t WHERE t.cluster = r.cluster AND t.topic = r.subject ->> 'topic')
       AS is_judged
FROM tidegauge.alert_risk r JOIN tidegauge.v_run_latest l ON l.cluster = r.cluster
WHERE r.opening = (SELECT max(o.opening) FROM tidegauge.alert_risk o WHERE (o.cluster, o.name) = (r.cluster, r.name))
"""
_BEGIN: Final = """
INSERT INTO tidegauge.alert_risk (cluster, name, opening, failures, subject, began_at) VALUES %s ON CONFLICT DO NOTHING
"""
_END: Final = """
UPDATE tidegauge.alert_risk SET ended_at = %s WHERE (cluster, name, opening) = (%s, %s, %s) AND ended_at IS NULL
"""
_COSTS: Final = (
    ("losing", "lose committed records"), ("unavailable", "have no leader"),
    ("unclean", "get a leader that was not in sync"), ("refusing", "refuse acks=all"),
)  # fmt: skip


def alerts(rows: Any) -> tuple[Alert, ...]:
    """Risks that are there, and those that were and are over. `rows` asks the store."""
    known = {(row["cluster"], row["name"]): row for row in rows(_KNOWN)}
    found = {}
    for row in rows(_PRESENT):
        subject = _subject(row)
        name = _name(subject)
        before = known.get((row["cluster"], name))
        lasts = before is not None and before["ended_at"] is None
        opening = 1 if before is None else before["opening"] + (not lasts)
        began_at = before["began_at"] if before is not None and lasts else row["captured_at"]
        found[row["cluster"], name] = _alert(
            row["cluster"], name, opening, row["failures"], subject, began_at, explanation=_explained(row),
            records=row["records_at_risk"],
        )  # fmt: skip
    over = (row for place, row in known.items() if place not in found)
    return (*found.values(), *_ended(over))


def write(cursor: Any, found: Iterable[Alert]) -> None:
    """Keeps when risks began and ended, whoever is told of them."""
    begun = []
    for alert in found:
        key = (alert.key.cluster, alert.key.name, int(alert.key.opening))
        if alert.resolved_at is None:
            begun.append((*key, alert.risk, Json(dict(alert.subject)), alert.began_at))
        else:
            cursor.execute(_END, (alert.resolved_at, *key))
    execute_values(cursor, _BEGIN, begun, page_size=1000)


def _ended(rows: Iterable[Mapping[str, Any]]) -> Iterator[Alert]:
    for row in rows:
        ended_at = row["ended_at"] or (row["latest_at"] if row["is_judged"] else None)
        yield _alert(
            row["cluster"], row["name"], row["opening"], row["failures"], row["subject"], row["began_at"],
            explanation=("The newest audit could not judge this topic, so it is not known to be over.",),
            resolved_at=ended_at,
        )  # fmt: skip


def _alert(
    cluster: str, name: str, opening: int, failures: str, subject: Mapping[str, str], began_at: datetime, **more: Any
) -> Alert:
    return Alert(
        key=AlertKey(cluster, name, str(opening)),
        severity="warning",
        name=RISK,
        subject=subject,
        risk=failures,
        began_at=began_at,
        **more,
    )


def _subject(row: Mapping[str, Any]) -> dict[str, str]:
    """The topic, and what would have to fail."""
    failed = ", ".join(map(str, row["racks"] or row["brokers"] or ()))
    kind = row["failure"]
    return {"topic": row["topic"], "failure": "none: so it is now" if kind == "now" else f"{kind} {failed}"}


def _name(subject: Mapping[str, str]) -> str:
    return "risk-" + sha256("\0".join((subject["topic"], subject["failure"])).encode()).hexdigest()[:16]


def _explained(row: Mapping[str, Any]) -> tuple[str, ...]:
    costs = [f"{row[name]} {word}" for name, word in _COSTS if row[name]]
    lead = "As it is now" if row["failure"] == "now" else "If it happens"
    lines = [f"{lead}, of {row['partition_count']} partitions {', '.join(costs)}. Nothing is lost yet."]
    for name, word in (("losing_partitions", "would lose records"), ("unavailable_partitions", "would have no leader")):
        if row[name]:
            more = " and more" if len(row[name]) >= _NAMED else ""
            lines.append(f"Partitions that {word}: {', '.join(map(str, row[name]))}{more}.")
    return tuple(lines)


_NAMED: Final = 50
"""So many partitions are named by a row."""
