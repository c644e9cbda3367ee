"""The two Spark steps: `index`, segments to summaries, and `derive`, summaries to facts.

In: a run. Out: `RUN/work/summaries`; `facts/` and `coverage.json` of every snapshot. The rule that must hold: each
snapshot of the run goes one of two ways, by its segments or whole, and nobody after can tell which.
"""

import shutil
from typing import TYPE_CHECKING

from spark_jobs.derive import derive_by_partition
from spark_jobs.plan import segment_tasks
from spark_jobs.run import Run
from spark_jobs.source import KafkaSegments, write_plan
from spark_jobs.whole_snapshots import derive_whole, divided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index(spark: "SparkSession", run: Run) -> None:
    """Reads every segment once and writes `RUN/work/summaries`; but for snapshots that the next step takes whole."""
    by_segment, _ = divided(run)
    shutil.rmtree(run.summaries, ignore_errors=True)
    if not by_segment.snapshots:
        return
    write_plan(run.plan, segment_tasks(by_segment))
    spark.dataSource.register(KafkaSegments)
    frame = (
        spark.read.format("kafka_segments")
        .option("plan", str(run.plan))
        .option("at_least", str(spark.sparkContext.defaultParallelism))
        .load()
    )
    frame.write.parquet(str(run.summaries))


def derive(spark: "SparkSession", run: Run) -> None:
    """Derives the facts of every snapshot. Raises `SnapshotError` for one that cannot be used."""
    by_segment, whole = divided(run)
    if by_segment.snapshots:
        derive_by_partition(spark, by_segment)
    if whole.snapshots:
        derive_whole(spark, whole)
