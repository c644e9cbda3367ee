from tidegauge.expectations.invariants.shared.derived_files import POINTERS_COPIED_LATER, POINTERS_IN_A_DAMAGED_LOG
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B02",
    key="OFFSET_INDEX_POINTS",
    name="OffsetIndexPointsAtBatches",
    severity=Severity.WARNING,
    relation="index_files",
    statement=line("""
        Each entry of an offset index leads to a batch, and reading on from there reaches the entry's offset.
    """),
    because=line("""
        A fetch begins at the position of the last entry not above its offset. If that is no batch, or one behind the
        offset, the consumer gets an error or silently misses records.
    """),
    applies_when="kind = 'index' AND has_log",
    unknown=(POINTERS_IN_A_DAMAGED_LOG, POINTERS_COPIED_LATER),
    breach_when="pointer_errors > 0",
    evidence=("entries", "pointer_errors", "is_active", "base_offset"),
    explanation=lines("""
        {pointer_errors} of the {entries} entries of {path} do not lead to the batch that they name.
        Both ways of writing an entry were tried: one a batch (since 4.1) and one an append (before).
        The log is what it is; the index is derived from it and can be built again.
    """),
    details=("pointer",),
    next="kafka-dump-log.sh --files {path} --verify-index-only",
    points_to="derived_file",
    reference="LogSegment#append, LogSegment#translateOffset",
)
