"""The state of a row by an invariant, as SQL: the one place where an invariant's predicates become a query's text.

In: an invariant, an engine. Out: an expression over a row of its relation whose value is the row's state, and what is
asked of such states. The order in which predicates are tried is that of `model`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from tidegauge.expectations.dialects import Dialect, rendered
from tidegauge.expectations.evidence import TELLS, Evidence
from tidegauge.expectations.model import Invariant, Severity

HOLDS: Final = "holds"
MISSING: Final = "missing"
BREACHED: Final = "(" + ", ".join(f"'{severity}'" for severity in Severity) + ")"
"""SQL: the states of a breach."""

_PREFIX: Final = "judged_"
_NAME: Final = re.compile(r"'(?:[^']|'')*'|\"(?P<quoted>[^\"]+)\"|\b(?P<bare>[A-Za-z_]\w*)\b")


def state_expression(invariant: Invariant, *, dialect: Dialect = Dialect.POSTGRES, as_stated: bool = False) -> str:
    """SQL for the state of a row: null (not a subject), 'holds', a severity (breached), 'missing' or
    'missing_<evidence>', or 'unknown_<n>'.

    `as_stated`: see `dialects.rendered`. Raises ValueError for an invariant that the dialect has no words for.
    """

    def said(sql: str) -> str:
        try:
            return rendered(sql, dialect, as_stated=as_stated)
        except ValueError as error:
            raise ValueError(f"{invariant.code} {invariant.name}: {error}") from error

    severity = "".join(f" WHEN {said(when)} THEN '{which}'" for which, when in invariant.severity_when)
    severity = f"CASE{severity} ELSE '{invariant.severity}' END" if severity else f"'{invariant.severity}'"
    breach_when = said(invariant.breach_when)
    lines = ["CASE"]
    if invariant.applies_when is not None:
        lines.append(f"  WHEN ({said(invariant.applies_when)}) IS NOT TRUE THEN NULL")
    lines += [f"  WHEN {said(unknown.when)} THEN 'unknown_{at}'" for at, unknown in enumerate(invariant.unknown)]
    lines += [
        f"  WHEN {breach_when} THEN {severity}",
        f"  WHEN ({breach_when}) IS NULL THEN {said(_missing_expression(invariant))}",
        f"  ELSE '{HOLDS}'",
        "END",
    ]
    return "\n".join(lines)


def _missing_expression(invariant: Invariant) -> str:
    """SQL for the state of a row that a null keeps from being judged: by the first column of which it is known what
    would tell it.
    """
    told = [(column, TELLS[column]) for column in columns_in(invariant.breach_when) if column in TELLS]
    if not told:
        return f"'{MISSING}'"
    cases = "".join(f" WHEN {column} IS NULL THEN '{MISSING}_{evidence}'" for column, evidence in told)
    return f"CASE{cases} ELSE '{MISSING}' END"


@cache
def columns_in(sql: str) -> tuple[str, ...]:
    """The names in an SQL expression, in order, each once: columns, functions and keywords alike."""
    found = (m["quoted"] or m["bare"] for m in _NAME.finditer(sql))
    return tuple(dict.fromkeys(name for name in found if name is not None))


def breached_condition(invariant: Invariant) -> str:
    """SQL that is true of a breached row, and of no other."""
    return f"{state_expression(invariant)} IN {BREACHED}"


def states_of(
    invariants: Iterable[Invariant], *, dialect: Dialect = Dialect.POSTGRES, as_stated: bool = False
) -> Mapping[str, str]:
    """Name -> SQL, over rows of the relation that these judge: the state of a row for each. See `state_expression`."""
    return {state_of(i): state_expression(i, dialect=dialect, as_stated=as_stated) for i in invariants}


def state_of(invariant: Invariant) -> str:
    """What the column is called in which a judged row has its state."""
    return f"{_PREFIX}{invariant.code}"


def breached_state(invariant: Invariant) -> str:
    """SQL that is true of a judged row that breaches the invariant, and never null."""
    return f"coalesce({state_of(invariant)} IN {BREACHED}, FALSE)"


def undecided_state(invariant: Invariant) -> str:
    """SQL that is true of a judged row of which it is not known whether it holds, and never null."""
    return f"coalesce({state_of(invariant)} NOT IN ('{HOLDS}', {BREACHED[1:-1]}), FALSE)"


def counts_of(invariants: Iterable[Invariant]) -> Mapping[str, str]:
    """Name -> SQL, over judged rows: how many are in each state that `results` asks for. Any dialect reads it."""
    return {
        f"{i.code}_{state}": f"count(*) FILTER (WHERE {state_of(i)} = '{state}')"
        for i in invariants
        for state in possible_states(i)
    }


def possible_states(invariant: Invariant) -> list[str]:
    """Every state but that of a row that is no subject."""
    unknown = [f"unknown_{at}" for at in range(len(invariant.unknown))]
    missing = [f"{MISSING}_{evidence}" for evidence in told_by(invariant.breach_when)]
    return [HOLDS, *Severity, MISSING, *missing, *unknown]


def told_by(*expressions: str | None) -> tuple[Evidence, ...]:
    """The pieces of evidence that tell the columns of SQL expressions."""
    columns = (column for sql in expressions if sql is not None for column in columns_in(sql))
    return tuple(dict.fromkeys(TELLS[column] for column in columns if column in TELLS))
