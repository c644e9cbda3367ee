"""What is known of a partition beside its logs: the metadata log, the coordinators, the capture.

In: nothing; these are the values that the derive step gathers for one partition. Out: `PartitionContext`. The rule that
must hold: what the evidence does not tell is None, never a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka_log.coordinator_records import OffsetCommit, TransactionState

if TYPE_CHECKING:
    from spark_jobs.facts.asked import PartitionAnswers
    from spark_jobs.facts.coordinator_rows import Decided
    from spark_jobs.facts.share_rows import PlacedShare
    from spark_jobs.facts.upkeep_context import UpkeepContext

PartitionKey = tuple[str, int]
"""Topic and partition number."""
Release = tuple[int, int]
"""A release of Kafka, major and minor: they compare as they follow each other."""
Row = dict[str, Any]
"""One row of a relation: column -> value, without the common columns."""
Rows = dict[str, list[Row]]
"""Rows by relation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """One metadata record about the partition, with what it changed: a row of `partition_changes`."""

    metadata_offset: int
    sequence_in_log: int
    from_snapshot: bool
    at_ms: int | None
    leader_id: int | None
    previous_leader_id: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    previous_isr: tuple[int, ...]
    elr: tuple[int, ...]
    previous_elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    recovering: bool
    election: str
    created: bool = False
    """The first record of a partition, in the log itself."""
    restated: bool = False
    """A PartitionRecord of a partition that is there already: it says all anew, epochs included."""
    previous_leader_epoch: int | None = None
    previous_partition_epoch: int | None = None
    previous_recovering: bool | None = None
    directories: tuple[str, ...] = ()
    min_insync_replicas: int | None = None
    """As it was in force then; None where the log does not tell."""
    after_damage: bool = False
    """Records before this one could not be read."""
    migrated: bool = False
    """The metadata came from ZooKeeper: its first epochs are any number."""
    snapshot_end_offset: int | None = None
    """End of a metadata snapshot that holds this state; of the first that contradicts it, if one does."""
    snapshot_partition_epoch: int | None = None
    snapshot_leader_epoch: int | None = None
    out_of_place_offset: int | None = None
    """The record from which on members were in the ISR that may not be."""
    out_of_place_ms: int | None = None
    """How long they were, up to the log's end."""
    isr_inactive: tuple[int, ...] = ()
    isr_without_directory: tuple[int, ...] = ()


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
    producer_expiration_ms: int
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
    answers: "PartitionAnswers | None" = None
    writer_releases: Mapping[int, Release | None] = field(default_factory=dict)
    """Leader epoch -> the release of Kafka that its leader ran; not there for epochs that the metadata log lacks."""
    metadata_committed_end_offset: int | None = None
    """Of the metadata log: all below it is in a metadata snapshot of some node, so it was committed."""

    upkeep: "UpkeepContext | None" = None
    """How its logs are kept; None in tests of other things."""

    decisions: "tuple[Decided, ...]" = ()
    """What coordinators decided of transactions that list the partition, as far as their logs reach back."""
    shares: "tuple[PlacedShare, ...]" = ()
    """Share groups that consume it."""
    reached: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Group -> how far it had committed under each leader epoch that its commits name."""
    names_hashed: bool = False
    acknowledged: "tuple[Acknowledged, ...] | None" = None
    """What a simulated cluster's ledger tells of it; None where there is no ledger."""

    def writer_release(self, leader_epoch: int) -> Release | None:
        """The release of Kafka that wrote the batches of a leader epoch; None if it is not known."""
        return self.writer_releases.get(leader_epoch)
