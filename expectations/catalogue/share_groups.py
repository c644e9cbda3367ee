"""Invariants about share groups: how far they are with a partition, as their coordinator has written it (family J).

In: rows of `share_states`. The rule that must hold here: retention may pass a group that lags.
"""

from typing import Final

from expectations.catalogue.model import Invariant, Severity, Unknown

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
    reference="ShareCoordinatorShard#maybeGetWriteStateError (FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH); KIP-932",
)

SHARE_START_IN_RANGE = Invariant(
    code="J07",
    key="SHARE_START_IN_RANGE",
    name="ShareStartOffsetInRange",
    severity=Severity.WARNING,
    relation="share_states",
    statement="A share group's start offset lies between the partition's log start and its high watermark, and its "
    "count of "
    "completed deliveries is that of its batches.",
    because="A start offset beyond the high watermark skips records that are still to come; a count that is off "
    "makes the "
    "group's lag a lie.",
    subject=_SUBJECT,
    applies_when="NOT deleted AND start_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="the partition's log was not captured", when="log_start_offset IS NULL OR log_end_offset IS NULL"
        ),
        Unknown(
            reason="copy skew",
            when="NOT snapshot_quiet AND start_offset > coalesce(high_watermark_upper, log_end_offset)",
        ),
    ),
    breach_when="start_offset < log_start_offset OR start_offset > coalesce(high_watermark_upper, log_end_offset) "
    "OR coalesce(delivery_complete_count <> completed_offsets, FALSE)",
    severity_when=(
        # Retention passed a group that lags.
        (
            Severity.INFO,
            "start_offset < log_start_offset AND NOT coalesce(delivery_complete_count <> completed_offsets, FALSE)",
        ),
    ),
    derived=(
        ("missed", "CASE WHEN start_offset < log_start_offset THEN log_start_offset - start_offset END"),
        (
            "ahead",
            "CASE WHEN start_offset > coalesce(high_watermark_upper, log_end_offset) "
            "THEN coalesce(high_watermark_upper, log_end_offset) END",
        ),
        ("counted", "CASE WHEN delivery_complete_count <> completed_offsets THEN completed_offsets END"),
    ),
    evidence=(
        "start_offset",
        "log_start_offset",
        "high_watermark_upper",
        "log_end_offset",
        "delivery_complete_count",
        "completed_offsets",
    ),
    explanation=(
        "Share group {group} begins at offset {start_offset} of {topic}-{partition}.",
        "The log starts at {log_start_offset}: retention or DeleteRecords removed {missed} offsets that the group "
        "had not "
        "finished.",
        "The partition's high watermark is {ahead} at most: nobody can have delivered what comes behind it.",
        "Its state says that {delivery_complete_count} deliveries from there on are complete; its batches have "
        "{counted}.",
    ),
    start_offset="start_offset",
    next=_DUMP,
    reference="SharePartition#maybeInitialize, #startOffset; KIP-932, KIP-1226 (DeliveryCompleteCount, since 4.2)",
)
