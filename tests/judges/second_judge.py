"""The second judge: an invariant and a row in, the row's verdict out; no SQL engine, and nothing of `verdicts`.

It follows the order that `expectations.model` states, and reads the predicates by a parser of its own. What
both judges share is the catalogue itself: a predicate that says something else than its author meant is seen by
neither. That is what the cases, the golden captures and the simulator are for.
"""

from dataclasses import dataclass
from typing import Literal

from tests.judges.sql_subset import Row, Value, parsed
from tidegauge.expectations.evidence import TELLS
from tidegauge.expectations.model import Invariant

EVIDENCE_MISSING = "evidence missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """On one row."""

    kind: Literal["not applicable", "unknown", "breached", "holds"]
    reason: str | None = None
    """Why it is unknown."""
    severity: str | None = None
    """Of a breach."""


def verdict(invariant: Invariant, row: Row) -> Verdict:
    """Raises `SubsetError`."""

    def value(sql: str) -> Value:
        return parsed(sql).value(row)

    if invariant.applies_when is not None and value(invariant.applies_when) is not True:
        return Verdict(kind="not applicable")
    for unknown in invariant.unknown:
        if value(unknown.when) is True:
            return Verdict(kind="unknown", reason=unknown.reason)
    breached = value(invariant.breach_when)
    if breached is None:
        return Verdict(kind="unknown", reason=_missing(invariant, row))
    if breached is False:
        return Verdict(kind="holds")
    assert breached is True, f"{invariant.code}: breach_when is {breached!r}"
    otherwise = (severity for severity, when in invariant.severity_when if value(when) is True)
    return Verdict(kind="breached", severity=next(otherwise, invariant.severity).value)


def _missing(invariant: Invariant, row: Row) -> str:
    """The reason of a null: the first column in the predicate that is null and that a piece of evidence would tell."""
    columns = parsed(invariant.breach_when).columns
    return next((TELLS[c].not_known for c in columns if c in TELLS and row[c] is None), EVIDENCE_MISSING)
