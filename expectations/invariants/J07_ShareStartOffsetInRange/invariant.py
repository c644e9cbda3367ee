from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DUMP_SHARE_STATES
from tidegauge.expectations.invariants.shared.coordinators import SHARE_SUBJECT
from tidegauge.expectations.invariants.shared.lacking import LOG_START_UNTOLD, OLD_LINEAGE, UNTOLD_LINEAGE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OUT_OF_RANGE: Final = line("""
    (start_offset < log_start_offset OR start_offset > coalesce(high_watermark_upper, log_end_offset))
""")
_MAY_BE_ABORTED: Final = line("""
    coalesce(delivery_complete_count > completed_offsets
    AND delivery_complete_count - completed_offsets <= aborted_offsets, FALSE)
""")
"""The partition's leader counts aborted records as complete, and does not have them written."""
_MISCOUNTED: Final = line(f"""
    (coalesce(delivery_complete_count <> completed_offsets, FALSE) AND NOT (coalesce(read_committed, FALSE)
    AND {_MAY_BE_ABORTED}))
""")
_CUT_OFF: Final = "coalesce(read_end_offset > epoch_end_offset, FALSE)"
"""Of what it was delivered, the end is not in the log any more."""

INVARIANT = Invariant(
    code="J07",
    key="SHARE_START_IN_RANGE",
    name="ShareStartOffsetInRange",
    severity=Severity.WARNING,
    relation="share_states",
    subject=SHARE_SUBJECT,
    statement=line("""
        A share group's start offset lies between the partition's log start and its high watermark, its count of
        completed deliveries is that of its batches, and what it was delivered under a leader epoch is in the log.
    """),
    because=line("""
        A start offset beyond the high watermark skips records that are still to come, and so does one beyond where the
        epoch was cut off that it read: other records come to lie at offsets that are done with. A count that is off
        makes the group's lag a lie.
    """),
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
            line("""
                CASE
                WHEN start_offset > coalesce(high_watermark_upper, log_end_offset) THEN coalesce(high_watermark_upper,
                log_end_offset) END
            """),
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
    explanation=lines("""
        Share group {group} begins at offset {start_offset} of {topic}-{partition}.
        The log starts at {log_start_offset}: retention or DeleteRecords removed {missed} offsets that the group had not
          finished.
        The partition's high watermark is {ahead} at most: nobody can have delivered what comes behind it.
        It was delivered offsets up to {read_end_offset} under leader epoch {read_leader_epoch}, which ends at
          {epoch_end_offset} in the log as it is now: {cut_off} of them were cut off afterwards, and what is written
          there since may pass it by.
        Its state says that {delivery_complete_count} deliveries from there on are complete; its batches have {counted}.
        It reads committed records only, and at most {excused} offsets are of aborted transactions, which are counted
          and not written.
    """),
    start_offset="start_offset",
    next=DUMP_SHARE_STATES,
    points_to="coordinator_bug",
    reference=line("""
        SharePartition#maybeInitialize, #startOffset, #filterAbortedTransactionalAcquiredRecords; KIP-932, KIP-1226
        (DeliveryCompleteCount, since 4.2)
    """),
)
