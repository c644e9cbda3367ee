"""The index step as a Spark job: the plan in, segment summaries in Parquet out."""

import shutil
from typing import TYPE_CHECKING

from spark_jobs.plan import segment_tasks
from spark_jobs.run import Run
from spark_jobs.source import KafkaSegments, write_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index(spark: "SparkSession", run: Run) -> None:
    """Reads every segment of the run's snapshots once and writes `RUN/work/summaries`."""
    write_plan(run.plan, segment_tasks(run))
    shutil.rmtree(run.summaries, ignore_errors=True)
    spark.dataSource.register(KafkaSegments)
    frame = (
        spark.read.format("kafka_segments")
        .option("plan", str(run.plan))
        .option("at_least", str(spark.sparkContext.defaultParallelism))
        .load()
    )
    frame.write.parquet(str(run.summaries))
