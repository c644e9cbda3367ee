"""Which of many alike cases the fast run takes: a few of them, so that it takes a minute; the whole suite takes all.

In: cases of one test, each as expensive as the next. Out: parameters of which all but one in so many are marked slow.
No case is left out of the whole suite, and what the fast run takes is always the same.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest


def chosen(few: Collection[str], cases: Iterable[str]) -> list[Any]:
    """Parameters that are slow unless they are among the few: tests of one file then share what a case costs."""
    return [pytest.param(case, marks=() if case in few else (pytest.mark.slow,), id=case) for case in cases]


def one_in(every: int, cases: Iterable[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Parameters of `pytest.mark.parametrize`. A tuple is a case of several arguments; `ids` name the cases."""
    parameters = []
    for number, case in enumerate(cases):
        marks = () if number % every == 0 else (pytest.mark.slow,)
        values = case if isinstance(case, tuple) else (case,)
        parameters.append(pytest.param(*values, marks=marks, id=ids[number] if ids is not None else None))
    return parameters
