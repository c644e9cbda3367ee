"""Gathering, on the driver: what a snapshot says beside its user topics' logs.

In: a snapshot, and the summaries of its segments. Out: `SnapshotContext`: a context and the replicas' files per
partition, the relations of the whole cluster, and what could not be read. The rule that must hold: only small files,
the metadata log and the coordinators' tables are read here; the logs were read where Spark put them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow.dataset as ds

from tidegauge.derivation.files.checkpoint_files import newest_epochs
from tidegauge.derivation.files.remote_store import Stored, stored_files
from tidegauge.derivation.files.truth_file import read_ledger
from tidegauge.derivation.gathering.broker_rows import BrokerFiles, broker_rows
from tidegauge.derivation.gathering.coordinator_copies import led_copies, replicated, waiting_commits
from tidegauge.derivation.gathering.coordinator_logs import TOPICS as COORDINATORS
from tidegauge.derivation.gathering.coordinator_logs import Coordinators, read_coordinators
from tidegauge.derivation.gathering.evidence_of import Gathered, at_hand, missing
from tidegauge.derivation.gathering.partition_contexts import Known, partition_context, topic_row
from tidegauge.derivation.gathering.replica_files import ReplicaWork
from tidegauge.derivation.gathering.replica_works import replica_works
from tidegauge.derivation.gathering.small_files import SmallFiles, read_small_files
from tidegauge.derivation.metadata.captured_nodes import CapturedNodes
from tidegauge.derivation.metadata.metadata_nodes import last_seen, metadata_rows, metadata_segments
from tidegauge.facts.answers.answers import Recomputed, cluster_answer_rows
from tidegauge.facts.answers.asked import answers_by_partition
from tidegauge.facts.context import PartitionContext
from tidegauge.facts.coordinators.fencing import cluster_epochs
from tidegauge.facts.coordinators.tables import committed_offsets, forgotten_offsets, remote_segments
from tidegauge.facts.metadata.broker_history import broker_change_rows
from tidegauge.facts.metadata.upkeep_context import oldest_releases
from tidegauge.facts.replicas.directories import partition_directory_rows
from tidegauge.facts.replicas.node_knowledge import NodeKnowledge
from tidegauge.facts.risk.posture_rows import PostureContext, posture_context
from tidegauge.kafka_log.coordinator_records import OffsetCommit, RemoteSegment
from tidegauge.kafka_log.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    TRANSACTION_STATE,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import BrokerRow, CheckpointFileRow, PartitionDirectoryRow, Rows, TransactionalIdRow
from tidegauge.runs.capture_time import captured_at_ms
from tidegauge.runs.missing_evidence import AtHand, Missing
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.listing import SnapshotListing
from tidegauge.snapshots.manifest import LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContext:
    """What the derive step hands to the tasks, and what it writes itself."""

    partitions: Mapping[TopicPartition, PartitionContext]
    gone: Mapping[TopicPartition, PartitionContext]
    """What is known of partitions that were asked for and are not there any more."""
    replicas: Mapping[TopicPartition, tuple[ReplicaWork, ...]]
    rows: Rows
    unread: tuple[LeftOut, ...]
    captured_at_ms: int | None
    nodes: CapturedNodes = field(default_factory=CapturedNodes)
    stored: Stored | None = None
    """Files in the remote store, by segment id; None if the snapshot does not have it."""
    posture: PostureContext = field(default_factory=PostureContext)
    transactional_ids: tuple[TransactionalIdRow, ...] = ()
    missing: tuple[Missing, ...] = ()
    evidence: tuple[AtHand, ...] = ()


def gather(snapshot: ReadSnapshot, summaries: ds.Dataset, *, also: Collection[TopicPartition] = ()) -> SnapshotContext:
    """Gathers one snapshot. `also` are partitions of an earlier one."""
    unread: list[LeftOut] = []
    read = read_small_files(snapshot, unread, is_earlier=bool(also))
    coordinators = read_coordinators(
        snapshot,
        summaries,
        read.history,
        read.settings,
        epochs=newest_epochs(read.of_replicas, COORDINATORS),
        quiet_brokers=read.nodes.quiet,
        snapshot_quiet=read.nodes.one_moment,
    )
    known = _known(read, coordinators, summaries, unread)
    replicas = {key: tuple(works) for key, works in replica_works(read, unread).items()}
    keys = (
        replicas.keys()
        | known.commits.keys()
        | coordinators.share_states.keys()
        | known.remote.keys()
        | {TopicPartition(t.name, p) for t in read.history.topics.values() if not t.deleted for p in t.partitions}
    )
    partitions = {key: partition_context(key, known) for key in sorted(keys)}
    rows = _cluster_rows(read, known, replicas, summaries, unread)
    stored = stored_files(snapshot.root) if known.remote else None
    gathered = Gathered(
        read=read,
        previous=snapshot.previous.manifest if isinstance(snapshot, AuditedSnapshot) and snapshot.previous else None,
        held=replicas.keys(),
        coordinators=[t for t in COORDINATORS if coordinators.tables(t)],
        remote_topics={topic for topic, _ in known.remote},
        remote_store=stored is not None,
        captured_at_ms=known.captured_at_ms,
    )
    return SnapshotContext(
        partitions=partitions,
        gone={key: partition_context(key, known) for key in sorted(also) if key not in partitions},
        replicas=replicas,
        rows=rows,
        unread=tuple(unread),
        captured_at_ms=known.captured_at_ms,
        nodes=read.nodes,
        stored=stored,
        posture=posture_context(
            read.history,
            read.settings,
            topics={topic for topic, _ in replicas if topic != CLUSTER_METADATA},
            stopped=read.nodes.stopped,
        ),
        transactional_ids=coordinators.transactional_id_rows(),
        missing=tuple(missing(gathered)),
        evidence=tuple(at_hand(gathered)),
    )


def _known(read: SmallFiles, coordinators: Coordinators, summaries: ds.Dataset, unread: list[LeftOut]) -> Known:
    """What holds for the whole snapshot: each partition's context is made from it."""
    history, metadata, manifest = read.history, read.metadata, read.manifest
    return Known(
        history=history,
        nodes=NodeKnowledge(history=history, known_until=metadata.known_until, islands=metadata.islands),
        brokers_of=_brokers_of(read.files),
        confluent_tier=frozenset(r.topic_partition for r in read.files.replicas() if r.confluent_tier),
        captured=read.nodes,
        untold=read.ahead.keys(),
        metadata_committed_end_offset=max((s.file.end_offset for s in metadata.snapshots), default=None),
        coordinators=coordinators,
        transactions=coordinators.transactions,
        transactions_known=bool(coordinators.tables(TRANSACTION_STATE)),
        commits=_by_partition(committed_offsets(coordinators.tables(CONSUMER_OFFSETS))),
        remote=_remote_by_partition(remote_segments(coordinators.tables(REMOTE_LOG_METADATA))),
        captured_at_ms=captured_at_ms(manifest, summaries, key=read.snapshot.key),
        answers=answers_by_partition(read.answers, history.last_record_at_ms) if read.answers is not None else {},
        settings=read.settings,
        names_hashed=manifest.hashed_topics,
        remote_records_whole=_from_the_start(read.files, REMOTE_LOG_METADATA),
        oldest_releases=oldest_releases(history),
        ledger=read_ledger(read.root, manifest, unread),
    )


def _cluster_rows(
    read: SmallFiles,
    known: Known,
    replicas: Mapping[TopicPartition, tuple[ReplicaWork, ...]],
    summaries: ds.Dataset,
    unread: list[LeftOut],
) -> Rows:
    """The relations of the whole cluster."""
    nodes, history, coordinators = read.nodes, read.history, known.coordinators
    segments = metadata_segments(summaries, read.snapshot.key)
    rows: Rows = {"checkpoint_files": list(_checkpoint_file_rows(read))}
    rows |= metadata_rows(
        read.root, read.files, read.metadata, segments, quiet=nodes.quiet, snapshot_quiet=nodes.metadata_one_moment
    )
    rows["brokers"] = broker_rows(
        BrokerFiles(
            nodes=nodes,
            files=read.files,
            foreign=read.manifest.foreign,
            cluster_id=read.manifest.cluster_id,
            checkpoints={
                b.broker_id: [read.checkpoints[id(d)] for d in read.files.of_broker(b.broker_id)]
                for b in read.manifest.brokers
            },
            seen_until_ms=last_seen(read.files, segments),
            metadata_ends_early=bool(read.ahead),
        ),
        history,
    )
    rows |= coordinators.rows(snapshot_quiet=nodes.one_moment)
    rows["topics"] = [topic_row(t, known) for t in history.topics.values() if not t.deleted]
    rows["broker_changes"] = broker_change_rows(history.broker_changes)
    unread += nodes.left_out
    rows["partition_directories"] = list(_directory_rows(read, unread))
    if read.answers is not None:
        recomputed = _recomputed(known, replicas, summaries, rows["brokers"], snapshot_key=read.snapshot.key)
        rows["cluster_answers"] = cluster_answer_rows(read.answers, recomputed)
    rows["fencing_epochs"] = cluster_epochs(rows)
    return rows


def _checkpoint_file_rows(read: SmallFiles) -> Iterator[CheckpointFileRow]:
    """Those of log dirs, then those of replicas."""
    told = [(log_dir.broker_id, read.checkpoints[id(log_dir)].rows) for log_dir in read.files.log_dirs]
    told += [(replica.broker_id, said.rows) for replica, said in read.of_replicas]
    for broker_id, rows in told:
        quiet = broker_id in read.nodes.quiet
        for row in rows:
            yield {**row, "broker_quiet": quiet, "snapshot_quiet": read.nodes.one_moment}


def _directory_rows(read: SmallFiles, unread: list[LeftOut]) -> Iterator[PartitionDirectoryRow]:
    nodes = read.nodes
    rows = partition_directory_rows(
        read.files,
        # Who renames a file decides then when it goes.
        delete_delay_ms=lambda topic: max(read.settings.course(topic, "file.delete.delay.ms").numbers()),
        unread=unread,
    )
    for row in rows:
        quiet = nodes.one_moment or row["broker_id"] in nodes.quiet
        yield {**row, "broker_quiet": quiet, "snapshot_quiet": nodes.one_moment}


def _recomputed(
    known: Known,
    replicas: Mapping[TopicPartition, tuple[ReplicaWork, ...]],
    summaries: ds.Dataset,
    brokers: Iterable[BrokerRow],
    *,
    snapshot_key: str,
) -> Recomputed:
    """What the cluster's answers are held against."""
    coordinators, copies = known.coordinators, led_copies(known.history, replicas)
    return Recomputed(
        history=known.history,
        cluster_ids={b["broker_id"]: cluster_id for b in brokers if (cluster_id := b.get("cluster_id"))},
        commits=known.commits,
        transactions=tuple(known.transactions.values()),
        replaced_transaction_states=coordinators.replaced_transaction_states(),
        led_copies=copies.keys(),
        replicated=replicated(copies, summaries, snapshot_key=snapshot_key, topic=TRANSACTION_STATE),
        waiting_commits=waiting_commits(copies, coordinators.logs),
        forgotten_commits=forgotten_offsets(coordinators.tables(CONSUMER_OFFSETS)),
        unreadable=coordinators.unreadable(),
    )


def _brokers_of(files: SnapshotListing) -> dict[TopicPartition, set[int]]:
    """Which brokers hold a replica of each partition."""
    found: dict[TopicPartition, set[int]] = {}
    for replica in files.replicas():
        found.setdefault(replica.topic_partition, set()).add(replica.broker_id)
    return found


def _from_the_start(files: SnapshotListing, topic: str) -> bool:
    """No replica of a topic has lost the head of its log."""
    replicas = [r for r in files.replicas() if r.topic == topic]
    return bool(replicas) and all(r.segments and r.segments[0].base_offset == 0 for r in replicas)


def _by_partition(commits: Iterable[OffsetCommit]) -> dict[TopicPartition, tuple[OffsetCommit, ...]]:
    found: dict[TopicPartition, list[OffsetCommit]] = {}
    for commit in commits:
        found.setdefault(TopicPartition(commit.topic, commit.partition), []).append(commit)
    return {key: tuple(sorted(value, key=lambda c: c.group)) for key, value in found.items()}


def _remote_by_partition(segments: Iterable[RemoteSegment]) -> dict[TopicPartition, tuple[RemoteSegment, ...]]:
    found: dict[TopicPartition, list[RemoteSegment]] = {}
    for segment in segments:
        found.setdefault(TopicPartition(segment.topic, segment.partition), []).append(segment)
    return {key: tuple(value) for key, value in found.items()}
