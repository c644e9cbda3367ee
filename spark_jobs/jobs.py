"""The two Spark steps: `index`, segments to summaries, and `derive`, summaries to facts, many of which it judges.

In: a run. Out: `RUN/work/summaries`; `facts/` and `coverage.json` of every snapshot; `RUN/work/judged`. Each snapshot
of the run goes one of two ways, by its segments or whole, and nobody after can tell which.
"""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tidegauge.derivation.judged_files import forget_judged
from tidegauge.derivation.kept_summaries import keep, kept_of, planned
from tidegauge.derivation.plan import reads, tasks_of
from tidegauge.derivation.segment_tasks import SegmentTask
from tidegauge.derivation.summaries_at_hand import batches_of
from tidegauge.runs import report_file
from tidegauge.runs.run import Run
from tidegauge.runs.survivors import going_on, surviving
from tidegauge.snapshots.places import emptied
from tidegauge.spark_jobs.by_partition import derive_by_partition
from tidegauge.spark_jobs.judging import judge_many
from tidegauge.spark_jobs.parts import write_frame
from tidegauge.spark_jobs.scratch import beside
from tidegauge.spark_jobs.source import KafkaSegments, write_plan
from tidegauge.spark_jobs.watch import watched
from tidegauge.spark_jobs.whole_snapshots import derive_whole, divided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index(spark: "SparkSession", run: Run) -> None:
    """Reads every segment once and writes `RUN/work/summaries`; but for snapshots that the next step takes whole.

    Raises what the snapshots failed of where none is left.
    """
    run.failures.begin("index")
    for snapshot in run.snapshots:
        report_file.forget(snapshot.target)
    by_segment, _ = divided(run)
    emptied(run.summaries)
    emptied(run.staged)
    if not by_segment.snapshots:
        return
    tasks: list[SegmentTask] = []
    kept = kept_of(by_segment)
    for read in reads(by_segment):
        with run.failures.of("index", read.key, root=read.root):
            tasks += planned(kept, read, tasks_of(read, run.restriction))
    spark.dataSource.register(KafkaSegments)
    to_read = sum(task.size_bytes for task in tasks if task.kept_in is None)
    # What a killed audit leaves of it goes with the session's directory.
    session_files = beside(spark.sparkContext.getConf().get("spark.local.dir"))
    with (
        TemporaryDirectory(prefix="tidegauge-plan-", dir=session_files) as place,
        watched(spark, "index", "segments", parts=len(tasks), size_bytes=to_read),
    ):
        write_plan(Path(place, "plan.json"), tasks)
        frame = (
            spark.read.format("kafka_segments")
            .option("plan", f"{place}/plan.json")
            .option("failures", run.failures.directory)
            .option("at_least", str(spark.sparkContext.defaultParallelism))
            .load()
        )
        write_frame(run, frame, run.summaries)
    keep(by_segment, kept, partial(batches_of, run))
    going_on(run)


def derive(spark: "SparkSession", run: Run) -> None:
    """Derives the facts of every snapshot that does not fail, and judges those that are too many to travel.

    Raises what the snapshots failed of where none is left.
    """
    run.failures.begin("derive")
    forget_judged(run)
    by_segment, whole = divided(run)
    left = surviving(by_segment)
    if left.snapshots:
        derive_by_partition(spark, left)
        judge_many(spark, left)
    if whole.snapshots:
        derive_whole(spark, whole)
    going_on(run)
