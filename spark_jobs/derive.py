"""The derive step: segment summaries to facts, one partition of Kafka at a time, on Spark.

In: `RUN/work/summaries`, the small files of the snapshots, the metadata log. Out: `facts/<relation>/*.parquet` and
`coverage.json` per snapshot. The rule that must hold: everything of one partition is folded in one place, by the pure
functions of `spark_jobs.facts`; this module only gathers, hands over and writes.
"""

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from snapshots.location import Location
from snapshots.whole_files import write_whole
from spark_jobs import own_pickles
from spark_jobs.coverage import coverage_of, write_coverage
from spark_jobs.fact_files import (
    PartWriter,
    packed,
    read_relation,
    relation_table,
    unpacked,
    write_empty_relations,
)
from spark_jobs.facts.changes import Pairing
from spark_jobs.facts.context import PartitionContext
from spark_jobs.facts.partition import Earlier, gone_rows, partition_rows
from spark_jobs.facts.posture_rows import PostureContext, posture_rows
from spark_jobs.facts.remote_tier import RemoteObjects
from spark_jobs.facts.replica_set import replica_set
from spark_jobs.facts.rows import Row, Rows
from spark_jobs.facts.storage_rows import StoredBytes, no_keys
from spark_jobs.failures import Failures
from spark_jobs.gather import SnapshotContext, gather
from spark_jobs.instant import check_clock
from spark_jobs.key_reading import key_reader
from spark_jobs.look import Look
from spark_jobs.mounts import handed_over, seen
from spark_jobs.pairs import check_order, check_topic_names, is_timed
from spark_jobs.remote_store import Stored, remote_objects
from spark_jobs.replica_files import ReplicaWork, batch_reader, replica_input
from spark_jobs.run import AuditedSnapshot, ReadSnapshot, Run
from spark_jobs.summaries_at_hand import by_snapshot, keys_of
from spark_jobs.survivors import surviving
from spark_jobs.whole_cluster import whole_cluster_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

_PACKED: Final = pa.schema([("snapshot", pa.string()), ("relation", pa.string()), ("rows", pa.binary())])
_PACKED_DDL: Final = "snapshot string, relation string, rows binary"
_WRITTEN_DDL: Final = "part string, relation string, rows bigint"

IndexRows = Mapping[str, Mapping[str, Any]]
"""Rows of the index step by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One partition to derive: what is known beside its logs, and its replicas' files."""

    context: PartitionContext
    replicas: tuple[ReplicaWork, ...]
    stored: Stored | None = None
    """Its segments' files in the remote store; None if the snapshot does not have that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierWork:
    """The snapshot that another one is compared with."""

    root: str
    pairing: Pairing
    partitions: Mapping[tuple[str, int], PartitionWork]
    metadata_known: bool
    """It has a metadata log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWork:
    """One snapshot as the tasks need it. `gone`: what is known of partitions that only the earlier one has."""

    root: str
    facts: str
    cluster: str
    snapshot_id: str
    partitions: Mapping[tuple[str, int], PartitionWork]
    gone: Mapping[tuple[str, int], PartitionContext] = field(default_factory=dict)
    earlier: EarlierWork | None = None


def derive_by_partition(spark: "SparkSession", run: Run) -> None:
    """Derives the facts of every snapshot of a run whose segments were read; one that fails is noted."""
    works = Works(directory=str(run.work / "gathered"))
    failures = run.failures
    told: dict[str, _Told] = {}
    for snapshot, summaries in by_snapshot(run):
        with failures.of("derive", snapshot.key, root=snapshot.root):
            told[snapshot.key] = _gathered(snapshot, summaries, works, run.look)
    # An earlier snapshot may be audited itself, and be compared with by many.
    audits = [(read, s.key) for s in surviving(run).snapshots for read in keys_of(s)]
    if not audits:
        return
    derived = (
        spark.read.parquet(str(run.summaries))
        .drop("coordinator_records")
        .join(_broadcast(spark.createDataFrame(audits, "snapshot string, audited string")), "snapshot")
        .groupBy("audited", "topic", "partition")
        .applyInArrow(_derive_group(works, failures), schema=_PACKED_DDL)
        .mapInArrow(_write_parts(works), schema=_WRITTEN_DDL)
    )
    derived.collect()
    for snapshot in surviving(run).snapshots:
        with failures.of("derive", snapshot.key):
            write_empty_relations(snapshot.target / "facts")
            if not run.look.partitions:
                _write_posture(snapshot, told[snapshot.key].posture)
                _write_whole_cluster(snapshot, told[snapshot.key].transactional_ids)
            write_coverage(snapshot.target, told[snapshot.key].coverage, failures.parts_of(snapshot.key))


def _broadcast(frame: Any) -> Any:
    from pyspark.sql import functions

    return functions.broadcast(frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What is left to say of a snapshot when its facts are derived."""

    coverage: Mapping[str, Any]
    posture: PostureContext
    transactional_ids: tuple[Row, ...]


def _gathered(snapshot: AuditedSnapshot, summaries: ds.Dataset, works: "Works", look: Look) -> _Told:
    """Reads what is small of a snapshot, keeps the work for the tasks, writes the rows that are no task's."""
    facts = snapshot.target / "facts"
    shutil.rmtree(facts, ignore_errors=True)
    earlier = gather(snapshot.previous, summaries) if snapshot.previous is not None else None
    context = gather(snapshot, summaries, also=earlier.replicas.keys() if earlier is not None else ())
    context = restricted(context, look)
    work = snapshot_work(snapshot, context, earlier, facts)
    works.keep(snapshot.key, work)
    rows = summaries.to_table(
        columns=["snapshot", "topic", "partition", "directory", "path", "bytes_read", "error"],
        filter=ds.field("snapshot").isin(keys_of(snapshot)),
    ).to_pylist()
    _write_cluster(context, work, {(row["topic"], row["partition"]) for row in rows})
    return _Told(
        coverage=coverage_of(snapshot, context, (row for row in rows if row["snapshot"] == snapshot.key)),
        posture=context.posture,
        transactional_ids=context.transactional_ids,
    )


def restricted(context: SnapshotContext, look: Look) -> SnapshotContext:
    """What is known of a snapshot, without the partitions that a restricted audit was not asked for."""
    if not look.partitions:
        return context
    return replace(
        context,
        partitions={place: known for place, known in context.partitions.items() if look.keeps(place)},
        gone={place: known for place, known in context.gone.items() if look.keeps(place)},
        replicas={place: known for place, known in context.replicas.items() if look.keeps(place)},
        rows={name: look.rows(rows) for name, rows in context.rows.items()},
    )


def _write_cluster(context: SnapshotContext, work: SnapshotWork, with_segments: Set[tuple[str, int]]) -> None:
    """What the driver adds: relations of the whole cluster, and partitions without a segment."""
    writer = PartWriter(Path(work.facts), "cluster")
    rows: Rows = {name: list(of_relation) for name, of_relation in context.rows.items()}
    left = [derive_partition(work, p, {}) for key, p in work.partitions.items() if key not in with_segments]
    left += [derive_gone(work, key, {}) for key in work.gone if key not in with_segments]
    for derived in left:
        for name, of_relation in derived.items():
            rows.setdefault(name, []).extend(of_relation)
    for name, of_relation in rows.items():
        if of_relation:
            writer.write(name, relation_table(name, of_relation, cluster=work.cluster, snapshot_id=work.snapshot_id))
    writer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """The work of each snapshot of a run, kept in the run directory: a task reads that of its snapshot when it comes
    to it, so that nothing holds the work of a thousand snapshots at once.
    """

    directory: str

    def keep(self, key: str, work: SnapshotWork) -> None:
        """Writes one snapshot's."""
        path = self._path(key)
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


def snapshot_work(
    snapshot: AuditedSnapshot, context: SnapshotContext, earlier: SnapshotContext | None, facts: Path
) -> SnapshotWork:
    """What the tasks must know of one snapshot. Raises `SnapshotError` if the earlier one is none of its past, or if
    itself is of the future.
    """
    now_ms = time.time_ns() // 1_000_000
    check_clock(snapshot.manifest, str(snapshot.root), context.captured_at_ms, now_ms=now_ms)
    return SnapshotWork(
        root=str(snapshot.root),
        facts=str(facts),
        cluster=snapshot.manifest.cluster,
        snapshot_id=snapshot.manifest.snapshot_id,
        partitions=_partitions(context),
        gone=context.gone,
        earlier=_earlier_work(snapshot, context, snapshot.previous, earlier),
    )


def _partitions(context: SnapshotContext) -> Mapping[tuple[str, int], PartitionWork]:
    return {
        key: PartitionWork(
            context=context.partitions[key],
            replicas=context.replicas.get(key, ()),
            stored=_stored_of(context, key),
        )
        for key in context.partitions
    }


def _stored_of(context: SnapshotContext, key: tuple[str, int]) -> Stored | None:
    known = context.partitions[key].upkeep
    if context.stored is None or known is None:
        return None
    ids = {s.segment_id for s in known.remote}
    return {segment_id: files for segment_id, files in context.stored.items() if segment_id in ids}


def _earlier_work(
    snapshot: AuditedSnapshot, context: SnapshotContext, previous: ReadSnapshot | None, earlier: SnapshotContext | None
) -> EarlierWork | None:
    if previous is None or earlier is None:
        return None
    if is_timed(snapshot.manifest) or not is_timed(previous.manifest):
        # What the newest batch tells of a plain copy is no later than the copy was made: too early proves nothing
        # against an instant that a manifest names.
        check_order(snapshot.key, context.captured_at_ms, previous.key, earlier.captured_at_ms)
    check_topic_names(snapshot.key, _topic_names(context), previous.key, _topic_names(earlier))
    own: dict[int, set[str]] = {}
    for broker in snapshot.manifest.brokers:
        own[broker.broker_id] = {d.directory_id for d in broker.log_dirs if d.directory_id is not None}
    pairing = Pairing(
        previous_snapshot_id=previous.manifest.snapshot_id,
        previous_captured=frozenset(b.broker_id for b in previous.manifest.brokers),
        captured=frozenset(b.broker_id for b in snapshot.manifest.brokers),
        metadata_known=_metadata_known(context),
        previous_directory_ids={
            (b.broker_id, d.name): d.directory_id
            for b in previous.manifest.brokers
            for d in b.log_dirs
            if d.directory_id is not None
        },
        directory_ids={broker_id: frozenset(ids) for broker_id, ids in own.items()},
    )
    return EarlierWork(
        root=str(previous.root),
        pairing=pairing,
        partitions=_partitions(earlier),
        metadata_known=_metadata_known(earlier),
    )


def _metadata_known(context: SnapshotContext) -> bool:
    return any(row["registered"] for row in context.rows["brokers"])


def _topic_names(context: SnapshotContext) -> dict[str, str]:
    return {row["topic_id"]: row["topic"] for row in context.rows["topics"]}


def _derive_group(works: Works, failures: Failures) -> Any:
    def derive_group(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        audited: str = rows[0]["audited"]
        work = works.of(audited)
        key = (rows[0]["topic"], rows[0]["partition"])
        own = {row["path"]: row for row in rows if row["snapshot"] == audited}
        earlier = {row["path"]: row for row in rows if row["snapshot"] != audited}
        try:
            return _packed_rows(audited, work, derive_alone(work, key, own, earlier, audited, failures))
        except Exception as error:
            failures.take("derive", audited, error, root=work.root)
            return _PACKED.empty_table()

    return derive_group


def derive_alone(
    work: SnapshotWork,
    key: tuple[str, int],
    own: IndexRows,
    earlier: IndexRows,
    audited: str,
    failures: Failures | None,
) -> Rows:
    """The facts of one partition; where it makes us fail, those that are left when none of its segments was read.

    `failures`: where that is noted; without it, what is raised is the caller's.
    """
    try:
        return _derived(work, key, own, earlier)
    except Exception as error:
        if failures is None:
            raise
        reason = failures.take_part("derive", audited, f"{key[0]}-{key[1]}", own, error, root=work.root)
        return _derived(work, key, _unread(own, reason), _unread(earlier, reason))


def _unread(rows: IndexRows, reason: str) -> IndexRows:
    return {path: {**row, "error": reason} for path, row in rows.items()}


def _derived(work: SnapshotWork, key: tuple[str, int], own: IndexRows, earlier: IndexRows) -> Rows:
    if key in work.partitions:
        return derive_partition(work, work.partitions[key], own, earlier)
    if key in work.gone:
        return derive_gone(work, key, earlier)
    return {}  # Read for what it says of others, and not asked for.


def derive_partition(
    work: SnapshotWork, partition: PartitionWork, rows: IndexRows, earlier_rows: IndexRows = MappingProxyType({})
) -> Rows:
    """The facts of one partition; `rows` are its segments' rows of the index step, by path."""
    root = seen(work.root)
    inputs = [replica_input(root, replica, rows) for replica in partition.replicas]
    earlier = _earlier(work.earlier, partition.context, earlier_rows) if work.earlier is not None else None
    stored = StoredBytes(
        keys=key_reader(root),
        earlier_keys=key_reader(seen(work.earlier.root)) if work.earlier is not None else no_keys,
        objects=_remote_objects(root, partition),
    )
    return partition_rows(partition.context, inputs, read=batch_reader(root), earlier=earlier, stored=stored)


def _remote_objects(root: Location, partition: PartitionWork) -> RemoteObjects | None:
    if partition.stored is None or partition.context.upkeep is None:
        return None
    return remote_objects(root, partition.context.upkeep.remote, partition.stored)


def derive_gone(work: SnapshotWork, key: tuple[str, int], earlier_rows: IndexRows) -> Rows:
    """What can be told of a partition that only the earlier snapshot has."""
    assert work.earlier is not None, "nothing is gone without an earlier snapshot"
    return gone_rows(work.gone[key], _earlier(work.earlier, work.gone[key], earlier_rows))


def _earlier(earlier: EarlierWork, context: PartitionContext, rows: IndexRows) -> Earlier:
    root = seen(earlier.root)
    partition = earlier.partitions.get((context.topic, context.partition))
    if partition is None:  # It did not exist then, or was not copied.
        nothing = replace(context, changes=(), commits=(), replicas=(), isr=(), metadata_known=False)
        partition = PartitionWork(context=replace(nothing, metadata_log_captured=earlier.metadata_known), replicas=())
    inputs = [replica_input(root, replica, rows) for replica in partition.replicas]
    read = batch_reader(root)
    return Earlier(replicas=replica_set(partition.context, inputs, read=read), pairing=earlier.pairing, read=read)


def _packed_rows(snapshot: str, work: SnapshotWork, rows: Rows) -> pa.Table:
    values = [
        {
            "snapshot": snapshot,
            "relation": name,
            "rows": packed(relation_table(name, of_relation, cluster=work.cluster, snapshot_id=work.snapshot_id)),
        }
        for name, of_relation in rows.items()
        if of_relation
    ]
    return pa.Table.from_pylist(values, schema=_PACKED)


def _write_parts(works: Works) -> "ArrowMapIterFunction":
    def write_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        part = f"{task.partitionId():05d}" if task is not None else "00000"
        counts: Counter[str] = Counter()
        written: set[str] = set()
        values = (value for batch in batches for value in batch.to_pylist())
        # Groups come sorted by their keys, the snapshot first: one snapshot's files are open at a time.
        for audited, of_snapshot in groupby(values, key=itemgetter("snapshot")):
            assert audited not in written, f"the rows of {audited} come in pieces"
            written.add(audited)
            writer = PartWriter(Path(works.of(audited).facts), part)
            for value in of_snapshot:
                table = unpacked(value["rows"])
                writer.write(value["relation"], table)
                counts[value["relation"]] += table.num_rows
            writer.close()
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([part] * len(counts), pa.string()),
                "relation": pa.array(list(counts), pa.string()),
                "rows": pa.array(list(counts.values()), pa.int64()),
            }
        )

    return write_parts


def _write_posture(snapshot: AuditedSnapshot, known: PostureContext) -> None:
    """What is told of a topic as a whole, once all its partitions are known."""
    facts, manifest = snapshot.target / "facts", snapshot.manifest
    writer = PartWriter(facts, "topics")
    for name, rows in posture_rows(read_relation(facts, "partitions").to_pylist(), known).items():
        if rows:
            table = relation_table(name, rows, cluster=manifest.cluster, snapshot_id=manifest.snapshot_id)
            writer.write(name, table)
    writer.close()


def _write_whole_cluster(snapshot: AuditedSnapshot, transactional_ids: tuple[Row, ...]) -> None:
    """What is told of transactions over all partitions."""
    facts, manifest = snapshot.target / "facts", snapshot.manifest
    writer = PartWriter(facts, "transactions")
    tables = whole_cluster_tables(
        lambda name: read_relation(facts, name),
        transactional_ids,
        cluster=manifest.cluster,
        snapshot_id=manifest.snapshot_id,
    )
    for name, table in tables.items():
        if len(table):
            writer.write(name, table)
    writer.close()
