"""Two evaluations of one run: what Great Expectations said, held against what the counting queries said.

In: `InvariantResult`s and `Validation`s. Out: nothing, or an error. The rule that must hold: there is no verdict that
only one of them gives.

Both put the catalogue's predicate to the same engine, so this is a check on how results are asked for, collected and
read: rows of another run, a limit, an exception that was taken for an answer, facts that changed in between. Of facts
that Spark judged, both engines are asked, and rows that did not arrive in the store are missed here. It says nothing
about what a predicate means: that is judged by the tests, which read it by a parser of their own (`tests/judges`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.verdicts import InvariantResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What Great Expectations says of one invariant in one run."""

    code: str
    suite: str
    expectation: str
    success: bool
    unexpected_count: int
    """Rows that breach it."""


def confirm(results: Iterable[InvariantResult], validations: Mapping[str, Validation]) -> None:
    """Raises `EvaluationError` unless Great Expectations found as many breached rows of a run as `results` count."""
    for result in results:
        validation = validations.get(result.code)
        if validation is None:
            raise EvaluationError(f"Great Expectations did not evaluate {result.code} {result.name}: no verdict.")
        if validation.unexpected_count != result.breached:
            raise EvaluationError(
                f"{result.code} {result.name}: Great Expectations found {validation.unexpected_count} breached rows, "
                f"the counting query {result.breached}. The facts changed in between, or the two queries differ; "
                "nothing was published. Please report it."
            )
