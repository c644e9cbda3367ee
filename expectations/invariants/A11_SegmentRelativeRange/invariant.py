from typing import Final

from tidegauge.expectations.causes import Believe, Rule
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

_BASE_OFFSET_ROTTED: Final = Rule(
    less=(("first_offset", "base_offset"),),
    on="one",
    points_to="header_rot",
    because="Only this replica has it: a base offset lies outside of the checksum, and changed on its disk.",
    believe=Believe.OTHERS,
)

INVARIANT = Invariant(
    code="A11",
    key="SEGMENT_RELATIVE_RANGE",
    name="SegmentRelativeRange",
    severity=Severity.WARNING,
    relation="segments",
    statement="A segment's offsets lie at or above the offset in its name, by at most 2147483647.",
    because=line("""
        Indexes store offsets as 4-byte distances from the name. What lies outside cannot be indexed, and the broker
        refuses to load or roll such a segment.
    """),
    applies_when="batch_count > 0",
    breach_when="first_offset < base_offset OR last_offset - base_offset > 2147483647",
    derived=(
        ("below_name_offset", "CASE WHEN first_offset < base_offset THEN first_offset END"),
        ("span", "CASE WHEN last_offset - base_offset > 2147483647 THEN last_offset - base_offset END"),
    ),
    evidence=("base_offset", "first_offset", "last_offset"),
    explanation=lines("""
        {path} says in its name that it begins at offset {base_offset}; its batches reach from {first_offset} to
          {last_offset}.
        Offset {below_name_offset} lies below the name: a lookup for it goes to the segment before this one.
        The last offset is {span} above the name, more than an index entry can express.
    """),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    next="kafka-dump-log.sh --files {path}",
    implies=("A13",),
    points_to="cleaner_bug",
    diagnosis=(_BASE_OFFSET_ROTTED,),
    reference="LogSegment#ensureOffsetInRange, LogLoader#retryOnOffsetOverflow; KAFKA-5413, KAFKA-6264",
)
