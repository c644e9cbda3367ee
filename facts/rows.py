"""Rows of relations as values: their types, and how a column is written.

In: values. Out: rows and cells, as `relations` declares them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tidegauge.relations import DETAIL_LIMIT, RELATIONS

PartitionKey = tuple[str, int]
"""Topic and partition number."""
Row = dict[str, Any]
"""One row of a relation: column -> value, without the common columns."""
Rows = dict[str, list[Row]]
"""Rows by relation."""


def json_list(values: Iterable[Mapping[str, Any]]) -> str:
    """A `json` column: at most `DETAIL_LIMIT` objects."""
    return json.dumps(list(values)[:DETAIL_LIMIT], separators=(",", ":"))


def json_text(value: Mapping[str, Any]) -> str:
    """A `json` column of one object."""
    return json.dumps(dict(value), separators=(",", ":"))


def whole(relation: str, row: Row) -> Row:
    """A row with every column of its relation; None where it says nothing."""
    return {column.name: None for column in RELATIONS[relation].columns} | row


def known(value: int) -> int | None:
    """-1 on disk and in summaries means "none"."""
    return value if value >= 0 else None
