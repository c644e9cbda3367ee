from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import ROTTED_TOO, TORN_ALONE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_TAIL_NOT_YET_FLUSHED: Final = line("""
    is_active AND NOT clean_shutdown AND coalesce(last_offset + 1, base_offset) >= coalesce(recovery_point_offset, 0)
""")
"""The tail lies at or above the recovery point: nothing says that it had ever been forced to disk."""
_CUT_SHORT: Final = "torn_tail AND (coalesce(cut_tail, true) OR zero_tail)"
"""It looks like an append that was interrupted: a batch's beginning, or zeros; not foreign bytes."""

INVARIANT = Invariant(
    code="A01",
    key="BATCH_LENGTH_CHAIN",
    name="BatchLengthChain",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="A segment file is an unbroken chain of whole batches, from its first byte to its last.",
    because=line("""
        The broker appends whole batches, and each batch's length says where the next one begins. Where the chain
        breaks, nobody can fetch what lies behind; a recovery keeps only the part before the first break.
    """),
    applies_when="size_bytes > 0",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=line(f"""
                {_CUT_SHORT} AND NOT broker_quiet AND length_errors = 1 AND {_TAIL_NOT_YET_FLUSHED} AND NOT (zero_tail
                AND preallocate)
            """),
        ),
    ),
    breach_when="length_errors > 0 AND NOT (zero_tail AND preallocate AND is_active AND NOT clean_shutdown)",
    severity_when=((Severity.WARNING, f"{_CUT_SHORT} AND {_TAIL_NOT_YET_FLUSHED}"),),
    derived=(
        ("torn_from_offset", "CASE WHEN torn_tail THEN coalesce(last_offset + 1, base_offset) END"),
        ("breaks_inside", "CASE WHEN NOT torn_tail THEN length_errors END"),
        (
            "flushed_end_offset",
            line("""
                CASE WHEN torn_tail
                AND coalesce(last_offset + 1, base_offset) < recovery_point_offset THEN recovery_point_offset END
            """),
        ),
        ("sealed_by_offset", "CASE WHEN NOT is_active THEN next_base_offset END"),
        ("closed_size_bytes", "CASE WHEN clean_shutdown THEN size_bytes END"),
    ),
    evidence=("size_bytes", "valid_bytes", "length_errors", "last_offset", "recovery_point_offset", "clean_shutdown"),
    explanation=lines("""
        {path} is {size_bytes} bytes long; its batches follow one another only up to byte {valid_bytes}.
        From byte {torn_tail_position} to the end no whole batch can be read: the log stops before offset
          {torn_from_offset}.
        The chain breaks in {breaks_inside} places, and readable batches follow behind a break: a recovery would cut
          them off too.
        The recovery point is {flushed_end_offset}: the broker had forced these offsets to disk, so no crash explains
          the tear.
        The segment is sealed, the next one begins at {sealed_by_offset}; the broker never writes to a sealed segment
          again.
        The broker stopped cleanly: it had written and closed all {closed_size_bytes} bytes, or what stood in their
          place.
    """),
    details=("length", "torn_tail"),
    start_offset="CASE WHEN torn_tail THEN coalesce(last_offset + 1, base_offset) END",
    next="kafka-dump-log.sh --files {path} | tail -n 3",
    implies=(
        "A13",
        "A16",
        "B02",
        "B04",
        "B06",
        "B10",
        "B11",
        "B14",
        "B15",
        "B17",
        "D02",
        "D07",
        "D10",
        "D11",
        "D20",
        "E01",
    ),
    points_to="torn_write",
    diagnosis=(ROTTED_TOO, TORN_ALONE),
    reference="FileLogInputStream#nextBatch, LogSegment#recover",
)
