from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_WIDE: Final = "widest_index_gap_bytes > 4 * index_interval_bytes + largest_batch_bytes"
"""A broker counts anew from zero when it loads or truncates a log, so several intervals may pass without an entry."""

INVARIANT = Invariant(
    code="B03",
    key="OFFSET_INDEX_COMPLETE",
    name="OffsetIndexComplete",
    severity=Severity.INFO,
    relation="segments",
    statement=line("""
        A closed segment's offset index has entries about every index.interval.bytes, be it a few intervals apart where
        the broker was restarted.
    """),
    because=line("""
        A lookup reads on from the last entry below its offset. Where there is none for megabytes, each fetch that
        begins there reads them all. Nothing is lost; the index was emptied, or built under another setting.
    """),
    applies_when="NOT is_active AND batch_count > 0 AND index_interval_bytes IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"length_errors > 0 AND {_WIDE}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_WIDE}"),
        Unknown(
            reason="written append by append",
            evidence=None,
            when=f"index_entries > 0 AND NOT index_entry_per_batch AND {_WIDE}",
        ),
        Unknown(
            reason="release not known",
            evidence=Evidence.METADATA_LOG_START,
            when=f"index_entry_per_batch IS NULL AND {_WIDE}",
        ),
    ),
    breach_when=_WIDE,
    derived=(
        ("no_file", "CASE WHEN index_entries IS NULL THEN 'no .index file' END"),
        ("empty", "CASE WHEN index_entries = 0 THEN 'empty' END"),
    ),
    evidence=("index_entries", "widest_index_gap_bytes", "index_interval_bytes", "largest_batch_bytes", "size_bytes"),
    explanation=lines("""
        {path} ({size_bytes} bytes) has a stretch of {widest_index_gap_bytes} bytes without an entry in its offset
          index.
        There is {no_file} beside it.
        Its .index is {empty}.
        index.interval.bytes is {index_interval_bytes}, the largest batch has {largest_batch_bytes} bytes; restarts and
          truncations, after which the broker starts counting again, are allowed for.
    """),
    next="kafka-dump-log.sh --files {path} --index-sanity-check",
    points_to="derived_file",
    reference="LogSegment#append, LogSegment#recover",
)
