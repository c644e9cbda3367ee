from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B09",
    key="SNAPSHOT_ENTRY_RANGE",
    name="ProducerSnapshotEntryRange",
    severity=Severity.WARNING,
    relation="index_files",
    statement="A producer snapshot speaks only of offsets below the one in its name.",
    because=line("""
        It is the state before that offset. A broker that loads a later state takes batches that it is about to replay
        for duplicates or for gaps.
    """),
    applies_when="kind = 'snapshot' AND readable AND form_errors = 0",
    breach_when="range_errors > 0",
    evidence=("entries", "range_errors", "base_offset"),
    explanation=lines("""
        {path} is the producers' state before offset {base_offset}.
        {range_errors} of its {entries} entries name offsets at or above it, or below 0: the state is ahead of its log.
    """),
    details=("range",),
    next="kafka-dump-log.sh --files {path}",
    implies=("B11",),
    points_to="lost_flush",
    reference="ProducerStateManager#takeSnapshot",
)
