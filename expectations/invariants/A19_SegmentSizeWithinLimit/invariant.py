from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_TOO_LARGE: Final = line("""
    size_bytes > segment_limit_bytes AND batch_count > 1 AND NOT ever_compacted
    AND NOT coalesce(segment_limit_changed_at_ms > max_timestamp_ms, FALSE)
""")

INVARIANT = Invariant(
    code="A19",
    key="SEGMENT_SIZE",
    name="SegmentSizeWithinLimit",
    severity=Severity.INFO,
    relation="segments",
    statement="A segment of more than one batch is no larger than segment.bytes.",
    because=line("""
        A broker rolls the log before an append that would not fit. A larger segment was written under another setting
        than the one in force, or put together by something else than a broker.
    """),
    applies_when="batch_count > 0 AND segment_limit_bytes IS NOT NULL",
    unknown=(
        Unknown(
            reason="setting not known", evidence=Evidence.SETTINGS, when=f"NOT segment_limit_known AND {_TOO_LARGE}"
        ),
        Unknown(
            reason="history of the setting not known",
            evidence=Evidence.METADATA_LOG_START,
            when=f"NOT segment_limit_history_known AND {_TOO_LARGE}",
        ),
    ),
    breach_when=_TOO_LARGE,
    evidence=("size_bytes", "segment_limit_bytes", "batch_count", "largest_batch_bytes", "segment_limit_changed_at_ms"),
    explanation=lines("""
        {path} has {size_bytes} bytes in {batch_count} batches; segment.bytes is {segment_limit_bytes}, and was never
          more.
        It was last set at {segment_limit_changed_at_ms}.
        Segments of one batch, and those that a cleaner merged, are allowed for.
    """),
    next=line("""
        bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic}
    """),
    points_to="configuration",
    reference="LogSegment#shouldRoll, UnifiedLog#maybeRoll",
)
