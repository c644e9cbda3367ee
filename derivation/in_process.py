"""A small snapshot's facts in this process, without Spark: the same functions in the same order, called one by one.

In: a snapshot. Out: `Derived`, the tables of every relation, and what they were made from; or `facts/` and
`coverage.json` of each snapshot of a run. It calls what the Spark tasks call; only who calls differs. It is for
snapshots that take longer to hand to a task than to derive: a laptop's cluster, states of a model by the ten thousand.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidegauge.derivation.coverage import coverage_of, forget_coverage, write_coverage
from tidegauge.derivation.derive import cluster_facts, derive, prepare
from tidegauge.derivation.fact_files import write_empty_relations, write_part
from tidegauge.derivation.gathering.gather import SnapshotContext
from tidegauge.derivation.index import index_rows
from tidegauge.derivation.index_columns import INDEX_SCHEMA, WITHOUT_RECORDS, rows_of
from tidegauge.derivation.index_row import IndexRow, IndexRows
from tidegauge.derivation.judged_files import forget_judged
from tidegauge.derivation.kept_summaries import keep, kept_of
from tidegauge.derivation.plan import DECODED_TOPICS, segment_tasks
from tidegauge.derivation.segment_pieces import whole_rows
from tidegauge.derivation.segment_tasks import SegmentTask
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.progress import working
from tidegauge.runs import report_file
from tidegauge.runs.failures import Failures
from tidegauge.runs.restriction import EVERYTHING, Restriction
from tidegauge.runs.run import NO_SUMMARIES, AuditedSnapshot, Run
from tidegauge.runs.survivors import going_on
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.manifest import Manifest
from tidegauge.snapshots.places import emptied

HERE_BYTES: Final = 2 << 30
"""Bytes of the logs that snapshots and those that they are compared with have at most, together, to be derived here."""
HERE_DECODED_BYTES: Final = 16 << 20
"""And so many of internal topics, whose records are decoded, some 1.5 MB a second."""
HERE_SEGMENTS: Final = 1000
"""And so many segments: each takes some 5 ms of a processor, and Spark's start some 5 s of two."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Derived:
    """The facts of one snapshot: a table a relation that has rows. `index`: the index step's rows by path."""

    context: SnapshotContext
    index: IndexRows
    tables: Mapping[str, pa.Table]


def fit_here(snapshots: Iterable[AuditedSnapshot]) -> bool:
    """Whether this process derives snapshots sooner than Spark starts. They lie on this machine: of an object store
    many tasks wait at once.
    """
    reads = [read for snapshot in snapshots for read in snapshot.reads]
    if not all(isinstance(read.root, Path) for read in reads):
        return False
    try:
        found = [size for read in reads for size in _sizes(read.manifest)]
    except Exception:  # Whatever it is, it is told where the snapshot is read.
        return False
    return (
        len(found) <= HERE_SEGMENTS
        and sum(size for _, size in found) <= HERE_BYTES
        and sum(size for topic, size in found if topic in DECODED_TOPICS) <= HERE_DECODED_BYTES
    )


def _sizes(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """The topic of each segment, and the bytes of its log."""
    for log_dir in listing(manifest).log_dirs:
        for replica in log_dir.replicas:
            for segment in replica.segments:
                yield replica.topic, segment.log.size_bytes


def derive_run(run: Run) -> None:
    """The index and the derive step of a whole run. Raises what its snapshots failed of where none is left."""
    run.failures.begin("index")
    run.failures.begin("derive")
    forget_judged(run)
    for snapshot in run.snapshots:
        report_file.forget(snapshot.target)
        with run.failures.of("derive", snapshot.key, root=snapshot.root):
            derive_and_write(snapshot, run.failures, restriction=run.restriction, kept_summaries=run.kept_summaries)
    going_on(run)


def derive_and_write(
    snapshot: AuditedSnapshot,
    failures: Failures,
    *,
    restriction: Restriction = EVERYTHING,
    kept_summaries: str | None = NO_SUMMARIES,
) -> None:
    """One snapshot's facts and coverage. `failures`: where to note a part that makes us fail."""
    made = derive_here(snapshot, failures=failures, restriction=restriction, kept_summaries=kept_summaries)
    facts = snapshot.target / "facts"
    forget_coverage(snapshot.target)
    emptied(facts)
    write_part(facts, "whole", made.tables.items())
    write_empty_relations(facts)
    coverage = coverage_of(snapshot, made.context, made.index.values())
    write_coverage(snapshot.target, coverage, failures.parts_of(snapshot.key))


def derive_here(
    snapshot: AuditedSnapshot,
    *,
    failures: Failures | None = None,
    restriction: Restriction = EVERYTHING,
    kept_summaries: str | None = NO_SUMMARIES,
) -> Derived:
    """Runs every step over one snapshot, compared with its earlier one if it has one. What a `restriction`
    leaves out of the partitions, is left out of what takes every partition, too.

    `failures`: where to note a part that makes us fail; without it, what is raised is the caller's.
    """
    run = Run(
        directory=snapshot.target,
        snapshots=(snapshot,),
        store_url=None,
        fail_on="never",
        started_at_ms=0,
        restriction=restriction,
        kept_summaries=kept_summaries,
    )
    kept = kept_of(run)
    batches = list(_indexed(segment_tasks(run, kept), failures))
    summaries = pa.Table.from_batches(batches, schema=INDEX_SCHEMA)
    keep(run, kept, lambda _: batches)
    prepared = prepare(snapshot, ds.dataset(summaries), restriction)
    index: dict[str, IndexRow] = {}
    own: dict[TopicPartition, dict[str, IndexRow]] = {}
    of_earlier: dict[TopicPartition, dict[str, IndexRow]] = {}
    for row in whole_rows(rows_of(summaries.select(WITHOUT_RECORDS))):
        key = TopicPartition(row["topic"], row["partition"])
        if row["snapshot"] == snapshot.key:
            index[row["path"]] = own.setdefault(key, {})[row["path"]] = row
        else:
            of_earlier.setdefault(key, {})[row["path"]] = row

    def rows_of_partition(key: TopicPartition) -> tuple[IndexRows, IndexRows]:
        return own.get(key, {}), of_earlier.get(key, {})

    told = cluster_facts(prepared, prepared.partitions, rows_of_partition, failures) if restriction.partitions else None
    tables = dict(derive(prepared, rows_of_partition, failures) if told is None else told)
    return Derived(context=prepared.context, index=index, tables=tables)


def _indexed(tasks: Sequence[SegmentTask], failures: Failures | None) -> Iterator[pa.RecordBatch]:
    """The index step's rows, with how far it is."""
    to_read = sum(task.size_bytes for task in tasks if task.kept_in is None)
    with working("index", "segments", parts=len(tasks), size_bytes=to_read) as advance:
        for batch in index_rows(tasks, failures=failures):
            yield batch
            anew = batch.filter(pc.invert(batch.column("reused")))
            segments = pc.sum(pc.equal(batch.column("piece"), 0)).as_py()
            advance(segments, pc.sum(anew.column("bytes_read")).as_py() or 0)
