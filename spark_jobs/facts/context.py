"""What is known of a partition beside its logs: the metadata log, the coordinators, the capture.

In: nothing; these are the values that the derive step gathers for one partition. Out: `PartitionContext`. The rule that
must hold: what the evidence does not tell is None, never a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_log.coordinator_records import OffsetCommit, TransactionState
from spark_jobs.facts.asked import PartitionAnswers

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
    answers: PartitionAnswers | None = None
