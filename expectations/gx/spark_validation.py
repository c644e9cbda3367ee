"""Great Expectations run on Spark, over facts that were judged where they are.

In: a frame with the state of each row by invariant (`verdicts.states_of`), one column an invariant. Out: for each
invariant whether Great Expectations found rows that breach it, and how many. As in `validation`, what could not be
evaluated is our error, and never read as success.

One suite a relation, one expectation an invariant, one batch the states of all its rows. The library gathers what it
aggregates: the counts of all expectations of a suite are one pass over the batch, whatever their number. Expectations
that look at rows would each be a job of their own, and with some hundred invariants that is what its time would go by.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import great_expectations as gx
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import ColumnAggregateExpectation
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.metrics.column_aggregate_metric_provider import (
    ColumnAggregateMetricProvider,
    column_aggregate_partial,
)

from tidegauge.expectations.agreement import Validation
from tidegauge.expectations.gx.custom_expectation import NeverStored, Told, outcome
from tidegauge.expectations.gx.quiet import quiet
from tidegauge.expectations.gx.suites import suite_name
from tidegauge.expectations.gx.validation import in_memory, validated
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.states import state_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ValidateStates = Callable[[str, "DataFrame", Sequence[Invariant]], Mapping[str, Validation]]

_METRIC: Final = "column.breached_rows"


class BreachedRows(ColumnAggregateMetricProvider):
    """How many rows of a column of states are breached."""

    metric_name = _METRIC

    @column_aggregate_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: "Column", **_: Any) -> "Column":  # noqa: N805  the library's way
        from pyspark.sql import functions

        return functions.count_if(column.isin(*(severity.value for severity in Severity)))


class ExpectStatesToHold(NeverStored, ColumnAggregateExpectation):
    """No row's state is that of a breach."""

    metric_dependencies = (_METRIC,)

    def _validate(self, metrics: Told, runtime_configuration: Told | None = None, execution_engine: Any = None) -> Told:
        return outcome(metrics[_METRIC])


@contextmanager
def validating_states() -> Iterator[ValidateStates]:
    """A function that asks Great Expectations, in the Spark session that runs; the library holds nothing after it."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the library's own, of its own default
        context = gx.get_context(mode="ephemeral", project_config=in_memory())
        # It would keep every batch in Spark's memory.
        source = context.data_sources.add_spark(name="states", persist=False)

        def validate(relation: str, states: "DataFrame", invariants: Sequence[Invariant]) -> Mapping[str, Validation]:
            name = f"{relation}_{len(source.assets)}"
            batch = source.add_dataframe_asset(name=name).add_batch_definition_whole_dataframe(name)
            suite = gx.ExpectationSuite(name=suite_name(relation), expectations=[_expectation(i) for i in invariants])
            outcome = batch.get_batch({"dataframe": states}).validate(suite, result_format="SUMMARY")
            return {
                code: Validation(
                    code=code, suite=suite.name, expectation=kind, success=count == 0, unexpected_count=count
                )
                for code, kind, count in validated(outcome, suite.name, invariants, _count)
            }

        yield validate


def _count(result: Told) -> int | None:
    count = result.get("observed_value")
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def _expectation(invariant: Invariant) -> ExpectStatesToHold:
    return ExpectStatesToHold(
        column=state_of(invariant),
        description=invariant.statement,
        severity=FailureSeverity(invariant.severity.value),
        notes=[invariant.because],
        meta={"code": invariant.code, "name": invariant.name, "reference": invariant.reference},
    )
