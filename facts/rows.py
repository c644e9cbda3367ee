"""Rows of relations as values: how a column is written, and what holds for rows of any relation.

In: values. Out: rows and cells, as `relations` declares them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from tidegauge.relations import DETAIL_LIMIT, RELATIONS, Rows

AnyRow = Mapping[str, object]
"""A row of whatever relation: column -> value, without the common columns."""
R = TypeVar("R", bound=AnyRow)


def by_relation(rows: Rows) -> Iterator[tuple[str, Sequence[AnyRow]]]:
    """Relation by relation, for whoever does the same with the rows of each."""
    for name, of_relation in rows.items():
        yield name, cast(Sequence[AnyRow], of_relation)


def json_list(values: Iterable[AnyRow]) -> str:
    """A `json` column: at most `DETAIL_LIMIT` objects."""
    return json.dumps(list(values)[:DETAIL_LIMIT], separators=(",", ":"))


def json_text(value: AnyRow) -> str:
    """A `json` column of one object."""
    return json.dumps(dict(value), separators=(",", ":"))


def whole(relation: str, rows: Iterable[R]) -> list[R]:
    """Rows with every column of their relation; None where they say nothing."""
    empty = {column.name: None for column in RELATIONS[relation].columns}
    return [cast(R, {**empty, **row}) for row in rows]


def known(value: int) -> int | None:
    """-1 on disk and in summaries means "none"."""
    return value if value >= 0 else None
