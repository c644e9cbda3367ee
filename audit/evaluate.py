"""The evaluate step: facts into the store, verdicts out of it, and a report.

In: `facts/` and `coverage.json` of each snapshot of a run directory. Out: a `report.json`, `data_docs/` and a run of
each that nobody sees before the step publish. The rule that must hold: Great Expectations and the counting queries must
agree on every run, or there is no verdict.

Snapshots are judged together: one counting query a relation and one validation, over the rows of all their runs. Of a
small snapshot what takes time is asking, not counting.

A relation that Spark judged where its rows are (`derivation.judged_files`) has only those in the store that are to be
looked at. Its counts are Spark's, Great Expectations has validated it there, and is asked about the rows that came here
besides: it has to find all the breached ones.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from psycopg2.errors import NumericValueOutOfRange

from tidegauge import store
from tidegauge.audit.found_incidents import incidents_told
from tidegauge.audit.publication import STAGED, Progress, instant_text, not_its_own, staged_run
from tidegauge.audit.validate_apart import Validate
from tidegauge.derivation.fact_files import batches_of, digest_of_parts, read_relation, relation_at
from tidegauge.derivation.judged_files import JudgedRelation, judged_of, rows_to_look_at
from tidegauge.expectations import errors as expectation_errors
from tidegauge.expectations.agreement import Validation, confirm
from tidegauge.expectations.data_docs import pages_of
from tidegauge.expectations.diagnosis import Copies, PartitionKey, diagnose
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.incidents.plan import Scene
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION, by_relation
from tidegauge.expectations.verdicts import (
    Breach,
    InvariantResult,
    Row,
    breach_query,
    count_query,
    explain,
    fold,
    results,
)
from tidegauge.relations import LOSSES, RELATIONS
from tidegauge.runs import report_file
from tidegauge.runs.errors import EvaluationError, StoreError
from tidegauge.runs.failures import is_its_own
from tidegauge.runs.missing_evidence import missing_in, told_coverage
from tidegauge.runs.restriction import Restriction
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.runs.run_places import COVERAGE_FILE, FACTS_DIGEST
from tidegauge.runs.survivors import going_on
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.places import absolute, made
from tidegauge.snapshots.whole_files import write_whole

SCHEMA_VERSION: Final = 1
JUDGED_TOGETHER: Final = 2500
"""Runs that are counted and validated at once. Each holds a lock, and a store has room for some 7,000."""

NOTHING_MISSING: Final[Mapping[str, Mapping[Evidence, int]]] = {}
NOWHERE_ELSE: Final[Mapping[str, Mapping[str, JudgedRelation]]] = {}
_OPEN_TRANSACTIONS_TOLD: Final = 1000
_RISKS_TOLD: Final = 2000
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
_CAPTURED: Final = """
SELECT run_id, topic, partition, captured_replicas FROM tidegauge.partitions WHERE run_id = ANY(:run_ids)
"""


def evaluate(run: Run, url: str, *, validate: Validate | None = None, progress: Progress = lambda _: None) -> None:
    """Stages the facts, judges them in Postgres, writes reports and data docs. `validate`: as `judge` takes it. Raises
    StoreError; and what the snapshots failed of, EvaluationError among it, where none is left.
    """
    store.migrate(url)
    run.failures.begin("evaluate")
    left = going_on(run)
    for at in range(0, len(left.snapshots), JUDGED_TOGETHER):
        together = left.snapshots[at : at + JUDGED_TOGETHER]
        progress(f"evaluate: {_named(together)}")
        _evaluate_or_note(together, run, url, validate)
    going_on(run)


def _evaluate_or_note(snapshots: Sequence[AuditedSnapshot], run: Run, url: str, validate: Validate | None) -> None:
    """Judges snapshots together; where that fails, by halves, until it is known which of them it is."""
    try:
        _evaluate(snapshots, run, url, validate)
    except Exception as error:
        if not is_its_own(error, None):
            raise
        if len(snapshots) == 1:
            run.failures.note("evaluate", snapshots[0].key, error)
            return
        middle = len(snapshots) // 2
        for half in (snapshots[:middle], snapshots[middle:]):
            _evaluate_or_note(half, run, url, validate)


def _named(snapshots: Sequence[AuditedSnapshot]) -> str:
    return snapshots[0].key if len(snapshots) == 1 else f"{len(snapshots)} snapshots"


def _evaluate(snapshots: Sequence[AuditedSnapshot], run: Run, url: str, validate: Validate | None) -> None:
    """Snapshots judged together: each staged under its own run, all counted by the same queries, one validation."""
    _forget_earlier_try(snapshots, url)
    began = [_coverage(snapshot) for snapshot in snapshots]
    new = [_new_run(s, run, coverage["captured_at_ms"]) for s, coverage in zip(snapshots, began, strict=True)]
    run_ids = store.open_runs(url, new)
    by_run = dict(zip(run_ids, snapshots, strict=True))
    coverages = dict(zip(run_ids, began, strict=True))
    try:
        elsewhere = {run_id: judged_of(run, snapshot.key) for run_id, snapshot in by_run.items()}
        for name in RELATIONS:
            if name in run.restriction.relations():
                store.stage_together(
                    url, name, {i: _rows_to_store(run, s, name, elsewhere[i]) for i, s in by_run.items()}
                )
        missing = {run_id: missing_in(coverage) for run_id, coverage in coverages.items()}
        judged = judge(url, run_ids, run.restriction.judged(), missing=missing, elsewhere=elsewhere, validate=validate)
        for run_id, snapshot in by_run.items():
            told = told_coverage(coverages[run_id], judged[run_id].verdicts)
            report = _report(snapshot, run, run_id, judged[run_id], told)
            _must_still_be_whole(snapshot, coverages[run_id])
            report_file.keep_judged(snapshot.target, report)
            if run.data_docs:
                _write_pages(snapshot.target / "data_docs", pages_of(report, judged[run_id].validations))
            report_file.write(snapshot.target / STAGED, {"run_id": run_id})
        store.mark_judged(url, *run_ids)
    except BaseException:
        try:
            for snapshot in snapshots:
                report_file.forget(snapshot.target)
        finally:
            store.discard(url, *run_ids)
        raise


def _rows_to_store(
    run: Run, snapshot: AuditedSnapshot, relation: str, elsewhere: Mapping[str, JudgedRelation]
) -> Iterable[pa.RecordBatch]:
    """All rows of a relation; of one that was judged elsewhere, those to look at."""
    if relation in elsewhere:
        return rows_to_look_at(run, snapshot.key, relation, elsewhere[relation])
    return _its_own(batches_of(snapshot.target / "facts", relation), snapshot)


def _its_own(batches: Iterable[pa.RecordBatch], snapshot: AuditedSnapshot) -> Iterator[pa.RecordBatch]:
    """The same. Raises `SnapshotError` at a row of another snapshot: somebody else writes to the run directory."""
    named = {"cluster": snapshot.manifest.cluster, "snapshot_id": snapshot.manifest.snapshot_id}
    for batch in batches:
        if not all(pc.all(pc.equal(batch.column(c), name), min_count=0).as_py() for c, name in named.items()):
            raise SnapshotError(not_its_own(f"{snapshot.target / 'facts'} holds facts", snapshot))
        yield batch


def _write_pages(folder: Location, pages: Iterable[tuple[str, str]]) -> None:
    for name, page in pages:
        write_whole(made(folder) / name, page)


def _forget_earlier_try(snapshots: Sequence[AuditedSnapshot], url: str) -> None:
    """Gives up what this very step left when it ran here before: nobody would ever publish it."""
    left = [snapshot for snapshot in snapshots if (snapshot.target / STAGED).exists()]
    store.discard(url, *(staged_run(snapshot) for snapshot in left))
    for snapshot in left:
        (snapshot.target / STAGED).unlink()
    for snapshot in snapshots:
        report_file.forget(snapshot.target)


def _new_run(snapshot: AuditedSnapshot, run: Run, captured: int | None) -> store.NewRun:
    """`captured`: when, in milliseconds since the epoch, if anybody knows."""
    manifest = snapshot.manifest
    return store.NewRun(
        key=store.RunKey(cluster=manifest.cluster, snapshot_id=manifest.snapshot_id, ruleset_version=RULESET_VERSION),
        consistency=manifest.consistency.value,
        source=manifest.source.value,
        started_at=datetime.fromtimestamp(run.started_at_ms / 1000, UTC),
        captured_at=datetime.fromtimestamp(captured / 1000, UTC) if captured is not None else None,
        previous_snapshot_id=_previous_id(snapshot),
        place=absolute(snapshot.root),
        cluster_id=manifest.cluster_id or None,
    )


def _coverage(snapshot: AuditedSnapshot) -> dict[str, Any]:
    """What the derive step read of it, and what it did not."""
    path = snapshot.target / COVERAGE_FILE
    try:
        coverage: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError) as error:
        raise SnapshotError(
            f"{path} is not there or not whole ({error}). Run the steps index and derive first."
        ) from error
    return coverage


def _must_still_be_whole(snapshot: AuditedSnapshot, began: object) -> None:
    """Raises `SnapshotError` where the facts that were read are not those that were derived: of a part that is gone,
    nothing was found. A part that goes does not come back, so that it is enough to ask once all is read. `began`: the
    coverage as it was before that; another one is of another audit.
    """
    facts = snapshot.target / "facts"
    coverage = _coverage(snapshot)
    if coverage != began or coverage.get(FACTS_DIGEST) != digest_of_parts(facts):
        raise SnapshotError(
            f"{facts} is not as it was derived: somebody has removed facts of it, or written others. Nothing of it was "
            "published. Audit it again, with a run directory of its own (--out, or --run for `tidegauge job`)."
        )


def _previous_id(snapshot: AuditedSnapshot) -> str | None:
    return snapshot.previous.manifest.snapshot_id if snapshot.previous is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What Great Expectations and our own queries say of one run: the same."""

    verdicts: tuple[InvariantResult, ...]
    breaches: tuple[Breach, ...]
    validations: Mapping[str, Validation]


def judge(
    url: str,
    run_ids: Sequence[str],
    invariants: Sequence[Invariant] = tuple(CATALOGUE.values()),
    *,
    missing: Mapping[str, Mapping[Evidence, int]] = NOTHING_MISSING,
    elsewhere: Mapping[str, Mapping[str, JudgedRelation]] = NOWHERE_ELSE,
    validate: Validate | None = None,
) -> Mapping[str, Judged]:
    """Judges what is staged under runs, by our own queries and by Great Expectations. Raises StoreError, and
    EvaluationError where the two do not agree. `missing`: by run, the evidence that its snapshot lacks. `elsewhere`: by
    run and relation, what was judged where it is; of it, only rows to look at are staged. `validate`: where Great
    Expectations runs; None: here, which imports it first.
    """
    try:
        validations = (validate or _library())(url, run_ids, invariants)
        judged = _judge(url, run_ids, invariants, validations, missing, elsewhere)
        for run_id in run_ids:
            confirm(judged[run_id].verdicts, validations[run_id])
            for relation in elsewhere.get(run_id, {}).values():
                of_relation = [v for v in judged[run_id].verdicts if v.code in relation.validations]
                confirm(of_relation, relation.validations)
    except expectation_errors.EvaluationError as error:
        raise EvaluationError(str(error)) from error
    except ConnectionError as error:  # Great Expectations' word for a store that went away
        raise StoreError(f"The store went away while the invariants were evaluated: {error}. Try again.") from error
    return judged


def _library() -> Validate:
    """Great Expectations in this process. It takes seconds to import: whoever wants no verdict does not wait for it."""
    from tidegauge.expectations.gx.validation import validate

    return validate


def _judge(
    url: str,
    run_ids: Sequence[str],
    judged: Sequence[Invariant],
    validations: Mapping[str, Mapping[str, Validation]],
    missing: Mapping[str, Mapping[Evidence, int]],
    elsewhere: Mapping[str, Mapping[str, JudgedRelation]],
) -> Mapping[str, Judged]:
    verdicts: dict[str, list[InvariantResult]] = {run_id: [] for run_id in run_ids}
    breaches: dict[str, list[Breach]] = {run_id: [] for run_id in run_ids}
    with store.connect(url, "evaluate the invariants") as connection:
        for relation, invariants in by_relation(judged).items():
            there = {run_id: of_run[relation].counts for run_id, of_run in elsewhere.items() if relation in of_run}
            here = [run_id for run_id in run_ids if run_id not in there]
            counts = {**there, **(_counts(connection, relation, invariants, here) if here else {})}
            breached = set()
            for run_id in run_ids:
                found = results(invariants, counts.get(run_id), missing.get(run_id, {}))
                verdicts[run_id] += found
                breached |= {r.code for r in found if r.breached}
            for invariant in invariants:
                if invariant.code in breached:
                    for row in _rows(connection, breach_query(invariant), run_ids):
                        breaches[row["run_id"]].append(explain(invariant, row))
        copies = _copies(connection, [run_id for run_id in run_ids if breaches[run_id]])
    return {
        run_id: Judged(
            verdicts=tuple(sorted(verdicts[run_id], key=lambda r: r.code)),
            breaches=diagnose(fold(breaches[run_id], CATALOGUE), copies.get(run_id, {})),
            validations=validations[run_id],
        )
        for run_id in run_ids
    }


def _counts(
    connection: Any, relation: str, invariants: Sequence[Invariant], run_ids: Sequence[str]
) -> Mapping[str, Row]:
    """Each run's row of the counting query. Only a damaged snapshot has rows of which a sum leaves 64 bits, so the
    sums that have no bounds, and cost more, wait for Postgres to say that there are such.
    """

    def counted(*, as_stated: bool) -> Mapping[str, Row]:
        query = count_query(relation, invariants, as_stated=as_stated)
        return {row["run_id"]: row for row in _rows(connection, query, run_ids)}

    try:
        return counted(as_stated=True)
    except NumericValueOutOfRange:
        connection.rollback()  # nothing was written: it ends the transaction that failed
        return counted(as_stated=False)


def _copies(connection: Any, run_ids: Sequence[str]) -> Mapping[str, Mapping[PartitionKey, Copies]]:
    """Which replicas of each partition were captured, by run."""
    found: dict[str, dict[PartitionKey, Copies]] = {run_id: {} for run_id in run_ids}
    if run_ids:
        for row in _rows(connection, _CAPTURED, run_ids):
            copies = Copies(captured=frozenset(row["captured_replicas"] or ()))
            found[row["run_id"]][row["topic"], row["partition"]] = copies
    return found


def _rows(connection: Any, query: str, run_ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The rows of one query, by column. `:run_ids` is the queries' only parameter; psycopg2 minds every other %."""
    with connection.cursor() as cursor:
        cursor.execute(query.replace("%", "%%").replace(":run_ids", "%(run_ids)s"), {"run_ids": list(run_ids)})
        yield from store.by_column(cursor)


def _report(snapshot: AuditedSnapshot, run: Run, run_id: str, judged: Judged, coverage: object) -> dict[str, Any]:
    manifest = snapshot.manifest
    facts = snapshot.target / "facts"
    return {
        "schema_version": SCHEMA_VERSION,
        "run": {
            "run_id": run_id,
            "cluster": manifest.cluster,
            "snapshot_id": manifest.snapshot_id,
            "previous_snapshot_id": _previous_id(snapshot),
            "ruleset_version": RULESET_VERSION,
            "started_at": instant_text(run.started_at_ms),
            "finished_at": instant_text(time.time_ns() // 1_000_000),
            "consistency": manifest.consistency.value,
            "source": manifest.source.value,
            **_restricted_to(run.restriction),
        },
        "coverage": coverage,
        "invariants": [asdict(v) for v in judged.verdicts],
        "incidents": incidents_told(manifest.cluster, judged.breaches, facts, _scene(snapshot)),
        "breaches": [asdict(b) for b in judged.breaches],
        "losses": _told(facts, LOSSES.name),
        "open_transactions": _open_transactions(facts),
        "postures": _told(facts, "postures"),
        "risks": _risks(facts),
    }


def _scene(snapshot: AuditedSnapshot) -> Scene:
    previous = snapshot.previous
    return Scene(snapshot=absolute(snapshot.root), previous=absolute(previous.root) if previous is not None else None)


def _restricted_to(restriction: Restriction) -> dict[str, Any]:
    """What a restricted audit was asked for; nothing of one that looked at everything."""
    if not restriction.is_restricted:
        return {}
    partitions = [f"{topic}-{partition}" for topic, partition in sorted(restriction.partitions)]
    return {"restricted_to": {"partitions": partitions, "invariants": list(restriction.invariants)}}


def _told(facts: Location, relation: str) -> list[dict[str, Any]]:
    """A relation's rows as a report has them."""
    common = {"cluster", "snapshot_id"}
    return [
        {name: value for name, value in row.items() if name not in common}
        for row in read_relation(facts, relation).to_pylist()
    ]


def _risks(facts: Location) -> list[dict[str, Any]]:
    """What failures would cost, the worst first: what is so now, then losses before refusals, one broker before two."""
    rows = sorted(_told(facts, "risks"), key=_weight)
    return rows[:_RISKS_TOLD]


def _weight(risk: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        risk["failure"] != "now",
        not risk["losing"],
        len(risk["brokers"]),
        -risk["losing"],
        -risk["unavailable"],
        -risk["refusing"],
        risk["topic"],
        risk["brokers"],
        risk["racks"],
    )


def _open_transactions(facts: Location) -> list[dict[str, Any]]:
    """Open transactions: first those that their coordinator does not know, then the oldest. Consumers wait for them."""
    transactions = relation_at(facts, "transactions")
    rows = transactions.to_table(columns=list(_OPEN_TRANSACTION), filter=ds.field("outcome") == "open")
    found = sorted(rows.to_pylist(), key=lambda r: (not r["hanging"], r["first_timestamp_ms"] or 0))
    return found[:_OPEN_TRANSACTIONS_TOLD]


def worst_at_or_above(report: Mapping[str, Any], fail_on: str) -> bool:
    """Whether any breach is as severe as `fail_on`, or more, or records may be lost; "never" is never reached."""
    if fail_on not in _SEVERITIES:
        return False
    severe = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    return any(b["severity"] in severe for b in report["breaches"]) or bool(report["losses"])
