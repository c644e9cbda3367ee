"""A broker's log directory, as files.

In: what a broker holds and has written down at one moment. Out: paths below its log dir and `File`s. The rule that must
hold: nothing is written that a broker would not have written; what it has not yet checkpointed is old or missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_log.checkpoints import CheckpointEntry, write_offset_checkpoint
from kafka_log.log_dir import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    QUORUM_STATE,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from kafka_log.properties import write_clean_shutdown, write_meta_properties, write_quorum_state
from kafka_log.types import TopicPartition
from sim_engine.metadata_log import METADATA_TOPIC, METADATA_TOPIC_ID
from sim_engine.render_log import File, render_log
from sim_engine.replica_log import ReplicaLog

_METADATA: Final = TopicPartition(METADATA_TOPIC, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One partition's log on a broker."""

    log: ReplicaLog
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDisk:
    """One broker's only log dir. The four mappings are its checkpoint files' content."""

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


def render_broker(disk: BrokerDisk) -> Iterator[tuple[str, File]]:
    """The files of a log dir."""
    clean = disk.clean_broker_epoch is not None
    for partition, replica in disk.replicas.items():
        for name, file in render_log(replica.log, topic_id=replica.topic_id, clean=clean):
            yield f"{partition}/{name}", file
    # The metadata log's active indexes are not trimmed even by a stop in good order.
    for name, file in render_log(disk.metadata, topic_id=METADATA_TOPIC_ID, clean=False):
        yield f"{_METADATA}/{name}", file
    quorum = write_quorum_state(leader_id=disk.quorum_leader_id, leader_epoch=disk.quorum_leader_epoch, voted_id=None)
    yield f"{_METADATA}/{QUORUM_STATE}", _file(quorum)
    for name, offsets in (
        (REPLICATION_OFFSET_CHECKPOINT, disk.high_watermarks),
        (RECOVERY_POINT_OFFSET_CHECKPOINT, disk.recovery_points),
        (LOG_START_OFFSET_CHECKPOINT, disk.log_starts),
        (CLEANER_OFFSET_CHECKPOINT, disk.cleaner_offsets),
    ):
        yield name, _file(_checkpoint(offsets))
    properties = write_meta_properties(
        node_id=disk.broker_id, directory_id=disk.directory_id, cluster_id=disk.cluster_id
    )
    yield META_PROPERTIES, _file(properties)
    if disk.clean_broker_epoch is not None:
        yield CLEAN_SHUTDOWN, _file(write_clean_shutdown(disk.clean_broker_epoch))


def _checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    entries = [CheckpointEntry(topic=p.topic, partition=p.partition, offset=o) for p, o in sorted(offsets.items())]
    return write_offset_checkpoint(entries)


def _file(data: bytes) -> File:
    return File(data=data, size_bytes=len(data))
