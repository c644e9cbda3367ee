"""The derive step: segment summaries to facts, one partition of Kafka at a time, on Spark.

In: `RUN/work/summaries`, the small files of the snapshots, the metadata log. Out: `facts/<relation>/*.parquet` and
`coverage.json` per snapshot. The rule that must hold: everything of one partition is folded in one place, by the pure
functions of `spark_jobs.facts`; this module only gathers, hands over and writes.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from snapshots.location import location
from snapshots.manifest import LeftOut
from spark_jobs.fact_files import PartWriter, packed, relation_table, unpacked, write_empty_relations
from spark_jobs.facts.changes import Pairing
from spark_jobs.facts.context import PartitionContext, Rows
from spark_jobs.facts.partition import Earlier, gone_rows, partition_rows
from spark_jobs.facts.replica_set import replica_set
from spark_jobs.gather import SnapshotContext, gather
from spark_jobs.pairs import check_order, check_topic_names
from spark_jobs.replica_files import ReplicaWork, batch_reader, replica_input
from spark_jobs.run import AuditedSnapshot, ReadSnapshot, Run

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierWork:
    """The snapshot that another one is compared with."""

    root: str
    pairing: Pairing
    partitions: Mapping[tuple[str, int], PartitionWork]


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


def derive(spark: "SparkSession", run: Run) -> None:
    """Derives the facts of every snapshot of a run."""
    summaries = ds.dataset(str(run.summaries), format="parquet")
    works: dict[str, SnapshotWork] = {}
    gathered: dict[str, SnapshotContext] = {}
    for snapshot in run.snapshots:
        facts = snapshot.target / "facts"
        shutil.rmtree(facts, ignore_errors=True)
        earlier = gather(snapshot.previous, summaries) if snapshot.previous is not None else None
        context = gather(snapshot, summaries, also=earlier.replicas.keys() if earlier is not None else ())
        gathered[snapshot.key] = context
        works[snapshot.key] = snapshot_work(snapshot, context, earlier, facts)
    frame = spark.read.parquet(str(run.summaries)).withColumn("audited", _audited(run))
    shared = spark.sparkContext.broadcast(works)
    derived = (
        frame.drop("coordinator_records")
        .groupBy("audited", "topic", "partition")
        .applyInArrow(_derive_group(shared), schema=_PACKED_DDL)
        .mapInArrow(_write_parts(shared), schema=_WRITTEN_DDL)
    )
    derived.collect()
    for snapshot in run.snapshots:
        _finish(snapshot, gathered[snapshot.key], works[snapshot.key], summaries)


def _audited(run: Run) -> Any:
    """The audited snapshot that a row of the index step is for: its own, or the one compared with its own."""
    from pyspark.sql import functions

    found = functions.col("snapshot")
    for snapshot in run.snapshots:
        if snapshot.previous is not None:
            found = functions.when(functions.col("snapshot") == snapshot.previous.key, snapshot.key).otherwise(found)
    return found


def snapshot_work(
    snapshot: AuditedSnapshot, context: SnapshotContext, earlier: SnapshotContext | None, facts: Path
) -> SnapshotWork:
    """What the tasks must know of one snapshot. Raises `SnapshotError` if the earlier one is none of its past."""
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
        key: PartitionWork(context=context.partitions[key], replicas=context.replicas.get(key, ()))
        for key in context.partitions
    }


def _earlier_work(
    snapshot: AuditedSnapshot, context: SnapshotContext, previous: ReadSnapshot | None, earlier: SnapshotContext | None
) -> EarlierWork | None:
    if previous is None or earlier is None:
        return None
    check_order(snapshot.key, context.captured_at_ms, previous.key, earlier.captured_at_ms)
    check_topic_names(snapshot.key, _topic_names(context), previous.key, _topic_names(earlier))
    own: dict[int, set[str]] = {}
    for broker in snapshot.manifest.brokers:
        own[broker.broker_id] = {d.directory_id for d in broker.log_dirs if d.directory_id is not None}
    pairing = Pairing(
        previous_snapshot_id=previous.manifest.snapshot_id,
        previous_captured=frozenset(b.broker_id for b in previous.manifest.brokers),
        captured=frozenset(b.broker_id for b in snapshot.manifest.brokers),
        metadata_known=any(row["registered"] for row in context.rows["brokers"]),
        previous_directory_ids={
            (b.broker_id, d.name): d.directory_id
            for b in previous.manifest.brokers
            for d in b.log_dirs
            if d.directory_id is not None
        },
        directory_ids={broker_id: frozenset(ids) for broker_id, ids in own.items()},
    )
    return EarlierWork(root=str(previous.root), pairing=pairing, partitions=_partitions(earlier))


def _topic_names(context: SnapshotContext) -> dict[str, str]:
    return {row["topic_id"]: row["topic"] for row in context.rows["topics"]}


def _derive_group(shared: Any) -> Any:
    def derive_group(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        audited: str = rows[0]["audited"]
        work: SnapshotWork = shared.value[audited]
        key = (rows[0]["topic"], rows[0]["partition"])
        own = {row["path"]: row for row in rows if row["snapshot"] == audited}
        earlier = {row["path"]: row for row in rows if row["snapshot"] != audited}
        derived = (
            derive_partition(work, work.partitions[key], own, earlier)
            if key in work.partitions
            else derive_gone(work, key, earlier)
        )
        return _packed_rows(audited, work, derived)

    return derive_group


def derive_partition(
    work: SnapshotWork, partition: PartitionWork, rows: IndexRows, earlier_rows: IndexRows = MappingProxyType({})
) -> Rows:
    """The facts of one partition; `rows` are its segments' rows of the index step, by path."""
    root = location(work.root)
    inputs = [replica_input(root, replica, rows) for replica in partition.replicas]
    earlier = _earlier(work.earlier, partition.context, earlier_rows) if work.earlier is not None else None
    return partition_rows(partition.context, inputs, read=batch_reader(root), earlier=earlier)


def derive_gone(work: SnapshotWork, key: tuple[str, int], earlier_rows: IndexRows) -> Rows:
    """What can be told of a partition that only the earlier snapshot has."""
    assert work.earlier is not None, "nothing is gone without an earlier snapshot"
    return gone_rows(work.gone[key], _earlier(work.earlier, work.gone[key], earlier_rows))


def _earlier(earlier: EarlierWork, context: PartitionContext, rows: IndexRows) -> Earlier:
    root = location(earlier.root)
    partition = earlier.partitions.get((context.topic, context.partition))
    if partition is None:  # It did not exist then.
        partition = PartitionWork(context=replace(context, changes=(), commits=()), replicas=())
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


def _write_parts(shared: Any) -> "ArrowMapIterFunction":
    def write_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        part = f"{task.partitionId():05d}" if task is not None else "00000"
        writers: dict[str, PartWriter] = {}
        counts: dict[str, int] = {}
        for batch in batches:
            for value in batch.to_pylist():
                name = value["snapshot"]
                if name not in writers:
                    writers[name] = PartWriter(Path(shared.value[name].facts), part)
                table = unpacked(value["rows"])
                writers[name].write(value["relation"], table)
                counts[value["relation"]] = counts.get(value["relation"], 0) + table.num_rows
        for writer in writers.values():
            writer.close()
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([part] * len(counts), pa.string()),
                "relation": pa.array(list(counts), pa.string()),
                "rows": pa.array(list(counts.values()), pa.int64()),
            }
        )

    return write_parts


def _finish(snapshot: AuditedSnapshot, context: SnapshotContext, work: SnapshotWork, summaries: ds.Dataset) -> None:
    """What the driver adds: relations of the whole cluster, partitions without a segment, and the coverage."""
    writer = PartWriter(Path(work.facts), "cluster")
    keys = [snapshot.key, snapshot.previous.key] if snapshot.previous is not None else [snapshot.key]
    with_segments = {
        (row["topic"], row["partition"])
        for row in summaries.to_table(
            columns=["topic", "partition"], filter=ds.field("snapshot").isin(keys)
        ).to_pylist()
    }
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
    write_empty_relations(Path(work.facts))
    coverage = _coverage(snapshot, context, summaries)
    (snapshot.target / "coverage.json").write_text(json.dumps(coverage), encoding="utf-8")


def _coverage(snapshot: AuditedSnapshot, context: SnapshotContext, summaries: ds.Dataset) -> dict[str, Any]:
    """What was read, and what was not and why."""
    rows = summaries.to_table(
        columns=["path", "bytes_read", "error"], filter=ds.field("snapshot") == snapshot.key
    ).to_pylist()
    unread = [*context.unread, *(LeftOut(path=r["path"], reason=r["error"]) for r in rows if r["error"])]
    table = ds.dataset(str(snapshot.target / "facts" / "segments"), format="parquet").to_table(columns=["batch_count"])
    return {
        "brokers": len(snapshot.manifest.brokers),
        "replicas": sum(len(r) for r in context.replicas.values()),
        "segments": sum(1 for r in rows if not r["error"]),
        "segments_reused": 0,
        "batches": sum(table.column("batch_count").to_pylist()),
        "bytes": sum(r["bytes_read"] or 0 for r in rows),
        "captured_at_ms": context.captured_at_ms,
        "unread": [{"path": u.path, "reason": u.reason} for u in unread],
    }
