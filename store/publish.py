"""A staged run and its report in, one published run out.

The rule that must hold: one transaction, and the status last. Before it ends nobody sees anything of the run, after it
everything; of one key there is one published run, and if the new one says what the old one said, the old one stays.
What a run tells of losses goes into their ledger with it, and never out of it again. Its breaches and losses get their
incidents with it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from psycopg2.extras import execute_values

from tidegauge.expectations.incidents.model import ToldIncident
from tidegauge.relations import COMMON, RELATIONS
from tidegauge.runs.errors import StoreError
from tidegauge.runs.store_address import normalised, shown
from tidegauge.store.connection import connect
from tidegauge.store.identity import LOCK, reason_to_refuse
from tidegauge.store.incident_life import carry_incidents
from tidegauge.store.lifecycle import carry_on_breaches, renew_breaches, renew_summaries
from tidegauge.store.loss_ledger import carry_losses
from tidegauge.store.rows import json_text, text_value
from tidegauge.store.runs import give_up, release, remove_facts

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run found: the parts of `report.json`, with its keys.

    `undecided`: ids of the open breaches that this run could not judge. Where it is None, a run
    resolves only breaches of invariants that were unknown for no subject.
    """

    finished_at: datetime
    invariants: Sequence[Row]
    breaches: Sequence[Row] = ()
    losses: Sequence[Row] = ()
    incidents: Sequence[ToldIncident] = ()
    coverage: Row = field(default_factory=dict)
    undecided: Collection[str] | None = None


_TEXT: Final = "text"
_JSON: Final = "json"
_TEXTS: Final = "texts"
_PLAIN: Final = "plain"
_OF_64_BITS: Final = "of 64 bits"
_RESULT_COLUMNS: Final = {
    "code": _TEXT, "name": _TEXT, "severity": _TEXT, "verdict": _TEXT, "checked": _PLAIN, "breached": _PLAIN,
    "unknown": _PLAIN, "reasons": _JSON,
}  # fmt: skip
_FINDING_COLUMNS: Final = {
    "breach_id": _TEXT, "code": _TEXT, "name": _TEXT, "severity": _TEXT, "subject": _JSON, "start_offset": _OF_64_BITS,
    "end_offset": _OF_64_BITS, "records": _OF_64_BITS, "explanation": _TEXT, "evidence": _JSON, "implied_by": _TEXT,
    "next": _TEXT, "points_to": _TEXT, "believe": _PLAIN, "diagnosis": _TEXT,
}  # fmt: skip
_LOSS_COLUMNS: Final = {
    "topic": _TEXT, "partition": _PLAIN, "start_offset": _PLAIN, "end_offset": _PLAIN, "records": _PLAIN,
    "leader_epoch": _PLAIN, "held_by": _PLAIN, "state": _TEXT, "declared_committed": _PLAIN, "cause": _TEXT,
    "groups_affected": _TEXTS,
}  # fmt: skip

_RUN: Final = """
SELECT cluster, snapshot_id, ruleset_version, status, previous_snapshot_id, consistency, source
FROM tidegauge.audit_run WHERE run_id = %s FOR UPDATE
"""
_PUBLISHED: Final = """
SELECT run_id, content_digest FROM tidegauge.audit_run
WHERE (cluster, snapshot_id, ruleset_version) = (%s, %s, %s) AND status = 'published'
"""
_SUCCESSOR: Final = """
SELECT p.run_id FROM tidegauge.audit_run f
JOIN tidegauge.audit_run p USING (cluster, snapshot_id, ruleset_version)
WHERE f.run_id = %s AND f.status = 'failed' AND p.status = 'published'
  AND (p.published_at > f.finished_at OR p.content_digest = f.content_digest)
"""
_FORGET_FAILED: Final = """
DELETE FROM tidegauge.audit_run
WHERE (cluster, snapshot_id, ruleset_version) = (%s, %s, %s) AND status = 'failed'
  AND (finished_at < now() - interval '7 days' OR content_digest IS NOT NULL)
"""
_TELL: Final = """
UPDATE tidegauge.audit_run SET finished_at = %(finished_at)s, coverage = %(coverage)s, undecided = %(undecided)s,
    content_digest = %(digest)s,
    missing_brokers = ARRAY(SELECT DISTINCT broker_id FROM tidegauge.brokers
                            WHERE run_id = %(run_id)s AND NOT captured AND broker_id IS NOT NULL ORDER BY broker_id)
WHERE run_id = %(run_id)s
"""
_SWITCH: Final = """
UPDATE tidegauge.audit_run SET status = 'published', published_at = clock_timestamp() WHERE run_id = %s
"""


def publish(url: str, run_id: str, report: Report) -> str:
    """Makes a staged run visible, whole and at once; returns the id of the run that is visible now.

    That is another run's if one with the same key has been published that says the same: then this one is removed. An
    earlier run of the key that says something else is replaced. Publishing again what is published does nothing. Two
    that publish for one cluster at once do it one after the other. Raises `StoreError`; nothing is visible then.

    A run that another audit of the same snapshot took for abandoned answers with that one's, once it is published. One
    whose cluster is not the one that its name stands for is given up, which is noted: raises `SnapshotError`, or
    `UnidentifiedError` where it does not tell its cluster.
    """
    where = normalised(url)
    with connect(where, f"publish run {run_id}") as connection, connection.cursor() as cursor:
        cluster = _lock_cluster(cursor, run_id)
        refused = reason_to_refuse(cursor, run_id)
        if refused is None:
            visible = _publish(cursor, cluster, run_id, report, shown(where))
        else:
            give_up(cursor, run_id)
    release(run_id)
    if refused is not None:
        raise refused
    return visible


def _publish(cursor: Any, cluster: str, run_id: str, report: Report, store: str) -> str:
    cursor.execute(_RUN, (run_id,))
    found = cursor.fetchone()
    if found is not None and found[3] == "published":
        return run_id
    if found is None or found[3] == "failed":
        return _successor(cursor, run_id, store)
    key = found[:3]
    digest = _digest(cursor, run_id, report, found[4:])
    cursor.execute(_FORGET_FAILED, key)
    cursor.execute(_PUBLISHED, key)
    replaced = cursor.fetchall()
    for earlier, earlier_digest in replaced:
        if earlier_digest == digest:
            give_up(cursor, run_id)  # its line stays, so that a second attempt to publish it finds this answer again
            cursor.execute("UPDATE tidegauge.audit_run SET content_digest = %s WHERE run_id = %s", (digest, run_id))
            carry_incidents(cursor, cluster, str(earlier), report.incidents)
            return str(earlier)
        _remove(cursor, earlier)
    _insert(cursor, "invariant_result", run_id, _RESULT_COLUMNS, report.invariants)
    _insert(cursor, "finding", run_id, _FINDING_COLUMNS, report.breaches)
    _insert(cursor, "loss", run_id, _LOSS_COLUMNS, report.losses)
    told = {
        "run_id": run_id,
        "finished_at": report.finished_at,
        "coverage": json_text(report.coverage),
        "undecided": None if report.undecided is None else sorted(report.undecided),
        "digest": digest,
    }
    cursor.execute(_TELL, told)
    if replaced:
        renew_breaches(cursor, cluster, run_id)
    else:
        carry_on_breaches(cursor, cluster, run_id)
    renew_summaries(cursor, cluster, run_id)
    carry_losses(cursor, cluster, run_id)
    carry_incidents(cursor, cluster, run_id, report.incidents)
    cursor.execute(_SWITCH, (run_id,))
    return run_id


def _lock_cluster(cursor: Any, run_id: str) -> str:
    """The run's cluster, which is this transaction's alone from here on."""
    cursor.execute("SELECT cluster FROM tidegauge.audit_run WHERE run_id = %s", (run_id,))
    found = cursor.fetchone()
    if found is None:
        return ""
    cursor.execute(LOCK, (found[0],))
    return str(found[0])


def _successor(cursor: Any, run_id: str, store: str) -> str:
    """The published run that stands for one that is gone: it says the same, or took this one for abandoned."""
    cursor.execute(_SUCCESSOR, (run_id,))
    successor = cursor.fetchone()
    if successor is None:
        raise StoreError(
            f"Run {run_id} is no longer in the store at {store}: it was given up, or another audit of the same "
            "snapshot took it for abandoned. Start the audit again."
        )
    return str(successor[0])


def _remove(cursor: Any, run_id: str) -> None:
    """A run and everything of it; what it found goes by the foreign keys."""
    remove_facts(cursor, run_id)
    cursor.execute("DELETE FROM tidegauge.audit_run WHERE run_id = %s", (run_id,))


def _insert(cursor: Any, table: str, run_id: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
    """A breach that is told twice (one subject, two rows) is kept once."""
    statement = f"INSERT INTO tidegauge.{table} (run_id, {', '.join(columns)}) VALUES %s ON CONFLICT DO NOTHING"
    execute_values(cursor, statement, [(run_id, *_values(columns, row)) for row in rows], page_size=1000)


def _values(columns: Mapping[str, str], row: Row) -> Iterable[object]:
    for name, kind in columns.items():
        value = row.get(name)
        if value is None:
            yield None
        elif kind == _JSON:
            yield json_text(value)
        elif kind == _TEXT:
            yield text_value(value)
        elif kind == _OF_64_BITS:
            yield value if -(1 << 63) <= value < 1 << 63 else None  # no offset of Kafka's: the report has the number
        elif kind == _TEXTS:
            yield [text_value(item) for item in value]
        else:
            yield list(value) if isinstance(value, list | tuple) else value


def _digest(cursor: Any, run_id: str, report: Report, about: tuple[object, ...]) -> str:
    """Over facts and findings, whatever their order; not over how long it took or how much was found in a cache."""
    found = {
        "about": about,
        "invariants": sorted(map(json_text, report.invariants)),
        "breaches": sorted(map(json_text, report.breaches)),
        "losses": sorted(map(json_text, report.losses)),
        "undecided": None if report.undecided is None else sorted(report.undecided),
    }
    common = {c.name for c in COMMON}
    parts = []
    for relation in RELATIONS.values():
        columns = ", ".join(f'"{name}"' for name in relation.column_names if name not in common)
        parts.append(
            f"SELECT '{relation.name}', count(*), "
            f"coalesce(sum(hashtextextended(ROW({columns})::text, 0)::numeric), 0)::text "
            f"FROM tidegauge.{relation.name} WHERE run_id = %(run_id)s"
        )
    cursor.execute(" UNION ALL ".join(parts), {"run_id": run_id})
    return sha256(json_text([found, sorted(cursor.fetchall())]).encode()).hexdigest()
