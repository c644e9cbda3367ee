"""What tasks write is seen when their job is done: once, and not at all of a job that was given up."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tidegauge.derivation.fact_files import PartWriter, read_relation, relation_table
from tidegauge.derivation.staged_parts import StagedPart, Staging, staging
from tidegauge.runs.errors import UnavailableError
from tidegauge.runs.run import Run, new_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    snapshot = taken(written(tmp_path / "copy", small_world()))
    return new_run(tmp_path / "run", (str(snapshot),), store_url="none", fail_on="never", started_at_ms=0)


def tried(staged: Staging, name: str, partition: int) -> str:
    """What a task does; where its rows of `replicas` are, below the job's folder."""
    writer = PartWriter(staged.place(), name)
    rows = [{"topic": "orders", "partition": partition, "broker_id": 1}]
    writer.write("replicas", relation_table("replicas", rows, cluster="c", snapshot_id="s"))
    assert writer.close() == ["replicas"]
    return f"replicas/part-{name}.parquet"


def seen(run: Run) -> list[int]:
    facts = run.directory / "facts"
    return sorted(read_relation(facts, "replicas").column("partition").to_pylist()) if facts.exists() else []


@pytest.mark.slow
def test_of_two_tries_of_a_task_one_is_seen_and_only_when_the_job_commits(run: Run) -> None:
    facts = run.directory / "facts"
    with staging(run) as staged:
        tried(staged, "00000-1", 7)
        again, other = tried(staged, "00000-4", 7), tried(staged, "00001-2", 8)
        assert seen(run) == []
        staged.commit(
            StagedPart(staged=path, final=f"{facts}/replicas/part-{at:05d}.parquet")
            for at, path in enumerate((again, other))
        )
    assert seen(run) == [7, 8]
    assert not list(run.staged.iterdir())
    metadata = [pq.ParquetFile(path).metadata.num_rows for path in sorted((facts / "replicas").iterdir())]
    assert metadata == [1, 1]


def given_up(run: Run) -> None:
    with staging(run) as staged:
        tried(staged, "00000-1", 7)
        raise KeyError("a task failed too often")


def test_of_a_job_that_fails_nothing_is_left(run: Run) -> None:
    with pytest.raises(KeyError):
        given_up(run)
    assert seen(run) == []
    assert not list(run.staged.iterdir())


def test_what_a_task_of_a_job_before_writes_late_is_not_this_ones(run: Run) -> None:
    with staging(run) as before:
        pass
    with staging(run) as staged:
        late, own = tried(before, "00000-1", 7), tried(staged, "00000-9", 8)
        assert late.replace("-1.", "-9.") == own
        staged.commit([StagedPart(staged=own, final=f"{run.directory}/facts/replicas/part-00000.parquet")])
    assert seen(run) == [8]


def test_a_part_that_counts_and_is_not_there_ends_the_job(run: Run) -> None:
    with pytest.raises(FileNotFoundError), staging(run) as staged:
        staged.commit([StagedPart(staged="replicas/part-0.parquet", final=f"{run.directory}/facts/part-0.parquet")])


def test_a_task_that_does_not_see_the_run_directory_writes_nothing(run: Run, tmp_path: Path) -> None:
    elsewhere = Staging(run=str(tmp_path / "not here"), folder=str(tmp_path / "not here" / "work" / "staged" / "1"))
    with pytest.raises(UnavailableError, match=r"s3://bucket/run, or a directory that all machines share"):
        tried(elsewhere, "00000-1", 7)
    assert not (tmp_path / "not here").exists()
