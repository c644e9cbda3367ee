from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.derived_files import MAY_BE_NEWER_THAN_THE_LOG
from tidegauge.expectations.invariants.shared.diagnoses import CUT_OR_LOST, DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B17",
    key="RECOVERY_POINT_CHECKPOINT",
    name="RecoveryPointWithinLog",
    severity=Severity.WARNING,
    relation="replicas",
    statement="A replica's recovery point is at or below its log end, and at it after a clean stop.",
    because=line("""
        It is the offset below which everything had been forced to disk. Above the log end, records that were safe on
        disk are gone; below it after a clean stop, the stop was not clean.
    """),
    applies_when="recovery_point_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"recovery_point_offset > log_end_offset AND {MAY_BE_NEWER_THAN_THE_LOG}",
        ),
    ),
    breach_when=line("""
        recovery_point_offset > log_end_offset OR (coalesce(clean_shutdown, false)
        AND recovery_point_offset < log_end_offset)
    """),
    derived=(
        (
            "flushed_missing",
            "CASE WHEN recovery_point_offset > log_end_offset THEN recovery_point_offset - log_end_offset END",
        ),
        (
            "unflushed",
            "CASE WHEN recovery_point_offset < log_end_offset THEN log_end_offset - recovery_point_offset END",
        ),
    ),
    evidence=("log_start_offset", "recovery_point_offset", "log_end_offset", "clean_shutdown", "elections_on_record"),
    explanation=lines("""
        Broker {broker_id} had forced {topic}-{partition} to disk up to offset {recovery_point_offset}.
        Its log ends at {log_end_offset}: {flushed_missing} offsets that were on disk are gone.
        It stopped cleanly, which forces everything to disk, yet {unflushed} offsets up to {log_end_offset} lie above
          it.
    """),
    start_offset="CASE WHEN recovery_point_offset > log_end_offset THEN log_end_offset END",
    end_offset="CASE WHEN recovery_point_offset > log_end_offset THEN recovery_point_offset END",
    records="CASE WHEN recovery_point_offset > log_end_offset THEN recovery_point_offset - log_end_offset END",
    next="kafka-log-dirs.sh --bootstrap-server HOST:PORT --describe --broker-list {broker_id} --topic-list {topic}",
    points_to="lost_flush",
    diagnosis=(DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL, CUT_OR_LOST),
    reference="LogManager#checkpointLogRecoveryOffsets, LogLoader#recoverLog",
)
