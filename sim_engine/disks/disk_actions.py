"""What may happen to a broker's disk, or to the remote store, as actions of a world.

Nothing flows in or out here. What is not said is left to chance, which the world's seed draws.
"""

from dataclasses import dataclass

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.disks.disk_faults import CheckpointFile, FaultKind
from tidegauge.sim_engine.world import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class HurtDisk:
    """A log is damaged. `offset` chooses the batch (or its segment), `byte` the byte in it, or how many are left of it.

    A torn write, a lost flush, a lost segment and a damaged index need a broker that is dead: it would not notice.
    """

    broker_id: int
    kind: FaultKind
    partition: TopicPartition
    offset: int | None = None
    byte: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreDisk:
    """A dead broker's disk is the one of an earlier moment (`world.brokers[…].disk`)."""

    broker_id: int
    older: Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheckpoint:
    """One checkpoint file of a dead broker is the one of an earlier moment."""

    broker_id: int
    older: Disk
    file: CheckpointFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk:
    """A broker's disk has room for so many bytes of batches and no more; what it deletes makes none."""

    broker_id: int
    room_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeDisk:
    """There is room enough again."""

    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseRemoteObject:
    """The remote store loses the segments that hold an offset; nobody is told."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRemoteSegment:
    """A partition's leader deletes a remote segment in the middle, though the log starts below it."""

    partition: TopicPartition
