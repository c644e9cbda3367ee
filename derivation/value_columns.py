"""Values of our own types as Arrow columns: what one step of a derivation hands to the next.

In: a type: a dataclass, a container of some, an enum, a number, a text. Out: its Arrow type, and its values as pyarrow
takes and gives them. The rule that must hold: a column's type is that of the values, so that nothing between two steps
is text or bytes that only we can read; and what comes back is equal to what went in.

    dataclass, `TypedDict`      struct of its fields
    `tuple[A, B]`               struct `f0`, `f1`
    `tuple[A, ...]`, list, set  list
    mapping                     list of structs `key`, `value`, in its order
    `A | None`                  as A, which may be null
    `A | B`                     struct with a field for each, of which one is not null
    enum                        its value
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints, is_typeddict

import pyarrow as pa

_SCALARS: Final[Mapping[Any, pa.DataType]] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumn:
    """How the values of one type lie in a column. `plain` gives what pyarrow takes, `value` takes what it gives."""

    type: pa.DataType
    plain: Callable[[Any], Any]
    value: Callable[[Any], Any]


@cache
def column_of(kind: Any) -> ValueColumn:
    """The column of a type. Raises `TypeError` for one that has none, such as `Any`."""
    if kind in _SCALARS:
        return ValueColumn(type=_SCALARS[kind], plain=_same, value=_same)
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return _union([each for each in get_args(kind) if each is not NoneType])
    if isinstance(origin, type):
        if is_dataclass(origin) or is_typeddict(origin):
            return _of_fields(origin)
        if issubclass(origin, Enum):
            return ValueColumn(type=pa.string(), plain=lambda value: value and value.value, value=_or_none(origin))
        if issubclass(origin, tuple) and get_args(kind)[-1:] != (...,):
            return _of_places(get_args(kind))
        if issubclass(origin, Mapping):
            return _of_mapping(*get_args(kind))
        if issubclass(origin, Collection):
            return _of_items(origin, get_args(kind)[0])
    raise TypeError(f"{kind} has no column: it does not say what its values are")


def _same(value: Any) -> Any:
    return value


def _or_none(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda given: None if given is None else make(given)


def _of_fields(kind: Any) -> ValueColumn:
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else list(hints)
    columns = [(name, column_of(hints[name])) for name in names]
    get: Callable[[Any, str], Any] = getattr if is_dataclass(kind) else dict.__getitem__
    return ValueColumn(
        type=pa.struct([(name, column.type) for name, column in columns]),
        plain=_or_none(lambda value: {name: column.plain(get(value, name)) for name, column in columns}),
        value=_or_none(lambda given: kind(**{name: column.value(given[name]) for name, column in columns})),
    )


def _of_places(kinds: Collection[Any]) -> ValueColumn:
    columns = [(f"f{at}", column_of(kind)) for at, kind in enumerate(kinds)]
    return ValueColumn(
        type=pa.struct([(name, column.type) for name, column in columns]),
        plain=_or_none(
            lambda value: {name: column.plain(part) for (name, column), part in zip(columns, value, strict=True)}
        ),
        value=_or_none(lambda given: tuple(column.value(given[name]) for name, column in columns)),
    )


def _of_items(kind: type, item: Any) -> ValueColumn:
    column = column_of(item)
    made: Callable[[Any], Any] = tuple if kind is Collection else kind
    return ValueColumn(
        type=pa.list_(column.type),
        plain=_or_none(lambda value: [column.plain(each) for each in value]),
        value=_or_none(lambda given: made(column.value(each) for each in given)),
    )


def _of_mapping(key: Any, item: Any) -> ValueColumn:
    keys, items = column_of(key), column_of(item)
    return ValueColumn(
        type=pa.list_(pa.struct([("key", keys.type), ("value", items.type)])),
        plain=_or_none(lambda value: [{"key": keys.plain(k), "value": items.plain(v)} for k, v in value.items()]),
        value=_or_none(lambda given: {keys.value(each["key"]): items.value(each["value"]) for each in given}),
    )


def _union(kinds: Collection[Any]) -> ValueColumn:
    if len(kinds) == 1:
        return column_of(*kinds)
    columns = {(get_origin(kind) or kind): column_of(kind) for kind in kinds}
    if len(columns) < len(kinds):
        raise TypeError(f"{kinds} have no column: their values do not tell which of them they are of")
    names = {kind: kind.__name__.lower() for kind in columns}
    return ValueColumn(
        type=pa.struct([(names[kind], column.type) for kind, column in columns.items()]),
        plain=_or_none(lambda value: {names[type(value)]: columns[type(value)].plain(value)}),
        value=_or_none(
            lambda given: next(
                column.value(found) for kind, column in columns.items() if (found := given[names[kind]]) is not None
            )
        ),
    )
