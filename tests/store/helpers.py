"""What the tests of the store share: runs, rows and reports made by hand."""

import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa

from tidegauge import store
from tidegauge.expectations.incidents.grouping import incidents_of
from tidegauge.expectations.incidents.model import Found, ToldIncident
from tidegauge.expectations.verdicts import Breach
from tidegauge.relations import RELATIONS, LossRow

START = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SPAWN = multiprocessing.get_context("spawn")


def rows(url: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with store.connect(url, "look") as connection, connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def key(cluster: str, snapshot_id: str = "s1", ruleset_version: str = "1") -> store.RunKey:
    return store.RunKey(cluster=cluster, snapshot_id=snapshot_id, ruleset_version=ruleset_version)


def opened(url: str, run_key: store.RunKey, *, captured_at: datetime | None = START) -> str:
    return store.open_run(
        url, run_key, consistency="fuzzy", source="captured", started_at=datetime.now(UTC), captured_at=captured_at
    )


def table(relation: str, *values: Mapping[str, Any]) -> pa.Table:
    common = {"cluster": "c", "snapshot_id": "s"}
    return pa.Table.from_pylist([common | dict(v) for v in values], schema=RELATIONS[relation].arrow_schema)


def broker(broker_id: int, **values: object) -> dict[str, object]:
    return {"broker_id": broker_id, "captured": True, **values}


def breach(breach_id: str, code: str = "D06", **values: Any) -> dict[str, Any]:
    return {
        "breach_id": breach_id,
        "code": code,
        "name": "NoCommittedTruncation",
        "severity": "critical",
        "subject": {"topic": "orders", "partition": 0, "follower_id": 1},
        "start_offset": 800,
        "end_offset": 1500,
        "records": 700,
        "explanation": "Broker 1 holds offsets 800..1499.",
        "evidence": {"high_watermark": 872, "isr": [1]},
        "implied_by": None,
        "next": "tidegauge salvage",
    } | values


LOSS = {
    "topic": "orders",
    "partition": 0,
    "start_offset": 800,
    "end_offset": 1500,
    "records": 700,
    "leader_epoch": 0,
    "held_by": [1],
    "state": "at_risk",
    "declared_committed": 72,
    "cause": "unclean election",
    "groups_affected": ["billing"],
}


def report(
    *breaches: Mapping[str, Any],
    unknown: Mapping[str, int] | None = None,
    codes: Sequence[str] = ("D02", "D06"),
    losses: Sequence[Mapping[str, Any]] = (),
    **values: Any,
) -> store.Report:
    unknown = unknown or {}
    invariants = []
    for code in codes:
        found = sum(b["code"] == code for b in breaches)
        verdict = "breached" if found else "unknown" if unknown.get(code) else "holds"
        invariants.append(
            {
                "code": code,
                "name": code,
                "severity": "critical",
                "verdict": verdict,
                "checked": 6,
                "breached": found,
                "unknown": unknown.get(code, 0),
                "reasons": {"copy skew": unknown[code]} if unknown.get(code) else {},
            }
        )
    values = {"finished_at": START, "coverage": {"brokers": 3, "unread": []}} | values
    return store.Report(invariants=invariants, breaches=breaches, losses=losses, **values)


def grouped(
    cluster: str, breaches: Sequence[Mapping[str, Any]], losses: Sequence[Mapping[str, Any]] = (), **found: Any
) -> list[ToldIncident]:
    """The incidents that an audit would put together of these."""
    known = {field.name for field in fields(Breach)}
    as_found = [Breach(**{name: value for name, value in b.items() if name in known}) for b in breaches]
    of = Found(cluster=cluster, breaches=as_found, losses=cast(list[LossRow], losses), **found)
    return [cast(ToldIncident, asdict(incident)) for incident in incidents_of(of)]


def audit(
    url: str,
    cluster: str,
    snapshot_id: str,
    *breaches: Mapping[str, Any],
    day: int = 0,
    ruleset_version: str = "1",
    brokers: Sequence[Mapping[str, Any]] = (broker(1), broker(2)),
    **values: Any,
) -> str:
    captured_at = START + timedelta(days=day)
    run_id = opened(url, key(cluster, snapshot_id, ruleset_version), captured_at=captured_at)
    store.stage(url, run_id, "brokers", table("brokers", *brokers))
    values.setdefault("incidents", grouped(cluster, breaches, values.get("losses", ())))
    return store.publish(url, run_id, report(*breaches, **values))


def life(url: str, cluster: str, breach_id: str = "b1") -> tuple[Any, ...]:
    """State, and the snapshots of the runs that first saw, opened, last saw and resolved it."""
    found = rows(
        url,
        "SELECT b.state, f.snapshot_id, o.snapshot_id, l.snapshot_id, r.snapshot_id FROM tidegauge.breach b "
        "JOIN tidegauge.audit_run f ON f.run_id = first_seen_run JOIN tidegauge.audit_run o ON o.run_id = opened_run "
        "JOIN tidegauge.audit_run l ON l.run_id = last_seen_run "
        "LEFT JOIN tidegauge.audit_run r ON r.run_id = resolved_run "
        "WHERE b.cluster = %s AND b.breach_id = %s",
        cluster,
        breach_id,
    )
    assert len(found) <= 1
    return found[0] if found else ()


def leftovers(url: str, run_id: str) -> int:
    """Rows that a run has in any table but `audit_run`."""
    keyed = [
        name
        for (name,) in rows(
            url,
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid "
            "WHERE n.nspname = 'tidegauge' AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
            "AND a.attname = 'run_id' AND NOT a.attisdropped AND c.relname NOT IN ('audit_run', 'cluster_summary')",
        )
    ]
    return sum(rows(url, f"SELECT count(*) FROM tidegauge.{n} WHERE run_id = %s", run_id)[0][0] for n in keyed)


def visible(url: str, cluster: str) -> list[tuple[Any, ...]]:
    """What any view says of a cluster."""
    views = [n for (n,) in rows(url, "SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge' ORDER BY 1")]
    return [(v, *r) for v in views for r in rows(url, f"SELECT * FROM tidegauge.{v} WHERE cluster = %s", cluster)]
