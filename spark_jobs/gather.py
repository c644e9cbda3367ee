"""Gathering, on the driver: what a snapshot says beside its user topics' logs.

In: a snapshot, and the summaries of its segments. Out: `SnapshotContext`: a context and the replicas' files per
partition, the relations of the whole cluster, and what could not be read. The rule that must hold: only small files,
the metadata log and the coordinators' tables are read here; the logs were read where Spark put them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow.dataset as ds

from kafka_log.coordinator_records import OffsetCommit, RemoteSegment, TransactionState
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
    parse_segment_file,
)
from snapshots.listing import LogDirListing, ReplicaFiles, SnapshotListing, listing
from snapshots.location import Location, unreadable
from snapshots.manifest import Consistency, LeftOut
from spark_jobs.answers_file import read_answers
from spark_jobs.broker_rows import BrokerFiles, broker_rows
from spark_jobs.checkpoint_files import Checkpoints, log_dir_checkpoints, newest_epochs, partition_file_rows
from spark_jobs.coordinator_copies import led_copies, replicated, waiting_commits
from spark_jobs.coordinator_logs import TOPICS as COORDINATORS
from spark_jobs.coordinator_logs import Coordinators, read_coordinators
from spark_jobs.facts.answers import Recomputed, cluster_answer_rows
from spark_jobs.facts.asked import PartitionAnswers, answers_by_partition
from spark_jobs.facts.broker_history import broker_change_rows
from spark_jobs.facts.context import PartitionContext, PartitionKey, Release, Row, Rows
from spark_jobs.facts.coordinator_tables import committed_offsets, forgotten_offsets, remote_segments
from spark_jobs.facts.directories import partition_directory_rows
from spark_jobs.facts.fencing import cluster_epochs
from spark_jobs.facts.metadata import (
    MetadataHistory,
    PartitionState,
    TopicState,
)
from spark_jobs.facts.posture_rows import PostureContext, posture_context
from spark_jobs.facts.producers import PRODUCER_EXPIRATION_MS
from spark_jobs.facts.row_basics import json_list
from spark_jobs.facts.settings import Settings
from spark_jobs.facts.upkeep_context import UpkeepContext, log_settings, oldest_releases
from spark_jobs.metadata_log import read_metadata
from spark_jobs.metadata_nodes import last_seen, metadata_rows, metadata_segments
from spark_jobs.remote_store import Stored, stored_files
from spark_jobs.replica_files import ReplicaWork
from spark_jobs.reused_names import is_of_this_log
from spark_jobs.run import ReadSnapshot
from spark_jobs.truth_file import Ledger, read_ledger

MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""transaction.max.timeout.ms, Kafka's default."""

_YEAR_10000_MS: Final = 253_402_300_800_000


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
    stored: Stored | None = None
    """Files in the remote store, by segment id; None if the snapshot does not have it."""
    posture: PostureContext = field(default_factory=PostureContext)
    transactional_ids: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What holds for the whole snapshot."""

    history: MetadataHistory
    metadata_committed_end_offset: int | None
    quiet_brokers: frozenset[int]
    snapshot_quiet: bool
    cluster_stopped: bool
    coordinators: Coordinators
    transactions: Mapping[int, TransactionState]
    transactions_known: bool
    commits: Mapping[PartitionKey, tuple[OffsetCommit, ...]]
    remote: Mapping[PartitionKey, tuple[RemoteSegment, ...]]
    captured_at_ms: int | None
    answers: Mapping[PartitionKey, PartitionAnswers]
    settings: Settings
    names_hashed: bool
    remote_records_whole: bool
    oldest_releases: Mapping[int, Release]
    ledger: Ledger | None


def gather(snapshot: ReadSnapshot, summaries: ds.Dataset, *, also: Collection[PartitionKey] = ()) -> SnapshotContext:
    """Gathers one snapshot. `also` are partitions of an earlier one."""
    files = listing(snapshot.manifest)
    unread: list[LeftOut] = list(files.unread)
    checkpoints = {id(d): log_dir_checkpoints(snapshot.root, d, unread) for d in files.log_dirs}
    metadata = read_metadata(snapshot.root, files, unread)
    history = metadata.history
    quiet = _quiet_brokers(snapshot, files)
    stopped = bool(history.brokers) and not history.alive_brokers
    one_moment = snapshot.manifest.consistency is not Consistency.FUZZY or (
        stopped and all(b.broker_id in quiet for b in snapshot.manifest.brokers)
    )
    answers = read_answers(snapshot.root, snapshot.manifest, unread)
    settings = Settings(history, answers)
    coordinators = read_coordinators(
        snapshot,
        summaries,
        history,
        settings,
        epochs=newest_epochs(snapshot.root, files.replicas(), COORDINATORS),
        quiet_brokers=quiet,
        snapshot_quiet=one_moment,
    )
    known = _Known(
        history=history,
        metadata_committed_end_offset=max((s.file.end_offset for s in metadata.snapshots), default=None),
        quiet_brokers=quiet,
        snapshot_quiet=one_moment,
        cluster_stopped=stopped,
        coordinators=coordinators,
        transactions=coordinators.transactions,
        transactions_known=bool(coordinators.tables(TRANSACTION_STATE)),
        commits=_by_partition(committed_offsets(coordinators.tables(CONSUMER_OFFSETS))),
        remote=_remote_by_partition(remote_segments(coordinators.tables(REMOTE_LOG_METADATA))),
        captured_at_ms=_captured_at(snapshot, summaries),
        answers=answers_by_partition(answers) if answers is not None else {},
        settings=settings,
        names_hashed=snapshot.manifest.hashed_topics,
        remote_records_whole=_from_the_start(files, REMOTE_LOG_METADATA),
        oldest_releases=oldest_releases(history),
        ledger=read_ledger(snapshot.root, snapshot.manifest, unread),
    )
    replicas: dict[PartitionKey, list[ReplicaWork]] = {}
    rows: Rows = {"checkpoint_files": []}
    for log_dir in files.log_dirs:
        listed = checkpoints[id(log_dir)]
        broker_quiet = known.snapshot_quiet or log_dir.broker_id in quiet
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
                unread_bases=_unread_bases(replica, files.unread),
            )
            replicas.setdefault((replica.topic, replica.partition), []).append(work)
            rows["checkpoint_files"] += _with_capture(
                partition_file_rows(snapshot.root, replica, unread), known, broker_quiet=broker_quiet
            )
            unread += _unreadable(snapshot.root, replica)
    keys = (
        replicas.keys()
        | known.commits.keys()
        | coordinators.shares.keys()
        | known.remote.keys()
        | {(t.name, p) for t in history.topics.values() if not t.deleted for p in t.partitions}
    )
    partitions = {key: _context(key, known) for key in sorted(keys)}
    segments = metadata_segments(summaries, snapshot.key)
    rows |= metadata_rows(snapshot.root, files, metadata, segments, quiet=quiet, snapshot_quiet=one_moment)
    rows["brokers"] = broker_rows(
        BrokerFiles(
            brokers=snapshot.manifest.brokers,
            files=files,
            checkpoints={
                b.broker_id: [checkpoints[id(d)] for d in files.of_broker(b.broker_id)]
                for b in snapshot.manifest.brokers
            },
            quiet=quiet,
            seen_until_ms=last_seen(files, segments),
        ),
        history,
    )
    rows |= coordinators.rows(snapshot_quiet=one_moment)
    rows["topics"] = [_topic_row(t, known) for t in history.topics.values() if not t.deleted]
    rows["broker_changes"] = broker_change_rows(history.broker_changes)
    unread += _absent(history, replicas, frozenset(b.broker_id for b in snapshot.manifest.brokers))
    rows["partition_directories"] = [
        {**row, "broker_quiet": one_moment or row["broker_id"] in quiet, "snapshot_quiet": one_moment}
        for row in partition_directory_rows(
            files, delete_delay_ms=lambda topic: int(settings.of_topic(topic, "file.delete.delay.ms")), unread=unread
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
    return SnapshotContext(
        partitions=partitions,
        gone={key: _context(key, known) for key in sorted(also) if key not in partitions},
        replicas={key: tuple(value) for key, value in replicas.items()},
        rows=rows,
        unread=tuple(unread),
        captured_at_ms=known.captured_at_ms,
        stored=stored_files(snapshot.root) if known.remote else None,
        posture=posture_context(history, known.settings, stopped=stopped),
        transactional_ids=coordinators.transactional_id_rows(),
    )


def _from_the_start(files: SnapshotListing, topic: str) -> bool:
    """No replica of a topic has lost the head of its log."""
    replicas = [r for r in files.replicas() if r.topic == topic]
    return bool(replicas) and all(r.segments and r.segments[0].base_offset == 0 for r in replicas)


def _absent(
    history: MetadataHistory, replicas: Mapping[PartitionKey, list[ReplicaWork]], captured: frozenset[int]
) -> list[LeftOut]:
    """Brokers and replicas that the metadata log names and the copy lacks: nothing can be said of them."""
    found = [
        LeftOut(path=f"broker-{broker}", reason="registered with the controller, and not in the snapshot")
        for broker in sorted(history.brokers.keys() - captured)
    ]
    for topic in history.topics.values():
        for number, partition in sorted(topic.partitions.items()):
            held = {r.broker_id for r in replicas.get((topic.name, number), ()) if not r.is_future}
            settled = set(partition.replicas) - set(partition.adding_replicas)
            if not topic.deleted:
                found += [
                    LeftOut(
                        path=f"broker-{broker}/{topic.name}-{number}",
                        reason="assigned to this broker by the metadata log, and not in its log directories",
                    )
                    for broker in sorted(settled & captured - held)
                ]
    return found


def _unreadable(root: Location, replica: ReplicaFiles) -> Iterator[LeftOut]:
    """Derived files that do not open: they are read where their logs are, and what is missing there has no voice."""
    indexes = [f for s in replica.segments for f in (s.index, s.timeindex, s.txnindex) if f is not None]
    names = [file.path for file in (*indexes, *(f for _, f in replica.snapshots))]
    for path, reason in unreadable(root, replica.directory, names):
        yield LeftOut(path=path, reason=f"cannot be read: {reason}")


def _quiet_brokers(snapshot: ReadSnapshot, files: SnapshotListing) -> frozenset[int]:
    """Brokers whose files are of one moment: stopped cleanly, so nothing was written while they were copied."""
    if snapshot.manifest.consistency is not Consistency.FUZZY:
        return frozenset(b.broker_id for b in snapshot.manifest.brokers)
    return frozenset(
        b.broker_id
        for b in snapshot.manifest.brokers
        if files.of_broker(b.broker_id) and all(d.clean_shutdown for d in files.of_broker(b.broker_id))
    )


def _with_capture(rows: Iterable[Row], known: _Known, *, broker_quiet: bool) -> list[Row]:
    return [{**row, "broker_quiet": broker_quiet, "snapshot_quiet": known.snapshot_quiet} for row in rows]


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


def _captured_at(snapshot: ReadSnapshot, summaries: ds.Dataset) -> int | None:
    """When the capture ended.

    Of a plain copy no file tells it, so the newest batch timestamp stands for it: the metadata log's where it was
    captured (the controller's own clock, twice a second), since clients may write any time they like.
    """
    finished = [b.read_finished_at_ms for b in snapshot.manifest.brokers if b.read_finished_at_ms is not None]
    if finished:
        return max(finished)
    rows = summaries.to_table(columns=["topic", "max_timestamp_ms"], filter=ds.field("snapshot") == snapshot.key)
    known = [(r["topic"], r["max_timestamp_ms"]) for r in rows.to_pylist() if r["max_timestamp_ms"] is not None]
    by_controller = [at for topic, at in known if topic == CLUSTER_METADATA]
    # An instant that no calendar has was written by a client, or by damage.
    return max((at for at in by_controller or [at for _, at in known] if 0 <= at < _YEAR_10000_MS), default=None)


def _replica_work(
    log_dir: LogDirListing,
    replica: ReplicaFiles,
    listed: Checkpoints,
    *,
    history: MetadataHistory,
    broker_quiet: bool,
    unread_bases: tuple[int, ...],
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
        unread_bases=unread_bases,
    )


def _unread_bases(replica: ReplicaFiles, unread: Iterable[LeftOut]) -> tuple[int, ...]:
    """Segments of a replica whose log the copy names and could not be read."""
    names = [
        parse_segment_file(log_name(x.path).rsplit("/", 1)[-1])
        for x in unread
        if x.path.startswith(replica.directory + "/")
    ]
    return tuple(n.base_offset for n in names if n is not None and n.kind in ("log", "headers") and not n.suffix)


def _state(history: MetadataHistory, key: PartitionKey) -> PartitionState | None:
    topic = history.topic_named(key[0])
    return topic.partitions.get(key[1]) if topic is not None else None


def _context(key: PartitionKey, known: _Known) -> PartitionContext:
    history = known.history
    topic = history.topic_named(key[0])
    state = topic.partitions.get(key[1]) if topic is not None else None

    def config(name: str) -> str:
        return known.settings.of_topic(key[0], name)

    policy = config("cleanup.policy")
    return PartitionContext(
        topic=key[0],
        partition=key[1],
        topic_id=topic.topic_id if topic is not None else None,
        metadata_known=state is not None,
        topic_deleted=topic is not None and topic.deleted,
        topic_ids_deleted={t.topic_id: t.deleted for t in history.lives(key[0])},
        leader_id=state.leader_id if state is not None else None,
        last_leader_id=state.last_leader_id if state is not None else None,
        leader_epoch=state.leader_epoch if state is not None else None,
        partition_epoch=state.partition_epoch if state is not None else None,
        replicas=state.replicas if state is not None else (),
        isr=state.isr if state is not None else (),
        elr=state.elr if state is not None else (),
        last_known_elr=state.last_known_elr if state is not None else (),
        adding_replicas=state.adding_replicas if state is not None else (),
        removing_replicas=state.removing_replicas if state is not None else (),
        changes=tuple(state.changes) if state is not None else (),
        writer_releases=history.releases_by_epoch(state) if state is not None else {},
        metadata_committed_end_offset=known.metadata_committed_end_offset if key[0] == CLUSTER_METADATA else None,
        epoch_leaders=dict(state.epoch_leaders) if state is not None else {},
        min_insync_replicas=known.settings.min_insync_replicas(key[0]),
        cleanup_policy=policy,
        topic_compacted="compact" in policy or key[0] in history.ever_compacted,
        unclean_leader_election_enable=config("unclean.leader.election.enable") == "true",
        remote_storage_enable=config("remote.storage.enable") == "true",
        preallocate=config("preallocate") == "true",
        producer_expiration_ms=known.settings.of_brokers("producer.id.expiration.ms", PRODUCER_EXPIRATION_MS),
        alive_brokers=history.alive_brokers,
        cluster_stopped=known.cluster_stopped,
        snapshot_quiet=known.snapshot_quiet,
        next_producer_id=history.next_producer_id,
        transactions_by_producer=known.transactions,
        transaction_states_known=known.transactions_known,
        max_transaction_timeout_ms=known.settings.of_brokers("transaction.max.timeout.ms", MAX_TRANSACTION_TIMEOUT_MS),
        commits=known.commits.get(key, ()),
        decisions=known.coordinators.decisions.get(key, ()),
        shares=known.coordinators.shares.get(key, ()),
        reached=known.coordinators.reached.get(key, {}),
        names_hashed=known.names_hashed,
        remote_log_start_offset=min(
            (s.start_offset for s in known.remote.get(key, ()) if s.start_offset is not None and _readable(s)),
            default=None,
        ),
        captured_at_ms=known.captured_at_ms,
        answers=known.answers.get(key),
        acknowledged=known.ledger.get(key, ()) if known.ledger is not None else None,
        upkeep=_upkeep_context(key, known),
    )


def _upkeep_context(key: PartitionKey, known: _Known) -> UpkeepContext:
    history, topic = known.history, known.history.topic_named(key[0])
    topic_id = topic.topic_id if topic is not None else None
    return UpkeepContext(
        settings=log_settings(history, known.settings, key[0]),
        oldest_releases=known.oldest_releases,
        history_whole=history.start_offset == 0,
        remote=tuple(s for s in known.remote.get(key, ()) if topic_id is None or s.topic_id == topic_id),
        remote_known=bool(known.coordinators.tables(REMOTE_LOG_METADATA)),
        remote_records_whole=known.remote_records_whole,
    )


def _readable(segment: RemoteSegment) -> bool:
    return segment.state == "COPY_SEGMENT_FINISHED"


def _topic_row(topic: TopicState, known: _Known) -> Row:
    history = known.history

    def config(name: str) -> str:
        return known.settings.of_topic(topic.name, name)

    policy = config("cleanup.policy")
    first = topic.partitions.get(0)
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.partitions),
        "replication_factor": len(first.replicas) if first is not None else None,
        "cleanup_policy": policy,
        "min_insync_replicas": known.settings.min_insync_replicas(topic.name),
        "unclean_leader_election_enable": config("unclean.leader.election.enable") == "true",
        "remote_storage_enable": config("remote.storage.enable") == "true",
        "ever_compacted": "compact" in policy or topic.name in history.ever_compacted,
        "missing_partitions": sorted(set(range(max(topic.partitions, default=-1) + 1)) - topic.partitions.keys()),
        "namesakes": sum(1 for t in history.lives(topic.name) if not t.deleted and t is not topic),
        "metadata_damaged": bool(history.damaged_offsets),
        "configs": json_list(
            {"name": name, "value": value} for name, value in sorted(history.configs.get((2, topic.name), {}).items())
        ),
    }
