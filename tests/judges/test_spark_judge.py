"""Two engines, one catalogue: what Postgres says of a row, Spark says of it.

On the rows on which Postgres and the second judge are held against each other.
"""

from collections.abc import Iterator, Sequence

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


def agree(in_postgres: FirstJudge, in_spark: SparkJudge, relation: str, rows: Sequence[Row]) -> None:
    """Every row has the same verdict, with the same reason or severity, of every invariant of its relation."""
    members = MEMBERS[relation]
    pairs = zip(in_postgres.verdicts(relation, rows, members), in_spark.verdicts(relation, rows, members), strict=True)
    assert [(one, other) for one, other in pairs if one != other] == []


@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_every_row_of_the_cases(in_postgres: FirstJudge, in_spark: SparkJudge, relation: str) -> None:
    agree(in_postgres, in_spark, relation, rows_of_cases(relation))


def test_they_agree_on_the_facts_of_real_captures(
    in_postgres: FirstJudge, in_spark: SparkJudge, golden: Golden
) -> None:
    facts = [facts_of(golden(name), golden(previous) if previous is not None else None) for name, previous in CAPTURES]
    judged = 0
    for relation in MEMBERS:
        rows = [row for of_capture in facts for row in of_capture[relation]]
        if rows:
            agree(in_postgres, in_spark, relation, rows)
            judged += len(rows)
    assert judged > 5000


@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_rows_at_the_ends_of_64_bits(
    in_postgres: FirstJudge, in_spark: SparkJudge, relation: str
) -> None:
    agree(in_postgres, in_spark, relation, list(extremes(relation)))


@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_rows_of_chance(in_postgres: FirstJudge, in_spark: SparkJudge, relation: str) -> None:
    made: list[Row] = []

    @settings(
        max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(rows_of_chance(relation))
    def chance_makes(rows: list[Row]) -> None:
        made.extend(rows)

    chance_makes()
    agree(in_postgres, in_spark, relation, made)
