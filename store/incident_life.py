"""The life of incidents over runs: what one run put together in, `incident` and `incident_member` out.

The rules that must hold: a member stays where it was put, by a rule or by hand, so that a later run neither undoes what
people split and merged nor lets an incident fall apart when evidence is gone. Only a breach that was over and is there
again may have another cause: that one is put anew, unless somebody had put it where it is. A newer snapshot's words
replace an older one's, whichever is audited first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from psycopg2.extras import execute_values

from tidegauge.expectations.incidents.model import ToldIncident, ToldMember
from tidegauge.store.connection import by_column
from tidegauge.store.loss_ledger import loss_ids
from tidegauge.store.rows import json_text, text_value

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:incidents:' || %s, 0))"
"""What carries runs and what people say (`split_incident` and its like, which take it by `lock_incidents`) go one after
the other. The role that audits write with may call none of these.
"""
_PLACED: Final = """
SELECT m.kind, m.member, m.incident_id FROM tidegauge.incident_member m
LEFT JOIN tidegauge.breach b ON m.kind = 'breach' AND b.cluster = m.cluster AND b.breach_id = m.member
WHERE m.cluster = %(cluster)s AND m.member = ANY(%(members)s) AND m.rule <> 'alone'
  AND (m.rule = 'by_hand' OR b.breach_id IS NULL OR b.times_opened = 1 OR b.opened_run <> %(run_id)s)
"""
"""Members that stay where they are: all but what nobody put together yet, and breaches that this run opened again."""
_HEAD: Final = """
WITH RECURSIVE head AS (
    SELECT incident_id, merged_into FROM tidegauge.incident WHERE incident_id = %s
    UNION ALL
    SELECT i.incident_id, i.merged_into FROM tidegauge.incident i JOIN head h ON h.merged_into = i.incident_id
)
SELECT incident_id FROM head WHERE merged_into IS NULL
"""
_OVER: Final = """
SELECT NOT EXISTS (
    SELECT FROM tidegauge.incident_member m
    LEFT JOIN tidegauge.breach b ON m.kind = 'breach' AND b.cluster = m.cluster AND b.breach_id = m.member
    LEFT JOIN tidegauge.loss_stretch s ON m.kind = 'loss' AND s.loss_id = m.member AND s.undecided
    WHERE m.incident_id = %(incident_id)s
      AND (b.state <> 'resolved' AND b.opened_run <> %(run_id)s OR s.first_told_at < %(captured_at)s
           OR m.kind = 'risk'))
"""
"""Whether nothing of it was open before this run."""
_KEEP: Final = """
INSERT INTO tidegauge.incident AS i (incident_id, cluster, kind, cause, anchor, severity, what, avoid, began_at,
    ended_at, brokers, believe, records_read, steps, first_seen_at, last_seen_at, times_opened)
VALUES (%(incident_id)s, %(cluster)s, %(kind)s, %(cause)s, %(anchor)s, %(severity)s, %(what)s, %(avoid)s,
    %(began_at)s, %(ended_at)s, %(brokers)s, %(believe)s, %(records_read)s, %(steps)s, %(captured_at)s,
    %(captured_at)s, 1)
ON CONFLICT (incident_id) DO UPDATE
SET (kind, cause, anchor, severity, what, avoid, began_at, ended_at, brokers, believe, records_read, steps,
     last_seen_at) =
    (excluded.kind, excluded.cause, excluded.anchor, excluded.severity, excluded.what, excluded.avoid,
     excluded.began_at, excluded.ended_at, excluded.brokers, excluded.believe, excluded.records_read, excluded.steps,
     excluded.last_seen_at)
WHERE i.last_seen_at <= excluded.last_seen_at
"""
_SEEN: Final = """
UPDATE tidegauge.incident SET first_seen_at = least(first_seen_at, %(captured_at)s),
    last_seen_at = greatest(last_seen_at, %(captured_at)s),
    times_opened = times_opened + %(opened)s::integer WHERE incident_id = %(incident_id)s
"""
_PUT: Final = """
INSERT INTO tidegauge.incident_member AS m
    (cluster, kind, member, incident_id, topic, partitions, rule, because)
VALUES %s ON CONFLICT (cluster, kind, member) DO UPDATE
SET (incident_id, rule, because) = (excluded.incident_id, excluded.rule, excluded.because)
"""
_EXTRA: Final = """
SELECT count(*) FROM tidegauge.incident_member WHERE incident_id = %s AND NOT (kind || ' ' || member) = ANY(%s)
"""
_TIDY: Final = """
DELETE FROM tidegauge.incident_member m WHERE m.cluster = %(cluster)s AND m.kind = 'breach'
  AND NOT EXISTS (SELECT FROM tidegauge.breach b WHERE b.cluster = m.cluster AND b.breach_id = m.member);
DELETE FROM tidegauge.incident i WHERE i.cluster = %(cluster)s AND i.merged_into IS NULL
  AND NOT EXISTS (SELECT FROM tidegauge.incident_member m WHERE m.incident_id = i.incident_id)
  AND NOT EXISTS (SELECT FROM tidegauge.incident o WHERE o.merged_into = i.incident_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Put:
    """A member as the store has it."""

    kind: str
    member: str
    topic: str | None
    partitions: tuple[int, ...]
    told: ToldMember


def carry_incidents(cursor: Any, cluster: str, run_id: str, told: Iterable[ToldIncident]) -> None:
    """Writes what a run put together, in the caller's transaction, after its breaches and its losses. The caller holds
    the cluster's lock.
    """
    cursor.execute(_LOCK, (cluster,))
    cursor.execute("SELECT captured_at FROM tidegauge.audit_run WHERE run_id = %s", (run_id,))
    (captured_at,) = cursor.fetchone()
    of_losses = loss_ids(cursor, cluster, run_id)
    places = _places(cursor, run_id)
    for incident in told:
        found = (_put(member, incident, of_losses, places) for member in incident["members"])
        puts = list({(put.kind, put.member): put for put in found if put is not None}.values())
        if puts:
            _carry(cursor, cluster, run_id, captured_at, incident, puts)
    tidy_incidents(cursor, cluster)


def tidy_incidents(cursor: Any, cluster: str) -> None:
    """Removes what is left of breaches that no run tells of any more, and counts what is open of each incident, in the
    caller's transaction.
    """
    cursor.execute(_LOCK, (cluster,))
    cursor.execute(_TIDY, {"cluster": cluster})
    cursor.execute("SELECT tidegauge.count_incidents(%s, NULL)", (cluster,))


def _places(cursor: Any, run_id: str) -> Mapping[str, tuple[str | None, tuple[int, ...]]]:
    """By breach of a run, the topic and the partition that it is about."""
    cursor.execute(
        "SELECT breach_id, subject ->> 'topic' AS topic, subject ->> 'partition' AS partition FROM tidegauge.finding "
        "WHERE run_id = %s",
        (run_id,),
    )
    return {
        row["breach_id"]: (row["topic"], () if row["partition"] is None else (int(row["partition"]),))
        for row in by_column(cursor)
    }


def _put(
    member: ToldMember,
    incident: ToldIncident,
    of_losses: Mapping[tuple[str, int, int | None], str],
    places: Mapping[str, tuple[str | None, tuple[int, ...]]],
) -> _Put | None:
    topic, partition = member["topic"], member["partition"]
    if member["kind"] == "breach" and member["breach_id"] in places:
        assert member["breach_id"] is not None
        of, partitions = places[member["breach_id"]]
        return _Put(kind="breach", member=member["breach_id"], topic=of, partitions=partitions, told=member)
    if member["kind"] == "loss" and topic is not None and partition is not None:
        loss_id = of_losses.get((text_value(topic), partition, member["leader_epoch"]))
        if loss_id is not None:
            return _Put(kind="loss", member=loss_id, topic=text_value(topic), partitions=(partition,), told=member)
    if member["kind"] == "risk" and topic is not None:
        of_topic = tuple(incident["partitions"].get(topic, ()))
        return _Put(kind="risk", member=text_value(topic), topic=text_value(topic), partitions=of_topic, told=member)
    return None


def _carry(
    cursor: Any, cluster: str, run_id: str, captured_at: datetime, incident: ToldIncident, puts: Sequence[_Put]
) -> None:
    cursor.execute(_PLACED, {"cluster": cluster, "run_id": run_id, "members": [put.member for put in puts]})
    placed = {(kind, member): incident_id for kind, member, incident_id in cursor.fetchall()}
    of_puts = [placed[put.kind, put.member] for put in puts if (put.kind, put.member) in placed]
    into = _target(cursor, incident["incident_id"], of_puts)
    new = [put for put in puts if (put.kind, put.member) not in placed]
    if not new and into not in of_puts:
        return  # All of it was put elsewhere by hand.
    cursor.execute(_OVER, {"incident_id": into, "run_id": run_id, "captured_at": captured_at})
    was_over = cursor.fetchone()[0]
    cursor.execute("SELECT EXISTS (SELECT FROM tidegauge.incident WHERE incident_id = %s)", (into,))
    is_known = cursor.fetchone()[0]
    cursor.execute(_EXTRA, (into, [f"{put.kind} {put.member}" for put in puts]))
    whole = cursor.fetchone()[0] == 0 and all(each == into for each in of_puts)
    cursor.execute(_KEEP, _values(cluster, into, captured_at, incident) | ({} if whole else {"records_read": None}))
    seen = {"incident_id": into, "captured_at": captured_at, "opened": bool(is_known and was_over and new)}
    cursor.execute(_SEEN, seen)
    rows = [
        (cluster, p.kind, p.member, into, p.topic, list(p.partitions), p.told["rule"], text_value(p.told["because"]))
        for p in new
    ]
    execute_values(cursor, _PUT, rows, page_size=1000)


def _target(cursor: Any, incident_id: str, of_puts: Sequence[str]) -> str:
    """Where what is new of an incident goes: to the incident itself, or what it was merged into. One whose id is new
    though its members are known has lost its anchor, and goes on as what it was.
    """
    cursor.execute(_HEAD, (incident_id,))
    head = cursor.fetchone()
    if head is not None:
        return str(head[0])
    counted = Counter(of_puts)
    return min(counted, key=lambda each: (-counted[each], each)) if counted else incident_id


def _values(cluster: str, into: str, captured_at: datetime, incident: ToldIncident) -> dict[str, object]:
    return {
        "incident_id": into,
        "cluster": cluster,
        "kind": incident["kind"],
        "cause": incident["cause"],
        "anchor": json_text(incident["anchor"]),
        "severity": incident["severity"],
        "what": text_value(incident["what"]),
        "avoid": text_value(incident["avoid"]),
        "began_at": _instant(incident["began_at_ms"]),
        "ended_at": _instant(incident["ended_at_ms"]),
        "brokers": list(incident["brokers"]),
        "believe": list(incident["believe"]),
        "records_read": incident["records_read"],
        "steps": json_text(incident["steps"]),
        "captured_at": captured_at,
    }


def _instant(milliseconds: int | None) -> datetime | None:
    """None for what no calendar holds."""
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
