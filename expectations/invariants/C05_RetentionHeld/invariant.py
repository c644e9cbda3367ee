from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.history import STOPPED
from tidegauge.expectations.invariants.shared.lacking import POLICY_UNTOLD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_UNTOLD: Final = "overdue_segments IS NULL AND cleanup_policy LIKE '%delete%'"
_WHEN_NOT_KNOWN: Final = f"({_UNTOLD} AND captured_at_ms IS NULL)"
_MARK_NOT_KNOWN: Final = f"({_UNTOLD} AND high_watermark IS NULL)"

INVARIANT = Invariant(
    code="C05",
    key="RETENTION_HELD",
    name="RetentionHeld",
    severity=Severity.INFO,
    relation="upkeep",
    statement=line("""
        No closed segment below the high watermark outlives retention.ms or retention.bytes by more than a check
        interval.
    """),
    because=line("""
        What should have been deleted is still there: the disk fills, and data that must not be kept any longer are.
    """),
    applies_when=line(f"""
        (overdue_segments IS NOT NULL OR {_WHEN_NOT_KNOWN} OR {_MARK_NOT_KNOWN} OR {POLICY_UNTOLD})
        AND NOT remote_storage_enable
    """),
    unknown=(
        Unknown(reason="policy not known", evidence=Evidence.METADATA_LOG, when=POLICY_UNTOLD),
        Unknown(reason="the instant of the capture is not known", evidence=Evidence.INSTANTS, when=_WHEN_NOT_KNOWN),
        Unknown(reason="high watermark not checkpointed", evidence=Evidence.CHECKPOINT, when=_MARK_NOT_KNOWN),
        Unknown(reason="broker stopped", evidence=None, when=f"overdue_segments > 0 AND {STOPPED}"),
        Unknown(
            reason="setting not known", evidence=Evidence.SETTINGS, when="overdue_segments > 0 AND NOT retention_known"
        ),
        Unknown(
            reason="history of the setting not known",
            evidence=Evidence.METADATA_LOG_START,
            when="overdue_segments > 0 AND NOT retention_history_known",
        ),
    ),
    breach_when="overdue_segments > 0",
    derived=(
        ("limit_ms", "CASE WHEN overdue_by = 'time' THEN retention_ms END"),
        ("limit_bytes", "CASE WHEN overdue_by = 'size' THEN retention_bytes END"),
    ),
    evidence=(
        "overdue_segments",
        "overdue_by",
        "overdue_since_at_ms",
        "retention_ms",
        "retention_bytes",
        "size_bytes",
        "captured_at_ms",
    ),
    explanation=lines("""
        The first {overdue_segments} segments of broker {broker_id}'s {topic}-{partition}, up to offset
          {overdue_end_offset}, should have been deleted; their newest record is of {overdue_since_at_ms}.
        retention.ms is {limit_ms}, the snapshot was taken at {captured_at_ms}.
        retention.bytes is {limit_bytes}, the log has {size_bytes} bytes.
        Since they were due no larger limit was in force.
        Records with timestamps in the future hold back a segment and those behind it; none does here.
    """),
    start_offset="log_start_offset",
    end_offset="overdue_end_offset",
    next=line("""
        bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic} --all
    """),
    points_to="retention",
    reference="UnifiedLog#deleteRetentionMsBreachedSegments, UnifiedLog#deleteRetentionSizeBreachedSegments",
)
