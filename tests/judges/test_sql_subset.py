"""The parser and evaluator of the second judge, held against Postgres on expressions that turn on a rule of SQL."""

from typing import Any

import pytest
import sqlalchemy as sa

from tests.judges.sql_subset import SubsetError, parsed

ROW: dict[str, Any] = {
    "one": 1, "two": 2, "nothing": None, "yes": True, "no": False, "word": "it's", "group": "g",
    "numbers": [1, None, 3], "empty": [], "words": ["a", "b"],
}  # fmt: skip
EXPRESSIONS = (
    "nothing = nothing", "nothing <> 1", "nothing IS NULL", "one = 1 IS NULL", "NOT one = 2", "NOT nothing = 1",
    "yes OR nothing = 1", "no OR nothing = 1", "no AND nothing = 1", "yes AND nothing = 1", "no OR yes AND no",
    "NOT no AND no", "NOT (no AND no)", "(nothing = 1) IS NOT TRUE", "nothing = 1 IS FALSE", "yes IS NOT FALSE",
    "nothing IN (1, 2)", "one IN (2, nothing)", "one IN (nothing, 1)", "one NOT IN (2, nothing)", "two NOT IN (1, 3)",
    "1 = ANY(numbers)", "2 = ANY(numbers)", "NOT 2 = ANY(numbers)", "1 = ANY(empty)", "nothing = ANY(empty)",
    "one <> ANY(numbers)", "numbers && numbers", "numbers && empty", "NOT numbers && empty AND yes",
    "numbers[1]", "numbers[2]", "numbers[4]", "numbers[0]", "cardinality(empty)",
    "cardinality(numbers) = 3", "coalesce(nothing, one)", "coalesce(nothing, nothing)", "least(two, nothing, one)",
    "greatest(nothing, one)", "mod(-7, 3)", "mod(7, -3)", "1 + 2 * 3 - 4", "-one + 2", "2 - 1 - 1", "one + nothing",
    "CASE WHEN nothing = 1 THEN 1 WHEN yes THEN 2 ELSE 3 END", "CASE WHEN no THEN 1 END",
    "two BETWEEN one AND 2", "two NOT BETWEEN nothing AND 1", "two BETWEEN one AND nothing", "word = 'it''s'",
    "word LIKE 'it%'", "word LIKE '%x%'", "word NOT LIKE '%s'", '"group" = \'g\'',
    "words = words", "numbers = numbers", "one + 1 > two - 1 AND two < 3", "no = no IS TRUE",
)  # fmt: skip


@pytest.fixture(scope="module")
def answers(store_url: str) -> dict[str, Any]:
    """What Postgres says of each."""
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        connection.execute(
            sa.text(
                "CREATE TEMPORARY TABLE one_row (one bigint, two bigint, nothing bigint, yes boolean, no boolean, "
                'word text, "group" text, numbers bigint[], empty bigint[], words text[])'
            )
        )
        columns = ", ".join(f'"{name}"' for name in ROW)
        values = ", ".join(f":{name}" for name in ROW)
        connection.execute(sa.text(f"INSERT INTO one_row ({columns}) VALUES ({values})"), ROW)
        found = {sql: connection.execute(sa.text(f"SELECT {sql} FROM one_row")).scalar_one() for sql in EXPRESSIONS}
    engine.dispose()
    return found


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_an_expression_is_what_postgres_makes_of_it(answers: dict[str, Any], sql: str) -> None:
    value = parsed(sql).value(ROW)
    assert (type(value), value) == (type(answers[sql]), answers[sql])


@pytest.mark.parametrize(
    "sql",
    ["", "one +", "one = 1 = 1", "(one", "one two", "lower(word)", "CASE one WHEN 1 THEN 2 END", "one / 2", "word::int",
     "one IS DISTINCT FROM 1", "word LIKE 'a_'", "CASE END", "one NOT 1", "nothing IS NULL = yes"],
)  # fmt: skip
def test_what_is_not_of_the_subset_is_refused(sql: str) -> None:
    with pytest.raises(SubsetError):
        parsed(sql).value(ROW)


def test_a_column_that_is_not_there_and_a_value_that_does_not_fit_are_errors() -> None:
    with pytest.raises(KeyError):
        parsed("two > three").value(ROW)
    with pytest.raises(SubsetError):
        parsed("one AND yes").value(ROW)
    with pytest.raises(SubsetError):
        parsed("word > 'a'").value(ROW)


def test_columns_are_told_in_the_order_of_the_text() -> None:
    found = parsed("two > one AND \"group\" = 'a' OR two < 7")
    assert found.columns == ("two", "one", "group")
    assert found.constants == {"a", 7}
