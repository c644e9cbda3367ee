"""A small snapshot's facts in this process, without Spark: the same functions in the same order, called one by one.

In: a snapshot. Out: `Derived`, the tables of every relation, and what they were made from. It calls what the Spark
tasks call; only who calls differs. It is for snapshots of a few kilobytes, where handing one to a task takes longer
than deriving it: states of a model, by the ten thousand.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from tidegauge.derivation.derive import derive, prepare
from tidegauge.derivation.gathering.gather import SnapshotContext
from tidegauge.derivation.index import index_rows
from tidegauge.derivation.plan import segment_tasks
from tidegauge.derivation.segment_tasks import INDEX_SCHEMA
from tidegauge.facts.rows import PartitionKey, Row
from tidegauge.runs.failures import Failures
from tidegauge.runs.run import AuditedSnapshot, Run


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
    prepared = prepare(snapshot, ds.dataset(summaries))
    index: dict[str, Row] = {}
    own: dict[PartitionKey, dict[str, Row]] = {}
    of_earlier: dict[PartitionKey, dict[str, Row]] = {}
    for row in summaries.to_pylist():
        key = (row["topic"], row["partition"])
        if row["snapshot"] == snapshot.key:
            index[row["path"]] = own.setdefault(key, {})[row["path"]] = row
        else:
            of_earlier.setdefault(key, {})[row["path"]] = row
    tables = dict(derive(prepared, lambda key: (own.get(key, {}), of_earlier.get(key, {})), failures))
    return Derived(context=prepared.context, index=index, tables=tables)
