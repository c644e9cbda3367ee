"""Figures as CSV and JSON, and positions in long lists."""

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tidegauge.console.figures import figure, to_csv, to_json
from tidegauge.console.reading.paging import pack, sliced, unpack

ROW = {
    "topic": "=cmd|'/c calc'!A1",
    "offset": -(2**62),
    "size": Decimal(7),
    "isr": [1, 2],
    "at": datetime(2026, 11, 21, 3, 0, 1, 500, tzinfo=UTC),
    "nothing": None,
    "hidden": "not asked for",
}
COLUMNS = ("topic", "offset", "size", "isr", "at", "nothing")


def test_csv_keeps_numbers_and_disarms_formulas() -> None:
    header, row = csv.reader(io.StringIO(to_csv(figure([ROW], *COLUMNS))))
    assert header == list(COLUMNS)
    assert row == ["'=cmd|'/c calc'!A1", str(-(2**62)), "7", "[1, 2]", "2026-11-21T03:00:01.000500Z", ""]


@pytest.mark.parametrize("start", "=+-@\t\r\n")
def test_no_text_begins_as_a_formula(start: str) -> None:
    assert to_csv(figure([{"a": f"{start}1"}], "a")).split("\r\n", 1)[1].lstrip('"').startswith("'")


def test_json_has_values_as_they_are() -> None:
    told = json.loads(to_json(figure([ROW], *COLUMNS, next_page="/more")))
    assert told["next"] == "/more"
    shown = ROW | {"at": "2026-11-21T03:00:01.000500Z", "size": 7}
    assert told["rows"] == [{name: shown[name] for name in COLUMNS}]


def test_a_list_s_position_travels_as_text() -> None:
    rows = [{"code": "D06", "n": n} for n in range(3)]
    page = sliced(rows, 2, "code", "n")
    assert [row["n"] for row in page.rows] == [0, 1]
    assert unpack(page.after, code=str, n=int) == {"code": "D06", "n": 1}
    assert sliced(rows, 3, "code").after is None
    assert unpack(None, code=str) is None


@pytest.mark.parametrize("after", ["x", "%%%", pack([1]), pack(["a", "b", "c"]), pack(["D06", True]), "é", "e30"])
def test_a_position_that_nobody_gave_is_refused(after: str) -> None:
    with pytest.raises(ValueError, match="position"):
        unpack(after, code=str, n=int)
