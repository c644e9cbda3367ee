"""What is known of a partition beside its logs: the metadata log, the coordinators, the capture.

In: nothing; these are the values that the derive step gathers for one partition. Out: `PartitionContext`. The rule that
must hold: what the evidence does not tell is None, never a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegauge.facts.answers.asked import PartitionAnswers
from tidegauge.facts.coordinators.commit_falls import CommitCourse
from tidegauge.facts.coordinators.rows import Decided
from tidegauge.facts.coordinators.share_history import PlacedShareState
from tidegauge.facts.metadata.config_history import EVER, SettingCourse, Since
from tidegauge.facts.metadata.expiration import Expiration
from tidegauge.facts.metadata.history import LogFiles
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.metadata.upkeep_context import UpkeepContext
from tidegauge.kafka_log.coordinator_records import OffsetCommit, TransactionState


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
class Assignment:
    """Who holds a partition and who leads it, last. `known` False: the metadata log does not have the partition."""

    known: bool
    answered: bool = False
    """Leader, ISR and replicas are what the cluster answered: the metadata log does not tell them."""
    topic_deleted: bool = False
    leader_id: int | None = None
    last_leader_id: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def told(self) -> bool:
        """The metadata log or an answer says who holds the partition."""
        return self.known or self.answered

    @property
    def in_place(self) -> bool:
        """The metadata log has the partition, and its topic was not deleted."""
        return self.known and not self.topic_deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """What happened to a partition, as far as the metadata log tells."""

    topic_ids_deleted: Mapping[str, bool]
    """Every topic id that its topic's name has had, and whether it was deleted."""
    names_whole: bool = True
    """It tells of every topic that ever had this name: its head is there, and whole."""
    changes: tuple[PartitionChange, ...] = ()
    epoch_leaders: Mapping[int, int] = field(default_factory=dict)
    own_views: Mapping[int, OwnView] = field(default_factory=dict)
    """Broker -> what it knew; not there for one whose own copy of the metadata log is not at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogCopy:
    """How much of the metadata log there is."""

    captured: bool = True
    """A copy of it is in the snapshot, be it whole or not, and reaches far enough to tell of the partition."""
    files: LogFiles | None = None
    """Where it was read; None in tests of other things."""
    damaged: bool = False
    """Records of it could not be read: an epoch may have been given out by one of them."""
    committed_end_offset: int | None = None
    """Of the metadata log itself: all below it is in a metadata snapshot of some node, so it was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSettings:
    """What is set for a partition. Of a course None: in tests of other things, and where nothing tells it."""

    min_insync_replicas: int | None
    cleanup_policy: str | None
    producer_expiration: Expiration
    max_transaction_timeout_ms: int
    ever_compacted: bool = False
    unclean_leader_election_enable: bool | None = None
    remote_storage_enable: bool = False
    preallocate: bool = False
    min_insync_course: SettingCourse | None = None
    """What min.insync.replicas has been."""
    transaction_levels: SettingCourse | None = None
    """Which levels the feature transaction.version has had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCopy:
    """How the cluster was copied, and what it was like then."""

    captured_at_ms: int | None
    snapshot_quiet: bool
    stopped: bool = False
    alive_brokers: frozenset[int] = frozenset()
    captured_brokers: frozenset[int] = frozenset()
    brokers_without_log_dir: frozenset[int] = frozenset()
    """Captured brokers of which a registered log directory is not in the copy: what they lack may be there."""
    names_hashed: bool = False
    next_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKnowledge:
    """What the coordinators' logs say of a partition. `transactions_by_producer` is of the whole cluster."""

    transactions_by_producer: Mapping[int, TransactionState] = field(default_factory=dict)
    transaction_states_known: bool = False
    commits: tuple[OffsetCommit, ...] = ()
    decisions: tuple[Decided, ...] = ()
    """What coordinators decided of transactions that list the partition, as far as their logs reach back."""
    share_states: tuple[PlacedShareState, ...] = ()
    """Share groups that consume it."""
    reached: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Group -> how far it had committed under each leader epoch that its commits name."""
    courses: Mapping[str, CommitCourse] = field(default_factory=dict)
    """Group -> its commits, one after the other, in its coordinator's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionContext:
    """What is known of a partition beside its logs."""

    topic: str
    partition: int
    topic_id: str | None
    assignment: Assignment
    history: PartitionHistory
    metadata: MetadataLogCopy
    settings: PartitionSettings
    cluster: ClusterCopy
    coordinators: CoordinatorKnowledge
    remote_log_start_offset: int | None = None
    answers: PartitionAnswers | None = None
    upkeep: UpkeepContext | None = None
    """How its logs are kept; None in tests of other things."""
    acknowledged: tuple[Acknowledged, ...] | None = None
    """What a simulated cluster's ledger tells of it; None where there is no ledger."""

    def min_insync_replicas_in(self, leader_epoch: int) -> int | None:
        """The largest min.insync.replicas in force at any time of a leader epoch; None where one is not known."""
        course = self.settings.min_insync_course
        if course is None:
            return self.settings.min_insync_replicas
        begun = next((c.metadata_offset for c in self.history.changes if c.leader_epoch >= leader_epoch), None)
        over = next((c.metadata_offset for c in self.history.changes if c.leader_epoch > leader_epoch), None)
        since = Since(offset=begun) if begun is not None else EVER
        steps = [s for s in course.in_force(since) if over is None or s.since_offset < over]
        known = course.reaches(since) and all(not s.assumed and s.value.isdigit() for s in steps)
        return max((int(s.value) for s in steps), default=None) if known else None


def before_it_was(context: PartitionContext, *, metadata_known: bool) -> PartitionContext:
    """What an earlier snapshot that does not have the partition says of it. `metadata_known`: by a metadata log."""
    return replace(
        context,
        assignment=replace(context.assignment, known=False, replicas=(), isr=()),
        history=replace(context.history, changes=()),
        metadata=replace(context.metadata, captured=metadata_known),
        coordinators=replace(context.coordinators, commits=()),
    )
