"""Which replicas a snapshot has, and what its checkpoints and its listing say of each: the work of the derive step.

In: `SmallFiles`. Out: `ReplicaWork`s by partition. Files that a task will want and that do not open are named in
`unread`.
"""

from collections.abc import Iterator, Mapping

from tidegauge.derivation.files.checkpoint_files import Checkpoints
from tidegauge.derivation.gathering.replica_files import ReplicaWork
from tidegauge.derivation.gathering.reused_names import is_of_this_log
from tidegauge.derivation.gathering.small_files import SmallFiles
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.facts.replicas.replica_input import CheckpointedOffsets, CopiedKinds, CopyMoment, ReplicaPlace
from tidegauge.kafka_log.log_dir import (
    CLEANER_OFFSET_CHECKPOINT,
    LATER_EPOCH_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    log_name,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.listing import LogDirListing, ReplicaFiles
from tidegauge.snapshots.location import Location, unreadable
from tidegauge.snapshots.manifest import FileEntry, LeftOut


def replica_works(read: SmallFiles, unread: list[LeftOut]) -> dict[TopicPartition, list[ReplicaWork]]:
    """Every live and future replica of the snapshot, by partition."""
    found: dict[TopicPartition, list[ReplicaWork]] = {}
    unread_logs = read.files.unread_logs()
    transaction_indexes_copied = any(s.txnindex is not None for r in read.files.replicas() for s in r.segments)
    for log_dir in read.files.log_dirs:
        copied = CopiedKinds(  # Of the log dir: looking through its replicas once for each would be quadratic.
            epoch_checkpoints=log_dir.has_epoch_checkpoints,
            cleaner_offsets=CLEANER_OFFSET_CHECKPOINT in log_dir.files,
            log_starts=log_dir.only_metadata or LOG_START_OFFSET_CHECKPOINT in log_dir.files,
            producer_snapshots=log_dir.has_producer_snapshots,
            transaction_indexes=transaction_indexes_copied,
        )
        for replica in log_dir.replicas:
            if replica.state not in ("live", "future"):
                continue
            work = _work(
                log_dir,
                replica,
                read.checkpoints[id(log_dir)],
                history=read.history,
                broker_quiet=log_dir.broker_id in read.nodes.quiet,
                unread_bases=unread_logs.get(replica.directory, ()),
                copied=copied,
            )
            found.setdefault(replica.topic_partition, []).append(work)
            unread += _unreadable(read.root, replica)
    return found


def _unreadable(root: Location, replica: ReplicaFiles) -> Iterator[LeftOut]:
    """Derived files that cannot be opened. The tasks, which read them beside their logs, do not report them."""
    indexes = [f for s in replica.segments for f in (s.index, s.timeindex, s.txnindex) if f is not None]
    names = [file.path for file in (*indexes, *(f for _, f in replica.snapshots))]
    for path, reason in unreadable(root, replica.directory, names):
        yield LeftOut(path=path, reason=f"cannot be read: {reason}")


def _work(
    log_dir: LogDirListing,
    replica: ReplicaFiles,
    listed: Checkpoints,
    *,
    history: MetadataHistory,
    broker_quiet: bool,
    unread_bases: tuple[int, ...],
    copied: CopiedKinds,
) -> ReplicaWork:
    key = replica.topic_partition
    epochs, metadata = replica.named(LEADER_EPOCH_CHECKPOINT), replica.named(PARTITION_METADATA)
    later_epochs = replica.named(LATER_EPOCH_CHECKPOINT)
    if later_epochs is None and epochs is not None and epochs.read_again_at_ms is not None:
        later_epochs = epochs

    def listed_offset(name: str, offsets: Mapping[TopicPartition, int]) -> int | None:
        return offsets[key] if key in offsets and _is_believed(log_dir, replica, name, metadata, history) else None

    return ReplicaWork(
        place=ReplicaPlace(
            broker_id=replica.broker_id,
            log_dir=log_dir.name,
            directory=replica.directory,
            topic=replica.topic,
            partition=replica.partition,
            is_future=replica.state == "future",
        ),
        checkpointed=CheckpointedOffsets(
            high_watermark=listed_offset(REPLICATION_OFFSET_CHECKPOINT, listed.high_watermarks),
            recovery_point_offset=listed_offset(RECOVERY_POINT_OFFSET_CHECKPOINT, listed.recovery_points),
            log_start_offset=listed_offset(LOG_START_OFFSET_CHECKPOINT, listed.log_starts),
            cleaner_offset=listed_offset(CLEANER_OFFSET_CHECKPOINT, listed.cleaner_offsets),
        ),
        moment=_moment(log_dir, replica, broker_quiet=broker_quiet),
        copied=copied,
        segment_paths=tuple(log_name(s.log.path) for s in replica.segments),
        snapshot_files=tuple((offset, f.path, f.size_bytes) for offset, f in replica.snapshots),
        transaction_index_files={
            s.base_offset: (s.txnindex.path, s.txnindex.size_bytes) for s in replica.segments if s.txnindex is not None
        },
        epoch_checkpoint_path=epochs.path if epochs is not None else None,
        later_epoch_checkpoint_path=later_epochs.path if later_epochs is not None else None,
        partition_metadata_path=metadata.path if metadata is not None else None,
        unread_bases=unread_bases,
    )


def _is_believed(
    log_dir: LogDirListing, replica: ReplicaFiles, name: str, metadata: FileEntry | None, history: MetadataHistory
) -> bool:
    """Whether what a checkpoint of the log dir lists is about this log. A log dir may list a partition whose directory
    was moved to another one; its -future copy has no entry there.
    """
    return replica.state == "live" and is_of_this_log(
        history,
        replica.topic,
        replica.partition,
        replica.broker_id,
        checkpoint=log_dir.files.get(name),
        metadata=metadata,
        clean_shutdown=log_dir.clean_shutdown,
    )


def _moment(log_dir: LogDirListing, replica: ReplicaFiles, *, broker_quiet: bool) -> CopyMoment:
    checkpoint = log_dir.files.get(REPLICATION_OFFSET_CHECKPOINT)
    logs = [s.log.read_at_ms for s in replica.segments if s.log.read_at_ms is not None]
    older = None
    if checkpoint is not None and checkpoint.read_at_ms is not None and logs:
        older = checkpoint.read_at_ms <= min(logs)
    return CopyMoment(
        clean_shutdown=log_dir.clean_shutdown,
        broker_quiet=broker_quiet,
        checkpoint_older_than_log=older,
        log_read_at_ms=(min(logs), max(logs)) if logs else None,
    )
