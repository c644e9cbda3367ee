from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import SHOW_LEADER_EPOCHS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D04",
    key="EPOCH_BOUNDARY_AGREEMENT",
    name="EpochBoundariesAgree",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement="A leader epoch that two replicas hold below both high watermarks starts at the same offset on both.",
    because=line("""
        Truncation looks for the end of an epoch in the leader's list (KIP-101, KIP-279). Where the lists disagree about
        what is committed, it cuts too much or too little.
    """),
    # Retention, DeleteRecords and tiering clip the first epoch of a log; what starts above a high watermark may go yet.
    applies_when=line("""
        start_offset IS NOT NULL AND reference_start_offset IS NOT NULL AND NOT is_first_entry
        AND NOT reference_is_first AND start_offset > log_start_offset
        AND start_offset > coalesce(first_batch_offset, start_offset - 1)
        AND start_offset < coalesce(high_watermark, start_offset + 1)
        AND reference_start_offset < coalesce(reference_high_watermark, reference_start_offset + 1)
    """),
    unknown=(
        Unknown(reason="compacted", evidence=None, when="ever_compacted AND start_offset <> reference_start_offset"),
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="policy_history_known IS FALSE AND start_offset <> reference_start_offset",
        ),
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            when=line("""
                (high_watermark IS NULL OR reference_high_watermark IS NULL) AND start_offset <> reference_start_offset
            """),
        ),
    ),
    breach_when="start_offset <> reference_start_offset",
    evidence=(
        "start_offset",
        "reference_start_offset",
        "reference_broker_id",
        "checkpoint_start_offset",
        "high_watermark",
        "reference_high_watermark",
        "divergence_offset",
    ),
    explanation=lines("""
        On broker {broker_id} the batches of leader epoch {leader_epoch} of {topic}-{partition} start at {start_offset}.
        On broker {reference_broker_id} the same epoch starts at {reference_start_offset}.
        Both lie below both high watermarks ({high_watermark} and {reference_high_watermark}), and an epoch has one
          leader and one start.
        By these epochs Kafka would truncate broker {broker_id} to {divergence_offset}, which may be too far or not far
          enough.
    """),
    start_offset=line("""
        CASE WHEN start_offset < reference_start_offset THEN start_offset ELSE reference_start_offset END
    """),
    end_offset="CASE WHEN start_offset < reference_start_offset THEN reference_start_offset ELSE start_offset END",
    next=SHOW_LEADER_EPOCHS,
    implies=("D07", "D19"),
    points_to="untruncated_divergence",
    reference="LeaderEpochFileCache#endOffsetFor, KIP-101, KIP-279",
)
