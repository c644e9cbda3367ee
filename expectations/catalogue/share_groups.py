"""Invariants about share groups: how far they are with a partition, as their coordinator has written it (family J).

In: rows of `share_states`. The rule that must hold here: retention may pass a group that lags.
"""

from typing import Final

from expectations.catalogue.lacking import LOG_START_UNTOLD, OLD_LINEAGE, UNTOLD_LINEAGE
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_SUBJECT: Final = ("group", "topic", "topic_id", "partition")
_DUMP: Final = (
    "bin/kafka-dump-log.sh --share-group-state-decoder --files __share_group_state-{state_partition}/"
    "00000000000000000000.log"
)

SHARE_STATE_RANGES = Invariant(
    code="J05",
    key="SHARE_STATE_RANGES",
    name="ShareStateBatches",
    severity=Severity.WARNING,
    relation="share_states",
    statement="The batches of a share group's state lie apart, above its start offset, in a state that may be "
    "written, and "
    "none was delivered more often than allowed.",
    because="From these batches the next leader of the partition knows what is still to be delivered. Where they "
    "contradict each other, records are delivered again, or never.",
    subject=_SUBJECT,
    applies_when="NOT deleted",
    unknown=(
        Unknown(
            reason="no snapshot record is left to begin from",
            evidence=Evidence.COORDINATOR_LOG,
            when="range_faults = 0 AND completed_offsets IS NULL AND start_offset IS NOT NULL",
        ),
    ),
    breach_when="range_faults > 0 OR largest_delivery_count > delivery_count_limit",
    derived=(
        ("too_often", "CASE WHEN largest_delivery_count > delivery_count_limit THEN largest_delivery_count END"),
        ("faulty", "CASE WHEN range_faults > 0 THEN range_faults END"),
    ),
    evidence=("start_offset", "range_faults", "largest_delivery_count", "delivery_count_limit", "snapshot_epoch"),
    details=("range", "overlap", "below_start", "delivery_state", "delivery_count"),
    explanation=(
        "The state of share group {group} for {topic}-{partition} is in __share_group_state-{state_partition}, "
        "snapshot "
        "epoch {snapshot_epoch}.",
        "{faulty} of its batches say what cannot be.",
        "A batch was delivered {too_often} times; {delivery_count_limit} are allowed.",
    ),
    start_offset="start_offset",
    next=_DUMP,
    points_to="coordinator_bug",
    reference="PersisterStateBatchCombiner, SharePartition#maybeInitialize; KIP-932",
)

SHARE_STATE_EPOCHS = Invariant(
    code="J06",
    key="SHARE_STATE_EPOCHS",
    name="ShareStateEpochsNeverFall",
    severity=Severity.WARNING,
    relation="share_states",
    statement="Snapshot, state and leader epoch of a share group's state never fall, and the leader epoch is not "
    "above the "
    "partition's.",
    because="The share coordinator refuses a write of an older leader or state. One that is in its log came from a "
    "zombie: "
    "a former leader of the partition that still delivers its records.",
    subject=_SUBJECT,
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="leader_epoch > metadata_leader_epoch AND NOT snapshot_quiet AND epoch_faults = 0",
        ),
    ),
    breach_when="epoch_faults > 0 OR coalesce(leader_epoch > metadata_leader_epoch, FALSE)",
    derived=(
        ("fallen", "CASE WHEN epoch_faults > 0 THEN epoch_faults END"),
        ("ahead", "CASE WHEN leader_epoch > metadata_leader_epoch THEN leader_epoch END"),
    ),
    evidence=("snapshot_epoch", "state_epoch", "leader_epoch", "metadata_leader_epoch", "epoch_faults"),
    details=("epoch",),
    explanation=(
        "The state of share group {group} for {topic}-{partition} is in __share_group_state-{state_partition}: "
        "snapshot epoch {snapshot_epoch}, leader epoch {leader_epoch}.",
        "In its history {fallen} epochs went back.",
        "It was written under leader epoch {ahead}; the partition's is {metadata_leader_epoch}.",
    ),
    next=_DUMP,
    implies=("J07",),
    points_to="coordinator_bug",
    reference="ShareCoordinatorShard#maybeGetWriteStateError (FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH); KIP-932",
)

_OUT_OF_RANGE: Final = (
    "(start_offset < log_start_offset OR start_offset > coalesce(high_watermark_upper, log_end_offset))"
)
_MAY_BE_ABORTED: Final = (
    "coalesce(delivery_complete_count > completed_offsets "
    "AND delivery_complete_count - completed_offsets <= aborted_offsets, FALSE)"
)
"""The partition's leader counts aborted records as complete, and does not have them written."""
_MISCOUNTED: Final = (
    "(coalesce(delivery_complete_count <> completed_offsets, FALSE) "
    f"AND NOT (coalesce(read_committed, FALSE) AND {_MAY_BE_ABORTED}))"
)

_CUT_OFF: Final = "coalesce(read_end_offset > epoch_end_offset, FALSE)"
"""Of what it was delivered, the end is not in the log any more."""

SHARE_START_IN_RANGE = Invariant(
    code="J07",
    key="SHARE_START_IN_RANGE",
    name="ShareStartOffsetInRange",
    severity=Severity.WARNING,
    relation="share_states",
    statement="A share group's start offset lies between the partition's log start and its high watermark, its count "
    "of completed deliveries is that of its batches, and what it was delivered under a leader epoch is in the log.",
    because="A start offset beyond the high watermark skips records that are still to come, and so does one beyond "
    "where the epoch was cut off that it read: other records come to lie at offsets that are done with. A count that "
    "is off makes the group's lag a lie.",
    subject=_SUBJECT,
    applies_when="NOT deleted AND start_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="the partition's log was not captured",
            evidence=Evidence.BROKER,
            when="log_start_offset IS NULL OR log_end_offset IS NULL",
        ),
        Unknown(
            reason=OLD_LINEAGE.reason,
            evidence=Evidence.BROKER,
            when=f"{OLD_LINEAGE.when} AND NOT coalesce({_MISCOUNTED}, FALSE)",
        ),
        Unknown(
            reason=UNTOLD_LINEAGE.reason,
            evidence=Evidence.METADATA_LOG,
            when=f"{UNTOLD_LINEAGE.when} AND NOT coalesce({_MISCOUNTED}, FALSE)",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT snapshot_quiet AND start_offset > coalesce(high_watermark_upper, log_end_offset)",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND NOT epoch_end_settled AND {_CUT_OFF}",
        ),
        Unknown(
            reason="history of the setting not known",
            evidence=Evidence.METADATA_LOG_START,
            when=f"read_committed IS NULL AND {_MAY_BE_ABORTED} AND NOT {_OUT_OF_RANGE}",
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"{LOG_START_UNTOLD} AND NOT coalesce({_OUT_OF_RANGE} OR {_MISCOUNTED} OR {_CUT_OFF}, FALSE)",
        ),
    ),
    breach_when=f"{_OUT_OF_RANGE} OR {_MISCOUNTED} OR {_CUT_OFF}",
    severity_when=(
        # Retention passed a group that lags.
        (Severity.INFO, f"start_offset < log_start_offset AND NOT {_MISCOUNTED} AND NOT {_CUT_OFF}"),
    ),
    derived=(
        ("missed", "CASE WHEN start_offset < log_start_offset THEN log_start_offset - start_offset END"),
        (
            "ahead",
            "CASE WHEN start_offset > coalesce(high_watermark_upper, log_end_offset) "
            "THEN coalesce(high_watermark_upper, log_end_offset) END",
        ),
        ("cut_off", f"CASE WHEN {_CUT_OFF} THEN read_end_offset - epoch_end_offset END"),
        ("counted", f"CASE WHEN {_MISCOUNTED} THEN completed_offsets END"),
        ("excused", f"CASE WHEN {_MISCOUNTED} AND read_committed THEN aborted_offsets END"),
    ),
    evidence=(
        "start_offset",
        "log_start_offset",
        "high_watermark_upper",
        "log_end_offset",
        "delivery_complete_count",
        "completed_offsets",
        "aborted_offsets",
        "read_committed",
        "read_leader_epoch",
        "read_end_offset",
        "epoch_end_offset",
    ),
    explanation=(
        "Share group {group} begins at offset {start_offset} of {topic}-{partition}.",
        "The log starts at {log_start_offset}: retention or DeleteRecords removed {missed} offsets that the group "
        "had not "
        "finished.",
        "The partition's high watermark is {ahead} at most: nobody can have delivered what comes behind it.",
        "It was delivered offsets up to {read_end_offset} under leader epoch {read_leader_epoch}, which ends at "
        "{epoch_end_offset} in the log as it is now: {cut_off} of them were cut off afterwards, and what is written "
        "there since may pass it by.",
        "Its state says that {delivery_complete_count} deliveries from there on are complete; its batches have "
        "{counted}.",
        "It reads committed records only, and at most {excused} offsets are of aborted transactions, which are counted "
        "and not written.",
    ),
    start_offset="start_offset",
    next=_DUMP,
    points_to="coordinator_bug",
    reference="SharePartition#maybeInitialize, #startOffset, #filterAbortedTransactionalAcquiredRecords; KIP-932, "
    "KIP-1226 (DeliveryCompleteCount, since 4.2)",
)
