"""Two engines, one catalogue: what Postgres says of a row, Spark says of it.

On the rows on which Postgres and the second judge are held against each other.
"""

from collections.abc import Iterator, Mapping

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings

from tests.conftest import Golden
from tests.judges.first_judge import FirstJudge
from tests.judges.rows_to_judge import CAPTURES, MEMBERS, extremes, facts_of, rows_of_cases, rows_of_chance
from tests.judges.spark_judge import SparkJudge
from tests.judges.sql_subset import Row
from tests.resources import starts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def in_postgres(store_url: str) -> Iterator[FirstJudge]:
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        yield FirstJudge(connection)
    engine.dispose()


@pytest.fixture(scope="module")
@starts("jvm")
def in_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkJudge]:
    from tidegauge.spark_jobs import session

    spark = session.start("local[2]")
    yield SparkJudge(spark, tmp_path_factory.mktemp("judged"))
    session.stop(spark)


@pytest.fixture(scope="module")
def facts(golden: Golden) -> Mapping[str, list[Row]]:
    """Relation -> its rows of real captures."""
    captures = [facts_of(golden(name), golden(before) if before is not None else None) for name, before in CAPTURES]
    return {relation: [row for of_capture in captures for row in of_capture[relation]] for relation in MEMBERS}


def made_by_chance(relation: str) -> list[Row]:
    made: list[Row] = []

    @settings(
        max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(rows_of_chance(relation))
    def chance_makes(rows: list[Row]) -> None:
        made.extend(rows)

    chance_makes()
    return made


def test_real_captures_bring_thousands_of_rows(facts: Mapping[str, list[Row]]) -> None:
    assert sum(map(len, facts.values())) > 5000


@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_every_row(
    in_postgres: FirstJudge, in_spark: SparkJudge, facts: Mapping[str, list[Row]], relation: str
) -> None:
    """Every row has the same verdict, with the same reason or severity, of every invariant of its relation.

    All rows of a relation are judged at once: Spark takes seconds to compile what it is asked, and none for a row.
    """
    of = {
        "a case": rows_of_cases(relation),
        "a real capture": facts[relation],
        "the ends of 64 bits": list(extremes(relation)),
        "chance": made_by_chance(relation),
    }
    assert all(of[origin] for origin in of.keys() - {"a real capture"})
    origins = [origin for origin, rows in of.items() for _ in rows]
    rows = [row for rows in of.values() for row in rows]
    members = MEMBERS[relation]
    judged = zip(
        origins,
        in_postgres.verdicts(relation, rows, members),
        in_spark.verdicts(relation, rows, members),
        strict=True,
    )
    assert [each for each in judged if each[1] != each[2]] == []
