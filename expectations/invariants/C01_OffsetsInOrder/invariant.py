from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import CUT_OR_LOST, LOST_ITS_TAIL
from tidegauge.expectations.invariants.shared.lacking import LOG_START_UNTOLD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_SKEWED: Final = "NOT broker_quiet AND NOT coalesce(checkpoint_older_than_log, false)"
"""The checkpoint may be younger than the copy of the log, which then ends too early."""
_OUT_OF_ORDER: Final = """log_start_offset > log_end_offset
        OR (high_watermark IS NOT NULL AND high_watermark > log_end_offset)
        OR (clean_shutdown AND high_watermark IS NOT NULL AND high_watermark < log_start_offset)
        OR (last_stable_offset IS NOT NULL AND max_ever_high_watermark IS NOT NULL
            AND last_stable_offset > max_ever_high_watermark)"""

INVARIANT = Invariant(
    code="C01",
    key="OFFSET_ORDER",
    name="OffsetsInOrder",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="On every replica log start <= last stable offset <= high watermark <= log end.",
    because=line("""
        Each of these is a promise about the one after it. Where the log ends below its high watermark, records that
        were declared committed are gone from this replica; where it ends below its log start, Kafka deletes the whole
        log on start.
    """),
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"{_SKEWED} AND (log_start_offset > log_end_offset OR high_watermark > log_end_offset)",
        ),
        Unknown(
            reason="high watermark not checkpointed",
            evidence=Evidence.CHECKPOINT,
            # The metadata log's high watermark is never checkpointed: there the ends alone are judged.
            when="high_watermark IS NULL AND topic <> '__cluster_metadata' AND log_start_offset <= log_end_offset",
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"{LOG_START_UNTOLD} AND NOT ({_OUT_OF_ORDER})",
        ),
    ),
    # A high watermark is written every five seconds, and only a clean stop writes the last one: below the log start it
    # contradicts nothing on a running broker.
    breach_when=_OUT_OF_ORDER,
    derived=(
        ("missing_committed", "CASE WHEN high_watermark > log_end_offset THEN high_watermark - log_end_offset END"),
        ("start_beyond_end", "CASE WHEN log_start_offset > log_end_offset THEN log_start_offset - log_end_offset END"),
        (
            "watermark_below_start",
            "CASE WHEN clean_shutdown AND high_watermark < log_start_offset THEN log_start_offset - high_watermark END",
        ),
        (
            "stable_beyond_watermark",
            line("""
                CASE
                WHEN last_stable_offset > max_ever_high_watermark THEN last_stable_offset - max_ever_high_watermark END
            """),
        ),
        ("damaged", "CASE WHEN damaged_batches > 0 THEN damaged_batches END"),
    ),
    evidence=(
        "log_start_offset",
        "last_stable_offset",
        "high_watermark",
        "log_end_offset",
        "damaged_batches",
        "elections_on_record",
    ),
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset} and ends at {log_end_offset}.
        {damaged} batches of it are damaged; the log ends where Kafka's recovery would cut it.
        Its checkpointed high watermark is {high_watermark}: {missing_committed} offsets that were declared committed
          lie beyond the end of this log.
        Its log start lies {start_beyond_end} offsets beyond its end: on start Kafka deletes the log and begins again at
          {log_start_offset}.
        The broker stopped cleanly, so its high watermark {high_watermark} is the last one; yet it lies
          {watermark_below_start} below the log start, where only committed records may be removed.
        Its last stable offset {last_stable_offset} lies {stable_beyond_watermark} above the largest high watermark
          known, {max_ever_high_watermark}.
    """),
    start_offset="CASE WHEN high_watermark > log_end_offset THEN log_end_offset END",
    end_offset="CASE WHEN high_watermark > log_end_offset THEN high_watermark END",
    next=line("""
        bin/kafka-log-dirs.sh --bootstrap-server <host:port> --describe --broker-list {broker_id} --topic-list {topic}
    """),
    consequence_of="B18",
    points_to="lost_flush",
    diagnosis=(LOST_ITS_TAIL, CUT_OR_LOST),
    reference=line("""
        UnifiedLog#maybeIncrementLogStartOffset, #maybeIncrementHighWatermark,
        LogLoader#deleteSegmentsIfLogStartGreaterThanLogEnd
    """),
)
