"""The derive step on Spark, one partition of Kafka at a time: segment summaries to facts.

In: `RUN/work/summaries`, the small files of the snapshots, the metadata log. Out: `facts/<relation>/*.parquet` and
`coverage.json` per snapshot. What is derived, and how, `derivation.derive` says; here it is handed over and written.
What the driver knows of a partition beside its logs meets the partition's summaries in the shuffle; what holds for the
whole snapshot is broadcast.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidegauge.derivation.coverage import coverage_of, write_coverage
from tidegauge.derivation.derive import Prepared, SnapshotWork, cluster_facts, facts_of_all, partition_facts, prepare
from tidegauge.derivation.fact_files import PartWriter, read_relation, write_empty_relations, write_part
from tidegauge.derivation.index_columns import rows_of
from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.known_rows import KNOWN_SCHEMA, KNOWN_VALUES, Common, KnownRow, KnownRows, known_of
from tidegauge.derivation.summaries_at_hand import by_snapshot, keys_of
from tidegauge.facts.risk.posture_rows import PostureContext
from tidegauge.facts.rows import AnyRow, by_relation
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import Rows, TransactionalIdRow
from tidegauge.runs.failures import Failures
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.runs.survivors import surviving
from tidegauge.spark_jobs.watch import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

_KEY: Final = ("audited", "topic", "partition")
_WRITTEN_DDL: Final = "part string, relation string, rows bigint"

PARTITIONS_A_TASK: Final = 200
"""Kafka's partitions that one Spark task derives at most, about: what it holds of a snapshot grows with them."""

ROWS_TOGETHER: Final = 512
"""Rows of one relation that become a table at once, if their partitions have so many: a table of three rows costs as
much as one of a hundred, and rows take more memory than tables."""


def derive_by_partition(spark: "SparkSession", run: Run) -> None:
    """Derives the facts of every snapshot of a run whose segments were read; one that fails is noted."""
    shutil.rmtree(run.known, ignore_errors=True)
    run.known.mkdir(parents=True)
    failures = run.failures
    told: dict[str, _Told] = {}
    shared: dict[str, Shared] = {}
    for snapshot, summaries in by_snapshot(run):
        with failures.of("derive", snapshot.key, root=snapshot.root):
            told[snapshot.key], shared[snapshot.key] = _prepared(snapshot, summaries, run)
    # An earlier snapshot may be audited itself, and be compared with by many.
    audits = [(read, s.key) for s in surviving(run).snapshots for read in keys_of(s)]
    if not audits:
        return
    summaries = (
        spark.read.parquet(str(run.summaries))
        .drop("coordinator_records")
        .join(_broadcast(spark.createDataFrame(audits, "snapshot string, audited string")), "snapshot")
    )
    broadcasts = {key: spark.sparkContext.broadcast(of_snapshot) for key, of_snapshot in shared.items()}
    written = (
        summaries.unionByName(spark.read.parquet(str(run.known)), allowMissingColumns=True)
        # Sorted, the rows of a partition follow each other, and the partitions of a snapshot.
        .repartition(tasks(sum(t.partitions for t in told.values()), spark.sparkContext.defaultParallelism), *_KEY)
        .sortWithinPartitions(*_KEY)
        .mapInArrow(
            _derive_and_write(
                lambda key: broadcasts[key].value, failures, {s.key: str(s.target / "facts") for s in run.snapshots}
            ),
            _WRITTEN_DDL,
        )
    )
    with watched(spark, "derive", "partitions", parts=sum(t.partitions for t in told.values())):
        written.collect()  # A row a task and relation.
    for snapshot in surviving(run).snapshots:
        with failures.of("derive", snapshot.key):
            facts, known = snapshot.target / "facts", told[snapshot.key]
            write_empty_relations(facts)
            if not run.look.partitions:
                names = {"cluster": snapshot.manifest.cluster, "snapshot_id": snapshot.manifest.snapshot_id}
                of_all = facts_of_all(partial(read_relation, facts), known.posture, known.transactional_ids, **names)
                write_part(facts, "all", of_all)
            write_coverage(snapshot.target, known.coverage, failures.parts_of(snapshot.key))


def tasks(partitions: int, parallelism: int) -> int:
    """How many Spark tasks share that many of Kafka's partitions. Left alone, Spark goes by bytes, of which summaries
    have few: 2,000 partitions are one task to it.
    """
    return max(1, min(partitions, max(2 * parallelism, -(-partitions // PARTITIONS_A_TASK))))


def _broadcast(frame: Any) -> Any:
    from pyspark.sql import functions

    return functions.broadcast(frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What is left to say of a snapshot when its partitions' facts are derived."""

    coverage: Mapping[str, Any]
    posture: PostureContext
    transactional_ids: tuple[TransactionalIdRow, ...]
    partitions: int
    """Of which segments were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the tasks know of a snapshot, whichever of its partitions they have."""

    work: SnapshotWork
    common: tuple[Common, ...]


def _prepared(snapshot: AuditedSnapshot, summaries: ds.Dataset, run: Run) -> tuple[_Told, Shared]:
    """Reads what is small of a snapshot, keeps the rows for the tasks, and writes what none of them will."""
    facts = snapshot.target / "facts"
    shutil.rmtree(facts, ignore_errors=True)
    prepared = prepare(snapshot, summaries, run.look)
    rows = summaries.to_table(
        columns=["snapshot", "topic", "partition", "directory", "path", "bytes_read", "reused", "error"],
        filter=ds.field("snapshot").isin(keys_of(snapshot)),
    ).to_pylist()
    with_segments = {TopicPartition(row["topic"], row["partition"]) for row in rows}
    without = [key for key in prepared.partitions if key not in with_segments]
    write_part(facts, "cluster", cluster_facts(prepared, without))
    told = _Told(
        coverage=coverage_of(snapshot, prepared.context, (row for row in rows if row["snapshot"] == snapshot.key)),
        posture=prepared.context.posture,
        transactional_ids=prepared.context.transactional_ids,
        partitions=len(with_segments),
    )
    # Last: of a snapshot that fails here the tasks hear nothing.
    return told, _handed_over(prepared, with_segments, run.known / f"{run.snapshots.index(snapshot):05d}.parquet")


def _handed_over(prepared: Prepared, keys: set[TopicPartition], path: Path) -> Shared:
    """Writes what is known of the partitions of these keys as rows for the tasks."""
    rows = KnownRows(audited=prepared.work.key)
    with pq.ParquetWriter(path, KNOWN_SCHEMA, compression="zstd") as writer:
        for batch in rows.batches({key: known for key, known in prepared.partitions.items() if key in keys}):
            writer.write_batch(batch)
    return Shared(work=prepared.work, common=tuple(rows.common))


def _derive_and_write(
    shared: Callable[[str], Shared], failures: Failures, folders: Mapping[str, str]
) -> "ArrowMapIterFunction":
    """`folders`: of each snapshot's facts."""

    def derive_and_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        part = f"{task.partitionId():05d}" if task is not None else "00000"
        counts: Counter[str] = Counter()
        rows = (row for batch in batches for row in rows_of(batch, KNOWN_VALUES))
        # One snapshot's files are open at a time.
        for audited, of_snapshot in groupby(rows, key=itemgetter("audited")):
            writer = PartWriter(Path(folders[audited]), part)
            for name, table in _tables(shared(audited), of_snapshot, failures):
                writer.write(name, table)
                counts[name] += table.num_rows
            writer.close()
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([part] * len(counts), pa.string()),
                "relation": pa.array(list(counts), pa.string()),
                "rows": pa.array(list(counts.values()), pa.int64()),
            }
        )

    return derive_and_write


def _tables(shared: Shared, rows: Iterable[IndexRow], failures: Failures) -> Iterator[tuple[str, pa.Table]]:
    """The facts of a task's partitions of one snapshot; none of one that makes us fail, which is noted."""
    waiting: dict[str, list[AnyRow]] = {}
    for key, of_partition in groupby(rows, key=itemgetter("topic", "partition")):
        for name, facts in by_relation(_facts(shared, TopicPartition(*key), list(of_partition), failures)):
            waiting.setdefault(name, []).extend(facts)
            if len(waiting[name]) >= ROWS_TOGETHER:
                yield from _table(shared.work, name, waiting.pop(name), failures)
    for name, facts in waiting.items():
        if facts:
            yield from _table(shared.work, name, facts, failures)


def _facts(shared: Shared, key: TopicPartition, rows: Sequence[IndexRow], failures: Failures) -> Rows:
    work = shared.work
    own = {row["path"]: row for row in rows if row["snapshot"] == work.key}
    earlier = {row["path"]: row for row in rows if row["snapshot"] not in (work.key, None)}
    facts: Rows = {}
    with failures.of("derive", work.key, root=work.root):
        known = known_of(_known_rows(rows), shared.common)
        facts.update(partition_facts(work, key, known, own, earlier, failures))
    return facts


def _known_rows(rows: Iterable[IndexRow]) -> Iterator[KnownRow]:
    """Those rows of one partition that tell what is known beside its logs. In the shuffle every row has all columns."""
    both = (cast(dict[str, object], row) for row in rows)
    return (cast(KnownRow, row) for row in both if row["role"] is not None)


def _table(work: SnapshotWork, name: str, rows: Sequence[AnyRow], failures: Failures) -> list[tuple[str, pa.Table]]:
    made = []
    with failures.of("derive", work.key, root=work.root):
        made.append((name, work.table(name, rows)))
    return made
