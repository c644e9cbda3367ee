"""What a relation is made of: columns with a type and a meaning.

In: lines of text, one a column. Out: `Relation`, with its Arrow schema. The rule that must hold: a table is data, read the
same way by whoever writes rows, stores them or documents them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

ColumnType = Literal["int64", "int32", "string", "bool", "int32[]", "string[]", "json"]

DETAIL_LIMIT: Final = 50
"""How many damaged places, missing entries, … one row carries in its `json` columns."""

_ARROW: Final[Mapping[ColumnType, pa.DataType]] = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32[]": pa.list_(pa.int32()),
    "string[]": pa.list_(pa.string()),
    "json": pa.string(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name, its type, and what it means in a sentence."""

    name: str
    type: ColumnType
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One relation: its name (also the Parquet folder's and the table's), its grain and its columns."""

    name: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Parquet schema, common columns first."""
        return pa.schema([pa.field(c.name, _ARROW[c.type]) for c in (*COMMON, *self.columns)])

    @property
    def column_names(self) -> tuple[str, ...]:
        """All column names, common ones first."""
        return tuple(c.name for c in (*COMMON, *self.columns))


def columns_of(text: str) -> tuple[Column, ...]:
    """Reads `name type meaning` lines; one column a line keeps the tables below readable."""
    columns = []
    for line in filter(str.strip, text.splitlines()):
        name, type_, meaning = line.split(None, 2)
        if type_ not in _ARROW:
            raise ValueError(f"relation column {name}: unknown type {type_}")
        columns.append(Column(name=name, type=type_, meaning=meaning))  # type: ignore[arg-type]
    return tuple(columns)


COMMON: Final = columns_of(
    """
    cluster     string cluster name (the cluster id where no name was given)
    snapshot_id string snapshot id
    """
)

REPLICA: Final = """
    broker_id   int32  broker that holds the replica
    topic       string topic name
    partition   int32  partition number
"""

CAPTURE: Final = """
    broker_quiet   bool   the broker was stopped (clean-shutdown marker) or the snapshot is quiesced or atomic: its files are of one moment
    snapshot_quiet bool   all brokers' files are of one moment: offsets of different brokers may be compared
"""
