"""Rows of the index step as Arrow columns.

In: what the index step found in each segment, a mapping by column. Out: record batches of `INDEX_SCHEMA`; and the rows
again. What is written by another version of these types is refused by its schema, never misread.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast, get_type_hints

import pyarrow as pa

from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.value_columns import ValueColumn, column_of, list_of, records_of, struct_of
from tidegauge.facts.coordinators.tables import CoordinatorTable
from tidegauge.facts.replicas.derived_files import IndexSpacing
from tidegauge.facts.replicas.replica_input import IndexedFile
from tidegauge.facts.segments.record_check import RecordCheck
from tidegauge.facts.segments.summary import SegmentSummary
from tidegauge.facts.segments.summary_pieces import ARRAYS
from tidegauge.kafka_log.corruption import Corruption

_OF_A_SUMMARY: Final = {
    name: records_of(ARRAYS[name]) if name in ARRAYS else column_of(hint)
    for name, hint in get_type_hints(SegmentSummary).items()
}
_SUMMARY: Final = struct_of(
    _OF_A_SUMMARY,
    parts=lambda summaries: [[getattr(summary, name) for summary in summaries] for name in _OF_A_SUMMARY],
    made=lambda parts: [
        SegmentSummary(**dict(zip(_OF_A_SUMMARY, of_one, strict=True))) for of_one in zip(*parts, strict=True)
    ],
)
_VALUES: Final = {
    "summaries": list_of(_SUMMARY, parts=lambda summaries: summaries, made=list),
    "coordinator_records": column_of(CoordinatorTable),
    "corruptions": column_of(tuple[Corruption, ...]),
    "indexes": column_of(tuple[IndexedFile, ...]),
    "records": column_of(RecordCheck),
    "index_spacing": column_of(IndexSpacing),
}

INDEX_SCHEMA: Final = pa.schema(
    [
        ("snapshot", pa.string()),
        ("broker_id", pa.int32()),
        ("directory", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("path", pa.string()),
        ("stored_path", pa.string()),
        ("base_offset", pa.int64()),
        ("size_bytes", pa.int64()),
        ("valid_bytes", pa.int64()),
        ("valid_end_offset", pa.int64()),
        ("bytes_read", pa.int64()),
        ("max_timestamp_ms", pa.int64()),
        ("range_offsets", pa.list_(pa.int64())),
        *((name, column.type) for name, column in _VALUES.items()),
        ("content", pa.binary()),
        ("reused", pa.bool_()),
        ("error", pa.string()),
        ("piece", pa.int32()),
        ("pieces", pa.int32()),
    ]
)
"""A row a segment, and more rows of it where one would be too large (`segment_pieces`): `piece` numbers them, and the
first one, which tells all that is not told in pieces, has their number, `pieces`. `snapshot` is the key among those
audited together; `error` says why it could not be read.

`path` is the log's and `stored_path` that of the file at hand, which is another one for a headers file. Sizes are the
log's; `bytes_read` tells how much of the log is accounted for. `records` is null where there are none at hand.
`content` finds the row again for another segment of the same bytes (`kept_summaries`), null where it is not to be kept;
`reused`: it was found so.
"""

WITHOUT_RECORDS: Final = [name for name in INDEX_SCHEMA.names if name != "coordinator_records"]
"""The columns that a partition's facts are made from."""


def batch_of(rows: Iterable[IndexRow]) -> pa.RecordBatch:
    """Rows as a batch; a column that a row does not name is null there."""
    given = list(rows)
    return pa.RecordBatch.from_arrays(
        [array_of(name, [row.get(name) for row in given]) for name in INDEX_SCHEMA.names], schema=INDEX_SCHEMA
    )


def array_of(name: str, values: list[Any]) -> pa.Array:
    """Values of one column as its array."""
    column = _VALUES.get(name)
    return pa.array(values, type=INDEX_SCHEMA.field(name).type) if column is None else column.array(values)


def values_of(name: str, array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of one column."""
    return _values(_VALUES.get(name), array)


def _values(column: ValueColumn | None, array: pa.Array | pa.ChunkedArray) -> list[Any]:
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    values: list[Any] = whole.to_pylist() if column is None else column.values(whole)
    return values


def rows_of(
    batch: pa.RecordBatch | pa.Table, others: Mapping[str, ValueColumn] = MappingProxyType({})
) -> list[IndexRow]:
    """The rows of a batch or a table, which may lack columns, or have others: `others` are those of our values."""
    known = {**_VALUES, **others}
    columns = {name: _values(known.get(name), batch.column(name)) for name in batch.schema.names}
    rows = zip(*columns.values(), strict=True)
    return [cast(IndexRow, dict(zip(columns, row, strict=True))) for row in rows]
