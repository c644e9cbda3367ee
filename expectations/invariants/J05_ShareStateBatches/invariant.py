from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DUMP_SHARE_STATES
from tidegauge.expectations.invariants.shared.coordinators import SHARE_SUBJECT
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="J05",
    key="SHARE_STATE_RANGES",
    name="ShareStateBatches",
    severity=Severity.WARNING,
    relation="share_states",
    subject=SHARE_SUBJECT,
    statement=line("""
        The batches of a share group's state lie apart, above its start offset, in a state that may be written, and none
        was delivered more often than allowed.
    """),
    because=line("""
        From these batches the next leader of the partition knows what is still to be delivered. Where they contradict
        each other, records are delivered again, or never.
    """),
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
    explanation=lines("""
        The state of share group {group} for {topic}-{partition} is in __share_group_state-{state_partition}, snapshot
          epoch {snapshot_epoch}.
        {faulty} of its batches cannot be right: a range is impossible, overlaps another, lies below the start offset,
          or has an unknown state.
        A batch was delivered {too_often} times; {delivery_count_limit} are allowed.
    """),
    details=("range", "overlap", "below_start", "delivery_state", "delivery_count"),
    start_offset="start_offset",
    next=DUMP_SHARE_STATES,
    points_to="coordinator_bug",
    reference="PersisterStateBatchCombiner, SharePartition#maybeInitialize; KIP-932",
)
