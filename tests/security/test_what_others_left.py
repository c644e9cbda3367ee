"""What somebody else may have laid where a command works on files that it did not just make: journals, runs, dumps."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tidegauge.cli import retention, store_dump
from tidegauge.runs.errors import StoreError, UnavailableError
from tidegauge.snapshots.errors import AuditError
from tidegauge.snapshots.target import LocalTarget

NOW = datetime.now(UTC)


@pytest.mark.parametrize("lay", [Path.symlink_to, Path.hardlink_to])
def test_a_capture_s_journal_is_written_through_no_link(lay: object, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("not a journal\n")
    root = tmp_path / "snapshot"
    root.mkdir()
    assert callable(lay)
    lay(root / ".capture-1.jsonl", outside)
    with pytest.raises((OSError, AuditError), match="link"), LocalTarget(root).journal(".capture-1.jsonl") as note:
        note("ours")
    assert outside.read_text() == "not a journal\n"


def test_a_journal_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal")
    with pytest.raises(OSError, match="not a regular file"):
        LocalTarget(tmp_path).text("journal")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three old run directories, and a store that knows of none."""
    for name in ("a", "b", "c"):
        (tmp_path / "runs" / name / "facts").mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    monkeypatch.setattr(retention, "retain_in_store", lambda *_, **__: {})
    monkeypatch.setattr(retention, "_published", lambda _: set())
    return tmp_path / "runs"


def retained(runs: Path) -> list[str]:
    for path in (runs, *runs.rglob("*")):
        os.utime(path, (0, 0), follow_symlinks=False)
    return list(
        retention.retain(
            "", now=NOW, runs_before=NOW - timedelta(days=30_000), facts_before=NOW, runs_root=runs,
            with_snapshots=False, dry_run=False,
        )
    )  # fmt: skip


def test_a_link_in_one_run_keeps_none_of_the_others_and_nothing_behind_it_goes(runs: Path, tmp_path: Path) -> None:
    facts = tmp_path / "elsewhere" / "x" / "facts"
    facts.mkdir(parents=True)
    (facts / "kept").write_text("mine")
    (runs / "b" / "cluster").symlink_to(tmp_path / "elsewhere")
    (runs / "b" / "report.json").symlink_to(facts / "kept")
    os.mkfifo(runs / "c" / "report.json.of-another")
    told = retained(runs)
    assert [(runs / name / "facts").exists() for name in ("a", "b", "c")] == [False, False, False], told
    assert (facts / "kept").read_text() == "mine"


def test_a_report_that_is_a_pipe_is_not_waited_for(runs: Path) -> None:
    os.mkfifo(runs / "b" / "report.json")
    retained(runs)


def test_a_run_that_cannot_be_removed_keeps_none_of_the_others(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = retention.removed

    def removed(root: Path, below: Path, **how: bool) -> int:
        if below.parent.name == "a":
            raise PermissionError(13, "not yours", str(below))
        return real(root, below, dry_run=how["dry_run"])

    monkeypatch.setattr(retention, "removed", removed)
    for name in ("a", "b", "c"):
        (runs / name / "facts" / "part").write_text("x" * 10)
    with pytest.raises(UnavailableError, match=r"1 directories stay, .*not yours"):
        retained(runs)
    assert [(runs / name / "facts").exists() for name in ("a", "b", "c")] == [True, False, False]


@contextmanager
def not_as_root() -> Iterator[None]:
    """Whom no file's mode stops is somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_read_keeps_no_run_and_no_snapshot(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as place:
        root, closed = Path(place) / "runs", Path(place) / "runs" / "b"
        shutil.move(runs, root)
        (Path(place) / "snapshots" / "closed").mkdir(parents=True)
        monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(Path(place) / "snapshots"))
        for path in (Path(place), *Path(place).rglob("*")):
            os.utime(path, (0, 0))
            if os.geteuid() == 0:
                os.chown(path, 65_534, 65_534)
        closed.chmod(0)
        (Path(place) / "snapshots" / "closed").chmod(0)
        with not_as_root(), pytest.raises(UnavailableError, match="2 directories stay") as refused:
            list(
                retention.retain(
                    "", now=NOW, runs_before=NOW - timedelta(days=1), facts_before=NOW, runs_root=root,
                    with_snapshots=True, dry_run=False,
                )
            )  # fmt: skip
        assert str(closed) in str(refused.value)
        assert "snapshots/closed" in str(refused.value)
        assert [(root / name).exists() for name in ("a", "b", "c")] == [False, True, False]
        closed.chmod(0o755)
        (Path(place) / "snapshots" / "closed").chmod(0o755)


def test_a_dump_that_somebody_else_may_have_written_is_not_run(tmp_path: Path) -> None:
    dump = tmp_path / "store.dump"
    dump.write_bytes(b"PGDMP")
    dump.chmod(0o646)
    with pytest.raises(StoreError, match="Somebody else may have written"):
        store_dump.restore("postgresql://nobody@127.0.0.1:1/none", dump)
