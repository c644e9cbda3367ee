"""A broker's log directory, as files.

In: what a broker holds and has written down at one moment. Out: paths below its log dir and `File`s. Nothing is written
that a broker would not have written; what it has not yet checkpointed is old or missing.

    checkpoints         two are empty until the first entry is written, the other two say that they have none
    .lock               while a broker runs, and after it died; a stop in good order removes it
    …-delete, -stray    directories that wait to be removed, with all that the log had: nobody closes their indexes
    …-future            a log on its way to another log dir of its broker, where its high watermark is listed, too
    bootstrap.checkpoint  of nodes that were formatted before 4.4
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from tidegauge.kafka_log.checkpoints import CheckpointEntry, write_offset_checkpoint
from tidegauge.kafka_log.log_dir import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    QUORUM_STATE,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from tidegauge.kafka_log.properties import write_clean_shutdown, write_meta_properties, write_quorum_state
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.leftovers import LeftSegment, render_left_segment
from tidegauge.sim_engine.log.render_log import File, render_log
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.metadata.metadata_log import METADATA_TOPIC, METADATA_TOPIC_ID
from tidegauge.sim_engine.metadata.metadata_snapshot import MetadataSnapshot, formatted_with

METADATA: Final = TopicPartition(METADATA_TOPIC, 0)
_LOCK: Final = ".lock"
_BOOTSTRAP: Final = "bootstrap.checkpoint"
_NO_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One partition's log on a broker, with the files of segments that are no longer, or not yet, part of it."""

    log: ReplicaLog
    topic_id: str
    leftovers: tuple[LeftSegment, ...] = ()
    created_at_ms: int | None = None


class Beside(StrEnum):
    """Directories of a partition that are not its log."""

    DELETED = "delete"
    STRAY = "stray"
    FUTURE = "future"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedReplica:
    """A log in a directory of another name: `<topic>-<partition>.<unique>-<beside>`, with 32 hex digits between."""

    partition: TopicPartition
    beside: Beside
    unique: str
    replica: Replica
    since_ms: int = 0

    @property
    def directory(self) -> str:
        """The directory's name."""
        return f"{self.partition}.{self.unique}-{self.beside}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDisk:
    """One log dir of a broker. The four mappings are its checkpoint files' content.

    `log_dir` is the folder below the broker's; "." where it has only one. The metadata log is in one of a broker's log
    dirs, which `holds_metadata`; if `metadata_snapshots` are not told, it has the one that it was formatted with.
    `other_files` are there beside all else, or in its place, by path below the log dir.
    """

    broker_id: int
    cluster_id: str
    directory_id: str
    replicas: Mapping[TopicPartition, Replica]
    metadata: ReplicaLog
    quorum_leader_id: int | None
    quorum_leader_epoch: int
    high_watermarks: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    clean_broker_epoch: int | None = None
    """The broker's epoch if it stopped in good order, else None."""
    log_dir: str = "."
    holds_metadata: bool = True
    metadata_snapshots: tuple[MetadataSnapshot, ...] | None = None
    voted_id: int | None = None
    voted_directory_id: str = _NO_DIRECTORY
    renamed: tuple[RenamedReplica, ...] = ()
    bootstrap: bytes | None = None
    other_files: Mapping[str, bytes] = field(default_factory=dict)
    written_at_ms: Mapping[str, int] = field(default_factory=dict)
    """When files were last written, by path below the log dir, as far as that is known."""

    @property
    def snapshots(self) -> tuple[MetadataSnapshot, ...]:
        """The metadata log's snapshots."""
        return formatted_with(self.metadata) if self.metadata_snapshots is None else self.metadata_snapshots


def render_broker(disk: BrokerDisk) -> Iterator[tuple[str, File]]:
    """The files of a log dir."""
    for partition in disk.replicas:
        yield from partition_files(disk, partition)
    yield from renamed_files(disk)
    yield from metadata_files(disk)
    yield from root_files(disk)
    directories = {str(p) for p in disk.replicas} | {r.directory for r in disk.renamed} | {str(METADATA)}
    for name, data in sorted(disk.other_files.items()):
        directory = name.rpartition("/")[0]
        if directory and directory not in directories:
            yield name, _file(data)


def partition_files(disk: BrokerDisk, partition: TopicPartition) -> Iterator[tuple[str, File]]:
    """The files of a partition's directory."""
    replica, clean = disk.replicas[partition], disk.clean_broker_epoch is not None
    yield from _in_directory(disk, str(partition), _replica_files(replica, clean=clean))


def renamed_files(disk: BrokerDisk) -> Iterator[tuple[str, File]]:
    """The files of directories under other names."""
    for each in disk.renamed:
        # What waits to be removed is not closed any more when its broker stops.
        clean = disk.clean_broker_epoch is not None and each.beside is Beside.FUTURE
        yield from _in_directory(disk, each.directory, _replica_files(each.replica, clean=clean))


def metadata_files(disk: BrokerDisk) -> Iterator[tuple[str, File]]:
    """The files of the metadata log's directory, if it is in this log dir."""
    if disk.holds_metadata:
        yield from _in_directory(disk, str(METADATA), _metadata_files(disk))


def root_files(disk: BrokerDisk) -> Iterator[tuple[str, File]]:
    """The files that lie beside the directories."""
    yield from _in_directory(disk, "", _root_files(disk))


def _root_files(disk: BrokerDisk) -> Iterator[tuple[str, File]]:
    for name, offsets, untouched in (
        (REPLICATION_OFFSET_CHECKPOINT, disk.high_watermarks, b""),
        (RECOVERY_POINT_OFFSET_CHECKPOINT, disk.recovery_points, None),
        (LOG_START_OFFSET_CHECKPOINT, disk.log_starts, None),
        (CLEANER_OFFSET_CHECKPOINT, disk.cleaner_offsets, b""),
    ):
        yield name, _file(_checkpoint(offsets) if offsets or untouched is None else untouched)
    properties = write_meta_properties(
        node_id=disk.broker_id, directory_id=disk.directory_id, cluster_id=disk.cluster_id
    )
    yield META_PROPERTIES, _file(properties)
    if disk.bootstrap is not None:
        yield _BOOTSTRAP, _file(disk.bootstrap)
    if disk.clean_broker_epoch is not None:
        yield CLEAN_SHUTDOWN, _file(write_clean_shutdown(disk.clean_broker_epoch))
    else:
        yield _LOCK, _file(b"")


def _replica_files(replica: Replica, *, clean: bool) -> Iterator[tuple[str, File]]:
    yield from render_log(replica.log, topic_id=replica.topic_id, clean=clean)
    for left in replica.leftovers:
        yield from render_left_segment(left, replica.log.config)


def _metadata_files(disk: BrokerDisk) -> Iterator[tuple[str, File]]:
    log = disk.metadata
    # The metadata log's active indexes are not trimmed even by a stop in good order; the producers, of which there are
    # none, are written down.
    if disk.clean_broker_epoch is not None and log.log_end_offset > 0:
        log = replace(log, snapshots={**log.snapshots, log.log_end_offset: ()})
    yield from render_log(log, topic_id=METADATA_TOPIC_ID, clean=False)
    for snapshot in disk.snapshots:
        yield snapshot.name, _file(snapshot.data)
    quorum = write_quorum_state(
        leader_id=disk.quorum_leader_id,
        leader_epoch=disk.quorum_leader_epoch,
        voted_id=disk.voted_id,
        voted_directory_id=disk.voted_directory_id,
    )
    yield QUORUM_STATE, _file(quorum)


def _in_directory(disk: BrokerDisk, directory: str, files: Iterable[tuple[str, File]]) -> Iterator[tuple[str, File]]:
    """Files of one directory, and what is there beside them or in their place."""
    prefix = f"{directory}/" if directory else ""
    others = {n: data for n, data in disk.other_files.items() if n.rpartition("/")[0] == directory}
    for name, file in files:
        if prefix + name not in others:
            yield prefix + name, file
    for name, data in sorted(others.items()):
        yield name, _file(data)


def _checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    entries = [CheckpointEntry(topic=p.topic, partition=p.partition, offset=o) for p, o in sorted(offsets.items())]
    return write_offset_checkpoint(entries)


def _file(data: bytes) -> File:
    return File(data=data, size_bytes=len(data))
