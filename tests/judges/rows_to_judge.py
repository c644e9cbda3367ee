"""Rows to hold judges against each other on: those of the cases, of real captures, of the ends of types, of chance."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.derivation.pipeline import derived
from tests.expectations.test_cases import SOUND_ROWS, cases_of
from tests.extreme_rows import at_the_ends, bound_of, numbers_of
from tests.judges.sql_subset import Row, parsed
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, by_relation
from tidegauge.relations import RELATIONS

MEMBERS = by_relation(CATALOGUE.values())
CAPTURES = (
    ("healthy", None), ("unclean-before", None), ("hanging-txn", None), ("tiered", None), ("shares-unclean", None),
    ("zookeeper-unclean", None), ("pair-clean-b2", "pair-clean-b1"), ("failed-disk-unclean", None),
)  # fmt: skip


def row_of(relation: str, values: Mapping[str, Any]) -> Row:
    """Every column of the relation; null where nothing is said."""
    return {column.name: values.get(column.name) for column in RELATIONS[relation].columns}


def predicates(invariant: Invariant) -> list[str]:
    """All that a verdict is made of."""
    applies = [invariant.applies_when] if invariant.applies_when is not None else []
    unknown = [one.when for one in invariant.unknown]
    return [*applies, *unknown, invariant.breach_when, *(when for _, when in invariant.severity_when)]


def columns_of(invariant: Invariant) -> list[str]:
    return sorted({column for sql in predicates(invariant) for column in parsed(sql).columns})


def rows_of_cases(relation: str) -> Sequence[Row]:
    """Those of all invariants of a relation."""
    return [
        row_of(relation, SOUND_ROWS[relation] | case["row"])
        for invariant in MEMBERS[relation]
        for case in cases_of(invariant.code).values()
    ]


def facts_of(capture: Path, previous: Path | None) -> Mapping[str, Sequence[Row]]:
    """Relation -> the rows of a capture's facts."""
    facts = derived(capture, previous=previous)
    found = {}
    for relation in MEMBERS:
        types = {column.name: column.type for column in RELATIONS[relation].columns}
        found[relation] = [
            row_of(relation, {n: json.loads(v) if types.get(n) == "json" and v else v for n, v in row.items()})
            for row in facts.rows.get(relation, [])
        ]
    return found


# -------------------------------------------------------------------------------------------------- rows of extremes


def extremes(relation: str) -> Iterator[Row]:
    """Each row of the cases with its numbers at the ends, and some with one column alone at either."""
    rows = rows_of_cases(relation)
    for row in rows:
        yield from at_the_ends(relation, row)
    judged = {column for invariant in MEMBERS[relation] for column in columns_of(invariant)}
    for name, bound in numbers_of(relation).items():
        if name in judged:
            for row in rows[:: max(1, len(rows) // 20)]:
                yield {**row, name: bound - 1}
                yield {**row, name: -bound}


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
