"""The derive step on Spark, one partition of Kafka at a time: segment summaries to facts.

In: `RUN/work/summaries`, the small files of the snapshots, the metadata log. Out: `facts/<relation>/*.parquet` and
`coverage.json` per snapshot. What is derived, and how, `derivation.derive` says; here it is handed over and written.
What the driver knows of a partition beside its logs meets the partition's summaries in the shuffle; what holds for the
whole snapshot is broadcast.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidegauge.derivation.coverage import coverage_of, forget_coverage, write_coverage
from tidegauge.derivation.derive import Prepared, SnapshotWork, cluster_facts, facts_of_all, partition_facts, prepare
from tidegauge.derivation.fact_files import PartWriter, read_relation, write_empty_relations, write_part
from tidegauge.derivation.index_columns import INDEX_SCHEMA, WITHOUT_RECORDS, rows_of
from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.known_rows import KNOWN_SCHEMA, KNOWN_VALUES, Common, KnownRow, KnownRows, known_of
from tidegauge.derivation.segment_pieces import whole_rows
from tidegauge.derivation.staged_parts import StagedPart, Staging, staging
from tidegauge.derivation.summaries_at_hand import by_snapshot, keys_of
from tidegauge.facts.risk.posture_rows import PostureContext
from tidegauge.facts.rows import AnyRow, by_relation
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import Rows, TransactionalIdRow
from tidegauge.runs.failures import Failures
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.runs.survivors import surviving
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.places import absolute, emptied, made
from tidegauge.snapshots.whole_files import appearing
from tidegauge.spark_jobs.parts import frame_of, name_of_this_try
from tidegauge.spark_jobs.watch import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

_KEY: Final = ("audited", "topic", "partition")
_WRITTEN_DDL: Final = "audited string, folder string, part string, relations array<string>"
_WRITTEN: Final = pa.schema(
    [("audited", pa.string()), ("folder", pa.string()), ("part", pa.string()), ("relations", pa.list_(pa.string()))]
)
_SUMMARIES: Final = pa.schema([INDEX_SCHEMA.field(name) for name in WITHOUT_RECORDS])

_BATCHES_A_FILE: Final = 16
_ROWS_A_GROUP: Final = 512

PARTITIONS_A_TASK: Final = 200
"""Kafka's partitions that one Spark task derives at most, about: what it holds of a snapshot grows with them."""

ROWS_TOGETHER: Final = 512
"""Rows of one relation that become a table at once, if their partitions have so many: a table of three rows costs as
much as one of a hundred, and rows take more memory than tables."""


def derive_by_partition(spark: "SparkSession", run: Run) -> None:
    """Derives the facts of every snapshot of a run whose segments were read; one that fails is noted."""
    from pyspark.sql import functions

    emptied(run.known)
    emptied(run.staged)
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
    listed = functions.broadcast(spark.createDataFrame(audits, "snapshot string, audited string"))
    # The others are pieces of coordinators' tables.
    with_facts = functions.col("summaries").isNotNull() | (functions.col("piece") == 0)
    summaries = frame_of(spark, run, run.summaries, _SUMMARIES).where(with_facts).join(listed, "snapshot")
    # One that was prepared goes with the one that it is compared with.
    known = frame_of(spark, run, run.known, KNOWN_SCHEMA).where(
        functions.col("audited").isin(sorted({audited for _, audited in audits}))
    )
    broadcasts = {key: spark.sparkContext.broadcast(of_snapshot) for key, of_snapshot in shared.items()}
    partitions = sum(t.partitions for t in told.values())
    ordered = (
        summaries.unionByName(known, allowMissingColumns=True)
        # Sorted, the rows of a partition follow each other, and the partitions of a snapshot.
        .repartition(tasks(partitions, spark.sparkContext.defaultParallelism), *_KEY)
        .sortWithinPartitions(*_KEY)
    )
    facts_of = {s.key: s.target / "facts" for s in run.snapshots}
    with staging(run) as staged, watched(spark, "derive", "partitions", parts=partitions):
        derived = _derive_and_write(lambda key: broadcasts[key].value, failures, staged)
        # A row a task and snapshot, with the names of relations: a task has two hundred partitions.
        written = ordered.mapInArrow(derived, _WRITTEN_DDL).collect()
        staged.commit(
            StagedPart(
                staged=f"{row.folder}/{relation}/part-{row.part}.parquet",
                final=f"{absolute(facts_of[row.audited] / relation)}/part-{row.part.partition('-')[0]}.parquet",
            )
            for row in written
            for relation in row.relations
        )
    for snapshot in surviving(run).snapshots:
        with failures.of("derive", snapshot.key):
            _finish(snapshot, told[snapshot.key], run)


def _finish(snapshot: AuditedSnapshot, told: "_Told", run: Run) -> None:
    """Writes what takes every partition, and the coverage, with which the facts count."""
    facts = snapshot.target / "facts"
    write_empty_relations(facts)
    if not run.restriction.partitions:
        names = {"cluster": snapshot.manifest.cluster, "snapshot_id": snapshot.manifest.snapshot_id}
        read = partial(read_relation, facts)
        write_part(facts, "all", facts_of_all(read, told.posture, told.transactional_ids, **names))
    write_coverage(snapshot.target, told.coverage, run.failures.parts_of(snapshot.key))


def tasks(partitions: int, parallelism: int) -> int:
    """How many Spark tasks share that many of Kafka's partitions. Left alone, Spark goes by bytes, of which summaries
    have few: 2,000 partitions are one task to it.
    """
    return max(1, min(partitions, max(2 * parallelism, -(-partitions // PARTITIONS_A_TASK))))


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
    forget_coverage(snapshot.target)  # Without it these facts, which are not all there yet, are nobody's.
    emptied(facts)
    prepared = prepare(snapshot, summaries, run.restriction)
    rows = summaries.to_table(
        columns=["snapshot", "topic", "partition", "directory", "path", "bytes_read", "reused", "error"],
        filter=ds.field("snapshot").isin(keys_of(snapshot)) & (ds.field("piece") == 0),
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
    return told, _handed_over(prepared, with_segments, run.known, f"{run.snapshots.index(snapshot):05d}")


def _handed_over(prepared: Prepared, keys: set[TopicPartition], folder: Location, name: str) -> Shared:
    """Writes what is known of the partitions of these keys as rows for the tasks, in files of which each is one's."""
    rows = KnownRows(audited=prepared.work.key)
    batches = iter(rows.batches({key: known for key, known in prepared.partitions.items() if key in keys}))
    number = 0
    while some := list(islice(batches, _BATCHES_A_FILE)):
        with appearing(made(folder) / f"{name}-{number:05d}.parquet") as file:
            pq.write_table(pa.Table.from_batches(some), file, row_group_size=_ROWS_A_GROUP, compression="zstd")
        number += 1
    return Shared(work=prepared.work, common=tuple(rows.common))


def _derive_and_write(shared: Callable[[str], Shared], failures: Failures, staged: Staging) -> "ArrowMapIterFunction":
    def derive_and_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place, part = staged.place(), name_of_this_try()
        rows = (row for batch in batches for row in rows_of(batch, KNOWN_VALUES))
        # One snapshot's files are open at a time.
        for audited, of_snapshot in groupby(rows, key=itemgetter("audited")):
            folder = sha256(audited.encode()).hexdigest()
            writer = PartWriter(place / folder, part)
            for name, table in _tables(shared(audited), of_snapshot, failures):
                writer.write(name, table)
            yield pa.RecordBatch.from_pydict(
                {"audited": [audited], "folder": [folder], "part": [part], "relations": [writer.close()]},
                schema=_WRITTEN,
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
    facts: Rows = {}
    with failures.of("derive", work.key, root=work.root):
        segments = whole_rows(row for row in rows if row["path"])
        own = {row["path"]: row for row in segments if row["snapshot"] == work.key}
        earlier = {row["path"]: row for row in segments if row["snapshot"] != work.key}
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
