from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B10",
    key="SNAPSHOT_POSITIONS",
    name="ProducerSnapshotPositions",
    severity=Severity.WARNING,
    relation="index_files",
    statement="No producer snapshot is above the end of its log.",
    because=line("""
        Snapshots are taken of what has been appended: at a roll, at a clean stop, after a truncation. One above the log
        end is left from a log that was longer.
    """),
    applies_when="kind = 'snapshot'",
    unknown=(
        Unknown(
            reason="log damaged",
            evidence=None,
            when="misplaced AND base_offset > log_end_offset AND NOT content_checkable",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="misplaced AND base_offset > log_end_offset AND NOT broker_quiet",
        ),
    ),
    breach_when="misplaced AND base_offset > log_end_offset",
    evidence=("base_offset", "log_start_offset", "log_end_offset", "entries"),
    explanation=lines("""
        {path} is the producers' state before offset {base_offset}; broker {broker_id}'s log of {topic}-{partition} ends
          at {log_end_offset}.
        When it was taken the log reached {base_offset}; a truncation would have removed it together with the records.
        So the log lost its end in some other way than by Kafka's own truncation.
    """),
    start_offset="log_end_offset",
    end_offset="base_offset",
    next="kafka-dump-log.sh --files {path}",
    implies=("B11",),
    points_to="interrupted_cleanup",
    reference="ProducerStateManager#truncateAndReload, #removeStraySnapshots",
)
