"""One snapshot's failure is that snapshot's: the others of the run are read, judged and published."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, text

from tests.derivation.damage import copy_of
from tidegauge.audit import evaluate, publication
from tidegauge.audit import steps as audit
from tidegauge.cli.main import main
from tidegauge.derivation import derive as derivation
from tidegauge.derivation import index
from tidegauge.derivation.index_columns import INDEX_SCHEMA
from tidegauge.derivation.plan import segment_tasks
from tidegauge.derivation.snapshot_rows import snapshot_batch
from tidegauge.derivation.staged_parts import staging
from tidegauge.runs import failures, report_file
from tidegauge.runs.errors import EvaluationError, OwnError, RefusedError, StoreError
from tidegauge.runs.failures import Failures
from tidegauge.runs.run import Run, new_run
from tidegauge.runs.survivors import failed_error, going_on
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.errors import AuditError, SnapshotError, StorageError
from tidegauge.snapshots.manifest import Consistency
from tidegauge.spark_jobs import by_partition as derive
from tidegauge.spark_jobs import whole_snapshots

BROKEN = "broken"


@pytest.fixture
def notes(tmp_path: Path) -> Failures:
    return Failures(directory=str(tmp_path / "failed"))


@pytest.fixture(scope="module")
def inputs(golden: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Three copies of some partitions, one of which is to fail."""
    root = tmp_path_factory.mktemp("inputs")
    made = []
    for name in ("one", BROKEN, "other"):
        directory = copy_of(golden("healthy"), root / name, "__cluster_metadata-0", "compacted-0")
        adopt(directory, cluster="alone", consistency=Consistency.FUZZY, snapshot_id=name)
        made.append(str(directory))
    return tuple(made)


def a_run(inputs: tuple[str, ...], directory: Path) -> Run:
    return new_run(directory, inputs, store_url="none", fail_on="never", started_at_ms=0, data_docs=False)


def left(run: Run) -> set[str]:
    return {snapshot.manifest.snapshot_id for snapshot in going_on(run).snapshots}


# ------------------------------------------------------------------------------------------------------------ the notes


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (KeyError("start_offset"), "our fault", "KeyError: 'start_offset'"),
        (MemoryError(), "our fault", "MemoryError: "),
        (SnapshotError("It is no snapshot."), "unusable", "It is no snapshot."),
        (EvaluationError("They do not agree."), "no verdict", "They do not agree."),
        (RefusedError("bigint out of range"), "our fault", "bigint out of range"),
    ],
)
def test_what_stands_in_a_snapshot_is_noted_as_its_own(notes, error, kind, told):
    with notes.of("derive", "c/1"):
        raise error
    (found,) = notes.all()
    assert (found.snapshot, found.step, found.kind, found.text) == ("c/1", "derive", kind, told)
    assert "Traceback" in found.trace


@pytest.mark.parametrize("error", [StoreError("away"), StorageError("no answer"), OSError(28, "No space left")])
def test_what_is_wrong_around_us_is_no_snapshots(notes, error):
    with pytest.raises(type(error)), notes.of("derive", "c/1"):
        raise error
    assert notes.all() == ()


def test_a_file_that_the_system_refuses_is_that_of_the_snapshot_it_lies_in(notes, tmp_path):
    inside = OSError(13, "Permission denied", str(tmp_path / "snapshot" / "broker-1"))
    with notes.of("derive", "c/1", root=tmp_path / "snapshot"):
        raise inside
    assert [f.snapshot for f in notes.all()] == ["c/1"]
    with pytest.raises(OSError, match="Permission"), notes.of("derive", "c/2", root=tmp_path / "other"):
        raise inside


def test_a_step_that_is_tried_again_forgets_what_it_and_those_behind_it_noted(notes):
    for step in failures.STEPS:
        with notes.of(step, step):
            raise ValueError
    notes.begin("derive")
    assert [f.step for f in notes.all()] == ["snapshot", "index"]


# ------------------------------------------------------------------------------------------------------- step by step


def test_one_of_several_that_is_no_snapshot_is_left_out_and_named(inputs, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    run = a_run((*inputs, str(empty)), tmp_path / "run")
    assert left(run) == {"one", BROKEN, "other"}
    error = failed_error(run)
    assert isinstance(error, SnapshotError)
    assert str(error).startswith("1 of 4 snapshots could not be audited, the other 3 were. ")
    assert str(empty) in str(error)


def test_where_none_can_be_used_it_is_said_as_of_one(tmp_path):
    empty = [tmp_path / "empty", tmp_path / "other"]
    for directory in empty:
        directory.mkdir()
    with pytest.raises(SnapshotError):
        a_run(tuple(map(str, empty)), tmp_path / "run")


def fails_for(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, concerns: Any) -> None:
    """Lets a function raise what no input should make it raise, for one snapshot."""
    inner = getattr(module, name)

    def outer(*args: Any, **kwargs: Any) -> Any:
        if concerns(*args, **kwargs):
            raise KeyError("start_offset")
        return inner(*args, **kwargs)

    monkeypatch.setattr(module, name, outer)


def test_a_segment_that_we_fail_of_counts_as_unread(inputs, tmp_path, monkeypatch):
    run = a_run(inputs, tmp_path / "run")
    broken = next(t.path for t in segment_tasks(run) if t.snapshot.endswith(BROKEN))
    fails_for(monkeypatch, index, "_index_segment", lambda t: t.snapshot.endswith(BROKEN) and t.path == broken)
    read = index.index_rows(segment_tasks(run), failures=run.failures)
    rows = pa.Table.from_batches(list(read), schema=INDEX_SCHEMA).to_pylist()
    assert len(rows) == len(segment_tasks(run))
    assert [(r["snapshot"], r["path"], r["error"]) for r in rows if r["error"]] == [
        (f"alone/{BROKEN}", broken, "not judged, for a fault of ours: KeyError: 'start_offset'")
    ]
    assert left(run) == {"one", BROKEN, "other"}
    (part,) = run.failures.parts()
    assert (part.snapshot, part.part, part.unread) == (f"alone/{BROKEN}", broken, (broken,))
    assert broken in part.trace


@pytest.mark.slow
def test_a_partition_that_we_fail_of_counts_as_unread_and_the_rest_is_judged(
    inputs, tmp_path, monkeypatch, empty_store
):
    def readable(_work: Any, known: Any, own: Any, _earlier: Any) -> bool:
        of = known.now.context
        return (of.topic, of.partition) == ("compacted", 0) and not any(row["error"] for row in own.values())

    fails_for(monkeypatch, derivation, "_facts", readable)
    ended = audited(inputs[0], "--out", str(tmp_path / "out"), monkeypatch=monkeypatch, store=empty_store)
    assert ended.exit_code == 70
    assert "1 part could not be judged: what hangs on it is told as not known, all else was judged." in ended.stderr
    assert "compacted-0 of alone/one: KeyError: 'start_offset'." in ended.stderr
    report = json.loads(ended.stdout)
    verdicts = {found["code"]: found for found in report["invariants"]}
    assert not any(found["breached"] for found in verdicts.values() if found["severity"] != "info"), "no false alarm"
    assert verdicts["D02"]["verdict"] == "unknown", "and no false green"
    assert verdicts["K01"]["verdict"] == "holds"
    unread = {entry["path"]: entry["reason"] for entry in report["coverage"]["unread"]}
    logs = {path for path in unread if "/compacted-0/" in path and path.endswith(".log")}
    assert {path.split("/")[0] for path in logs} == {"broker-1", "broker-2", "broker-3"}
    assert {unread[path] for path in logs} == {"not judged, for a fault of ours: KeyError: 'start_offset'"}
    assert "segment" in {entry["evidence"] for entry in report["coverage"]["missing_evidence"]}
    assert published(empty_store) >= {"one"}


def test_a_snapshot_that_is_taken_whole_fails_alone(inputs, tmp_path, monkeypatch):
    run = a_run(inputs, tmp_path / "run")
    derive_whole(run, monkeypatch)
    assert left(run) == {"one", "other"}
    for snapshot in going_on(run).snapshots:
        assert (snapshot.target / "coverage.json").exists()


def derive_whole(run: Run, monkeypatch: pytest.MonkeyPatch | None) -> None:
    """What Spark's tasks do with many small snapshots; with `monkeypatch`, gathering one of them fails."""
    if monkeypatch is not None:
        fails_for(monkeypatch, derivation, "gather", lambda snapshot, *_, **__: snapshot.key.endswith(BROKEN))
    list(whole_snapshots._derive_each(run.failures)(iter([snapshot_batch(run.snapshots)])))


def test_a_partition_that_we_fail_of_even_unread_takes_its_snapshot_and_no_other(inputs, tmp_path, monkeypatch):
    run = a_run(inputs, tmp_path / "run")
    shared = {
        f"alone/{name}": derive.Shared(
            work=derivation.SnapshotWork(root="", key=f"alone/{name}", cluster="alone", snapshot_id=name), common=()
        )
        for name in ("one", BROKEN)
    }
    fails_for(monkeypatch, derivation, "_facts", lambda work, *_: work.snapshot_id == BROKEN)
    rows = [
        {"audited": key, "snapshot": key, "topic": "t", "partition": 0, "path": "p", "role": None} for key in shared
    ]
    with staging(run) as staged:
        derived = derive._derive_and_write(shared.__getitem__, run.failures, staged)
        written = pa.Table.from_batches(derived(iter(pa.Table.from_pylist(rows).to_batches()))).to_pylist()
    assert [(row["audited"], row["relations"]) for row in written] == [(key, []) for key in shared]
    assert [(f.snapshot, f.step) for f in run.failures.all()] == [(f"alone/{BROKEN}", "derive")]


@pytest.fixture(scope="module")
def derived(inputs: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose snapshots are derived."""
    run = a_run(inputs, tmp_path_factory.mktemp("derived"))
    derive_whole(run, None)
    assert run.failures.all() == ()
    return run


@pytest.fixture
def again(derived: Run) -> Iterator[Run]:
    """The same without what a test noted."""
    derived.failures.begin("snapshot")
    yield derived
    derived.failures.begin("snapshot")


def published(url: str) -> set[str]:
    query = "SELECT snapshot_id FROM tidegauge.audit_run WHERE cluster = 'alone' AND status = 'published'"
    with create_engine(url).connect() as connection:
        return set(connection.execute(text(query)).scalars())


def staged(url: str) -> int:
    with create_engine(url).connect() as connection:
        return connection.execute(
            text("SELECT count(*) FROM tidegauge.audit_run WHERE status = 'staging'")
        ).scalar_one()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["explain", "_report"])
def test_a_snapshot_that_cannot_be_judged_is_not_published_and_the_others_are(again, empty_store, monkeypatch, name):
    def concerns(first: Any, second: Any, *_: Any) -> bool:
        of = second["snapshot_id"] if name == "explain" else first.manifest.snapshot_id
        return bool(of == BROKEN)

    fails_for(monkeypatch, evaluate, name, concerns)
    for snapshot in again.snapshots:
        (snapshot.target / "report.json").unlink(missing_ok=True)
    evaluate.evaluate(again, empty_store)
    publication.publish(again, empty_store)
    assert left(again) == {"one", "other"}
    assert published(empty_store) == {"one", "other"}
    assert staged(empty_store) == 0
    reports = {s.manifest.snapshot_id for s in again.snapshots if (s.target / "report.json").exists()}
    assert reports == {"one", "other"}
    error = failed_error(again)
    assert isinstance(error, OwnError)
    expected = "1 of 3 snapshots could not be audited, the other 2 were. alone/broken: KeyError: 'start_offset'."
    assert str(error) == expected


@pytest.mark.slow
def test_rows_that_the_store_refuses_are_one_snapshots_matter(again, empty_store, monkeypatch):
    inner = evaluate.batches_of

    def with_a_strange_row(facts: Path, relation: str) -> Iterator[pa.RecordBatch]:
        for batch in inner(facts, relation):
            strange = relation == "topics" and BROKEN in facts.parts
            rows = [{**row, "configs": "{"} for row in batch.to_pylist()] if strange else batch.to_pylist()
            yield pa.RecordBatch.from_pylist(rows, schema=batch.schema)

    monkeypatch.setattr(evaluate, "batches_of", with_a_strange_row)
    evaluate.evaluate(again, empty_store)
    assert left(again) == {"one", "other"}
    assert "invalid input syntax for type json" in again.failures.all()[0].text
    publication.discard(again, empty_store)


@pytest.mark.slow
def test_a_snapshot_that_cannot_be_published_is_given_up_and_the_others_are_published(again, empty_store, monkeypatch):
    evaluate.evaluate(again, empty_store)
    fails_for(monkeypatch, publication, "_publish", lambda snapshot, *_: snapshot.key.endswith(BROKEN))
    publication.publish(again, empty_store)
    assert [(f.snapshot, f.step) for f in again.failures.all()] == [(f"alone/{BROKEN}", "publish")]
    assert published(empty_store) == {"one", "other"}
    assert staged(empty_store) == 0


@pytest.mark.slow
def test_where_all_fail_the_error_is_raised(again, empty_store, monkeypatch):
    fails_for(monkeypatch, evaluate, "explain", lambda *_: True)
    with pytest.raises(AuditError, match=r"3 of 3 snapshots .* none is left"):
        evaluate.evaluate(again, empty_store)


@pytest.mark.slow
def test_a_store_that_went_away_stops_the_run(again, monkeypatch, empty_store):
    monkeypatch.setattr(evaluate, "judge", lambda *_, **__: (_ for _ in ()).throw(StoreError("away")))
    with pytest.raises(StoreError, match="away"):
        evaluate.evaluate(again, empty_store)
    assert again.failures.all() == ()
    assert json.loads((again.directory / "run.json").read_text())["snapshots"]


@pytest.mark.slow
def test_a_report_stands_where_the_store_has_its_run_and_nowhere_else(again, monkeypatch, empty_store):
    def reports() -> list[str]:
        return sorted(path.parent.name for path in again.directory.glob("alone/*/report.json"))

    with monkeypatch.context() as full:  # after the first report was written, before the run counts as judged
        full.setattr(
            evaluate.store, "mark_judged", lambda *_: (_ for _ in ()).throw(StoreError("No space left on device"))
        )
        with pytest.raises(StoreError, match="No space"):
            evaluate.evaluate(again, empty_store)
    assert list(again.directory.rglob("*.judged")) == []
    evaluate.evaluate(again, empty_store)
    assert reports() == []
    with monkeypatch.context() as full:
        full.setattr(evaluate.store, "publish", lambda *_: (_ for _ in ()).throw(StoreError("No space left on device")))
        with pytest.raises(StoreError, match="No space"):
            publication.publish(again, empty_store)
    assert reports() == []
    publication.publish(again, empty_store)
    assert set(reports()) == {"one", BROKEN, "other"} <= published(empty_store)
    with monkeypatch.context() as full:  # the disk is full behind the store's commit: the step is tried again
        full.setattr(report_file, "keep", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        evaluate.evaluate(again, empty_store)
        with pytest.raises(OSError, match="No space"):
            publication.publish(again, empty_store)
    assert reports() == [], "those of the first run are not this one's"
    publication.publish(again, empty_store)
    assert set(reports()) == {"one", BROKEN, "other"}


# -------------------------------------------------------------------------------------------------- by the command line


def audited(*arguments: str, monkeypatch: pytest.MonkeyPatch, store: str = "none") -> Result:
    """`tidegauge audit`, with the Spark steps in this process."""
    monkeypatch.setattr(audit, "_spark_steps", lambda run, *_: derive_whole(run, None))
    return CliRunner().invoke(main, ["audit", *arguments, "--store", store, "--fail-on", "never", "--json"])


@pytest.mark.slow
def test_the_command_tells_the_others_and_ends_with_the_failure(inputs, tmp_path, monkeypatch, empty_store):
    fails_for(monkeypatch, evaluate, "explain", lambda _, row: row["snapshot_id"] == BROKEN)
    ended = audited(*inputs, "--out", str(tmp_path / "out"), monkeypatch=monkeypatch, store=empty_store)
    assert ended.exit_code == 70
    assert {report["run"]["snapshot_id"] for report in json.loads(ended.stdout)} == {"one", "other"}
    assert "evaluate: alone/broken is left out: KeyError: 'start_offset'" in ended.stderr
    assert "1 of 3 snapshots could not be audited, the other 2 were." in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_one_that_cannot_be_used_makes_it_exit_code_two(inputs, tmp_path, monkeypatch, empty_store):
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out"
    ended = audited(inputs[0], str(tmp_path / "empty"), "--out", str(out), monkeypatch=monkeypatch, store=empty_store)
    assert ended.exit_code == 2
    assert [report["run"]["snapshot_id"] for report in json.loads(ended.stdout)] == ["one"]
    assert str(tmp_path / "empty") in ended.stderr


@pytest.mark.slow
def test_what_an_earlier_run_left_is_not_taken_for_this_ones(inputs, tmp_path, monkeypatch, empty_store):
    out = tmp_path / "out"
    assert audited(*inputs, "--out", str(out), monkeypatch=monkeypatch, store=empty_store).exit_code == 0
    assert len(list(out.glob("*/*/report.json"))) == 3
    fails_for(monkeypatch, evaluate, "explain", lambda _, row: row["snapshot_id"] == BROKEN)
    assert audited(*inputs, "--out", str(out), monkeypatch=monkeypatch, store=empty_store).exit_code == 70
    assert sorted(path.parent.name for path in out.glob("*/*/report.json")) == ["one", "other"]
