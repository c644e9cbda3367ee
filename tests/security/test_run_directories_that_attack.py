"""Whoever may write to a run directory runs no code by it, and lets nobody write or remove anything elsewhere."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from tests.derivation.small_cluster import small_world, taken, written
from tidegauge.cli.main import main
from tidegauge.derivation import coverage, fact_files
from tidegauge.runs import report_file
from tidegauge.runs.failures import Failures
from tidegauge.runs.run import Run, load, new_run, save
from tidegauge.runs.run_places import check_own, place_below
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.target import LocalTarget
from tidegauge.snapshots.whole_files import write_whole
from tidegauge.spark_jobs import source

NOBODY = 65534


# ------------------------------------------------------------------------------------------------ links laid beforehand


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(written(tmp_path_factory.mktemp("sound") / "copy", small_world()))


def a_run(directory: Path, snapshot: Path) -> Run:
    return new_run(directory, (str(snapshot),), store_url="none", fail_on="never", started_at_ms=0)


def _segments(target: Path) -> None:
    fact_files.write_empty_relations(target / "facts")


def _a_part(target: Path) -> None:
    writer = fact_files.PartWriter(target / "facts", "0")
    writer.write("segments", pa.table({"batch_count": [1]}))
    writer.close()


def _a_coverage(target: Path) -> None:
    _segments(target)
    coverage.write_coverage(target, {})


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "report": ("report.json", lambda target: report_file.keep(target, {})),
    "verdicts": (".report.json.judged", lambda target: report_file.keep_judged(target, {})),
    "plan": ("plan.json", lambda target: source.write_plan(target / "plan.json", [])),
    "coverage": ("coverage.json", _a_coverage),
    "facts": ("facts/segments/part-0.parquet", _a_part),
    "no facts": ("facts/segments/part-none.parquet", _segments),
    "manifest": ("MANIFEST.json", lambda target: LocalTarget(target).put("MANIFEST.json", "{}")),
}


@pytest.mark.parametrize("how", [Path.symlink_to, Path.hardlink_to], ids=["a link", "a hard link"])
@pytest.mark.parametrize("what", WRITERS)
def test_nothing_is_written_through_a_link_that_was_laid(
    tmp_path: Path, what: str, how: Callable[[Path, Path], None]
) -> None:
    name, write = WRITERS[what]
    victim = tmp_path / "victim"
    victim.write_text("precious")
    place = tmp_path / "target" / name
    place.parent.mkdir(parents=True)
    pid = os.getpid()
    for laid in (f".{place.name}.partial", f".{place.name}.{pid}.partial", f".{place.stem}-{pid}.partial"):
        how(place.with_name(laid), victim)
    if what not in ("no facts", "manifest"):
        how(place, victim)
    write(tmp_path / "target")
    assert victim.read_text() == "precious"
    assert place.is_file()
    assert not place.is_symlink()


def test_a_note_of_a_failure_is_written_through_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    notes = Failures(directory=str(tmp_path / "failed"))
    notes.note("index", "c/1", ValueError("x"))
    (note,) = (tmp_path / "failed" / "index").iterdir()
    note.unlink()
    note.with_name(f".{note.name}.{os.getpid()}.partial").symlink_to(victim)
    notes.note("index", "c/1", ValueError("x"))
    assert victim.read_text() == "precious"
    assert [failure.snapshot for failure in notes.all()] == ["c/1"]


def test_the_run_s_own_file_is_written_through_no_link(tmp_path: Path, snapshot: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".run.json.partial").symlink_to(victim)
    save(a_run(run, snapshot))
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in run.iterdir()) == ["run.json", "work"]


def test_what_fails_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "file", "half of a pair: \ud800")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


# --------------------------------------------------------------------------------------------------- whose it has to be


def somebody_else_s(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root gives a directory away; anybody else asks as another."""
    directory.mkdir()
    if os.geteuid() == 0:
        os.chown(directory, NOBODY, NOBODY)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    return directory


def job(step: str, directory: Path, *given: object) -> Result:
    return CliRunner().invoke(main, ["job", step, "--run", str(directory), "--store", "none", *map(str, given)])


def test_a_run_directory_of_another_user_is_refused(
    tmp_path: Path, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = somebody_else_s(tmp_path / "run", monkeypatch)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (directory / ".run.json.partial").symlink_to(victim)
    done = job("snapshot", directory, snapshot)
    assert done.exit_code == 2, done.output
    assert "Name a directory of your own" in " ".join(done.output.split())
    assert [path.name for path in directory.iterdir()] == [".run.json.partial"]
    assert victim.read_text() == "precious"
    assert job("publish", directory).exit_code == 2


def test_a_link_of_another_user_to_a_directory_of_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "ours")
    check_own(tmp_path / "run")
    if os.geteuid() == 0:
        os.lchown(tmp_path / "run", NOBODY, NOBODY)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    with pytest.raises(SnapshotError, match=f"user {(tmp_path / 'run').lstat().st_uid}"):
        check_own(tmp_path / "run")


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777], ids=oct)
def test_a_run_directory_that_everybody_may_write_to_is_refused(tmp_path: Path, snapshot: Path, mode: int) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    done = job("snapshot", tmp_path / "run", snapshot)
    assert done.exit_code == 2, done.output
    assert "chmod o-w" in done.output
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775, 0o770], ids=oct)
def test_one_of_ours_is_taken_its_group_s_too_and_in_a_directory_that_is_everybody_s(tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "run").mkdir()
    (shared / "run").chmod(mode)
    check_own(shared / "run")
    check_own(shared / "not there yet")


# --------------------------------------------------------------------------------------------------- what run.json says


def said(directory: Path, change: Callable[[Any], object]) -> None:
    value = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    changed = change(value)
    (directory / "run.json").write_text(json.dumps(value if changed is None else changed), encoding="utf-8")


@pytest.mark.parametrize("target", ["{}", "../elsewhere", "a/../../elsewhere", "link", "link/below", 7, None, ["x"]])
def test_results_go_nowhere_but_below_the_run_directory(tmp_path: Path, snapshot: Path, target: object) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "report.json").write_text("precious")
    run = tmp_path / "run"
    a_run(run, snapshot)
    (run / "link").symlink_to(elsewhere)
    named = target.format(elsewhere) if isinstance(target, str) else target
    said(run, lambda value: value["snapshots"][0].update(target=named))
    done = job("publish", run)
    assert done.exit_code == 2, done.output
    assert (elsewhere / "report.json").read_text() == "precious"


def test_a_place_below_is_taken(tmp_path: Path) -> None:
    assert place_below(tmp_path, ".") == tmp_path
    assert place_below(tmp_path, "prod/2026") == tmp_path / "prod" / "2026"


@pytest.mark.parametrize(
    "value",
    [
        {}, [], None, 7, "x", {"snapshots": [{"root": 1}]}, {"snapshots": []}, {"snapshots": {}}, {"snapshots": [7]},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_what_is_no_run_is_said_in_a_sentence(tmp_path: Path, value: object) -> None:
    (tmp_path / "run.json").write_text(json.dumps(value), encoding="utf-8")
    done = job("publish", tmp_path)
    assert done.exit_code == 2, done.output
    assert "is not what the step snapshot writes" in done.output


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "\udcff"], ids=["nothing", "half", "deep", "no UTF-8"])
def test_what_is_no_json_is_said_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    done = job("publish", tmp_path)
    assert done.exit_code == 2, done.output
    assert "is not a run directory" in done.output


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.pop("fail_on"),
        lambda value: value.update(store_url=7),
        lambda value: value.update(started_at_ms="now"),
        lambda value: value.update(partitions=7),
        lambda value: value.update(partitions=[["orders"]]),
        lambda value: value.update(partitions=[[["orders"], 0]]),
        lambda value: value.update(invariants=[["D06"]]),
        lambda value: value.update(invariants=["no such one"]),
        lambda value: value["snapshots"][0].update(previous=[]),
        lambda value: value["snapshots"][0].update(previous={"root": None}),
        lambda value: value["snapshots"][0].update(manifest=[]),
        lambda value: value["snapshots"][0].update(root="http://example.org/x"),
    ],
)
def test_a_field_of_another_type_is_said_in_a_sentence(
    tmp_path: Path, snapshot: Path, change: Callable[[Any], object]
) -> None:
    a_run(tmp_path / "run", snapshot)
    assert load(tmp_path / "run").snapshots

    def changed(value: Any) -> None:
        change(value)

    said(tmp_path / "run", changed)
    with pytest.raises(SnapshotError, match="is not what the step snapshot writes"):
        load(tmp_path / "run")
