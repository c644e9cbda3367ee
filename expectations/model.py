"""What an invariant is made of.

In: nothing. Out: `Invariant`, the one object from which counts, breaches, expectations, pages and alerts are rendered.
The rule that must hold here: data without behaviour. An invariant never says how it is evaluated.

How a row of `relation` is judged, in this order:

    applies_when is not true              not a subject of this invariant
    an Unknown's `when` is true           unknown, with the first such reason
    breach_when is true                   breached
    breach_when is false                  holds
    breach_when is null                   unknown, "evidence missing"

So nothing holds without evidence. An `Unknown.when` should only catch rows that would or might be breached otherwise: a
row that is sound in spite of a fuzzy copy is evidence, and counts as holding.

The SQL is plain Postgres, and `dialects` says it in Spark's words: comparisons, AND, OR, NOT, IS NULL, CASE, coalesce,
arithmetic, cardinality(). A sum, a difference and a product have no bounds (`arithmetic`), so none can be too large for
a row that damage wrote. Columns that are reserved words stand in double quotes: "group", "offset".
"""

from dataclasses import dataclass
from enum import StrEnum

from tidegauge.expectations.causes import Rule
from tidegauge.expectations.evidence import Evidence


class Severity(StrEnum):
    """How bad a breach is, worst first; the words are Great Expectations' own."""

    CRITICAL = "critical"
    """Data loss, divergence, or exactly-once broken."""
    WARNING = "warning"
    """Corruption, serving impact, or stale derived state."""
    INFO = "info"
    """Worth knowing; nothing to repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A reason why the evidence cannot decide, and the SQL condition under which it applies to a row."""

    reason: str
    evidence: Evidence | None
    """The piece that would decide; None where none would (damage, a cleaner's work, a change under way). One reason
    asks for one piece, in whichever invariants it stands."""
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """What must hold for each row of a relation, why, when it cannot be judged, and how a breach is argued."""

    code: str
    """Stable, never reused: a family's letter and two digits."""
    key: str
    """Stable, in capitals: the key under which the field's literature on this catalogue knows it."""
    name: str
    """CamelCase, words in full: the name of the alert, the expectation and the runbook's file."""
    severity: Severity
    """Of a breach, unless `severity_when` says otherwise."""
    relation: str
    """The fact relation that it judges, row by row."""
    statement: str
    """What must hold: one sentence."""
    because: str
    """Why it must, and what it means when it does not."""
    breach_when: str
    """SQL predicate over a row: true is a breach."""
    evidence: tuple[str, ...]
    """Columns (or `derived` names) that a breach quotes."""
    explanation: tuple[str, ...]
    """The argument, a step a line: `str.format` templates over the row's columns and the `derived` names. A line that
    needs a null is left out."""
    next: str
    """Template of the command to run next."""
    reference: str
    """Where Kafka's rule is written: class and method, or KIP."""
    applies_when: str | None = None
    """SQL predicate: which rows it is about; None for all."""
    unknown: tuple[Unknown, ...] = ()
    """Tried in order, before `breach_when`."""
    severity_when: tuple[tuple[Severity, str], ...] = ()
    """Another severity for some breaches: the first whose SQL predicate is true."""
    derived: tuple[tuple[str, str], ...] = ()
    """Names for SQL expressions over the row, to be used in `explanation`, `evidence` and `next`. An expression that is
    null unless its case applies makes a line conditional."""
    subject: tuple[str, ...] = ()
    """Columns that name what is judged; empty for the relation's own (`Relation.subject`). With the code they identify
    a breach over runs, so nothing that changes from day to day belongs here."""
    start_offset: str | None = None
    """SQL expression: first offset concerned."""
    end_offset: str | None = None
    """SQL expression: offset after the last one concerned."""
    records: str | None = None
    """SQL expression: how many records are concerned."""
    details: tuple[str, ...] = ()
    """Which kinds of the row's list of damaged places (`Relation.details`) are quoted."""
    implies: tuple[str, ...] = ()
    """Codes whose breach on the same partition follows from this one's: root first, consequences folded."""
    consequence_of: str | None = None
    """Code of the one whose consequence its breach always is: it only sums up, or gives the size of, what that one
    tells."""
    points_to: str
    """What a breach points to where no rule of `diagnosis` says more: the key of a `causes.Cause`."""
    diagnosis: tuple[Rule, ...] = ()
    """What a breach points to where more is known: the first rule whose conditions are met speaks."""
    one_event_on_all_replicas: bool = False
    """Its breaches that count records tell of records that every replica lacks: those of several replicas of a
    partition that begin at one offset are told once, by the replica that had most."""
    since: str = "0.1"
    """Version of Tidegauge that first judged it."""
