"""Parquet files of a run directory as data frames, and data frames as such files, wherever the directory is.

In: a folder, rows. Out: a frame, files. What a job writes is seen when the job is done, and then once. In a directory
Spark's own reader and writer see to that, and cost least. For an object store the JVM would need a connector, which
PySpark does not bring: there the rows pass through Python once more, by the settings with which a snapshot is read
there, and are committed as facts are (`derivation.staged_parts`).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.derivation.located_parquet import sizes_of_parts
from tidegauge.derivation.staged_parts import StagedPart, Staging, staging
from tidegauge.runs.mounts import must_see_run
from tidegauge.runs.run import Run
from tidegauge.snapshots.location import Location, location, open_bytes
from tidegauge.snapshots.places import absolute, made
from tidegauge.snapshots.whole_files import appearing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

_BATCH_ROWS: Final = 128
_TASKS_A_CORE: Final = 16


def frame_of(spark: "SparkSession", run: Run, folder: Location, schema: pa.Schema) -> "DataFrame":
    """The rows of the files in a folder of a run directory; of their columns, those of the schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if isinstance(folder, Path):
        return spark.read.parquet(absolute(folder)).select(*schema.names)
    names = list(sizes_of_parts(folder))
    tasks = max(1, min(len(names), _TASKS_A_CORE * spark.sparkContext.defaultParallelism))
    read = _read(absolute(run.directory), absolute(folder), names, schema.names)
    return spark.range(0, len(names), 1, tasks).mapInArrow(read, from_arrow_schema(schema))


def write_frame(run: Run, frame: "DataFrame", folder: Location) -> None:
    """Writes a file a task."""
    if isinstance(folder, Path):
        frame.write.parquet(absolute(folder))
        return
    with staging(run) as staged:
        # A row a task, a name in each: a task has some 128 MB of segments.
        written = frame.mapInArrow(_write(staged), "staged string").collect()
        staged.commit(
            StagedPart(staged=row.staged, final=f"{absolute(folder)}/part-{at:05d}.parquet")
            for at, row in enumerate(written)
        )


def name_of_this_try() -> str:
    """What no other task of the job, and no other try of this one, calls itself."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return "00000" if task is None else f"{task.partitionId():05d}-{task.taskAttemptId()}"


def _read(run: str, folder: str, names: list[str], columns: list[str]) -> "ArrowMapIterFunction":
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        must_see_run(run)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with open_bytes(location(folder) / names[number]) as file, pq.ParquetFile(file) as parquet:
                    yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns)

    return read


def _write(staged: Staging) -> "ArrowMapIterFunction":
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = iter(batches)
        first = next(rows, None)
        if first is None:
            return
        name = f"part-{name_of_this_try()}.parquet"
        with (
            appearing(made(staged.place()) / name) as file,
            pq.ParquetWriter(file, first.schema, compression="zstd") as parquet,
        ):
            parquet.write_batch(first)
            for batch in rows:
                parquet.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"staged": [name]})

    return write
