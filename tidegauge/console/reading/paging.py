"""Long lists, page by page: the last row's key in, the rows behind it out.

A page costs the same however far down it is, and rows that come or go meanwhile are neither shown twice nor passed
over. A key travels in the address as text.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegauge.console.database import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One page of a list; `after` is the key for the next one, None at the end."""

    rows: Sequence[Row]
    after: str | None


def sliced(rows: Sequence[Row], size: int, *key: str) -> Slice:
    """The first `size` of rows that were asked for with a limit of one more."""
    if len(rows) <= size:
        return Slice(rows=rows, after=None)
    return Slice(rows=rows[:size], after=pack([rows[size - 1][name] for name in key]))


def pack(values: Sequence[Any]) -> str:
    """A key as text for an address."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def unpack(after: str | None, **kinds: type) -> Mapping[str, Any] | None:
    """The key by column names, None where there is none. Raises `ValueError` for what `pack` never made."""
    if not after:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)))
    except ValueError as error:  # not base64, not UTF-8, not JSON
        raise ValueError("the list's position cannot be read") from error
    if not isinstance(values, list) or [type(v) for v in values] != list(kinds.values()):
        raise ValueError("the list's position is of another list")
    return dict(zip(kinds, values, strict=True))
