"""Rows in, what the charts' script draws out: instants, and a series for each line."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegauge.console.database import Row

Chart = Mapping[str, Any]


def over_time(rows: Sequence[Row], *series: tuple[str, str, str]) -> Chart:
    """A chart of columns over `captured_at`; each series is (column, label, look)."""
    return {
        "at": [row["captured_at"].timestamp() for row in rows],
        "series": [
            {"label": label, "look": look, "values": [None if row[c] is None else int(row[c]) for row in rows]}
            for c, label, look in series
        ],
    }


SEVERITY_SERIES = (
    ("critical", "critical", "critical"),
    ("warning", "warning", "warning"),
    ("info", "info", "info"),
)
