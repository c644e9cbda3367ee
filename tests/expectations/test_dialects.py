"""The catalogue's SQL in Spark's words: what is said and what is refused.

That every invariant can be said is among what `test_catalogue.py` holds against each of them.
"""

from dataclasses import replace

import pytest

from tidegauge.expectations.dialects import Dialect, rendered
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.states import state_expression


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("a > b AND c IS NOT NULL", "`a` > `b` AND `c` IS NOT NULL"),
        ('"offset" + 1', "`offset` + CAST(1 AS decimal(38, 0))"),
        ("a - coalesce(b, -1)", "`a` - CAST(coalesce(`b`, -1) AS decimal(38, 0))"),
        ("cardinality(isr) BETWEEN 1 AND b - 1", "array_size(`isr`) BETWEEN 1 AND `b` - CAST(1 AS decimal(38, 0))"),
        ("log_dirs[1] = log_dir", "get(`log_dirs`, 0) = `log_dir`"),
        ("policy LIKE '%delete%' OR policy = ''", "`policy` LIKE '%delete%' OR `policy` = ''"),
        (
            "NOT said = ANY(known)",
            "NOT (CASE WHEN array_size(`known`) = 0 THEN FALSE ELSE array_contains(`known`, `said`) END)",
        ),
        (
            "added && removed",
            "(CASE WHEN `added` IS NOT NULL AND `removed` IS NOT NULL"
            " THEN coalesce(arrays_overlap(`added`, `removed`), FALSE) END)",
        ),
        (
            "case when a then greatest(b, 1) else mod(b, 2) end",
            "case when `a` then greatest(`b`, 1) else mod(`b`, 2) end",
        ),
    ],
)
def test_an_expression_in_spark_s_words(stated: str, said: str) -> None:
    assert rendered(stated, Dialect.SPARK) == said


@pytest.mark.parametrize(
    "sql",
    [
        "jsonb_array_length(damages) > 0",
        "a / 2 > 1",
        "a::text = 'x'",
        "a % 2 = 0",
        "a ~ 'x'",
        "a || b = 'x'",
        "a = 'it''s'",
        r"a LIKE 'x\_'",
        "a <> ANY(b)",
        "a + b = ANY(c)",
        "a = ANY(coalesce(b, c))",
        "a = ALL(b)",
        "a[b] = 1",
        "a[0] = 1",
        "coalesce(a, b)[1] = 1",
        "a + b && c",
        "a = :bound",
        "a.b = 1",
    ],
)
def test_what_spark_would_read_otherwise_is_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="Spark"):
        rendered(sql, Dialect.SPARK)


def test_postgres_is_told_what_is_written() -> None:
    assert rendered("a = ANY(b) AND c[1] + 1 > 2") == "a = ANY(b) AND c[1] + CAST(1 AS numeric) > 2"
    assert rendered("a + 1", as_stated=True) == "a + 1"


def test_an_invariant_that_cannot_says_which_it_is() -> None:
    invariant = replace(CATALOGUE["A01"], breach_when="length_errors ~ '1'")
    with pytest.raises(ValueError, match=r"A01 .*: ~ cannot be said in Spark"):
        state_expression(invariant, dialect=Dialect.SPARK)
