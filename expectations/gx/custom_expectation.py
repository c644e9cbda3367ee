"""The custom expectation: no row of a batch breaches an invariant, counted run by run in the database.

It is used in memory only. The library leaves an expectation out of a stored suite if it does not know its type, says so
in its log, and calls what is left of the suite a success. A process that does not import this module would so judge
nothing and report green. Whoever tries to store one is refused; `plain_suites` writes what any process can judge.
"""

import json
from typing import Any, TypeAlias

from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
from great_expectations.expectations.metadata_types import FailureSeverity

from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.gx.query_text import as_template
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.states import breached_condition

_BY_RUN = "breached_by_run"


Told: TypeAlias = dict[str, Any]
"""What the library hands over, and what it takes, by name."""


class NeverStored:
    """Part of an expectation that only processes of ours know."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Whatever stores a suite first gives each of its expectations an id.
        if name == "id" and value is not None:
            raise EvaluationError(
                f"A suite of {type(self).__name__} is not stored: a process that does not know this class would leave "
                "its expectations out and call the rest a success. `tidegauge gx export` writes suites for any process."
            )
        super().__setattr__(name, value)


def outcome(counts: object) -> Told:
    """Of counts of breached rows, which are false where there is none: what an expectation tells the library."""
    return {"success": not counts, "result": {"observed_value": counts}}


class ExpectInvariantToHold(NeverStored, UnexpectedRowsExpectation):
    """No row of the batch breaches the invariant. One query counts them, run by run, and fetches none of them."""

    metric_dependencies = ("unexpected_rows_query.table",)

    def _validate(self, metrics: Told, runtime_configuration: Told | None = None, execution_engine: Any = None) -> Told:
        (row,) = metrics["unexpected_rows_query.table"]
        return outcome(json.loads(row[_BY_RUN] or "{}"))  # nothing to aggregate is null


def expectation(invariant: Invariant) -> ExpectInvariantToHold:
    """The expectation that no row breaches `invariant`."""
    return ExpectInvariantToHold(
        # One row with one value, however many runs breach it: the library keeps no more than 200 rows.
        unexpected_rows_query=(
            f"SELECT CAST(json_object_agg(run_id, breached) AS text) AS {_BY_RUN} FROM (SELECT run_id, count(*) AS "
            f"breached FROM {{batch}} WHERE {as_template(breached_condition(invariant))} GROUP BY run_id) AS counted"
        ),
        description=invariant.statement,
        severity=FailureSeverity(invariant.severity.value),
        notes=[invariant.because],
        meta={"code": invariant.code, "name": invariant.name, "reference": invariant.reference},
    )
