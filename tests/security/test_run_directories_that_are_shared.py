"""Two audits that are given one run directory: neither is judged by the other's facts, and none is green by them."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from tests.derivation.small_cluster import small_world, taken, written
from tidegauge.audit import evaluate, publication
from tidegauge.cli.main import main
from tidegauge.derivation import in_process
from tidegauge.derivation.fact_files import write_part
from tidegauge.derivation.in_process import derive_run
from tidegauge.embedded.airflow import alone
from tidegauge.runs import report_file
from tidegauge.runs.run import Run, load, new_run
from tidegauge.runs.run_lock import held
from tidegauge.snapshots.errors import SnapshotError

SOUND_AT, BROKEN_AT = 1_700_000_000_000, 1_700_000_000_001


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(written(tmp_path_factory.mktemp("sound") / "sound", small_world()))


@pytest.fixture(scope="module")
def broken(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same cluster; one broker's log of orders-0 is gone."""
    copy = tmp_path_factory.mktemp("broken") / "broken"
    shutil.copytree(sound, copy)
    (copy / "MANIFEST.json").unlink()
    for log in (copy / "broker-1" / "orders-0").glob("*.log"):
        log.write_bytes(log.read_bytes()[:-40] + bytes(40))
    return taken(copy)


def a_run(directory: Path, snapshot: Path, at_ms: int) -> Run:
    return new_run(directory, (str(snapshot),), store_url="none", fail_on="never", started_at_ms=at_ms)


def command(*given: object) -> Result:
    return CliRunner().invoke(main, [*map(str, given)])


def codes(report: Path) -> set[str]:
    return {breach["code"] for breach in json.loads(report.read_text(encoding="utf-8"))["breaches"]}


@pytest.mark.parametrize("step", ["snapshot", "derive", "evaluate", "publish", "audit"])
def test_while_one_audit_writes_to_a_directory_no_other_does(tmp_path: Path, sound: Path, step: str) -> None:
    run = tmp_path / "run"
    a_run(run, sound, SOUND_AT)
    before = sorted(path.relative_to(run) for path in run.rglob("*"))
    given = ("audit", sound, "--out", run) if step == "audit" else ("job", step, *[sound][: step == "snapshot"])
    with held(run):
        done = command(*given, *(() if step == "audit" else ("--run", run)), "--store", "none")
    assert done.exit_code == 3, done.output
    assert "Another audit is writing to" in done.output
    assert sorted(path.relative_to(run) for path in run.rglob("*")) == before


@pytest.mark.parametrize("asked", ["demo", "up"])
def test_one_airflow_at_a_time_runs_in_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    """Two wrote each other's password, and the second ended with "401 Invalid credentials"."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path))
    with alone(tmp_path / "airflow"):
        done = command(asked)
    assert done.exit_code == 3, done.output
    assert "Another `tidegauge demo` or `tidegauge up` is running Airflow in" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["airflow"]
    with alone(tmp_path / "airflow"):
        pass


@pytest.mark.parametrize("gone", ["replicas", "losses", "*"])
def test_facts_that_are_gone_are_no_facts_that_found_nothing(
    gone: str, tmp_path: Path, broken: Path, store_url: str
) -> None:
    """`store retain --facts-days 0` removed them between two steps, and "nothing is breached" was published."""
    run = tmp_path / "run"
    assert command("job", "snapshot", broken, "--run", run, "--store", "none").exit_code == 0
    derive_run(load(run))
    for relation in (run / "facts").glob(gone):
        shutil.rmtree(relation)
    with pytest.raises(SnapshotError, match="holds no facts"):
        evaluate.evaluate(load(run), store_url)
    assert not (run / "report.json").exists()


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts of which each row is a part of its own, as many tasks of Spark write them."""

    def a_row_a_part(facts: Path, part: str, tables: Iterable[tuple[str, pa.Table]]) -> None:
        for name, table in tables:
            for row in range(table.num_rows):
                write_part(facts, f"{part}-{row}", [(name, table.slice(row, 1))])

    monkeypatch.setattr(in_process, "write_part", a_row_a_part)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("gone", ["replicas", "postures"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_one_part_that_is_gone_of_many_is_missed(
    gone: str, when: str, tmp_path: Path, broken: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is still a relation, with fewer rows: what the part told of would be nothing found."""
    run = tmp_path / "run"
    assert command("job", "snapshot", broken, "--run", run, "--store", "none").exit_code == 0
    derive_run(load(run))
    parts = sorted((run / "facts" / gone).iterdir())
    assert len(parts) > 1
    judge = evaluate.judge

    def meanwhile(*given: Any, **named: Any) -> Any:
        parts[0].unlink()
        return judge(*given, **named)

    if when == "meanwhile":
        monkeypatch.setattr(evaluate, "judge", meanwhile)
    else:
        parts[0].unlink()
    with pytest.raises(SnapshotError, match="is not as it was derived: somebody has removed facts of it"):
        evaluate.evaluate(load(run), store_url)
    assert not (run / "report.json").exists()
    assert "facts_digest" in json.loads((run / "coverage.json").read_text())


@pytest.mark.usefixtures("in_parts")
def test_facts_that_are_all_there_are_judged_and_the_report_has_no_digest(
    tmp_path: Path, broken: Path, store_url: str
) -> None:
    run = a_run(tmp_path / "run", broken, BROKEN_AT)
    derive_run(run)
    evaluate.evaluate(run, store_url)
    publication.discard(run, store_url)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["breaches"]
    assert "facts_digest" not in report["coverage"]


def test_the_lock_goes_with_its_holder_and_leaves_no_directory_that_holds_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), held(tmp_path / "run"):
        raise KeyError
    assert not (tmp_path / "run").exists()
    with held(tmp_path / "run"):
        (tmp_path / "run" / "result").write_text("")
    with held(tmp_path / "run"):
        pass
    assert (tmp_path / "run" / "result").exists()


def test_what_another_audit_derived_is_not_judged_as_this_one_s(
    tmp_path: Path, sound: Path, broken: Path, store_url: str
) -> None:
    derive_run(a_run(tmp_path / "run", sound, SOUND_AT))
    later = a_run(tmp_path / "run", broken, BROKEN_AT)
    with pytest.raises(SnapshotError, match="Run the steps index and derive first"):
        evaluate.evaluate(later, store_url)
    derive_run(later)
    evaluate.evaluate(later, store_url)
    publication.discard(later, store_url)
    assert codes(tmp_path / "run" / "report.json") != set()


def test_no_row_of_another_snapshot_is_judged(tmp_path: Path, sound: Path, broken: Path, store_url: str) -> None:
    """In an object store nothing locks a place: the facts say themselves whose they are."""
    derive_run(a_run(tmp_path / "other", sound, SOUND_AT))
    run = a_run(tmp_path / "run", broken, BROKEN_AT)
    derive_run(run)
    shutil.rmtree(tmp_path / "run" / "facts" / "replicas")
    shutil.copytree(tmp_path / "other" / "facts" / "replicas", tmp_path / "run" / "facts" / "replicas")
    with pytest.raises(SnapshotError, match="facts of another audit"):
        evaluate.evaluate(run, store_url)
    assert not (tmp_path / "run" / "report.json").exists()


@pytest.mark.parametrize("ends", [publication.publish, publication.discard])
def test_a_report_that_another_audit_wrote_is_neither_published_nor_kept_as_this_one_s(
    tmp_path: Path, sound: Path, broken: Path, store_url: str, ends: Any
) -> None:
    theirs, ours = (a_run(tmp_path / n, s, at) for n, s, at in (("a", sound, SOUND_AT), ("b", broken, BROKEN_AT)))
    for run in (theirs, ours):
        derive_run(run)
        evaluate.evaluate(run, store_url)
    shutil.copy(report_file.at(tmp_path / "a"), report_file.at(tmp_path / "b"))
    with pytest.raises(SnapshotError, match="the report of another audit"):
        ends(ours, store_url)
    assert not (tmp_path / "b" / "report.json").exists()
    publication.discard(theirs, store_url)
