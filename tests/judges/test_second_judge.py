"""Two judges of one catalogue: Postgres by the audit's queries, and Python by a parser of its own. They agree on rows.

On every row of the cases, on the facts of real captures, on rows whose numbers are the ends of their types, and on rows
that chance made.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conftest import Golden
from tests.derivation.pipeline import derived
from tests.expectations.test_cases import SOUND_ROWS, cases_of
from tests.extreme_rows import at_the_ends, bound_of, numbers_of
from tests.judges.first_judge import FirstJudge
from tests.judges.second_judge import Verdict, verdict
from tests.judges.sql_subset import Row, parsed
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, by_relation
from tidegauge.relations import RELATIONS

MEMBERS = by_relation(CATALOGUE.values())
CAPTURES = (
    ("healthy", None), ("unclean-before", None), ("hanging-txn", None), ("tiered", None), ("shares-unclean", None),
    ("zookeeper-unclean", None), ("pair-clean-b2", "pair-clean-b1"), ("failed-disk-unclean", None),
)  # fmt: skip


@pytest.fixture(scope="module")
def first(store_url: str) -> Iterator[FirstJudge]:
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        yield FirstJudge(connection)
    engine.dispose()


def row_of(relation: str, values: Mapping[str, Any]) -> Row:
    """Every column of the relation; null where nothing is said."""
    return {column.name: values.get(column.name) for column in RELATIONS[relation].columns}


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


def predicates(invariant: Invariant) -> list[str]:
    """All that a verdict is made of."""
    applies = [invariant.applies_when] if invariant.applies_when is not None else []
    unknown = [one.when for one in invariant.unknown]
    return [*applies, *unknown, invariant.breach_when, *(when for _, when in invariant.severity_when)]


def columns_of(invariant: Invariant) -> list[str]:
    return sorted({column for sql in predicates(invariant) for column in parsed(sql).columns})


@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_every_row_of_the_cases(first: FirstJudge, relation: str) -> None:
    """Each row is judged by all invariants of its relation, not only by the one that it was written for."""
    rows = [
        row_of(relation, SOUND_ROWS[relation] | case["row"])
        for invariant in MEMBERS[relation]
        for case in cases_of(invariant.code).values()
    ]
    assert differences(first, relation, rows) == []


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
    facts = derived(golden(name), previous=golden(previous) if previous is not None else None)
    judged = 0
    for relation in MEMBERS:
        types = {column.name: column.type for column in RELATIONS[relation].columns}
        rows = [
            row_of(relation, {n: json.loads(v) if types.get(n) == "json" and v else v for n, v in row.items()})
            for row in facts.rows.get(relation, [])
        ]
        if rows:
            assert differences(first, relation, rows) == []
            judged += len(rows) * len(MEMBERS[relation])
    assert judged > 1000


# -------------------------------------------------------------------------------------------------- rows of extremes


def extremes(relation: str) -> Iterator[Row]:
    """Each row of the cases with its numbers at the ends, and some with one column alone at either."""
    rows = [
        row_of(relation, SOUND_ROWS[relation] | case["row"])
        for invariant in MEMBERS[relation]
        for case in cases_of(invariant.code).values()
    ]
    for row in rows:
        yield from at_the_ends(relation, row)
    judged = {column for invariant in MEMBERS[relation] for column in columns_of(invariant)}
    for name, bound in numbers_of(relation).items():
        if name in judged:
            for row in rows[:: max(1, len(rows) // 20)]:
                yield {**row, name: bound - 1}
                yield {**row, name: -bound}


@pytest.mark.slow
@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_rows_at_the_ends_of_64_bits(first: FirstJudge, relation: str) -> None:
    assert differences(first, relation, list(extremes(relation))) == []


# ------------------------------------------------------------------------------------------------------- rows of chance


def constants(relation: str, of: type) -> list[Any]:
    """The numbers or texts that the relation's predicates name: what is near them is where verdicts turn."""
    found = {
        value
        for invariant in MEMBERS[relation]
        for sql in predicates(invariant)
        for value in parsed(sql).constants
        if type(value) is of
    }
    return sorted(found)


def values(relation: str, kind: str) -> st.SearchStrategy[Any]:
    """What a column of this type may hold, to either end of it."""
    bound = bound_of(kind)
    turns = [0, 5, 100, -bound, -bound // 2, bound // 2, bound - 1, *constants(relation, int)]
    near = {n + d for n in turns for d in (-1, 0, 1)}
    whole = st.sampled_from(sorted(n for n in near if -bound <= n < bound))
    texts = st.sampled_from([*constants(relation, str), "", "x"])
    strategies = {
        "int64": whole,
        "int32": whole,
        "string": texts,
        "bool": st.booleans(),
        "int32[]": st.lists(st.none() | whole, max_size=3),
        "string[]": st.lists(st.none() | texts, max_size=3),
        "json": st.just([]),
    }
    return st.none() | strategies[kind]


def rows_of_chance(relation: str) -> st.SearchStrategy[list[Row]]:
    named = {column for invariant in MEMBERS[relation] for column in columns_of(invariant)}
    of_type = {kind: values(relation, kind) for kind in {c.type for c in RELATIONS[relation].columns}}
    columns = {c.name: of_type[c.type] if c.name in named else st.none() for c in RELATIONS[relation].columns}
    return st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=30)


@pytest.mark.slow
@pytest.mark.parametrize("relation", MEMBERS)
def test_they_agree_on_rows_of_chance(first: FirstJudge, relation: str) -> None:
    # No shrinking: a difference says its columns, and each try asks a database.
    @settings(
        max_examples=20,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(rows_of_chance(relation))
    def they_agree(rows: list[Row]) -> None:
        assert differences(first, relation, rows) == []

    they_agree()
