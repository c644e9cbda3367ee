"""The derive step: segment summaries to facts, one partition of Kafka at a time, on Spark.

In: `RUN/work/summaries`, the small files of the snapshots, the metadata log. Out: `facts/<relation>/*.parquet` and
`coverage.json` per snapshot. The rule that must hold: everything of one partition is folded in one place, by the pure
functions of `spark_jobs.facts`; this module only gathers, hands over and writes.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from snapshots.location import location
from snapshots.manifest import LeftOut
from spark_jobs.fact_files import PartWriter, packed, relation_table, unpacked, write_empty_relations
from spark_jobs.facts.context import PartitionContext, Rows
from spark_jobs.facts.partition import partition_rows
from spark_jobs.gather import SnapshotContext, gather
from spark_jobs.replica_files import ReplicaWork, batch_reader, replica_input
from spark_jobs.run import AuditedSnapshot, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

_PACKED: Final = pa.schema([("snapshot", pa.string()), ("relation", pa.string()), ("rows", pa.binary())])
_PACKED_DDL: Final = "snapshot string, relation string, rows binary"
_WRITTEN_DDL: Final = "part string, relation string, rows bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One partition to derive: what is known beside its logs, and its replicas' files."""

    context: PartitionContext
    replicas: tuple[ReplicaWork, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWork:
    """One snapshot as the tasks need it."""

    root: str
    facts: str
    cluster: str
    snapshot_id: str
    partitions: Mapping[tuple[str, int], PartitionWork]


def derive(spark: "SparkSession", run: Run) -> None:
    """Derives the facts of every snapshot of a run."""
    summaries = ds.dataset(str(run.summaries), format="parquet")
    works: dict[str, SnapshotWork] = {}
    gathered: dict[str, SnapshotContext] = {}
    for snapshot in run.snapshots:
        facts = snapshot.target / "facts"
        shutil.rmtree(facts, ignore_errors=True)
        context = gather(snapshot, summaries)
        gathered[snapshot.key] = context
        works[snapshot.key] = _work(snapshot, context, facts)
    frame = spark.read.parquet(str(run.summaries))
    shared = spark.sparkContext.broadcast(works)
    derived = (
        frame.drop("coordinator_records")
        .groupBy("snapshot", "topic", "partition")
        .applyInArrow(_derive_group(shared), schema=_PACKED_DDL)
        .mapInArrow(_write_parts(shared), schema=_WRITTEN_DDL)
    )
    derived.collect()
    for snapshot in run.snapshots:
        _finish(snapshot, gathered[snapshot.key], works[snapshot.key], summaries)


def _work(snapshot: AuditedSnapshot, context: SnapshotContext, facts: Path) -> SnapshotWork:
    return SnapshotWork(
        root=str(snapshot.root),
        facts=str(facts),
        cluster=snapshot.manifest.cluster,
        snapshot_id=snapshot.manifest.snapshot_id,
        partitions={
            key: PartitionWork(context=context.partitions[key], replicas=context.replicas.get(key, ()))
            for key in context.partitions
        },
    )


def _derive_group(shared: Any) -> Any:
    def derive_group(table: pa.Table) -> pa.Table:
        first = table.slice(0, 1).to_pylist()[0]
        work: SnapshotWork = shared.value[first["snapshot"]]
        rows = {row["path"]: row for row in table.to_pylist()}
        partition = work.partitions[(first["topic"], first["partition"])]
        return _packed_rows(first["snapshot"], work, derive_partition(work, partition, rows))

    return derive_group


def derive_partition(work: SnapshotWork, partition: PartitionWork, rows: Mapping[str, Mapping[str, Any]]) -> Rows:
    """The facts of one partition; `rows` are its segments' rows of the index step, by path."""
    root = location(work.root)
    inputs = [replica_input(root, replica, rows) for replica in partition.replicas]
    return partition_rows(partition.context, inputs, read=batch_reader(root))


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
    with_segments = {
        (row["topic"], row["partition"])
        for row in summaries.to_table(
            columns=["topic", "partition"], filter=ds.field("snapshot") == snapshot.key
        ).to_pylist()
    }
    rows: Rows = {name: list(of_relation) for name, of_relation in context.rows.items()}
    for key, partition in work.partitions.items():
        if key not in with_segments:
            for name, of_relation in derive_partition(work, partition, {}).items():
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
