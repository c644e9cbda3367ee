"""What Great Expectations said, held against what the counting queries said."""

import pickle

import pytest

from tidegauge.expectations.agreement import Validation, confirm
from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.verdicts import InvariantResult


def result(breached: int) -> InvariantResult:
    return InvariantResult(
        code="X01",
        name="Example",
        severity="warning",
        verdict="breached" if breached else "holds",
        checked=1,
        breached=breached,
        unknown=0,
        reasons={},
    )


def test_a_count_that_differs_from_ours_stops_the_run() -> None:
    found = {"X01": Validation(code="X01", suite="s", expectation="e", success=False, unexpected_count=3)}
    confirm([result(3)], found)
    with pytest.raises(EvaluationError, match="found 3 breached rows, the counting query 2"):
        confirm([result(2)], found)
    with pytest.raises(EvaluationError, match="did not evaluate X01"):
        confirm([result(0)], {})


def test_the_error_comes_through_pickle() -> None:
    assert str(pickle.loads(pickle.dumps(EvaluationError("what and where")))) == "what and where"
