"""Many small snapshots in one run: a Spark task takes a whole snapshot, from its segments to its facts.

In: a run. Out: the part of it that is derived segment by segment, and the part whose snapshots are taken whole; of
those, `facts/` and `coverage.json`. Both ways call the same functions and write the same facts. Of a snapshot of a few
hundred kilobytes what takes time is handing its segments to tasks and its partitions to others, not reading them; one
large snapshot needs every core.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.derivation.in_process import derive_and_write
from tidegauge.derivation.snapshot_rows import SNAPSHOT_SCHEMA, snapshot_batch, snapshots_of
from tidegauge.runs.failures import Failures
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.manifest import Manifest
from tidegauge.snapshots.places import emptied, made
from tidegauge.snapshots.whole_files import appearing
from tidegauge.spark_jobs.parts import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

SMALL_BYTES: Final = 16 << 20
"""Bytes of the logs of a small snapshot and of the one that it is compared with, at most."""
MANY: Final = 8
"""Small snapshots in a run from which on they are taken whole: enough to keep some cores busy."""

_TASKS_A_CORE: Final = 16
_DONE_DDL: Final = "snapshot string"


def divided(run: Run) -> tuple[Run, Run]:
    """The run with the snapshots that are read segment by segment, and with those that are taken whole."""
    if run.restriction.is_restricted or len(run.snapshots) < MANY:
        return run, replace(run, snapshots=())
    small = [snapshot for snapshot in run.snapshots if _is_small(snapshot)]
    if len(small) < MANY:
        small = []
    names = {snapshot.key for snapshot in small}
    large = tuple(snapshot for snapshot in run.snapshots if snapshot.key not in names)
    return replace(run, snapshots=large), replace(run, snapshots=tuple(small))


def derive_whole(spark: "SparkSession", run: Run) -> None:
    """Derives every snapshot of the run, each in one task. One that cannot be derived is noted as a failure."""
    emptied(run.whole)
    for number, snapshot in enumerate(run.snapshots):
        with appearing(made(run.whole) / f"{number:05d}.parquet") as file:
            pq.write_table(pa.Table.from_batches([snapshot_batch([snapshot])]), file)
    tasks = min(len(run.snapshots), _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
    each = frame_of(spark, run, run.whole, SNAPSHOT_SCHEMA).repartition(tasks)
    each.mapInArrow(_derive_each(run.failures), schema=_DONE_DDL).collect()  # A name a snapshot of up to 16 MiB.


def _is_small(snapshot: AuditedSnapshot) -> bool:
    try:
        return sum(_size(read.manifest) for read in snapshot.reads) <= SMALL_BYTES
    except Exception:  # whatever it is, it is told where the snapshot is read
        return False


def _size(manifest: Manifest) -> int:
    """Bytes of its logs. Of preallocated indexes only the beginning is read."""
    replicas = (replica for log_dir in listing(manifest).log_dirs for replica in log_dir.replicas)
    return sum(segment.log.size_bytes for replica in replicas for segment in replica.segments)


def _derive_each(failures: Failures) -> "ArrowMapIterFunction":
    def derive_each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for snapshot in snapshots_of(batch):
                with failures.of("derive", snapshot.key, root=snapshot.root):
                    derive_and_write(snapshot, failures)
                yield pa.RecordBatch.from_pydict({"snapshot": [snapshot.key]})

    return derive_each
