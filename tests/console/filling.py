"""A store that holds audits of real captures, made in this process in seconds: no Spark, no Great Expectations.

In: a store's URL and the directory of a capture. Out: the id of a published run, its facts and verdicts as the audit's
own queries give them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from tests.derivation.pipeline import Derived, derived_once
from tidegauge import store
from tidegauge.derivation.fact_files import relation_table
from tidegauge.expectations.diagnosis import Copies, diagnose
from tidegauge.expectations.incidents.elections import elections_on_record
from tidegauge.expectations.incidents.grouping import incidents_of
from tidegauge.expectations.incidents.model import Found, ToldIncident
from tidegauge.expectations.incidents.plan import Scene, planned
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION, by_relation
from tidegauge.expectations.verdicts import Breach, breach_query, count_query, explain, fold, results
from tidegauge.relations import LOSSES, RELATIONS


def publish_capture(
    url: str,
    directory: Path,
    *,
    cluster: str,
    snapshot_id: str,
    captured_at: datetime,
    without: frozenset[str] = frozenset(),
) -> str:
    """Audits a capture and publishes it under the names given; findings of the codes in `without` are left out."""
    facts = derived_once(directory)
    run_id = store.open_run(
        url,
        store.RunKey(cluster=cluster, snapshot_id=snapshot_id, ruleset_version=RULESET_VERSION),
        consistency=facts.manifest.consistency.value,
        source=facts.manifest.source.value,
        started_at=datetime.now(UTC),
        captured_at=captured_at,
    )
    for name in RELATIONS:
        table = relation_table(name, _unnamed(facts, name), cluster=cluster, snapshot_id=snapshot_id)
        store.stage(url, run_id, name, table)
    return store.publish(url, run_id, _report(url, run_id, facts, cluster, without))


def _unnamed(facts: Derived, relation: str) -> list[dict[str, Any]]:
    common = ("cluster", "snapshot_id")
    return [{k: v for k, v in row.items() if k not in common} for row in facts.rows.get(relation, [])]


def _report(url: str, run_id: str, facts: Derived, cluster: str, without: frozenset[str]) -> store.Report:
    invariants = []
    breaches = []
    with store.connect(url, "judge") as connection, connection.cursor() as cursor:

        def asked(query: str) -> list[Mapping[str, Any]]:
            cursor.execute(query.replace("%", "%%").replace(":run_ids", "%(run_ids)s"), {"run_ids": [run_id]})
            return list(store.by_column(cursor))

        for relation, members in by_relation(CATALOGUE.values()).items():
            found = results(members, next(iter(asked(count_query(relation, members))), None))
            invariants += [asdict(r) for r in found]
            breached = {r.code for r in found if r.breached} - without
            for invariant in members:
                if invariant.code in breached:
                    breaches += [explain(invariant, row) for row in asked(breach_query(invariant))]
    coverage = {
        "brokers": len(facts.all("brokers", captured=True)),
        "replicas": len(facts.all("replicas")),
        "segments": len(facts.all("segments")),
        "segments_reused": 0,
        "batches": sum(row["batch_count"] or 0 for row in facts.all("replicas")),
        "bytes": sum(row["size_bytes"] or 0 for row in facts.all("replicas")),
        "unread": [{"path": path, "reason": reason} for path, reason in facts.unread().items()],
    }
    folded = fold(breaches, CATALOGUE)
    return store.Report(
        finished_at=datetime.now(UTC),
        invariants=invariants,
        breaches=[asdict(b) for b in folded],
        losses=_unnamed(facts, LOSSES.name),
        incidents=_incidents(facts, cluster, folded),
        coverage=coverage,
    )


def _incidents(facts: Derived, cluster: str, breaches: Sequence[Breach]) -> list[ToldIncident]:
    copies = {
        (row["topic"], row["partition"]): Copies(captured=frozenset(row["captured_replicas"] or ()))
        for row in facts.rows["partitions"]
    }
    found = Found(
        cluster=cluster,
        breaches=diagnose(breaches, copies),
        losses=facts.rows["losses"],
        risks=facts.rows["risks"],
        elections=elections_on_record(facts.rows["partition_changes"]),
        committed_offsets=[r for r in facts.rows["committed_offsets"] if r["lost_from_offset"] is not None],
    )
    scene = Scene(snapshot=str(facts.root))
    return [cast(ToldIncident, asdict(planned(incident, found, scene))) for incident in incidents_of(found)]
