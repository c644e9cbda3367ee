"""What is known of a partition beside its logs: the metadata log, the coordinators, the capture.

In: nothing; these are the values that the derive step gathers for one partition. Out: `PartitionContext`. The rule that
must hold: what the evidence does not tell is None, never a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_log.coordinator_records import OffsetCommit, TransactionState
from spark_jobs.facts.asked import PartitionAnswers
from spark_jobs.facts.commit_falls import CommitCourse
from spark_jobs.facts.config_history import EVER, SettingCourse, Since
from spark_jobs.facts.coordinator_rows import Decided
from spark_jobs.facts.expiration import Expiration
from spark_jobs.facts.metadata import LogFiles
from spark_jobs.facts.partition_change import PartitionChange
from spark_jobs.facts.releases import Release
from spark_jobs.facts.share_history import PlacedShare
from spark_jobs.facts.upkeep_context import UpkeepContext


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnView:
    """What one broker knew of a partition last, by its own copy of the metadata log, and the record that told it.

    `min_insync_replicas`: what was set then; None where that copy does not tell.
    """

    metadata_offset: int
    leader_id: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    min_insync_replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A batch that a producer with acks=all was told is written."""

    base_offset: int
    last_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionContext:
    """What is known of a partition beside its logs. `metadata_known` False: the metadata log does not have it."""

    topic: str
    partition: int
    topic_id: str | None
    metadata_known: bool
    topic_deleted: bool
    topic_ids_deleted: Mapping[str, bool]
    """Every topic id that this name has had, as far as the metadata log tells, and whether it was deleted."""
    leader_id: int | None
    last_leader_id: int | None
    leader_epoch: int | None
    partition_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    changes: tuple[PartitionChange, ...]
    epoch_leaders: Mapping[int, int]
    min_insync_replicas: int | None
    cleanup_policy: str | None
    topic_compacted: bool
    unclean_leader_election_enable: bool | None
    remote_storage_enable: bool
    preallocate: bool
    producer_expiration: Expiration
    alive_brokers: frozenset[int]
    cluster_stopped: bool
    snapshot_quiet: bool
    next_producer_id: int | None
    transactions_by_producer: Mapping[int, TransactionState]
    transaction_states_known: bool
    max_transaction_timeout_ms: int
    commits: tuple[OffsetCommit, ...]
    remote_log_start_offset: int | None
    captured_at_ms: int | None
    answers: PartitionAnswers | None = None
    metadata_files: LogFiles | None = None
    """Where the metadata log was read; None in tests of other things."""
    writer_releases: Mapping[int, Release | None] = field(default_factory=dict)
    """Leader epoch -> the release of Kafka that its leader ran; not there for epochs that the metadata log lacks."""
    min_insync_course: SettingCourse | None = None
    """What min.insync.replicas has been; None in tests of other things."""
    transaction_levels: SettingCourse | None = None
    """Which levels the feature transaction.version has had; None in tests of other things, and if nothing tells it."""
    metadata_damaged: bool = False
    """Records of the metadata log could not be read: an epoch may have been given out by one of them."""
    metadata_committed_end_offset: int | None = None
    """Of the metadata log: all below it is in a metadata snapshot of some node, so it was committed."""

    upkeep: UpkeepContext | None = None
    """How its logs are kept; None in tests of other things."""

    decisions: tuple[Decided, ...] = ()
    """What coordinators decided of transactions that list the partition, as far as their logs reach back."""
    shares: tuple[PlacedShare, ...] = ()
    """Share groups that consume it."""
    reached: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Group -> how far it had committed under each leader epoch that its commits name."""
    courses: Mapping[str, CommitCourse] = field(default_factory=dict)
    """Group -> its commits, one after the other, in its coordinator's log."""
    names_hashed: bool = False
    own_views: Mapping[int, OwnView] = field(default_factory=dict)
    """Broker -> what it knew; not there for one whose own copy of the metadata log is not at hand."""
    captured_brokers: frozenset[int] = frozenset()
    brokers_without_log_dir: frozenset[int] = frozenset()
    """Captured brokers of which a registered log directory is not in the copy: what they lack may be there."""
    metadata_log_captured: bool = True
    """A copy of the metadata log is in the snapshot, be it whole or not."""
    leadership_answered: bool = False
    """Leader, ISR and replicas are what the cluster answered: the metadata log does not tell them."""
    names_whole: bool = True
    """The metadata log tells of every topic that ever had this name: its head is there, and whole."""
    acknowledged: tuple[Acknowledged, ...] | None = None
    """What a simulated cluster's ledger tells of it; None where there is no ledger."""

    def min_insync_replicas_in(self, leader_epoch: int) -> int | None:
        """The largest min.insync.replicas in force at any time of a leader epoch; None where one is not known."""
        if self.min_insync_course is None:
            return self.min_insync_replicas
        begun = next((c.metadata_offset for c in self.changes if c.leader_epoch >= leader_epoch), None)
        over = next((c.metadata_offset for c in self.changes if c.leader_epoch > leader_epoch), None)
        since = Since(offset=begun) if begun is not None else EVER
        steps = [s for s in self.min_insync_course.in_force(since) if over is None or s.since_offset < over]
        known = self.min_insync_course.reaches(since) and all(not s.assumed and s.value.isdigit() for s in steps)
        return max((int(s.value) for s in steps), default=None) if known else None
