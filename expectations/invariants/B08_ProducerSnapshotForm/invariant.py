from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B08",
    key="SNAPSHOT_FORM",
    name="ProducerSnapshotForm",
    severity=Severity.WARNING,
    relation="index_files",
    statement="A producer snapshot is of version 1, its checksum is right, and its size is that of its entries.",
    because=line("""
        A broker that meets a broken one at start-up deletes it, falls back to an older one and replays the log from
        there: a slow start, and producers forgotten if there is no older one.
    """),
    applies_when="kind = 'snapshot'",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="size_bytes = 0 AND NOT broker_quiet"),),
    breach_when="form_errors > 0 OR NOT readable",
    evidence=("size_bytes", "entries", "form_errors", "base_offset"),
    explanation=lines("""
        {path} ({size_bytes} bytes) cannot be read as a producer snapshot: {form_errors} things are wrong with it.
        The broker would delete it at its next start and rebuild the producers' state from an older one.
    """),
    details=("form",),
    next="kafka-dump-log.sh --files {path}",
    points_to="torn_write",
    reference="ProducerStateManager#readSnapshot (CorruptSnapshotException); KAFKA-9892",
)
