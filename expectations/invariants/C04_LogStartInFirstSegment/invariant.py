from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.history import STOPPED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_GRACE_MS: Final = 60_000
"""What is due is done by a thread that runs once in a check interval, and it takes its time."""

INVARIANT = Invariant(
    code="C04",
    key="LOG_START_VS_SEGMENTS",
    name="LogStartInFirstSegment",
    severity=Severity.INFO,
    relation="upkeep",
    statement="The log start lies in the first segment: segments wholly below it go within a check interval.",
    because=line("""
        Below the log start nobody can read. Segments that stay there are deleted data that are still on the disk: the
        thread that deletes is stuck, or its broker cannot delete files.
    """),
    applies_when="NOT remote_storage_enable AND first_base_offset IS NOT NULL",
    unknown=(
        Unknown(reason="broker stopped", evidence=None, when=f"segments_below_log_start > 0 AND {STOPPED}"),
        Unknown(
            reason="since when is not known",
            evidence=Evidence.INSTANTS,
            when="segments_below_log_start > 0 AND below_log_start_since_ms IS NULL",
        ),
    ),
    breach_when=line(f"""
        segments_below_log_start > 0
        AND coalesce(below_log_start_since_ms, 0) > retention_check_interval_ms + {_GRACE_MS}
    """),
    evidence=(
        "log_start_offset",
        "first_base_offset",
        "segments_below_log_start",
        "below_log_start_since_ms",
        "retention_check_interval_ms",
    ),
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset}, its first segment at
          {first_base_offset}.
        {segments_below_log_start} whole segments lie below the log start, and did so {below_log_start_since_ms} ms ago,
          in the earlier snapshot.
        The broker looks for such segments every {retention_check_interval_ms} ms.
    """),
    start_offset="first_base_offset",
    end_offset="log_start_offset",
    next="grep 'kafka-log-retention\\|Failed to delete' <broker {broker_id}'s server.log>",
    points_to="retention",
    reference="UnifiedLog#deleteLogStartOffsetBreachedSegments, LogManager#cleanupLogs",
)
