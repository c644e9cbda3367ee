"""A small snapshot's facts in this process, without Spark: the same functions in the same order, called one by one.

In: a snapshot. Out: `Derived`, the tables of every relation, and what they were made from. It calls what the Spark
tasks call; only who calls differs. It is for snapshots of a few kilobytes, where handing one to a task takes longer
than deriving it: states of a model, by the ten thousand.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.derive import derive_alone, snapshot_work
from spark_jobs.fact_files import relation_table
from spark_jobs.facts.posture_rows import posture_rows
from spark_jobs.facts.rows import PartitionKey, Row, Rows
from spark_jobs.failures import Failures
from spark_jobs.gather import SnapshotContext, gather
from spark_jobs.index import INDEX_SCHEMA, index_rows
from spark_jobs.plan import segment_tasks
from spark_jobs.run import AuditedSnapshot, Run
from spark_jobs.whole_cluster import whole_cluster_tables


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Derived:
    """The facts of one snapshot: a table a relation that has rows. `index`: the index step's rows by path."""

    context: SnapshotContext
    index: Mapping[str, Row]
    tables: Mapping[str, pa.Table]


def derive_here(snapshot: AuditedSnapshot, *, failures: Failures | None = None) -> Derived:
    """Runs every step over one snapshot, compared with its earlier one if it has one.

    `failures`: where to note a part that makes us fail; without it, what is raised is the caller's.
    """
    run = Run(directory=snapshot.target, snapshots=(snapshot,), store_url=None, fail_on="never", started_at_ms=0)
    summaries = pa.Table.from_batches(list(index_rows(segment_tasks(run), failures=failures)), schema=INDEX_SCHEMA)
    dataset = ds.dataset(summaries)
    before = gather(snapshot.previous, dataset) if snapshot.previous is not None else None
    context = gather(snapshot, dataset, also=before.replicas.keys() if before is not None else ())
    work = snapshot_work(snapshot, context, before, snapshot.target)
    index: dict[str, Row] = {}
    own: dict[PartitionKey, dict[str, Row]] = {}
    of_earlier: dict[PartitionKey, dict[str, Row]] = {}
    for row in summaries.to_pylist():
        key = (row["topic"], row["partition"])
        if row["snapshot"] == snapshot.key:
            index[row["path"]] = own.setdefault(key, {})[row["path"]] = row
        else:
            of_earlier.setdefault(key, {})[row["path"]] = row
    rows: Rows = {name: list(of_relation) for name, of_relation in context.rows.items()}
    for key in (*work.partitions, *work.gone):
        of_partition = derive_alone(work, key, own.get(key, {}), of_earlier.get(key, {}), snapshot.key, failures)
        for name, of_relation in of_partition.items():
            rows.setdefault(name, []).extend(of_relation)
    rows |= posture_rows(rows.get("partitions", []), context.posture)
    names = {"cluster": work.cluster, "snapshot_id": work.snapshot_id}
    tables = {name: relation_table(name, of_relation, **names) for name, of_relation in rows.items()}

    def read(name: str) -> pa.Table:
        return tables[name] if name in tables else relation_table(name, (), **names)

    tables |= whole_cluster_tables(read, context.transactional_ids, **names)
    return Derived(context=context, index=index, tables=tables)
