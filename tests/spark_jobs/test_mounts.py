"""A worker that does not see the snapshot fails its task; one file that is missing is the copy's own damage."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.apart import whole_copy
from tests.derivation.pipeline import derived
from tidegauge.derivation.derive import derive_partition, known_partitions, snapshot_work
from tidegauge.derivation.index import index_rows
from tidegauge.derivation.plan import segment_tasks
from tidegauge.derivation.segment_tasks import SegmentTask
from tidegauge.runs.errors import UnavailableError
from tidegauge.runs.mounts import must_see, must_see_run, seen
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.spark_jobs import session


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    return whole_copy(golden("unclean-before"), tmp_path / "copy")


def audited(directory: Path) -> AuditedSnapshot:
    opened = open_snapshot(directory)
    return AuditedSnapshot(root=opened.root, manifest=opened.manifest, target=directory)


def tasks(directory: Path) -> list[SegmentTask]:
    run = Run(directory=directory, snapshots=(audited(directory),), store_url=None, fail_on="never", started_at_ms=0)
    return segment_tasks(run)


def test_where_the_root_is_not_mounted_no_segment_is_called_unreadable(copy: Path, tmp_path: Path) -> None:
    wanted = tasks(copy)
    for elsewhere in (tmp_path / "not there", tmp_path / "empty mount"):
        lost = [replace(task, root=str(elsewhere)) for task in wanted]
        with pytest.raises(UnavailableError, match=rf"{elsewhere} cannot be seen on .* Every worker must see"):
            list(index_rows(lost))
        elsewhere.mkdir(exist_ok=True)
    (tmp_path / "empty mount" / "lost+found").mkdir()
    with pytest.raises(UnavailableError, match="is it mounted there"):
        must_see(str(tmp_path / "empty mount"))


def test_one_file_or_one_broker_that_is_missing_is_named_and_stops_nobody(copy: Path) -> None:
    wanted = tasks(copy)
    (copy / wanted[0].stored_path).unlink()
    shutil.rmtree(copy / "broker-3")
    rows = [row for batch in index_rows(wanted) for row in batch.to_pylist()]
    unread = {row["path"] for row in rows if row["error"]}
    assert unread == {wanted[0].path} | {t.path for t in wanted if t.broker_id == 3}
    assert {row["error"] for row in rows if row["error"]} == {"cannot be read: No such file or directory"}


def test_small_files_that_a_worker_does_not_see_are_not_taken_for_missing(copy: Path, tmp_path: Path) -> None:
    facts = derived(copy)
    work = snapshot_work(audited(copy), facts.context, None)
    orders = known_partitions(facts.context, None)["orders", 0].now
    assert orders is not None
    seen.cache_clear()
    copy.rename(tmp_path / "moved")
    with pytest.raises(UnavailableError, match="cannot be seen on"):
        derive_partition(work, orders, facts.index)


def test_a_run_directory_that_workers_do_not_share_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot be seen on .* Give --out .* a place in an object store"):
        must_see_run(str(tmp_path / "run"))


def test_the_workers_words_are_all_that_is_told() -> None:
    from pyspark.errors import PythonException

    text = (
        "Traceback\n  File x\n"
        "tidegauge.runs.errors.UnavailableError: The snapshot /s cannot be seen on w1. Mount it.\n\n"
    )
    with pytest.raises(UnavailableError) as told, session.spark_errors("read the segments"):
        raise PythonException(text)
    assert str(told.value) == "The snapshot /s cannot be seen on w1. Mount it."


def tidegauge(home: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tidegauge", *map(str, arguments)]
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.parametrize(("count", "steps"), [(1, ("index",)), (8, ("index", "derive"))])
def test_an_audit_whose_workers_do_not_see_the_snapshot_ends_with_one_paragraph(
    count: int, steps: tuple[str, ...], golden: Golden, tmp_path: Path
) -> None:
    """Read segment by segment, and, where there are many small ones, whole."""
    copies = [whole_copy(golden("disk-failed"), tmp_path / "snapshots" / str(n)) for n in range(count)]
    run = tmp_path / "run"
    begun = tidegauge(tmp_path, "job", "snapshot", *copies, "--run", run, "--store", "none")
    assert begun.returncode == 0, begun.stderr
    (tmp_path / "snapshots").rename(tmp_path / "unmounted")
    for step in steps[:-1]:
        assert tidegauge(tmp_path, "job", step, "--run", run).returncode == 0
    done = tidegauge(tmp_path, "job", steps[-1], "--run", run)
    assert done.returncode == 3, done.stderr
    (paragraph,) = [line for line in done.stderr.splitlines() if line.startswith("tidegauge: ")]
    assert "cannot be seen on" in paragraph
    assert "Every worker must see snapshots under the path that the driver has" in paragraph
    assert "Traceback" not in done.stderr
