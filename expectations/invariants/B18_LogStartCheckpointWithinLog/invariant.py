from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.derived_files import MAY_BE_NEWER_THAN_THE_LOG
from tidegauge.expectations.invariants.shared.diagnoses import CUT_OR_LOST, LOST_ITS_TAIL
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B18",
    key="LOG_START_CHECKPOINT",
    name="LogStartCheckpointWithinLog",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement=line("""
        A replica's checkpointed log start is at or below its log end, and after a clean stop at or below its high
        watermark.
    """),
    because=line("""
        Records are deleted only below the high watermark. A log whose end lies below its start is deleted by the broker
        at the next start, all of it.
    """),
    applies_when="checkpoint_log_start_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"checkpoint_log_start_offset > log_end_offset AND {MAY_BE_NEWER_THAN_THE_LOG}",
        ),
    ),
    breach_when=line("""
        checkpoint_log_start_offset > log_end_offset OR (coalesce(clean_shutdown, false)
        AND checkpoint_log_start_offset > coalesce(high_watermark, checkpoint_log_start_offset))
    """),
    derived=(
        (
            "wiped_from_offset",
            "CASE WHEN checkpoint_log_start_offset > log_end_offset THEN local_log_start_offset END",
        ),
        (
            "uncommitted_from",
            line("""
                CASE WHEN checkpoint_log_start_offset > high_watermark
                AND checkpoint_log_start_offset <= log_end_offset THEN high_watermark END
            """),
        ),
    ),
    evidence=(
        "checkpoint_log_start_offset",
        "local_log_start_offset",
        "high_watermark",
        "log_end_offset",
        "elections_on_record",
    ),
    explanation=lines("""
        Broker {broker_id}'s checkpoint says that {topic}-{partition} starts at offset {checkpoint_log_start_offset};
          its log ends at {log_end_offset}.
        At its next start the broker deletes every segment of such a log, from {wiped_from_offset} on, and begins an
          empty one.
        After a clean stop both are up to date, and the high watermark is {uncommitted_from}: uncommitted records were
          deleted.
    """),
    start_offset=line("""
        CASE WHEN checkpoint_log_start_offset > log_end_offset THEN log_end_offset ELSE high_watermark END
    """),
    end_offset="checkpoint_log_start_offset",
    next="tidegauge salvage SNAPSHOT --topic {topic} --partition {partition} --out DIR",
    implies=("B16", "C01"),
    points_to="lost_flush",
    diagnosis=(LOST_ITS_TAIL, CUT_OR_LOST),
    reference="UnifiedLog#maybeIncrementLogStartOffset, LogLoader#deleteSegmentsIfLogStartGreaterThanLogEnd",
)
