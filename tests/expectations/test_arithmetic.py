"""Arithmetic without bounds: what is written, what is refused, and that Postgres then counts as Python does.

That every invariant's SQL can be written so is among what `test_catalogue.py` holds against each of them.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judges.sql_subset import parsed
from tidegauge.expectations.arithmetic import unbounded

ENDS = (-(2**63), -(2**63) + 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**62, 2**63 - 1, None)


@pytest.mark.parametrize(
    ("stated", "rendered"),
    [
        ("a > b AND c IS NULL", "a > b AND c IS NULL"),
        ("last_offset + 1", "last_offset + CAST(1 AS numeric)"),
        ("a - b - c", "a - CAST(b AS numeric) - CAST(c AS numeric)"),
        ("a > 4 * b + c", "a > 4 * CAST(b AS numeric) + CAST(c AS numeric)"),
        ("coalesce(a, -1) <> -2", "coalesce(a, -1) <> -2"),
        ("CASE WHEN a THEN -1 ELSE b END - 1", "CASE WHEN a THEN -1 ELSE b END - CAST(1 AS numeric)"),
        ("a BETWEEN -1 AND 1", "a BETWEEN -1 AND 1"),
        ('"offset" + 1 > numbers[1] - 2', '"offset" + CAST(1 AS numeric) > numbers[1] - CAST(2 AS numeric)'),
        ("a - numbers[b + 1]", "a - CAST(numbers[b + CAST(1 AS numeric)] AS numeric)"),
        ("a - coalesce(b, 0) - (c)", "a - CAST(coalesce(b, 0) AS numeric) - CAST((c) AS numeric)"),
        ("a = 'left-over + 1'", "a = 'left-over + 1'"),
        ("a / 1000", "a / 1000"),
    ],
)
def test_what_follows_a_sign_is_cast(stated: str, rendered: str) -> None:
    assert unbounded(stated) == rendered


@pytest.mark.parametrize("sql", ["-a", "a > -b", "a - -1", "a - CASE WHEN b THEN c END", "a -", "count(*)", "+ 1"])
def test_a_sign_before_anything_else_is_refused(sql: str) -> None:
    with pytest.raises(ValueError, match=r"sign|behind"):
        unbounded(sql)


# ---------------------------------------------------------------------------------------------------- beside Postgres

_NAMES = st.sampled_from(["a", "b", "c"])
_NUMBERS = st.sampled_from(["0", "1", "-1", "3600000", "9223372036854775807"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = _NAMES | st.sampled_from(["1", "3600000"])
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), one).map(" ".join),
        st.tuples(one, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"{t[0]} {t[1]} ({t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"least({t[0]}, {t[1]}) - greatest({t[1]}, {t[0]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"CASE WHEN {t[0]} > {t[1]} THEN {t[2]} ELSE {t[0]} END"),
    )


@pytest.fixture(scope="module")
def connection(store_url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(store_url)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


@settings(max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.recursive(_NAMES | _NUMBERS, _larger, max_leaves=6),
    st.fixed_dictionaries({n: st.sampled_from(ENDS) for n in "abc"}),
)
def test_postgres_then_counts_as_python_does(connection: sa.Connection, sql: str, row: dict[str, Any]) -> None:
    columns = ", ".join(f"CAST(:{name} AS bigint) AS {name}" for name in row)
    asked = sa.text(f"SELECT {unbounded(sql)} AS value FROM (SELECT {columns} OFFSET 0) AS r")
    value = connection.execute(asked, row).scalar_one()
    assert value == parsed(sql).value(row)
