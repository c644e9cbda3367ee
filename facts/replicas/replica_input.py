"""All that is at hand of one replica's directory, after its segments were indexed and its small files parsed.

In: nothing; `gather` and the index step fill these values. Out: `ReplicaInput`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegauge.facts.replicas.derived_files import IndexSpacing
from tidegauge.facts.segments.index_file_facts import IndexFileFacts
from tidegauge.facts.segments.record_check import RecordCheck
from tidegauge.facts.segments.summary import SegmentSummary
from tidegauge.kafka_log.checkpoints import LeaderEpochCheckpoint
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshot
from tidegauge.kafka_log.properties import PartitionMetadata
from tidegauge.kafka_log.transaction_index import TransactionIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFile:
    """A derived file beside a segment: its path, size, and what the index step found in it."""

    path: str
    size_bytes: int
    facts: IndexFileFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSegment:
    """One segment after the index step: its summaries, cut at the producer snapshots' offsets, and its damage.

    `valid_bytes`, `valid_end_offset`: the prefix before the first break of the chain of batches, and the offset after
    it (None: no batch in it). `path` and sizes are the log's; `stored_path` is that of the file at hand.
    """

    path: str
    stored_path: str
    base_offset: int
    size_bytes: int
    valid_bytes: int
    valid_end_offset: int | None
    corruptions: tuple[Corruption, ...]
    ranges: tuple[tuple[int, SegmentSummary], ...]
    indexes: tuple[IndexedFile, ...]
    bytes_read: int
    records: RecordCheck | None = None
    """None: the snapshot holds no records of it."""
    index_spacing: IndexSpacing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """A producer snapshot file: path, size, the offset in its name, and its content."""

    path: str
    size_bytes: int
    offset: int
    content: ProducerSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionIndexFile:
    """A `.txnindex` file."""

    path: str
    size_bytes: int
    content: TransactionIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    """Which partition a directory is a replica of, and where it lies. `is_future`: it is on its way to this log dir."""

    broker_id: int
    log_dir: str
    directory: str
    topic: str
    partition: int
    is_future: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointedOffsets:
    """What the checkpoints of its log dir say of a replica; None where none of them lists it."""

    high_watermark: int | None = None
    recovery_point_offset: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMoment:
    """What happened to a replica while it was copied. Instants are milliseconds since 1970."""

    clean_shutdown: bool
    broker_quiet: bool
    checkpoint_older_than_log: bool | None = None
    """The high watermark was read before the log; None: not known."""
    log_read_at_ms: tuple[int, int] | None = None
    """When its first and its last segment were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedKinds:
    """Which kinds of files the copy has where it has any: a file of a kind that nobody copied is not gone."""

    epoch_checkpoints: bool = True
    """Other replicas of the log dir have their leader-epoch-checkpoint."""
    cleaner_offsets: bool = True
    """The log dir has a cleaner-offset-checkpoint: a log that it does not list was never cleaned."""
    log_starts: bool = True
    """The log dir has a log-start-offset-checkpoint: a log that it does not list starts with its first segment."""
    producer_snapshots: bool = True
    """Other replicas of the log dir have producer snapshots."""
    transaction_indexes: bool = True
    """Some segment of the snapshot has its transaction index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInput:
    """All that is known of one replica's directory."""

    place: ReplicaPlace
    checkpointed: CheckpointedOffsets
    moment: CopyMoment
    copied: CopiedKinds
    segments: tuple[IndexedSegment, ...]
    snapshots: tuple[SnapshotFile, ...]
    transaction_indexes: Mapping[int, TransactionIndexFile]
    epoch_checkpoint: LeaderEpochCheckpoint | None
    partition_metadata: PartitionMetadata | None
    later_epoch_checkpoint: LeaderEpochCheckpoint | None = None
    """What leader-epoch-checkpoint held when it was read once more, behind the log; None if it was not."""
    unread_bases: tuple[int, ...] = ()
    """Base offsets of segments that are there and could not be read: what is missing with them is not lost."""

    @property
    def ignore_sequences(self) -> bool:
        """Its batches are the group coordinator's, whose sequences say nothing."""
        return self.place.topic == CONSUMER_OFFSETS

    @property
    def topic_id(self) -> str | None:
        """By its own partition.metadata; None where that is not there or says none."""
        return self.partition_metadata.topic_id if self.partition_metadata is not None else None
