"""Invariants about the coordinators' logs: transactional ids (family F) and groups (family J).

In: rows of `transactional_ids` and `groups`. The rule that must hold here: what a cleaner may have taken from a log is
no gap in a history.
"""

from typing import Final

from expectations.catalogue.lacking import NO_METADATA_LOG
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_NAMES_HASHED: Final = Unknown(
    reason="names were hashed when the snapshot was taken, so that nobody can tell the key's hash",
    evidence=Evidence.RECORDS,
    when="names_hashed",
)
_COUNT_NOT_KNOWN: Final = Unknown(
    reason="the metadata log does not tell how many partitions the topic has",
    evidence=Evidence.METADATA_LOG,
    when="partition_count IS NULL",
)
_MISPLACED: Final = "partition <> expected_partition"
_DUMP: Final = "bin/kafka-dump-log.sh --transaction-log-decoder --files {topic}-{partition}/00000000000000000000.log"
_DUMP_GROUPS: Final = "bin/kafka-dump-log.sh --offsets-decoder --files {topic}-{partition}/00000000000000000000.log"

TXN_STATE_MACHINE = Invariant(
    code="F11",
    key="TXN_STATE_MACHINE",
    name="TransactionStatesFollowEachOther",
    severity=Severity.WARNING,
    relation="transactional_ids",
    statement="Each state that a coordinator writes of a transactional id may follow the one before it, and its "
    "producer "
    "epoch never falls.",
    because="A transaction is begun, decided, completed, in this order. A record that skips a step was written by a "
    "coordinator that did not know what its predecessor had decided, and it may have decided otherwise.",
    unknown=(
        Unknown(
            reason="the cleaner has removed the records in between",
            evidence=None,
            when="broken_steps = 0 AND judged_steps = 0 AND unjudged_steps > 0",
        ),
    ),
    breach_when="broken_steps > 0",
    evidence=("state", "producer_id", "producer_epoch", "judged_steps", "broken_steps", "updated_at_ms"),
    details=("state", "producer_id", "producer_epoch"),
    explanation=(
        "{topic}-{partition} has {record_count} records of transactional id {transactional_id}.",
        "{broken_steps} of them may not follow the one before.",
        "It is in state {state} now, producer id {producer_id}, epoch {producer_epoch}.",
    ),
    next=_DUMP,
    implies=("F13", "K19"),
    points_to="coordinator_bug",
    reference="TransactionState#validPreviousStates, TransactionMetadata#prepareTransitionTo",
)

EPOCH_EXHAUSTION = Invariant(
    code="F13",
    key="EPOCH_EXHAUSTION",
    name="ProducerEpochNotExhausted",
    severity=Severity.WARNING,
    relation="transactional_ids",
    statement="No producer begins a transaction, or writes data, in the last producer epoch, 32767.",
    because="The last epoch is kept to fence a producer with. Its coordinator hands out a new producer id before; "
    "where it "
    "does not, the epoch cannot be raised any more: the producer can neither be fenced nor go on (KAFKA-18660, "
    "KAFKA-20090).",
    applies_when="producer_epoch IS NOT NULL",
    breach_when="(producer_epoch > 32766 AND state IN ('Empty', 'Ongoing')) OR coalesce(largest_data_epoch > 32766, "
    "FALSE)",
    derived=(
        ("own", "CASE WHEN producer_epoch > 32766 AND state IN ('Empty', 'Ongoing') THEN producer_epoch END"),
        ("written", "CASE WHEN largest_data_epoch > 32766 THEN largest_data_epoch END"),
    ),
    evidence=("producer_id", "producer_epoch", "state", "largest_data_epoch", "next_producer_id", "updated_at_ms"),
    explanation=(
        "Transactional id {transactional_id} (producer id {producer_id}) is in state {state}.",
        "Its coordinator let it begin with producer epoch {own}, the last there is.",
        "Data of it carry producer epoch {written}, the last there is.",
        "A new producer id should have been handed out after epoch 32766.",
    ),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    points_to="client_behaviour",
    reference="TransactionMetadata#isProducerEpochExhausted; KAFKA-18660, KAFKA-19367, KAFKA-20090",
)

TXN_OFFSET_COMMITS = Invariant(
    code="F14",
    key="TXN_OFFSET_COMMITS",
    name="PendingCommitsBelongToOpenTransaction",
    severity=Severity.WARNING,
    relation="groups",
    statement="An offset that was committed in a transaction, and waits for its end, belongs to a transaction that its "
    "coordinator has open.",
    because="Until the end marker comes, the group's coordinator answers UNSTABLE_OFFSET_COMMIT to every consumer that "
    "asks where to begin. If no coordinator has the transaction open, the marker never comes, and the group is stuck.",
    applies_when="pending_commits > 0",
    unknown=(
        Unknown(
            reason="the coordinator's records were not captured",
            evidence=Evidence.COORDINATOR_LOG,
            when="NOT transactions_known",
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="orphaned_commits > 0 AND NOT snapshot_quiet"),
    ),
    breach_when="orphaned_commits > 0",
    evidence=("pending_commits", "orphaned_commits", "orphaned_producer_id", "orphaned_first_offset"),
    explanation=(
        "Group {group} has {pending_commits} committed offsets in {topic}-{partition} whose transactions have no end "
        "marker yet.",
        "{orphaned_commits} of them, from offset {orphaned_first_offset} on, were written by producer "
        "{orphaned_producer_id}.",
        "No coordinator has a transaction of that producer and epoch open that lists {topic}-{partition}.",
        "Consumers of the group get UNSTABLE_OFFSET_COMMIT for these partitions and wait.",
    ),
    start_offset="orphaned_first_offset",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition "
    "{partition}",
    points_to="coordinator_bug",
    reference="OffsetMetadataManager#completeTransaction, TransactionCoordinator#handleAddPartitionsToTransaction; "
    "KIP-447",
)

TXN_ID_PLACED = Invariant(
    code="F15",
    key="TXN_ID_PLACED",
    name="TransactionalIdInItsPartition",
    severity=Severity.CRITICAL,
    relation="transactional_ids",
    statement="A transactional id's records lie in the partition that the hash of its name gives.",
    because="The leader of that partition is the id's coordinator. Records elsewhere are another coordinator's: two of "
    "them may fence and decide for the same producer. It happens when the topic's partition count was changed, or "
    "when a "
    "directory was put in the place of another.",
    unknown=(_NAMES_HASHED, NO_METADATA_LOG, _COUNT_NOT_KNOWN),
    breach_when=_MISPLACED,
    evidence=("expected_partition", "partition_count", "record_count", "state", "updated_at_ms"),
    explanation=(
        "Transactional id {transactional_id} has {record_count} records in {topic}-{partition}, offsets "
        "{first_record_offset} to {last_record_offset}.",
        "The hash of its name modulo {partition_count} partitions gives partition {expected_partition}.",
        "Its coordinator is the leader of that one, and does not know of these records.",
    ),
    start_offset="first_record_offset",
    end_offset="last_record_offset + 1",
    records="record_count",
    next=_DUMP,
    points_to="coordinator_bug",
    reference="TransactionStateManager#partitionFor (Utils.abs of String#hashCode modulo the partition count)",
)

GROUP_PLACED = Invariant(
    code="J08",
    key="GROUP_PLACED",
    name="GroupInItsPartition",
    severity=Severity.CRITICAL,
    relation="groups",
    statement="A group's records lie in the partition that the hash of its id gives.",
    because="The leader of that partition is the group's coordinator. What lies elsewhere is found by nobody: the "
    "group "
    "begins anew, or two coordinators each have one half of it. It happens when the topic's partition count was "
    "changed, "
    "or when a directory was put in the place of another.",
    unknown=(_NAMES_HASHED, NO_METADATA_LOG, _COUNT_NOT_KNOWN),
    breach_when=_MISPLACED,
    evidence=("expected_partition", "partition_count", "record_count", "kind", "committed_partitions"),
    explanation=(
        "Group {group} has {record_count} records in {topic}-{partition}, offsets {first_record_offset} to "
        "{last_record_offset}.",
        "The hash of its id modulo {partition_count} partitions gives partition {expected_partition}.",
        "Its coordinator is the leader of that one, and does not know of these records.",
    ),
    start_offset="first_record_offset",
    end_offset="last_record_offset + 1",
    records="record_count",
    next=_DUMP_GROUPS,
    points_to="coordinator_bug",
    reference="GroupCoordinatorService#partitionFor (Utils.abs of String#hashCode modulo the partition count)",
)

GROUP_EPOCHS_MONOTONIC = Invariant(
    code="J09",
    key="GROUP_EPOCHS_MONOTONIC",
    name="GroupEpochsNeverFall",
    severity=Severity.WARNING,
    relation="groups",
    statement="In a group's history its generation, its group and assignment epoch, and each member's epoch never "
    "fall.",
    because="The epoch fences members that missed a rebalance. If it goes back, an old member is taken for a current "
    "one, "
    "and two consumers own the same partition.",
    breach_when="epoch_regressions > 0",
    evidence=("kind", "generation", "group_epoch", "assignment_epoch", "largest_member_epoch", "epoch_regressions"),
    details=("generation", "group epoch", "assignment epoch", "member epoch"),
    explanation=(
        "In the history of group {group} in {topic}-{partition} {epoch_regressions} epochs went back.",
        "Between the two records the group, or the member, was not removed.",
    ),
    next=_DUMP_GROUPS,
    implies=("K19",),
    points_to="coordinator_bug",
    reference="GroupMetadataManager#replay, ClassicGroup#initNextGeneration; KIP-848",
)
