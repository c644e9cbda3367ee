"""The evaluate and publish steps: facts into the store, verdicts out of it, a report, and one switch at the end.

In: `facts/` and `coverage.json` of a snapshot. Out: `report.json`, `data_docs/`, and a published run. The rule that
must hold: nobody sees a run before `publish`; Great Expectations and the counting queries must agree, or there is no
verdict.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from expectations import errors as expectation_errors
from expectations.catalogue.model import Severity
from expectations.catalogue.registry import CATALOGUE, RULESET_VERSION
from expectations.data_docs import write_data_docs
from expectations.suites import by_relation, confirm, validate
from expectations.verdicts import Breach, InvariantResult, breach_query, count_query, explain, fold, results
from snapshots.errors import SnapshotError
from spark_jobs import store
from spark_jobs.errors import EvaluationError, StoreError
from spark_jobs.fact_files import batches_of, read_relation
from spark_jobs.relations import LOSSES, RELATIONS
from spark_jobs.run import AuditedSnapshot, Run

SCHEMA_VERSION: Final = 1
_STAGED: Final = "staged.json"
_OPEN_TRANSACTIONS_TOLD: Final = 1000
_OPEN_TRANSACTION: Final = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "transactional_id",
    "first_offset",
    "last_offset",
    "first_timestamp_ms",
    "coordinator_state",
    "hanging",
)
_SEVERITIES: Final = tuple(s.value for s in Severity)


def evaluate(snapshot: AuditedSnapshot, run: Run, url: str) -> None:
    """Stages the facts, judges them in Postgres, writes report and data docs. Raises StoreError, EvaluationError."""
    store.migrate(url)
    started = datetime.fromtimestamp(run.started_at_ms / 1000, UTC)
    manifest = snapshot.manifest
    captured = json.loads((snapshot.target / "coverage.json").read_text(encoding="utf-8"))["captured_at_ms"]
    run_id = store.open_run(
        url,
        store.RunKey(cluster=manifest.cluster, snapshot_id=manifest.snapshot_id, ruleset_version=RULESET_VERSION),
        consistency=manifest.consistency.value,
        source=manifest.source.value,
        started_at=started,
        captured_at=datetime.fromtimestamp(captured / 1000, UTC) if captured is not None else None,
        previous_snapshot_id=_previous_id(snapshot),
    )
    try:
        facts = snapshot.target / "facts"
        for name in RELATIONS:
            store.stage(url, run_id, name, batches_of(facts, name))
        try:
            verdicts, breaches = _judge(url, run_id)
            validations = validate(url, run_id)
            confirm(verdicts, validations)
        except expectation_errors.EvaluationError as error:
            raise EvaluationError(str(error)) from error
        except ConnectionError as error:  # Great Expectations' word for a store that went away
            raise StoreError(f"The store went away while the invariants were evaluated: {error}. Try again.") from error
        report = _report(snapshot, run, run_id, verdicts, breaches, facts)
        _write(snapshot.target / "report.json", report)
        write_data_docs(snapshot.target / "data_docs", report, validations)
        _write(snapshot.target / _STAGED, {"run_id": run_id})
    except BaseException:
        store.discard(url, run_id)
        raise


def _previous_id(snapshot: AuditedSnapshot) -> str | None:
    return snapshot.previous.manifest.snapshot_id if snapshot.previous is not None else None


def _judge(url: str, run_id: str) -> tuple[tuple[InvariantResult, ...], tuple[Breach, ...]]:
    verdicts: list[InvariantResult] = []
    breaches: list[Breach] = []
    with store.connect(url, "evaluate the invariants") as connection:
        for relation, invariants in by_relation(CATALOGUE.values()).items():
            counts = next(_rows(connection, count_query(relation, invariants), run_id))
            found = results(invariants, counts)
            verdicts += found
            breached = {r.code for r in found if r.breached}
            for invariant in invariants:
                if invariant.code in breached:
                    breaches += [explain(invariant, row) for row in _rows(connection, breach_query(invariant), run_id)]
    return tuple(sorted(verdicts, key=lambda r: r.code)), fold(breaches, CATALOGUE)


def _rows(connection: Any, query: str, run_id: str) -> Iterator[Mapping[str, Any]]:
    """The rows of one query, by column. `:run_id` is the queries' only parameter; psycopg2 minds every other %."""
    with connection.cursor() as cursor:
        cursor.execute(query.replace("%", "%%").replace(":run_id", "%(run_id)s"), {"run_id": run_id})
        names = [column.name for column in cursor.description]
        for values in cursor:
            yield dict(zip(names, values, strict=True))


def _report(
    snapshot: AuditedSnapshot,
    run: Run,
    run_id: str,
    verdicts: tuple[InvariantResult, ...],
    breaches: tuple[Breach, ...],
    facts: Path,
) -> dict[str, Any]:
    manifest = snapshot.manifest
    common = {"cluster", "snapshot_id"}
    return {
        "schema_version": SCHEMA_VERSION,
        "run": {
            "run_id": run_id,
            "cluster": manifest.cluster,
            "snapshot_id": manifest.snapshot_id,
            "previous_snapshot_id": _previous_id(snapshot),
            "ruleset_version": RULESET_VERSION,
            "started_at": _instant(run.started_at_ms),
            "finished_at": _instant(time.time_ns() // 1_000_000),
            "consistency": manifest.consistency.value,
            "source": manifest.source.value,
        },
        "coverage": json.loads((snapshot.target / "coverage.json").read_text(encoding="utf-8")),
        "invariants": [asdict(v) for v in verdicts],
        "breaches": [asdict(b) for b in breaches],
        "losses": [
            {name: value for name, value in row.items() if name not in common}
            for row in read_relation(facts, LOSSES.name).to_pylist()
        ],
        "open_transactions": _open_transactions(facts),
    }


def _open_transactions(facts: Path) -> list[dict[str, Any]]:
    """Open transactions: first those that their coordinator does not know, then the oldest. Consumers wait for them."""
    rows = pq.read_table(facts / "transactions", columns=list(_OPEN_TRANSACTION), filters=[("outcome", "=", "open")])
    found = sorted(rows.to_pylist(), key=lambda r: (not r["hanging"], r["first_timestamp_ms"] or 0))
    return found[:_OPEN_TRANSACTIONS_TOLD]


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(path: Path, value: object) -> None:
    """Whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=1, default=str) + "\n", encoding="utf-8")
    os.replace(partial, path)


def publish(snapshot: AuditedSnapshot, run: Run, url: str) -> None:
    """Makes the evaluated run visible. The report then names the run that is: an equal one published before stays."""
    run_id = _staged_run(snapshot)
    report = read_report(snapshot.target / "report.json")
    store.keep(url, run_id)
    visible = store.publish(
        url,
        run_id,
        store.Report(
            finished_at=datetime.fromisoformat(report["run"]["finished_at"]),
            invariants=report["invariants"],
            breaches=report["breaches"],
            losses=report["losses"],
            coverage=report["coverage"],
        ),
    )
    report["run"]["run_id"] = visible
    _write(snapshot.target / "report.json", report)


def discard(snapshot: AuditedSnapshot, url: str) -> None:
    """Gives up the staged run, where nothing is to be published."""
    store.discard(url, _staged_run(snapshot))


def _staged_run(snapshot: AuditedSnapshot) -> str:
    path = snapshot.target / _STAGED
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["run_id"])
    except (OSError, ValueError, KeyError) as error:
        raise SnapshotError(f"{path} is not there or not whole ({error}). Run the step evaluate first.") from error


def read_report(path: Path) -> dict[str, Any]:
    """A report file."""
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def worst_at_or_above(report: Mapping[str, Any], fail_on: str) -> bool:
    """Whether any breach is as severe as `fail_on`, or more; "never" is never reached."""
    if fail_on not in _SEVERITIES:
        return False
    severe = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    return any(b["severity"] in severe for b in report["breaches"])
