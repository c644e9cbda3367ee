"""Rows of facts whose numbers stand at the ends of their types, as a damaged snapshot may bring them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidegauge.relations import LOSSES, RELATIONS, Relation

_ALL: Final[Mapping[str, Relation]] = {**RELATIONS, LOSSES.name: LOSSES}


def bound_of(kind: str) -> int:
    """Numbers of a column's type are below it, and not below its negative."""
    return 2 ** (31 if "32" in kind else 63)


def numbers_of(relation: str) -> Mapping[str, int]:
    """The relation's columns of whole numbers, each with its bound."""
    return {c.name: bound_of(c.type) for c in _ALL[relation].columns if c.type in ("int64", "int32")}


def ends_of(relation: str) -> Sequence[Mapping[str, int]]:
    """The relation's numbers: all the largest, all the smallest, and by turns."""
    bounds = numbers_of(relation)
    largest = {name: bound - 1 for name, bound in bounds.items()}
    smallest = {name: -bound for name, bound in bounds.items()}
    by_turns = [
        {name: (largest, smallest)[(at + first) % 2][name] for at, name in enumerate(bounds)} for first in (0, 1)
    ]
    return (largest, smallest, *by_turns)


def at_the_ends(relation: str, row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A row with its numbers at the ends: every one, and those alone that are known."""
    for ends in ends_of(relation):
        yield {**row, **ends}
        yield {**row, **{name: end for name, end in ends.items() if row.get(name) is not None}}
