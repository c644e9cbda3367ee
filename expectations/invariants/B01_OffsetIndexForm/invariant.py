from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B01",
    key="OFFSET_INDEX_FORM",
    name="OffsetIndexForm",
    severity=Severity.WARNING,
    relation="index_files",
    statement="An offset index is a run of 8-byte entries whose offsets and positions both rise.",
    because=line("""
        The broker searches it by halves and does not check it at start-up (KAFKA-7283): in an index that does not rise
        a lookup ends at the wrong byte, and a fetch misses records or fails.
    """),
    applies_when="kind = 'index'",
    breach_when="form_errors > 0 OR NOT readable",
    evidence=("size_bytes", "entries", "form_errors", "is_active"),
    explanation=lines("""
        {path} ({size_bytes} bytes, {entries} usable entries) breaks its own form in {form_errors} places.
        Zero padding and stale entries of an active segment are allowed for; this is neither.
    """),
    details=("form",),
    next="kafka-dump-log.sh --files {path} --index-sanity-check",
    implies=("B02", "B03"),
    points_to="derived_file",
    reference="OffsetIndex#append, OffsetIndex#sanityCheck; KAFKA-7283",
)
