"""What a page shows, as data: a figure in, CSV or JSON out.

The rules that must hold: a number is a number and a null is empty (CSV) or null (JSON). A text that a spreadsheet would
take for a formula gets an apostrophe in front in CSV, as names in a snapshot are anybody's; JSON has it as it is.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One table or drawing of a page as rows; `next_page` is the address of the rows behind the last one."""

    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    next_page: str | None = None


def figure(rows: Iterable[Mapping[str, Any]], *columns: str, next_page: str | None = None) -> Figure:
    """A figure of these columns of the rows."""
    return Figure(columns=columns, rows=tuple(rows), next_page=next_page)


def to_csv(shown: Figure) -> str:
    """RFC 4180, with a header line."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(shown.columns)
    writer.writerows([_cell(row[name]) for name in shown.columns] for row in shown.rows)
    return sink.getvalue()


def to_json(shown: Figure) -> str:
    """`{"rows": [{column: value}], "next": address or null}`; instants as ISO 8601, UTC."""
    rows = [{name: row[name] for name in shown.columns} for row in shown.rows]
    return json.dumps({"rows": rows, "next": shown.next_page}, default=plain, ensure_ascii=True)


def plain(value: object) -> object:
    """What JSON has no form for, in one it has."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a figure holds a {type(value).__name__}")


def _cell(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | Decimal):
        return value
    text = value if isinstance(value, str) else _text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return str(plain(value))
    return json.dumps(value, default=plain, ensure_ascii=False)
