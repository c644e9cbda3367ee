"""How a derivation is shared out over Spark's tasks, and how its rows are kept."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.derivation import fact_files
from tidegauge.derivation.fact_files import PartWriter, read_relation, relation_table
from tidegauge.spark_jobs.by_partition import PARTITIONS_A_TASK, tasks


@pytest.mark.parametrize(
    ("partitions", "parallelism", "shared_by"),
    [(0, 2, 1), (1, 2, 1), (3, 2, 3), (2_000, 2, 10), (2_000, 64, 128), (200_000, 64, 1_000)],
)
def test_a_task_has_work_and_never_too_much_of_it(partitions: int, parallelism: int, shared_by: int) -> None:
    assert tasks(partitions, parallelism) == shared_by
    assert partitions / shared_by <= PARTITIONS_A_TASK


def of_partition(number: int, rows: int) -> pa.Table:
    places = ({"topic": "orders", "partition": number, "broker_id": at} for at in range(rows))
    return relation_table("replicas", places, cluster="c", snapshot_id="s")


def test_rows_of_many_partitions_are_kept_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group for each partition would be a thousand times as large as its rows."""
    monkeypatch.setattr(fact_files, "ROW_GROUP_ROWS", 100)
    writer = PartWriter(tmp_path, "00000")
    for number in range(85):
        writer.write("replicas", of_partition(number, 3))
    assert not list(tmp_path.glob("*/*.parquet")), "a part appears whole"
    writer.close()
    metadata = pq.ParquetFile(tmp_path / "replicas" / "part-00000.parquet").metadata
    groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert sum(groups) == 255
    assert len(groups) <= 5
    kept = read_relation(tmp_path, "replicas").select(["partition", "broker_id"]).to_pylist()
    assert kept == [{"partition": number, "broker_id": at} for number in range(85) for at in range(3)]


def test_one_partition_of_many_rows_is_kept_in_several_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_files, "ROW_GROUP_ROWS", 100)
    writer = PartWriter(tmp_path, "00000")
    writer.write("replicas", of_partition(0, 250))
    writer.close()
    metadata = pq.ParquetFile(tmp_path / "replicas" / "part-00000.parquet").metadata
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [100, 100, 50]
