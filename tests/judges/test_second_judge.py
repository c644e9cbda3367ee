"""Two judges of one catalogue: Postgres by the audit's queries, and Python by a parser of its own. They agree on rows.

On every row of the cases, on the facts of real captures, on rows whose numbers are the ends of their types, and on rows
that chance made.
"""

from collections.abc import Iterator, Mapping, Sequence

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings

from tests.conftest import Golden
from tests.expectations.test_cases import SOUND_ROWS, cases_of
from tests.judges.first_judge import FirstJudge
from tests.judges.rows_to_judge import (
    CAPTURES,
    MEMBERS,
    columns_of,
    extremes,
    facts_of,
    row_of,
    rows_of_cases,
    rows_of_chance,
)
from tests.judges.second_judge import Verdict, verdict
from tests.judges.sql_subset import Row
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE


@pytest.fixture(scope="module")
def first(store_url: str) -> Iterator[FirstJudge]:
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        yield FirstJudge(connection)
    engine.dispose()


def second(rows: Sequence[Row], members: Sequence[Invariant]) -> list[Mapping[str, Verdict]]:
    return [{invariant.code: verdict(invariant, row) for invariant in members} for row in rows]


def differences(first: FirstJudge, relation: str, rows: Sequence[Row]) -> list[tuple[str, Verdict, Verdict, Row]]:
    """Code, what the first says, what the second says, and the row."""
    members = MEMBERS[relation]
    pairs = zip(first.verdicts(relation, rows, members), second(rows, members), rows, strict=True)
    return [
        (code, one[code], other[code], {column: row[column] for column in columns_of(CATALOGUE[code])})
        for one, other, row in pairs
        for code in one
        if one[code] != other[code]
    ]


@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_every_row_of_the_cases(first: FirstJudge, relation: str) -> None:
    """Each row is judged by all invariants of its relation, not only by the one that it was written for."""
    assert differences(first, relation, rows_of_cases(relation)) == []


def test_the_cases_bring_every_kind_of_verdict_to_every_invariant() -> None:
    for code, invariant in CATALOGUE.items():
        rows = [row_of(invariant.relation, SOUND_ROWS[invariant.relation] | c["row"]) for c in cases_of(code).values()]
        found = {verdict(invariant, row) for row in rows}
        assert {"breached", "holds", "unknown"} <= {one.kind for one in found}, code


@pytest.mark.slow
@pytest.mark.parametrize(("name", "previous"), CAPTURES)
def test_they_agree_on_the_facts_of_real_captures(
    first: FirstJudge, golden: Golden, name: str, previous: str | None
) -> None:
    facts = facts_of(golden(name), golden(previous) if previous is not None else None)
    judged = 0
    for relation, rows in facts.items():
        if rows:
            assert differences(first, relation, rows) == []
            judged += len(rows) * len(MEMBERS[relation])
    assert judged > 1000


@pytest.mark.slow
@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_rows_at_the_ends_of_64_bits(first: FirstJudge, relation: str) -> None:
    assert differences(first, relation, list(extremes(relation))) == []


@pytest.mark.slow
@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_rows_of_chance(first: FirstJudge, relation: str) -> None:
    # No shrinking: a difference says its columns, and each try asks a database.
    @settings(
        max_examples=20,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(rows_of_chance(relation))
    def they_agree(rows: list[Row]) -> None:
        assert differences(first, relation, rows) == []

    they_agree()
