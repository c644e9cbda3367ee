from tidegauge.expectations.invariants.shared.derived_files import POINTERS_COPIED_LATER, POINTERS_IN_A_DAMAGED_LOG
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B04",
    key="TIME_INDEX",
    name="TimeIndex",
    severity=Severity.WARNING,
    relation="index_files",
    statement=line("""
        A time index is a run of 12-byte entries that rise, each naming the largest timestamp of the segment up to its
        offset.
    """),
    because=line("""
        Retention by time, and lookups by time, read it: where it is wrong, segments are deleted too early or kept too
        long, and a consumer that starts at an instant starts elsewhere.
    """),
    applies_when="kind = 'timeindex'",
    unknown=(POINTERS_IN_A_DAMAGED_LOG, POINTERS_COPIED_LATER),
    breach_when="form_errors > 0 OR NOT readable OR pointer_errors > 0",
    derived=(
        ("disordered", "CASE WHEN form_errors > 0 THEN form_errors END"),
        ("untrue", "CASE WHEN pointer_errors > 0 THEN pointer_errors END"),
    ),
    evidence=("size_bytes", "entries", "form_errors", "pointer_errors", "is_active"),
    explanation=lines("""
        {path} has {entries} usable entries.
        It breaks its own form in {disordered} places.
        {untrue} entries name a timestamp that is not the largest one of the batches up to their offset.
    """),
    details=("form", "pointer"),
    next="kafka-dump-log.sh --files {path} --index-sanity-check",
    points_to="derived_file",
    reference="TimeIndex#maybeAppend, LogSegment#append",
)
