"""A row of the index step: what was found in one segment.

In: nothing; `index` fills it, `segment_pieces` takes it apart, and `index_columns` carries it as Arrow columns. Out:
`IndexRow`. What a column means
stands at `INDEX_SCHEMA`; a reader that asked for some of the columns has rows with these.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from tidegauge.facts.coordinators.tables import CoordinatorTable
from tidegauge.facts.replicas.derived_files import IndexSpacing
from tidegauge.facts.replicas.replica_input import IndexedFile
from tidegauge.facts.segments.record_check import RecordCheck
from tidegauge.facts.segments.summary import SegmentSummary
from tidegauge.kafka_log.corruption import Corruption


class IndexRow(TypedDict, total=False):
    """One segment. Of one that could not be read only which it is, and `error`."""

    snapshot: str
    broker_id: int
    directory: str
    topic: str
    partition: int
    path: str
    stored_path: str
    base_offset: int
    size_bytes: int
    valid_bytes: int
    valid_end_offset: int | None
    bytes_read: int
    max_timestamp_ms: int | None
    range_offsets: Sequence[int]
    summaries: Sequence[SegmentSummary]
    corruptions: Sequence[Corruption]
    indexes: Sequence[IndexedFile]
    records: RecordCheck | None
    index_spacing: IndexSpacing | None
    coordinator_records: CoordinatorTable | None
    content: bytes | None
    reused: bool
    error: str | None
    piece: int
    pieces: int | None


IndexRows = Mapping[str, IndexRow]
"""Rows of the index step by path."""
