"""Suites: one a relation, an expectation an invariant, each with its code, statement and reason.

In: invariants. Out: the suites of the custom expectation, which the pipeline runs and nobody stores, and the plain
ones, which are stored and which any process can run.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import great_expectations as gx
from great_expectations.core import ExpectationSuite
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_table_row_count_to_be_between import ExpectTableRowCountToBeBetween
from great_expectations.expectations.core.expect_table_row_count_to_equal import ExpectTableRowCountToEqual
from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation

from tidegauge.expectations.gx.custom_expectation import expectation
from tidegauge.expectations.gx.plain_expectation import plain_expectation
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION, by_relation

RUNS: Final = "runs"
"""What the suite about the runs themselves is named after; no relation has this name."""


def suite_name(relation: str) -> str:
    """The suite that judges a relation."""
    return f"tidegauge_{relation}"


def suites(invariants: Iterable[Invariant] = CATALOGUE.values()) -> Mapping[str, ExpectationSuite]:
    """Relation -> suite of the custom expectation."""
    return _suites(invariants, expectation)


def plain_suites(invariants: Iterable[Invariant] = CATALOGUE.values()) -> Mapping[str, ExpectationSuite]:
    """Relation -> suite of plain expectations."""
    return _suites(invariants, plain_expectation)


def _suites(
    invariants: Iterable[Invariant], expected: Callable[[Invariant], UnexpectedRowsExpectation]
) -> Mapping[str, ExpectationSuite]:
    return {
        relation: gx.ExpectationSuite(name=suite_name(relation), expectations=[expected(i) for i in members])
        for relation, members in by_relation(invariants).items()
    }


def suite_of_runs(clusters: int | None) -> ExpectationSuite:
    """There is a run to judge, of each of so many clusters (None: of one or more), and it has this ruleset's facts.

    Without it a store that holds no run, or not the one that is meant, would breach nothing.
    """
    there = (
        ExpectTableRowCountToBeBetween(min_value=1) if clusters is None else ExpectTableRowCountToEqual(value=clusters)
    )
    there.description = "There is a published run of each cluster that is to be judged."
    same = ExpectColumnValuesToBeInSet(column="ruleset_version", value_set=[RULESET_VERSION])
    same.description = f"The runs were audited under ruleset {RULESET_VERSION}, which these suites are of."
    return gx.ExpectationSuite(name=suite_name(RUNS), expectations=[there, same])
