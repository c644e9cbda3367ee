from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.derived_files import MAY_BE_NEWER_THAN_THE_LOG
from tidegauge.expectations.invariants.shared.diagnoses import CUT_OR_LOST, DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B16",
    key="HW_CHECKPOINT",
    name="HighWatermarkWithinLog",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="A replica's checkpointed high watermark lies between its log start and its log end.",
    because=line("""
        The broker clamps it to its own log end. Above the log end, this replica lost records that had been declared
        committed, and consumers may have read them.
    """),
    applies_when="high_watermark IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"high_watermark > log_end_offset AND {MAY_BE_NEWER_THAN_THE_LOG}",
        ),
    ),
    breach_when=line("""
        high_watermark > log_end_offset OR (coalesce(clean_shutdown, false) AND high_watermark < log_start_offset)
    """),
    severity_when=((Severity.WARNING, "NOT coalesce(is_leader, false) AND NOT coalesce(is_reference, false)"),),
    derived=(
        ("committed_missing", "CASE WHEN high_watermark > log_end_offset THEN high_watermark - log_end_offset END"),
        ("leads", "CASE WHEN is_leader OR is_reference THEN broker_id END"),
        ("start_above", "CASE WHEN high_watermark < log_start_offset THEN log_start_offset END"),
        ("newer_log", "CASE WHEN checkpoint_older_than_log AND NOT broker_quiet THEN high_watermark END"),
    ),
    evidence=(
        "log_start_offset",
        "high_watermark",
        "log_end_offset",
        "is_leader",
        "clean_shutdown",
        "elections_on_record",
    ),
    explanation=lines("""
        Broker {broker_id} declared the records of {topic}-{partition} below offset {high_watermark} committed.
        Its log ends at {log_end_offset}: {committed_missing} committed offsets are not on it.
        The checkpoint with {newer_log} was read before the log, and a log only grows: the copy does not explain it.
        Broker {leads} is the leader, or was the last one: followers will be cut to its log, and no other copy asked
          for.
        After a clean stop the checkpoint is up to date, and its log start {start_above} is above it: it starts behind
          what is known to be committed.
    """),
    start_offset="CASE WHEN high_watermark > log_end_offset THEN log_end_offset END",
    end_offset="CASE WHEN high_watermark > log_end_offset THEN high_watermark END",
    records="CASE WHEN high_watermark > log_end_offset THEN high_watermark - log_end_offset END",
    next="kafka-get-offsets.sh --bootstrap-server HOST:PORT --topic-partitions {topic}:{partition} --time latest",
    implies=("B04", "B10", "C01", "D09", "D10"),
    points_to="lost_flush",
    diagnosis=(DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL, CUT_OR_LOST),
    reference="UnifiedLog#updateHighWatermark, ReplicaManager#checkpointHighWatermarks; KIP-101",
)
