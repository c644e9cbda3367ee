"""The derive step on Spark, one partition of Kafka at a time: segment summaries to facts.

In: `RUN/work/summaries`, the small files of the snapshots, the metadata log. Out: `facts/<relation>/*.parquet` and
`coverage.json` per snapshot. What is derived, and how, `derivation.derive` says; here it is handed over and written.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from tidegauge.derivation.coverage import coverage_of, write_coverage
from tidegauge.derivation.derive import SnapshotWork, cluster_facts, facts_of_all, partition_facts, prepare
from tidegauge.derivation.fact_files import PartWriter, read_relation, write_empty_relations, write_part
from tidegauge.derivation.index_columns import rows_of
from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.summaries_at_hand import by_snapshot, keys_of
from tidegauge.facts.risk.posture_rows import PostureContext
from tidegauge.facts.rows import AnyRow, by_relation
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import Rows, TransactionalIdRow
from tidegauge.runs import own_pickles
from tidegauge.runs.failures import Failures
from tidegauge.runs.look import Look
from tidegauge.runs.mounts import handed_over
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.runs.survivors import surviving
from tidegauge.snapshots.whole_files import write_whole
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
    works = Works(directory=str(run.work / "gathered"))
    failures = run.failures
    told: dict[str, _Told] = {}
    for snapshot, summaries in by_snapshot(run):
        with failures.of("derive", snapshot.key, root=snapshot.root):
            told[snapshot.key] = _prepared(snapshot, summaries, works, run.look)
    # An earlier snapshot may be audited itself, and be compared with by many.
    audits = [(read, s.key) for s in surviving(run).snapshots for read in keys_of(s)]
    if not audits:
        return
    written = (
        spark.read.parquet(str(run.summaries))
        .drop("coordinator_records")
        .join(_broadcast(spark.createDataFrame(audits, "snapshot string, audited string")), "snapshot")
        # Sorted, the rows of a partition follow each other, and the partitions of a snapshot.
        .repartition(tasks(sum(t.partitions for t in told.values()), spark.sparkContext.defaultParallelism), *_KEY)
        .sortWithinPartitions(*_KEY)
        .mapInArrow(
            _derive_and_write(works, failures, {s.key: str(s.target / "facts") for s in run.snapshots}), _WRITTEN_DDL
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


def _prepared(snapshot: AuditedSnapshot, summaries: ds.Dataset, works: "Works", look: Look) -> _Told:
    """Reads what is small of a snapshot, keeps the work for the tasks, and writes what none of them will."""
    facts = snapshot.target / "facts"
    shutil.rmtree(facts, ignore_errors=True)
    prepared = prepare(snapshot, summaries, look)
    works.keep(prepared.work)
    rows = summaries.to_table(
        columns=["snapshot", "topic", "partition", "directory", "path", "bytes_read", "reused", "error"],
        filter=ds.field("snapshot").isin(keys_of(snapshot)),
    ).to_pylist()
    with_segments = {TopicPartition(row["topic"], row["partition"]) for row in rows}
    write_part(facts, "cluster", cluster_facts(prepared, [key for key in prepared.keys if key not in with_segments]))
    return _Told(
        coverage=coverage_of(snapshot, prepared.context, (row for row in rows if row["snapshot"] == snapshot.key)),
        posture=prepared.context.posture,
        transactional_ids=prepared.context.transactional_ids,
        partitions=len(with_segments),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """The work of each snapshot of a run, kept in the run directory: a task reads that of its snapshot when it comes
    to it, so that nothing holds the work of a thousand snapshots at once.
    """

    directory: str

    def keep(self, work: SnapshotWork) -> None:
        """Writes one snapshot's."""
        path = self._path(work.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, own_pickles.dumps(work))

    def of(self, key: str) -> SnapshotWork:
        """Reads one snapshot's; those last asked for are at hand."""
        path = self._path(key)
        written_ns = path.stat().st_mtime_ns if path.exists() else 0
        return _work_at(str(path), written_ns)

    def _path(self, key: str) -> Path:
        return Path(self.directory, f"{hashlib.sha256(key.encode()).hexdigest()}.pickle")


@lru_cache(maxsize=4)
def _work_at(path: str, written_ns: int) -> SnapshotWork:
    work: SnapshotWork = own_pickles.loads(handed_over(Path(path)), where=path)
    return work


def _derive_and_write(works: Works, failures: Failures, folders: Mapping[str, str]) -> "ArrowMapIterFunction":
    """`folders`: of each snapshot's facts."""

    def derive_and_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        part = f"{task.partitionId():05d}" if task is not None else "00000"
        counts: Counter[str] = Counter()
        rows = (row for batch in batches for row in rows_of(batch))
        # One snapshot's files are open at a time.
        for audited, of_snapshot in groupby(rows, key=itemgetter("audited")):
            work = works.of(audited)
            writer = PartWriter(Path(folders[audited]), part)
            for name, table in _tables(work, of_snapshot, failures):
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


def _tables(work: SnapshotWork, rows: Iterable[IndexRow], failures: Failures) -> Iterator[tuple[str, pa.Table]]:
    """The facts of a task's partitions of one snapshot; none of one that makes us fail, which is noted."""
    waiting: dict[str, list[AnyRow]] = {}
    for key, of_partition in groupby(rows, key=itemgetter("topic", "partition")):
        for name, facts in by_relation(_facts(work, TopicPartition(*key), list(of_partition), failures)):
            waiting.setdefault(name, []).extend(facts)
            if len(waiting[name]) >= ROWS_TOGETHER:
                yield from _table(work, name, waiting.pop(name), failures)
    for name, facts in waiting.items():
        if facts:
            yield from _table(work, name, facts, failures)


def _facts(work: SnapshotWork, key: TopicPartition, rows: Sequence[IndexRow], failures: Failures) -> Rows:
    own = {row["path"]: row for row in rows if row["snapshot"] == work.key}
    earlier = {row["path"]: row for row in rows if row["snapshot"] != work.key}
    facts: Rows = {}
    with failures.of("derive", work.key, root=work.root):
        facts.update(partition_facts(work, key, own, earlier, failures))
    return facts


def _table(work: SnapshotWork, name: str, rows: Sequence[AnyRow], failures: Failures) -> list[tuple[str, pa.Table]]:
    made = []
    with failures.of("derive", work.key, root=work.root):
        made.append((name, work.table(name, rows)))
    return made
