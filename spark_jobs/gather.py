"""Gathering, on the driver: what a snapshot says beside its user topics' logs.

In: a snapshot, and the summaries of its segments. Out: `SnapshotContext`: a context and the replicas' files per
partition, the relations of the whole cluster, and what could not be read. The rule that must hold: only small files,
the metadata log and the coordinators' tables are read here; the logs were read where Spark put them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow.dataset as ds

from kafka_log.coordinator_records import OffsetCommit, RemoteSegment
from kafka_log.internal_topics import CLUSTER_METADATA, CONSUMER_OFFSETS, REMOTE_LOG_METADATA, TRANSACTION_STATE
from kafka_log.log_dir import (
    CLEANER_OFFSET_CHECKPOINT,
    LATER_EPOCH_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    log_name,
)
from snapshots.listing import LogDirListing, ReplicaFiles, SnapshotListing, listing
from snapshots.location import Location, unreadable
from snapshots.manifest import LeftOut
from spark_jobs.answers_file import read_answers
from spark_jobs.broker_rows import BrokerFiles, broker_rows
from spark_jobs.captured_nodes import CapturedNodes, captured_nodes
from spark_jobs.checkpoint_files import Checkpoints, log_dir_checkpoints, newest_epochs, replica_checkpoints
from spark_jobs.coordinator_copies import led_copies, replicated, waiting_commits
from spark_jobs.coordinator_logs import TOPICS as COORDINATORS
from spark_jobs.coordinator_logs import read_coordinators
from spark_jobs.evidence_of import Gathered, at_hand, missing
from spark_jobs.facts.answers import Recomputed, cluster_answer_rows
from spark_jobs.facts.asked import answers_by_partition
from spark_jobs.facts.broker_history import broker_change_rows
from spark_jobs.facts.context import PartitionContext
from spark_jobs.facts.coordinator_tables import committed_offsets, forgotten_offsets, remote_segments
from spark_jobs.facts.directories import partition_directory_rows
from spark_jobs.facts.fencing import cluster_epochs
from spark_jobs.facts.metadata import (
    MetadataHistory,
    PartitionState,
)
from spark_jobs.facts.node_knowledge import NodeKnowledge
from spark_jobs.facts.posture_rows import PostureContext, posture_context
from spark_jobs.facts.rows import PartitionKey, Row, Rows
from spark_jobs.facts.settings import Settings
from spark_jobs.facts.upkeep_context import oldest_releases
from spark_jobs.heads_not_copied import heads_not_copied
from spark_jobs.instant import captured_at_ms
from spark_jobs.metadata_behind import ahead_of_metadata
from spark_jobs.metadata_log import read_metadata
from spark_jobs.metadata_nodes import last_seen, metadata_rows, metadata_segments
from spark_jobs.missing_evidence import AtHand, Missing
from spark_jobs.partition_contexts import Known, partition_context, topic_row
from spark_jobs.remote_store import Stored, stored_files
from spark_jobs.replica_files import ReplicaWork
from spark_jobs.reused_names import is_of_this_log
from spark_jobs.run import AuditedSnapshot, ReadSnapshot
from spark_jobs.truth_file import read_ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContext:
    """What the derive step hands to the tasks, and what it writes itself."""

    partitions: Mapping[PartitionKey, PartitionContext]
    gone: Mapping[PartitionKey, PartitionContext]
    """What is known of partitions that were asked for and are not there any more."""
    replicas: Mapping[PartitionKey, tuple[ReplicaWork, ...]]
    rows: Rows
    unread: tuple[LeftOut, ...]
    captured_at_ms: int | None
    nodes: CapturedNodes = field(default_factory=CapturedNodes)
    stored: Stored | None = None
    """Files in the remote store, by segment id; None if the snapshot does not have it."""
    posture: PostureContext = field(default_factory=PostureContext)
    transactional_ids: tuple[Row, ...] = ()
    missing: tuple[Missing, ...] = ()
    evidence: tuple[AtHand, ...] = ()


def gather(snapshot: ReadSnapshot, summaries: ds.Dataset, *, also: Collection[PartitionKey] = ()) -> SnapshotContext:
    """Gathers one snapshot. `also` are partitions of an earlier one."""
    files = listing(snapshot.manifest)
    unread: list[LeftOut] = list(files.unread)
    checkpoints = {id(d): log_dir_checkpoints(snapshot.root, d, unread) for d in files.log_dirs}
    metadata = read_metadata(snapshot.root, files, unread)
    history = metadata.history
    nodes = captured_nodes(snapshot.manifest, files, checkpoints, history)
    quiet, one_moment, stopped = nodes.quiet, nodes.one_moment, nodes.stopped
    answers = read_answers(snapshot.root, snapshot.manifest, unread)
    settings = Settings(history, answers)
    told_by_replicas = [(r, replica_checkpoints(snapshot.root, r, unread)) for r in files.replicas()]
    if not also:  # An earlier snapshot shows what stood there, and what became of it is judged (C06, C10).
        plain = {b.broker_id for b in snapshot.manifest.brokers if b.read_started_at_ms is None}
        tiering = partial(_never_tiered, settings)
        heads = tuple(heads_not_copied(files, told_by_replicas, tiering, plainly_copied=plain))
        files = replace(files, unread=(*files.unread, *heads))
        unread += heads
    sure = {node for node in metadata.own_copies if nodes.is_quiet(node)}
    ahead = ahead_of_metadata(history, sure, told_by_replicas)
    coordinators = read_coordinators(
        snapshot,
        summaries,
        history,
        settings,
        epochs=newest_epochs(told_by_replicas, COORDINATORS),
        quiet_brokers=quiet,
        snapshot_quiet=one_moment,
    )
    known = Known(
        history=history,
        nodes=NodeKnowledge(history=history, known_until=metadata.known_until, islands=metadata.islands),
        brokers_of=_brokers_of(files),
        confluent_tier=frozenset((r.topic, r.partition) for r in files.replicas() if r.confluent_tier),
        captured=nodes,
        untold=ahead.keys(),
        metadata_committed_end_offset=max((s.file.end_offset for s in metadata.snapshots), default=None),
        coordinators=coordinators,
        transactions=coordinators.transactions,
        transactions_known=bool(coordinators.tables(TRANSACTION_STATE)),
        commits=_by_partition(committed_offsets(coordinators.tables(CONSUMER_OFFSETS))),
        remote=_remote_by_partition(remote_segments(coordinators.tables(REMOTE_LOG_METADATA))),
        captured_at_ms=captured_at_ms(snapshot.manifest, summaries, key=snapshot.key),
        answers=answers_by_partition(answers, history.last_record_at_ms) if answers is not None else {},
        settings=settings,
        names_hashed=snapshot.manifest.hashed_topics,
        remote_records_whole=_from_the_start(files, REMOTE_LOG_METADATA),
        oldest_releases=oldest_releases(history),
        ledger=read_ledger(snapshot.root, snapshot.manifest, unread),
    )
    replicas: dict[PartitionKey, list[ReplicaWork]] = {}
    rows: Rows = {"checkpoint_files": []}
    unread_logs = files.unread_logs()
    transaction_indexes_copied = any(s.txnindex is not None for r in files.replicas() for s in r.segments)
    for log_dir in files.log_dirs:
        listed = checkpoints[id(log_dir)]
        broker_quiet = nodes.is_quiet(log_dir.broker_id)
        rows["checkpoint_files"] += _with_capture(listed.rows, known, broker_quiet=broker_quiet)
        for replica in log_dir.replicas:
            if replica.state not in ("live", "future"):
                continue
            work = _replica_work(
                log_dir,
                replica,
                listed,
                history=history,
                broker_quiet=broker_quiet,
                unread_bases=unread_logs.get(replica.directory, ()),
                transaction_indexes_copied=transaction_indexes_copied,
            )
            replicas.setdefault((replica.topic, replica.partition), []).append(work)
            unread += _unreadable(snapshot.root, replica)
    for replica, said in told_by_replicas:
        rows["checkpoint_files"] += _with_capture(said.rows, known, broker_quiet=nodes.is_quiet(replica.broker_id))
    keys = (
        replicas.keys()
        | known.commits.keys()
        | coordinators.shares.keys()
        | known.remote.keys()
        | {(t.name, p) for t in history.topics.values() if not t.deleted for p in t.partitions}
    )
    partitions = {key: partition_context(key, known) for key in sorted(keys)}
    segments = metadata_segments(summaries, snapshot.key)
    rows |= metadata_rows(
        snapshot.root, files, metadata, segments, quiet=quiet, snapshot_quiet=nodes.metadata_one_moment
    )
    rows["brokers"] = broker_rows(
        BrokerFiles(
            nodes=nodes,
            files=files,
            foreign=snapshot.manifest.foreign,
            cluster_id=snapshot.manifest.cluster_id,
            checkpoints={
                b.broker_id: [checkpoints[id(d)] for d in files.of_broker(b.broker_id)]
                for b in snapshot.manifest.brokers
            },
            seen_until_ms=last_seen(files, segments),
            metadata_ends_early=bool(ahead),
        ),
        history,
    )
    rows |= coordinators.rows(snapshot_quiet=one_moment)
    rows["topics"] = [topic_row(t, known) for t in history.topics.values() if not t.deleted]
    rows["broker_changes"] = broker_change_rows(history.broker_changes)
    unread += nodes.left_out
    rows["partition_directories"] = [
        {**row, "broker_quiet": one_moment or row["broker_id"] in quiet, "snapshot_quiet": one_moment}
        for row in partition_directory_rows(
            files,
            # Who renames a file decides then when it goes.
            delete_delay_ms=lambda topic: max(settings.course(topic, "file.delete.delay.ms").numbers()),
            unread=unread,
        )
    ]
    if answers is not None:
        copies = led_copies(history, replicas)
        recomputed = Recomputed(
            history=history,
            cluster_ids={b["broker_id"]: b["cluster_id"] for b in rows["brokers"] if b.get("cluster_id")},
            commits=known.commits,
            transactions=tuple(known.transactions.values()),
            replaced_transaction_states=coordinators.replaced_transaction_states(),
            led_copies=copies.keys(),
            replicated=replicated(copies, summaries, snapshot_key=snapshot.key, topic=TRANSACTION_STATE),
            waiting_commits=waiting_commits(copies, coordinators.logs),
            forgotten_commits=forgotten_offsets(coordinators.tables(CONSUMER_OFFSETS)),
            unreadable=coordinators.unreadable(),
        )
        rows["cluster_answers"] = cluster_answer_rows(answers, recomputed)
    rows["fencing_epochs"] = cluster_epochs(rows)
    stored = stored_files(snapshot.root) if known.remote else None
    gathered = Gathered(
        manifest=snapshot.manifest,
        previous=snapshot.previous.manifest if isinstance(snapshot, AuditedSnapshot) and snapshot.previous else None,
        files=files,
        checkpoints=checkpoints,
        nodes=nodes,
        metadata=metadata,
        ahead=ahead,
        answers=answers,
        held=replicas.keys(),
        coordinators=[t for t in COORDINATORS if coordinators.tables(t)],
        remote_topics={topic for topic, _ in known.remote},
        remote_store=stored is not None,
        captured_at_ms=known.captured_at_ms,
    )
    return SnapshotContext(
        partitions=partitions,
        gone={key: partition_context(key, known) for key in sorted(also) if key not in partitions},
        replicas={key: tuple(value) for key, value in replicas.items()},
        rows=rows,
        unread=tuple(unread),
        captured_at_ms=known.captured_at_ms,
        nodes=nodes,
        stored=stored,
        posture=posture_context(
            history,
            known.settings,
            topics={topic for topic, _ in replicas if topic != CLUSTER_METADATA},
            stopped=stopped,
        ),
        transactional_ids=coordinators.transactional_id_rows(),
        missing=tuple(missing(gathered)),
        evidence=tuple(at_hand(gathered)),
    )


def _brokers_of(files: SnapshotListing) -> dict[PartitionKey, set[int]]:
    """Which brokers hold a replica of each partition."""
    found: dict[PartitionKey, set[int]] = {}
    for replica in files.replicas():
        found.setdefault((replica.topic, replica.partition), set()).add(replica.broker_id)
    return found


def _from_the_start(files: SnapshotListing, topic: str) -> bool:
    """No replica of a topic has lost the head of its log."""
    replicas = [r for r in files.replicas() if r.topic == topic]
    return bool(replicas) and all(r.segments and r.segments[0].base_offset == 0 for r in replicas)


def _unreadable(root: Location, replica: ReplicaFiles) -> Iterator[LeftOut]:
    """Derived files that cannot be opened. The tasks, which read them beside their logs, do not report them."""
    indexes = [f for s in replica.segments for f in (s.index, s.timeindex, s.txnindex) if f is not None]
    names = [file.path for file in (*indexes, *(f for _, f in replica.snapshots))]
    for path, reason in unreadable(root, replica.directory, names):
        yield LeftOut(path=path, reason=f"cannot be read: {reason}")


def _with_capture(rows: Iterable[Row], known: Known, *, broker_quiet: bool) -> list[Row]:
    return [{**row, "broker_quiet": broker_quiet, "snapshot_quiet": known.captured.one_moment} for row in rows]


def _by_partition(commits: Iterable[OffsetCommit]) -> dict[PartitionKey, tuple[OffsetCommit, ...]]:
    found: dict[PartitionKey, list[OffsetCommit]] = {}
    for commit in commits:
        found.setdefault((commit.topic, commit.partition), []).append(commit)
    return {key: tuple(sorted(value, key=lambda c: c.group)) for key, value in found.items()}


def _remote_by_partition(segments: Iterable[RemoteSegment]) -> dict[PartitionKey, tuple[RemoteSegment, ...]]:
    found: dict[PartitionKey, list[RemoteSegment]] = {}
    for segment in segments:
        found.setdefault((segment.topic, segment.partition), []).append(segment)
    return {key: tuple(value) for key, value in found.items()}


def _never_tiered(settings: Settings, topic: str) -> bool:
    """By the whole history of the topic's setting."""
    course = settings.course(topic, "remote.storage.enable")
    return course.whole and not course.ever("true")


def _replica_work(
    log_dir: LogDirListing,
    replica: ReplicaFiles,
    listed: Checkpoints,
    *,
    history: MetadataHistory,
    broker_quiet: bool,
    unread_bases: tuple[int, ...],
    transaction_indexes_copied: bool,
) -> ReplicaWork:
    key = (replica.topic, replica.partition)
    epochs, metadata = replica.named(LEADER_EPOCH_CHECKPOINT), replica.named(PARTITION_METADATA)
    later_epochs = replica.named(LATER_EPOCH_CHECKPOINT)
    if later_epochs is None and epochs is not None and epochs.read_again_at_ms is not None:
        later_epochs = epochs

    def listed_offset(name: str, offsets: Mapping[PartitionKey, int]) -> int | None:
        # A log dir may list a partition whose directory was moved to another one; its -future copy has no entry there.
        if replica.state != "live" or key not in offsets:
            return None
        file = log_dir.files.get(name)
        believed = is_of_this_log(
            history,
            *key,
            replica.broker_id,
            checkpoint=file,
            metadata=metadata,
            clean_shutdown=log_dir.clean_shutdown,
        )
        return offsets[key] if believed else None

    checkpoint = log_dir.files.get(REPLICATION_OFFSET_CHECKPOINT)
    logs = [s.log.read_at_ms for s in replica.segments if s.log.read_at_ms is not None]
    older = None
    if checkpoint is not None and checkpoint.read_at_ms is not None and logs:
        older = checkpoint.read_at_ms <= min(logs)
    return ReplicaWork(
        broker_id=replica.broker_id,
        log_dir=log_dir.name,
        directory=replica.directory,
        topic=replica.topic,
        partition=replica.partition,
        is_future=replica.state == "future",
        segment_paths=tuple(log_name(s.log.path) for s in replica.segments),
        snapshot_files=tuple((offset, f.path, f.size_bytes) for offset, f in replica.snapshots),
        transaction_index_files={
            s.base_offset: (s.txnindex.path, s.txnindex.size_bytes) for s in replica.segments if s.txnindex is not None
        },
        epoch_checkpoint_path=epochs.path if epochs is not None else None,
        later_epoch_checkpoint_path=later_epochs.path if later_epochs is not None else None,
        partition_metadata_path=metadata.path if metadata is not None else None,
        high_watermark=listed_offset(REPLICATION_OFFSET_CHECKPOINT, listed.high_watermarks),
        recovery_point_offset=listed_offset(RECOVERY_POINT_OFFSET_CHECKPOINT, listed.recovery_points),
        checkpoint_log_start_offset=listed_offset(LOG_START_OFFSET_CHECKPOINT, listed.log_starts),
        cleaner_offset=listed_offset(CLEANER_OFFSET_CHECKPOINT, listed.cleaner_offsets),
        clean_shutdown=log_dir.clean_shutdown,
        broker_quiet=broker_quiet,
        checkpoint_older_than_log=older,
        log_read_at_ms=(min(logs), max(logs)) if logs else None,
        ignore_sequences=replica.topic == CONSUMER_OFFSETS,
        epoch_checkpoints_copied=log_dir.has_epoch_checkpoints,
        cleaner_offsets_copied=CLEANER_OFFSET_CHECKPOINT in log_dir.files,
        log_starts_copied=log_dir.only_metadata or LOG_START_OFFSET_CHECKPOINT in log_dir.files,
        producer_snapshots_copied=log_dir.has_producer_snapshots,
        transaction_indexes_copied=transaction_indexes_copied,
        unread_bases=unread_bases,
    )


def _state(history: MetadataHistory, key: PartitionKey) -> PartitionState | None:
    topic = history.topic_named(key[0])
    return topic.partitions.get(key[1]) if topic is not None else None
