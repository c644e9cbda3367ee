from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import OFFSETS_LOST_ALONE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_COPIED_DURING_A_SWAP: Final = "NOT broker_quiet AND ever_compacted"
"""The cleaner replaces segments by renaming files: a copy that takes a while may hold old and new ones side by side."""

INVARIANT = Invariant(
    code="A04",
    key="OFFSETS_MONOTONIC",
    name="OffsetsMonotonic",
    severity=Severity.CRITICAL,
    relation="segments",
    statement=line("""
        A batch's base offset is above the last offset of the batch before it, over all segments of the log.
    """),
    because=line("""
        The leader counts up and a follower refuses anything else. Where offsets go back, one offset names two records,
        and which of them a consumer gets depends on where it began to read.
    """),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"offset_order_errors = 1 AND previous_last_offset >= first_offset AND {_COPIED_DURING_A_SWAP}",
        ),
    ),
    breach_when="offset_order_errors > 0",
    derived=(
        ("overlap_before_offset", "CASE WHEN previous_last_offset >= first_offset THEN previous_last_offset END"),
    ),
    evidence=("offset_order_errors", "previous_last_offset", "first_offset", "last_offset"),
    explanation=lines("""
        {offset_order_errors} batches in {path} begin at or below the offset of an earlier batch.
        The segment's first batch begins at {first_offset}; the segments before it already reach
          {overlap_before_offset}.
        No append does that: the log was cut inside a batch, or files of two histories lie in one directory.
    """),
    details=("offset_order",),
    start_offset="CASE WHEN previous_last_offset >= first_offset THEN first_offset END",
    end_offset="CASE WHEN previous_last_offset >= first_offset THEN previous_last_offset + 1 END",
    next="kafka-dump-log.sh --files {path}",
    implies=("A13", "E04"),
    points_to="restored_files",
    diagnosis=(OFFSETS_LOST_ALONE,),
    reference="UnifiedLog#append (OffsetsOutOfOrderException, UnexpectedAppendOffsetException); KAFKA-3919",
)
