"""Values of our own types as Arrow columns: what one step of a derivation hands to the next.

In: a type: a dataclass, a container of some, an enum, a number, a text. Out: its Arrow type, and arrays of its values
and back. A column's type is that of the values, so that nothing between two steps is text or bytes that only we can
read; and what comes back is equal to what went in. Field by field, not value by value: a call a field of a hundred
values costs as much as of one.

    dataclass, `NamedTuple`,    struct of its fields
    `TypedDict`
    `tuple[A, B]`               struct `f0`, `f1`
    `tuple[A, ...]`, list, set  list
    mapping                     list of structs `key`, `value`, in its order
    `A | None`                  as A, which may be null
    `A | B`                     struct with a field for each, of which one is not null
    enum                        its value
    `NewType`                   what it is a name for
    record array of numpy       list of structs of its fields
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import chain, pairwise
from types import NoneType, UnionType
from typing import Any, Final, NewType, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import pyarrow as pa

_SCALARS: Final[Mapping[Any, pa.DataType]] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
}  # fmt: skip

_STORED: Final[Mapping[str, np.dtype[Any]]] = {
    "u1": np.dtype("i2"),
    "u2": np.dtype("i4"),
    "u4": np.dtype("i8"),
    "u8": np.dtype("i8"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumn:
    """How the values of one type lie in a column: `array` makes it of some, of which any may be None; `values` gives
    them back.
    """

    type: pa.DataType
    array: Callable[[Sequence[Any]], pa.Array]
    values: Callable[[pa.Array], list[Any]]


@cache
def column_of(kind: Any) -> ValueColumn:
    """The column of a type. Raises `TypeError` for one that has none, such as `Any`."""
    if isinstance(kind, NewType):
        return column_of(kind.__supertype__)
    if kind in _SCALARS:
        return _scalar(_SCALARS[kind])
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return _union([each for each in get_args(kind) if each is not NoneType])
    if isinstance(origin, type):
        if is_dataclass(origin) or is_typeddict(origin) or hasattr(origin, "_fields"):
            return _of_fields(origin)
        if issubclass(origin, Enum):
            return _of_enum(origin)
        if issubclass(origin, tuple) and get_args(kind) and get_args(kind)[-1] is not ...:
            return _of_places(get_args(kind))
        if issubclass(origin, Mapping) and get_args(kind):
            return _of_mapping(*get_args(kind))
        if issubclass(origin, Collection) and get_args(kind):
            return _of_items(origin, get_args(kind)[0])
    raise TypeError(f"{kind} has no column: it does not say what its values are")


def _scalar(type_: pa.DataType) -> ValueColumn:
    return ValueColumn(
        type=type_, array=lambda values: pa.array(values, type=type_), values=lambda array: array.to_pylist()
    )


def _of_enum(kind: type[Enum]) -> ValueColumn:
    members = {member.value: member for member in kind} | {None: None}
    return ValueColumn(
        type=pa.string(),
        array=lambda values: pa.array([value and value.value for value in values], type=pa.string()),
        values=lambda array: [members[value] for value in array.to_pylist()],
    )


def _of_fields(kind: Any) -> ValueColumn:
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else list(hints)
    get: Callable[[Any, str], Any] = dict.__getitem__ if is_typeddict(kind) else getattr
    return struct_of(
        {name: column_of(hints[name]) for name in names},
        parts=lambda values: [[get(value, name) for value in values] for name in names],
        made=lambda parts: [kind(**dict(zip(names, of_value, strict=True))) for of_value in zip(*parts, strict=True)],
    )


def _of_places(kinds: Collection[Any]) -> ValueColumn:
    return struct_of(
        {f"f{at}": column_of(kind) for at, kind in enumerate(kinds)},
        parts=lambda values: [[value[at] for value in values] for at in range(len(kinds))],
        made=lambda parts: list(zip(*parts, strict=True)),
    )


def _union(kinds: Collection[Any]) -> ValueColumn:
    if len(kinds) == 1:
        return column_of(*kinds)
    columns = {(get_origin(kind) or kind): column_of(kind) for kind in kinds}
    if len(columns) < len(kinds):
        raise TypeError(f"{kinds} have no column: their values do not tell which of them they are of")

    def parts(values: Sequence[Any]) -> list[list[Any]]:
        if others := {type(value) for value in values} - columns.keys():
            raise TypeError(f"{others} are none of {kinds}")
        return [[value if type(value) is kind else None for value in values] for kind in columns]

    def made(each: Sequence[Sequence[Any]]) -> list[Any]:
        return [next(part for part in of_value if part is not None) for of_value in zip(*each, strict=True)]

    return struct_of({kind.__name__.lower(): column for kind, column in columns.items()}, parts=parts, made=made)


def struct_of(
    columns: Mapping[str, ValueColumn],
    *,
    parts: Callable[[Sequence[Any]], Sequence[Sequence[Any]]],
    made: Callable[[Sequence[Sequence[Any]]], list[Any]],
) -> ValueColumn:
    """The column of values that have parts: `parts` takes them apart, a list a column, `made` puts them together."""
    type_ = pa.struct([(name, column.type) for name, column in columns.items()])

    def array(values: Sequence[Any]) -> pa.Array:
        there = [value for value in values if value is not None]
        if not there:
            return pa.nulls(len(values), type_)
        arrays = [column.array(part) for column, part in zip(columns.values(), parts(there), strict=True)]
        found = pa.StructArray.from_arrays(arrays, fields=list(type_))
        return found if len(there) == len(values) else found.take(_places(values))

    def all_values(array: pa.Array) -> list[Any]:
        return made([column.values(array.field(at)) for at, column in enumerate(columns.values())])

    return ValueColumn(type=type_, array=array, values=_with_none(all_values))


def records_of(dtype: np.dtype[np.void]) -> ValueColumn:
    """The column of record arrays of numpy. Unsigned numbers, which Spark has none of, have the next larger type; those
    of 64 bits the signed number of the same bits.
    """
    assert dtype.names is not None, "its fields have names"
    stored: dict[str, np.dtype[Any]] = {name: _STORED.get(dtype[name].str[1:], dtype[name]) for name in dtype.names}
    type_ = pa.list_(pa.struct([(name, pa.from_numpy_dtype(kind)) for name, kind in stored.items()]))

    def array(values: Sequence[Any]) -> pa.Array:
        there = [value for value in values if value is not None]
        ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype=np.int32)
        joined = np.concatenate(there) if there else np.zeros(0, dtype)
        columns = [pa.array(np.ascontiguousarray(joined[name]).astype(kind)) for name, kind in stored.items()]
        items = pa.StructArray.from_arrays(columns, fields=list(type_.value_type))
        absent = pa.array([value is None for value in values], type=pa.bool_())
        return pa.ListArray.from_arrays(pa.array(ends), items, type=type_, mask=absent)

    def all_values(array: pa.Array) -> list[Any]:
        ends = array.offsets.to_pylist()
        items = array.values.slice(ends[0], ends[-1] - ends[0])
        joined = np.empty(len(items), dtype)
        for at, name in enumerate(stored):
            joined[name] = items.field(at).to_numpy()  # Raises `ValueError` where a number is not there.
        return [joined[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]

    return ValueColumn(type=type_, array=array, values=_with_none(all_values))


def _places(values: Sequence[Any]) -> pa.Array:
    """Where each value is among those that are not None."""
    there = np.fromiter((value is not None for value in values), dtype=np.bool_, count=len(values))
    return pa.array(np.cumsum(there) - 1, mask=~there, type=pa.int64())


def _with_none(all_values: Callable[[pa.Array], list[Any]]) -> Callable[[pa.Array], list[Any]]:
    """What is null has parts that mean nothing, so they are not looked at."""

    def values(array: pa.Array) -> list[Any]:
        if not array.null_count:
            return all_values(array)
        if array.null_count == len(array):
            return [None] * len(array)
        there = iter(all_values(array.drop_null()))
        return [next(there) if valid else None for valid in array.is_valid().to_pylist()]

    return values


def _of_items(kind: type, item: Any) -> ValueColumn:
    made: Callable[[Any], Any] = tuple if kind is Collection else kind
    return list_of(column_of(item), parts=lambda value: value, made=made)


def _of_mapping(key: Any, item: Any) -> ValueColumn:
    pair = struct_of(
        {"key": column_of(key), "value": column_of(item)},
        parts=lambda pairs: [[pair[at] for pair in pairs] for at in range(2)],
        made=lambda parts: list(zip(*parts, strict=True)),
    )
    return list_of(pair, parts=lambda value: value.items(), made=dict)


def list_of(item: ValueColumn, *, parts: Callable[[Any], Collection[Any]], made: Callable[[Any], Any]) -> ValueColumn:
    """The column of values that have items: `parts` are those of one value, which `made` makes of them again."""
    type_ = pa.list_(item.type)

    def array(values: Sequence[Any]) -> pa.Array:
        each = [() if value is None else parts(value) for value in values]
        ends = np.cumsum([0, *map(len, each)], dtype=np.int32)
        absent = pa.array([value is None for value in values], type=pa.bool_())
        items = item.array(list(chain.from_iterable(each)))
        return pa.ListArray.from_arrays(pa.array(ends), items, type=type_, mask=absent)

    def all_values(array: pa.Array) -> list[Any]:
        ends = array.offsets.to_pylist()
        items = item.values(array.values.slice(ends[0], ends[-1] - ends[0]))
        return [made(items[start - ends[0] : end - ends[0]]) for start, end in pairwise(ends)]

    return ValueColumn(type=type_, array=array, values=_with_none(all_values))
