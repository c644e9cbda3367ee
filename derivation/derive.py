"""From the rows of the index step to a snapshot's facts, without Spark: whoever schedules it calls these functions.

In: a snapshot and the rows of its segments. Out: tables of relations. First what is small is gathered (`prepare`);
then each partition is folded by itself, in any order, by the pure functions of `facts` (`partition_facts`);
then comes what takes every partition (`facts_of_all`). `derive` does it all in one process.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from tidegauge.derivation.fact_files import relation_table
from tidegauge.derivation.files.remote_store import Stored, remote_objects
from tidegauge.derivation.gathering.gather import SnapshotContext, gather
from tidegauge.derivation.gathering.replica_files import ReplicaWork, batch_reader, replica_input
from tidegauge.derivation.index_row import IndexRows
from tidegauge.derivation.key_reading import key_reader
from tidegauge.derivation.whole_cluster import ReadRelation, whole_cluster_tables
from tidegauge.facts.cleanup.remote_tier import RemoteObjects
from tidegauge.facts.cleanup.storage_rows import StoredBytes, no_keys
from tidegauge.facts.context import PartitionContext, before_it_was
from tidegauge.facts.partitions.partition import Earlier, gone_rows, partition_rows
from tidegauge.facts.replicas.replica_set import replica_set
from tidegauge.facts.risk.changes import Pairing
from tidegauge.facts.risk.posture_rows import READ_COLUMNS, PostureContext, posture_rows
from tidegauge.facts.rows import AnyRow, by_relation
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.progress import each, working
from tidegauge.relations import Rows, TransactionalIdRow
from tidegauge.runs.capture_time import check_clock
from tidegauge.runs.failures import Failures
from tidegauge.runs.mounts import seen
from tidegauge.runs.pairs import check_order, check_topic_names, is_timed
from tidegauge.runs.restriction import EVERYTHING, Restriction
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.location import Location

RowsOf = Callable[[TopicPartition], tuple[IndexRows, IndexRows]]
"""A partition's own rows of the index step, and those of the earlier snapshot."""

RelationTables = Iterator[tuple[str, pa.Table]]
"""Names of relations, and tables of some of their rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One partition to derive: what is known beside its logs, and its replicas' files."""

    context: PartitionContext
    replicas: tuple[ReplicaWork, ...] = ()
    stored: Stored | None = None
    """Its segments' files in the remote store; None if the snapshot does not have that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """All that is known of a partition beside its logs: `now`, or that it is `gone`, and what it was `earlier`.

    `earlier` is None without an earlier snapshot, and where that does not have the partition.
    """

    now: PartitionWork | None = None
    gone: PartitionContext | None = None
    earlier: PartitionWork | None = None


NOT_ASKED_FOR: Final = KnownPartition()
"""Of a partition that is read for what it says of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierWork:
    """The snapshot that another one is compared with. `metadata_known`: it has a metadata log."""

    root: str
    pairing: Pairing
    metadata_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWork:
    """What is the same for every partition of a snapshot. `key`: the snapshot's among those audited together."""

    root: str
    key: str
    cluster: str
    snapshot_id: str
    earlier: EarlierWork | None = None

    def table(self, relation: str, rows: Iterable[AnyRow]) -> pa.Table:
        """Rows of a relation as its table."""
        return relation_table(relation, rows, cluster=self.cluster, snapshot_id=self.snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A snapshot of which all is known but what its user topics' logs tell. The partitions that are gone come last."""

    context: SnapshotContext
    work: SnapshotWork
    partitions: Mapping[TopicPartition, KnownPartition]


def prepare(snapshot: AuditedSnapshot, summaries: ds.Dataset, restriction: Restriction = EVERYTHING) -> Prepared:
    """Gathers a snapshot, and the one that it is compared with. `restriction`: which partitions were asked for."""
    earlier = gather(snapshot.previous, summaries) if snapshot.previous is not None else None
    context = gather(snapshot, summaries, also=earlier.replicas.keys() if earlier is not None else ())
    context = restricted(context, restriction)
    return Prepared(
        context=context, work=snapshot_work(snapshot, context, earlier), partitions=known_partitions(context, earlier)
    )


def derive(prepared: Prepared, rows_of: RowsOf, failures: Failures | None = None) -> RelationTables:
    """The facts of a snapshot, a table a relation. `failures`: where to note a part that makes us fail."""
    with working("derive", "partitions", parts=len(prepared.partitions)) as advance:
        tables = dict(cluster_facts(prepared, each(advance, prepared.partitions), rows_of, failures))
    yield from tables.items()
    yield from facts_of_all(
        lambda name: tables[name] if name in tables else prepared.work.table(name, ()),
        prepared.context.posture,
        prepared.context.transactional_ids,
        cluster=prepared.work.cluster,
        snapshot_id=prepared.work.snapshot_id,
    )


def cluster_facts(
    prepared: Prepared,
    keys: Iterable[TopicPartition],
    rows_of: RowsOf = lambda _: ({}, {}),
    failures: Failures | None = None,
) -> RelationTables:
    """The relations of the whole cluster, with what is told of some partitions: by default, as of such without a
    segment.
    """
    rows: dict[str, list[AnyRow]] = {name: list(of_all) for name, of_all in by_relation(prepared.context.rows)}
    for key in keys:
        told = partition_facts(prepared.work, key, prepared.partitions[key], *rows_of(key), failures)
        for name, of_relation in by_relation(told):
            rows.setdefault(name, []).extend(of_relation)
    return ((name, prepared.work.table(name, of_all)) for name, of_all in rows.items())


def facts_of_all(
    read: ReadRelation,
    posture: PostureContext,
    transactional_ids: Sequence[TransactionalIdRow],
    *,
    cluster: str,
    snapshot_id: str,
) -> RelationTables:
    """What can be told when every partition was. `read`: a relation's table, of all partitions."""
    partitions = read("partitions").select(READ_COLUMNS)  # A row costs by its columns, and a cluster has many.
    for name, rows in by_relation(posture_rows(partitions.to_pylist(), posture)):
        yield name, relation_table(name, rows, cluster=cluster, snapshot_id=snapshot_id)
    yield from whole_cluster_tables(read, transactional_ids, cluster=cluster, snapshot_id=snapshot_id).items()


def restricted(context: SnapshotContext, restriction: Restriction) -> SnapshotContext:
    """What is known of a snapshot, without the partitions that a restricted audit was not asked for."""
    if not restriction.partitions:
        return context
    return replace(
        context,
        partitions={place: known for place, known in context.partitions.items() if restriction.keeps(place)},
        gone={place: known for place, known in context.gone.items() if restriction.keeps(place)},
        replicas={place: known for place, known in context.replicas.items() if restriction.keeps(place)},
        rows=restriction.rows(context.rows),
    )


def snapshot_work(snapshot: AuditedSnapshot, context: SnapshotContext, earlier: SnapshotContext | None) -> SnapshotWork:
    """Raises `SnapshotError` if the earlier snapshot is none of this one's past, or if itself is of the future."""
    now_ms = time.time_ns() // 1_000_000
    check_clock(snapshot.manifest, str(snapshot.root), context.captured_at_ms, now_ms=now_ms)
    return SnapshotWork(
        root=str(snapshot.root),
        key=snapshot.key,
        cluster=snapshot.manifest.cluster,
        snapshot_id=snapshot.manifest.snapshot_id,
        earlier=_earlier_work(snapshot, context, snapshot.previous, earlier),
    )


def known_partitions(
    context: SnapshotContext, earlier: SnapshotContext | None
) -> Mapping[TopicPartition, KnownPartition]:
    """Every partition to derive, the ones that are gone last."""
    now = {key: KnownPartition(now=_work(context, key), earlier=_work(earlier, key)) for key in context.partitions}
    gone = {key: KnownPartition(gone=context.gone[key], earlier=_work(earlier, key)) for key in context.gone}
    return now | gone


def _work(context: SnapshotContext | None, key: TopicPartition) -> PartitionWork | None:
    if context is None or key not in context.partitions:
        return None
    return PartitionWork(
        context=context.partitions[key], replicas=context.replicas.get(key, ()), stored=_stored_of(context, key)
    )


def _stored_of(context: SnapshotContext, key: TopicPartition) -> Stored | None:
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
        metadata_known=_metadata_known(earlier),
    )


def _metadata_known(context: SnapshotContext) -> bool:
    return any(row["registered"] for row in context.rows["brokers"])


def _topic_names(context: SnapshotContext) -> dict[str, str]:
    return {row["topic_id"]: row["topic"] for row in context.rows["topics"]}


def partition_facts(
    work: SnapshotWork,
    key: TopicPartition,
    known: KnownPartition,
    own: IndexRows,
    earlier: IndexRows,
    failures: Failures | None,
) -> Rows:
    """The facts of one partition; where it makes us fail, those that are left when none of its segments was read.

    `failures`: where that is noted; without it, what is raised is the caller's.
    """
    try:
        return _facts(work, known, own, earlier)
    except Exception as error:
        if failures is None:
            raise
        reason = failures.take_part("derive", work.key, str(key), own, error, root=work.root)
        return _facts(work, known, _unread(own, reason), _unread(earlier, reason))


def _unread(rows: IndexRows, reason: str) -> IndexRows:
    return {path: {**row, "error": reason} for path, row in rows.items()}


def _facts(work: SnapshotWork, known: KnownPartition, own: IndexRows, earlier: IndexRows) -> Rows:
    if known.now is not None:
        return derive_partition(work, known.now, own, known.earlier, earlier)
    if known.gone is not None:
        return derive_gone(work, known.gone, known.earlier, earlier)
    return {}  # Read for what it says of others, and not asked for.


def derive_partition(
    work: SnapshotWork,
    partition: PartitionWork,
    rows: IndexRows,
    before: PartitionWork | None = None,
    earlier_rows: IndexRows = MappingProxyType({}),
) -> Rows:
    """The facts of one partition; `rows` are its segments' rows of the index step, by path. `before`: what it was in
    the earlier snapshot.
    """
    root = seen(work.root)
    inputs = [replica_input(root, replica, rows) for replica in partition.replicas]
    earlier = _earlier(work.earlier, partition.context, before, earlier_rows) if work.earlier is not None else None
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


def derive_gone(
    work: SnapshotWork, gone: PartitionContext, before: PartitionWork | None, earlier_rows: IndexRows
) -> Rows:
    """What can be told of a partition that only the earlier snapshot has."""
    assert work.earlier is not None, "nothing is gone without an earlier snapshot"
    return gone_rows(gone, _earlier(work.earlier, gone, before, earlier_rows))


def _earlier(
    earlier: EarlierWork, context: PartitionContext, partition: PartitionWork | None, rows: IndexRows
) -> Earlier:
    root = seen(earlier.root)
    if partition is None:  # It did not exist then, or was not copied.
        partition = PartitionWork(context=before_it_was(context, metadata_known=earlier.metadata_known))
    inputs = [replica_input(root, replica, rows) for replica in partition.replicas]
    read = batch_reader(root)
    return Earlier(replicas=replica_set(partition.context, inputs, read=read), pairing=earlier.pairing, read=read)
