from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import OFFSETS_LOST_ALONE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_COPIED_DURING_A_SWAP: Final = "NOT broker_quiet AND ever_compacted"
"""The cleaner replaces segments by renaming files: a copy that takes a while may hold old and new ones side by side."""

INVARIANT = Invariant(
    code="A12",
    key="SEGMENTS_DISJOINT",
    name="SegmentsDisjoint",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="A segment's offsets end below the offset in the next segment's name.",
    because=line("""
        A lookup goes to the last segment whose name is not above the offset. Where two overlap, a reader meets some
        offsets twice, or in two versions.
    """),
    applies_when="previous_last_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"previous_last_offset >= base_offset AND {_COPIED_DURING_A_SWAP}",
        ),
    ),
    breach_when="previous_last_offset >= base_offset",
    evidence=("base_offset", "previous_last_offset", "first_offset", "last_offset"),
    explanation=lines("""
        {path} begins at offset {base_offset} by its name.
        The segments before it reach offset {previous_last_offset}: both claim the offsets from {base_offset} to
          {previous_last_offset}.
        A cleaner's swap was interrupted, or the directory was put together from two copies.
    """),
    start_offset="base_offset",
    end_offset="previous_last_offset + 1",
    records="previous_last_offset + 1 - base_offset",
    next="kafka-dump-log.sh --files {path}",
    implies=("A04", "E04"),
    points_to="restored_files",
    diagnosis=(OFFSETS_LOST_ALONE,),
    reference="LocalLog#roll, LocalLog#replaceSegments, LogLoader#completeSwapOperations",
)
