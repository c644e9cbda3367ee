"""What a relation is made of: a class of its rows, whose fields are its columns, each with a type and a meaning.

In: row classes. Out: `Relation`, with its columns and its Arrow schema. The rule that must hold: a column is declared
once. Whoever writes rows, stores them or documents them reads the same declaration, and so does the type checker.

A row is a dict, as Arrow takes it, and need not be whole while it is made: the parts of a wide row are made one by one.
A column that a row does not name is null. `X | None`: its writer says null, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Final, Literal, Self, TypedDict, get_args, get_type_hints

import pyarrow as pa

ColumnType = Literal["int64", "int32", "string", "bool", "int32[]", "string[]", "json"]

Int64 = Annotated[int, "64 bits"]
Int32 = Annotated[int, "32 bits"]
Json = Annotated[str, "a JSON text"]

DETAIL_LIMIT: Final = 50
"""How many damaged places, missing entries, … one row carries in its `json` columns."""

_STORED: Final[Mapping[object, ColumnType]] = {
    Int64: "int64",
    Int32: "int32",
    str: "string",
    bool: "bool",
    list[Int32]: "int32[]",
    list[str]: "string[]",
    Json: "json",
}

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


class _Columns(tuple[str, ...]):
    def __new__(cls, *columns: str) -> Self:
        """Of these columns."""
        return super().__new__(cls, columns)


class Key(_Columns):
    """The columns that tell a relation's rows apart."""


class Subject(_Columns):
    """The columns that name what an invariant judges, where these are not the key."""


@dataclass(frozen=True, slots=True)
class Details:
    """A relation's column of damaged places, and the key in each by which `Invariant.details` chooses; an empty key
    chooses all.
    """

    column: str
    key: str = ""


SHOWN: Final = "shown"
"""Said of a relation of which the store has every row (`Relation.shown`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One relation: its name (also the Parquet folder's and the table's), the class of its rows, and its key."""

    name: str
    row: type
    key: tuple[str, ...]
    subject: tuple[str, ...]
    """Columns that name what an invariant judges, unless it names its own."""
    details: Details | None = None
    shown: bool = False
    """Whether a view, a page or a breach's explanation shows rows of it that breach nothing: then the store has all of
    its rows, however many there are. Of any other relation it needs only those that were found.
    """

    @property
    def grain(self) -> str:
        """What a row is about."""
        return self.row.__doc__ or ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its own columns."""
        return columns_of(self.row)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Parquet schema, common columns first."""
        return pa.schema([pa.field(c.name, _ARROW[c.type]) for c in (*COMMON, *self.columns)])

    @property
    def column_names(self) -> tuple[str, ...]:
        """All column names, common ones first."""
        return tuple(c.name for c in (*COMMON, *self.columns))


@cache
def columns_of(row: type) -> tuple[Column, ...]:
    """A row class's fields. Raises `TypeError` for one without a meaning, or of a type that no column has."""
    hints = get_type_hints(row, include_extras=True)
    return tuple(Column(name=name, **_described(f"{row.__name__}.{name}", hint)) for name, hint in hints.items())


class _Described(TypedDict):
    type: ColumnType
    meaning: str


def _described(field: str, hint: object) -> _Described:
    """`Annotated` keeps one list of what is said of a type: of `Annotated[Int64, "…"]` the meaning is the last."""
    said: tuple[object, ...] = getattr(hint, "__metadata__", ())
    meaning = said[-1] if said else None
    if not isinstance(meaning, str):
        raise TypeError(f"{field} does not say what it means")
    value = get_args(hint)[0]
    for more in said[:-1]:
        value = Annotated[value, more]
    options = (
        [option for option in get_args(value) if option is not NoneType] if NoneType in get_args(value) else [value]
    )
    stored = _STORED.get(options[0]) if len(options) == 1 else None
    if stored is None:
        raise TypeError(f"{field} is of a type that no column has")
    return {"type": stored, "meaning": meaning}


class CommonColumns(TypedDict):
    """What every relation begins with; the store adds `run_id`."""

    cluster: Annotated[str, "cluster name (the cluster id where no name was given)"]
    snapshot_id: Annotated[str, "snapshot id"]


COMMON: Final = columns_of(CommonColumns)


class ReplicaColumns(TypedDict, total=False):
    """Which replica a row is about."""

    broker_id: Annotated[Int32, "broker that holds the replica"]
    topic: Annotated[str, "topic name"]
    partition: Annotated[Int32, "partition number"]


BrokerQuiet = Annotated[
    bool,
    "the broker was stopped (clean-shutdown marker) or the snapshot is quiesced or atomic: its files are of one moment",
]
SnapshotQuiet = Annotated[bool, "all brokers' files are of one moment: offsets of different brokers may be compared"]


class CaptureColumns(TypedDict):
    """How the files were copied that a row is made from."""

    broker_quiet: BrokerQuiet
    snapshot_quiet: SnapshotQuiet
