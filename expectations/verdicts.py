"""Verdicts: the catalogue's predicates as SQL, and what their answers mean.

In: invariants, and rows that a database returns. Out: one counting query a relation, one query for the breached rows of
an invariant, `InvariantResult` and `Breach`. No I/O here: who has a connection runs the queries. The rule that must
hold: unknown is never green.

How the verdict of an invariant follows from its rows (each row judged as `model` says):

    breached   a row is breached
    unknown    none is, and the evidence could not decide some row, or a piece of evidence is missing without which
               there are fewer rows than there should be, or there was no row at all ("nothing to check")
    holds      every row could be decided, there was one, and none is missing

`checked` counts the rows that could be decided: those that hold and those that are breached.
"""

import hashlib
import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from string import Formatter
from typing import Any, Final, Literal

from tidegauge.expectations.dialects import rendered
from tidegauge.expectations.evidence import METADATA_LOG_AMONG, ROWS_COME_FROM, SUBJECTS_ARE, Evidence
from tidegauge.expectations.implications import closure, direct
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.states import (
    BREACHED,
    HOLDS,
    MISSING,
    counts_of,
    possible_states,
    state_expression,
    states_of,
    told_by,
)
from tidegauge.relations import RELATIONS

Verdict = Literal["holds", "breached", "unknown"]
Row = Mapping[str, Any]

EVIDENCE_MISSING: Final = "evidence missing"
NOTHING_TO_CHECK: Final = "nothing to check"

_SEVERITIES: Final = tuple(Severity)
_JUDGED_ONCE: Final = "OFFSET 0"
"""Keeps Postgres from putting a row's state in place wherever it is counted, and working it out anew each time."""
_ANY: Final = "any"
_METADATA_LOG: Final = (Evidence.METADATA_LOG, Evidence.METADATA_LOG_START)
_HELD_AGAINST: Final = ("elected_leader_id", "reference_broker_id")
"""In a breach's evidence: the broker whose log the subject's own was held against. It may be that one that is wrong."""
_NOTHING_MISSING: Final[Mapping[Evidence, int]] = {}
_INSTANTS: Final = frozenset({"at_ms", "reassigning_since_ms", "seen_until_ms"})
_QUOTED_DETAILS: Final = 5
_LONGEST_VALUE: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantResult:
    """The verdict on one invariant over one run: a line of the report's `invariants`."""

    code: str
    name: str
    severity: str
    """Of its worst breach; the invariant's own where there is none."""
    verdict: Verdict
    checked: int
    breached: int
    unknown: int
    reasons: Mapping[str, int]
    """Why rows are unknown: reason -> rows."""
    rests_on: tuple[str, ...] = ()
    """The pieces of evidence that it is judged by (`evidence.Evidence`)."""
    lacks: tuple[str, ...] = ()
    """Those of which the lack leaves rows unknown, or takes them away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One breached row, argued: an element of the report's `breaches`."""

    breach_id: str
    code: str
    name: str
    severity: str
    subject: Mapping[str, Any]
    start_offset: int | None
    end_offset: int | None
    records: int | None
    explanation: str
    evidence: Mapping[str, Any]
    implied_by: str | None
    """Breach from which this one follows; None for a root."""
    next: str
    points_to: str | None = None
    """What it points to: the key of a `causes.Cause`."""
    believe: tuple[int, ...] = ()
    """Brokers whose replicas are to be believed, where that can be argued."""
    diagnosis: str | None = None
    """Why it points there; None where only its kind says so."""


# ------------------------------------------------------------------------------------------------------------- queries


def count_query(
    relation: str, invariants: Sequence[Invariant], *, schema: str = "tidegauge", as_stated: bool = False
) -> str:
    """One query that counts the states of all `invariants`, which judge `relation`; bind `run_ids`, an array.

    A row a run, its `run_id` in it, is read by `results`; a run without a row in the relation has none. The relation is
    scanned once, however many invariants and runs there are. `as_stated`: see `state_expression`.
    """
    assert invariants, "a query that counts nothing"
    assert all(i.relation == relation for i in invariants), f"not all of them judge {relation}"
    counts = [f'{count} AS "{name}"' for name, count in counts_of(invariants).items()]
    states = [f"{state} AS {name}" for name, state in states_of(invariants, as_stated=as_stated).items()]
    return (
        "SELECT run_id,\n" + ",\n".join(counts) + "\nFROM (SELECT run_id,\n" + ",\n".join(states) + "\n"
        f"FROM {schema}.{relation}\nWHERE run_id = ANY(:run_ids)\n{_JUDGED_ONCE}) AS judged\nGROUP BY run_id"
    )


def breach_query(invariant: Invariant, *, schema: str = "tidegauge") -> str:
    """The breached rows of one invariant, run by run in the order of their subjects; bind `run_ids`, an array. Rows are
    read by `explain`.

    Columns: `run_id`, the relation's, the invariant's derived names, and `breach_severity`, `breach_start_offset`,
    `breach_end_offset`, `breach_records`.
    """
    derived = "".join(f',\n  {expression} AS "{name}"' for name, expression in derived_columns(invariant).items())
    return (
        "SELECT judged.*,\n"
        "  breach_severity_or_state AS breach_severity,\n"
        f"  {_unbounded_or_null(invariant.start_offset)} AS breach_start_offset,\n"
        f"  {_unbounded_or_null(invariant.end_offset)} AS breach_end_offset,\n"
        f"  {_unbounded_or_null(invariant.records)} AS breach_records{derived}\n"
        f"FROM (SELECT *,\n{state_expression(invariant)} AS breach_severity_or_state\n"
        f"FROM {schema}.{invariant.relation}\nWHERE run_id = ANY(:run_ids)) AS judged\n"
        f"WHERE breach_severity_or_state IN {BREACHED}\n"
        f"ORDER BY run_id, {_order(invariant)}"
    )


def derived_columns(invariant: Invariant) -> Mapping[str, str]:
    """Name -> SQL, of the values that the invariant's argument works out of a row."""
    return {name: rendered(expression) for name, expression in invariant.derived}


def _unbounded_or_null(expression: str | None) -> str:
    return rendered(expression) if expression is not None else "NULL"


@cache
def rests_on(invariant: Invariant) -> tuple[Evidence, ...]:
    """The pieces of evidence that an invariant is judged by, in the order of `Evidence`."""
    unknown = (u.when for u in invariant.unknown)
    told = told_by(invariant.applies_when, invariant.breach_when, *unknown)
    own = _METADATA_LOG if invariant.relation in METADATA_LOG_AMONG else ()
    return tuple(e for e in Evidence if e in {*_subjects_from(invariant), *told, *own})


@cache
def _subjects_from(invariant: Invariant) -> frozenset[Evidence]:
    """The pieces of evidence without which an invariant has fewer subjects than there are."""
    themselves = (e for condition, e in SUBJECTS_ARE.items() if condition in (invariant.applies_when or ""))
    return frozenset((*ROWS_COME_FROM[invariant.relation], *themselves, *told_by(invariant.applies_when)))


def _order(invariant: Invariant) -> str:
    return ", ".join(f'"{column}"' for column in subject_columns(invariant))


def subject_columns(invariant: Invariant) -> tuple[str, ...]:
    """The columns that name what the invariant judges."""
    return invariant.subject or RELATIONS[invariant.relation].subject


# ------------------------------------------------------------------------------------------------------------- answers


def results(
    invariants: Iterable[Invariant], counts: Row | None, missing: Mapping[Evidence, int] = _NOTHING_MISSING
) -> tuple[InvariantResult, ...]:
    """The verdicts on a run, from its row of `count_query` for the same invariants; None if there is no row.

    `missing`: the pieces of evidence that the snapshot lacks, each with how many subjects go with it.
    """
    return tuple(
        _result(
            i,
            {state: int(counts[f"{i.code}_{state}"]) if counts is not None else 0 for state in possible_states(i)},
            missing,
        )
        for i in invariants
    )


def _result(invariant: Invariant, counts: Mapping[str, int], missing: Mapping[Evidence, int]) -> InvariantResult:
    by_severity = {severity: counts[severity] for severity in _SEVERITIES if counts[severity]}
    breached, holds = sum(by_severity.values()), counts[HOLDS]
    reasons: dict[str, int] = defaultdict(int)
    lacks: set[Evidence | None] = set()
    for at, unknown in enumerate(invariant.unknown):
        if counts[f"unknown_{at}"]:
            reasons[unknown.reason] += counts[f"unknown_{at}"]
            lacks.add(unknown.evidence)
    for evidence in told_by(invariant.breach_when):
        reasons[evidence.not_known] += counts[f"{MISSING}_{evidence}"]
    reasons[EVIDENCE_MISSING] += counts[MISSING]
    for evidence in sorted(_subjects_from(invariant) & missing.keys()):
        reasons[evidence.not_known] += missing[evidence]
    reasons = {reason: count for reason, count in reasons.items() if count}
    unknown_rows = sum(reasons.values())
    if not breached and not holds and not unknown_rows:
        wanting = [e for e in rests_on(invariant) if e in missing]
        reasons = {e.not_known: 0 for e in wanting} or {NOTHING_TO_CHECK: 0}
    lacks |= {e for e in Evidence if e.not_known in reasons}
    return InvariantResult(
        code=invariant.code,
        name=invariant.name,
        severity=next(iter(by_severity), invariant.severity).value,
        verdict="breached" if breached else "unknown" if reasons else "holds",
        checked=holds + breached,
        breached=breached,
        unknown=unknown_rows,
        reasons=reasons,
        rests_on=tuple(e.value for e in rests_on(invariant)),
        lacks=tuple(e.value for e in Evidence if e in lacks),
    )


def explain(invariant: Invariant, row: Row) -> Breach:
    """The argument for one row of `breach_query`."""
    row = {name: _whole_number(value) for name, value in row.items()}
    subject = {column: row[column] for column in subject_columns(invariant)}
    readable = {name: shown(name, value) for name, value in row.items()}
    lines = [line for template in invariant.explanation if (line := _filled(template, readable)) is not None]
    shell = {name: shlex.quote(value) if value is not None else f"<{name}>" for name, value in readable.items()}
    return Breach(
        breach_id=_breach_id(invariant, row, subject),
        code=invariant.code,
        name=invariant.name,
        severity=row["breach_severity"],
        subject={name: value for name, value in subject.items() if value is not None},
        start_offset=row["breach_start_offset"],
        end_offset=row["breach_end_offset"],
        records=row["breach_records"],
        explanation="\n".join([*lines, *_quoted_details(invariant, row)]),
        evidence={name: _plain(row[name]) for name in invariant.evidence},
        implied_by=None,
        next=invariant.next.format_map(shell),
    )


def fold(breaches: Iterable[Breach], catalogue: Mapping[str, Invariant]) -> tuple[Breach, ...]:
    """All breaches, worst first, each that follows from another one naming the root it follows from.

    One follows from another if the other's invariant implies it, at once or through others, and both are about the
    same partition (and the same broker, and the same election, where both name one). Or if both tell of the same
    records, gone on every replica.
    """
    everything = sorted(breaches, key=_rank)
    # By partition: breaches may be as many as partitions, and none follows from another partition's.
    by_place: dict[tuple[object, ...], list[Breach]] = defaultdict(list)
    for breach in everything:
        by_place[breach.code, *_partition(breach)].append(breach)
    implied_by = _told_once(everything, catalogue)
    behind = closure(direct(catalogue))
    for root in everything:
        for code in behind[root.code]:
            for consequence in by_place.get((code, *_partition(root)), ()):
                if consequence is not root and _same_place(root, consequence):
                    implied_by.setdefault(consequence.breach_id, root.breach_id)
    return tuple(replace(breach, implied_by=_root(breach.breach_id, implied_by)) for breach in everything)


def _told_once(breaches: Iterable[Breach], catalogue: Mapping[str, Invariant]) -> dict[str, str]:
    """What follows from a breach of the same invariant on another replica: by breach, the one that tells of most."""
    implied_by: dict[str, str] = {}
    telling: dict[str, str] = {}
    shared = (b for b in breaches if catalogue[b.code].one_event_on_all_replicas and b.records)
    for breach in sorted(shared, key=lambda b: (-(b.records or 0), _rank(b))):
        where = breach.subject.get("topic"), breach.subject.get("partition"), breach.start_offset
        first = telling.setdefault(
            _canonical({"code": breach.code, "at": [*where, _election(breach)]}), breach.breach_id
        )
        if first != breach.breach_id:
            implied_by[breach.breach_id] = first
    return implied_by


def _root(breach_id: str, implied_by: Mapping[str, str]) -> str | None:
    seen = {breach_id}
    at = breach_id
    while (above := implied_by.get(at)) is not None and above not in seen:
        seen.add(above)
        at = above
    return at if at != breach_id else None


def _rank(breach: Breach) -> tuple[int, str, str]:
    return _SEVERITIES.index(Severity(breach.severity)), breach.code, _canonical(breach.subject)


def _partition(breach: Breach) -> tuple[object, object]:
    return breach.subject.get("topic"), breach.subject.get("partition")


def _same_place(root: Breach, consequence: Breach) -> bool:
    """Of breaches of one partition: the broker that the root accuses is one that the consequence is about."""
    here, there = root.subject, consequence.subject
    if here.get("metadata_offset") is not None and _election(consequence) not in (_ANY, here["metadata_offset"]):
        return False
    accused = here.get("broker_id", here.get("follower_id"))
    concerned = [there[name] for name in ("broker_id", "leader_id", "follower_id") if there.get(name) is not None]
    concerned += [consequence.evidence[name] for name in _HELD_AGAINST if concerned and name in consequence.evidence]
    return accused is None or not concerned or accused in concerned


def _election(breach: Breach) -> object:
    """The record of the metadata log that a breach puts down to, None if to no election, `_ANY` if it does not say."""
    return breach.subject.get("metadata_offset", breach.evidence.get("unclean_election_offset", _ANY))


def _breach_id(invariant: Invariant, row: Row, subject: Row) -> str:
    identity = _canonical({"cluster": row.get("cluster"), "code": invariant.code, **subject})
    return f"{invariant.code}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


def _canonical(value: Row) -> str:
    return json.dumps(dict(value), sort_keys=True, default=str)


# --------------------------------------------------------------------------------------------------------- how it reads


def _filled(template: str, readable: Mapping[str, str | None]) -> str | None:
    """The line, or None if it needs something that is not known."""
    names = {field.split(".")[0] for _, field, _, _ in Formatter().parse(template) if field}
    if any(readable[name] is None for name in names):
        return None
    return template.format_map(readable)


def shown(name: str, value: object) -> str | None:
    """A value as a person reads it: instants in UTC, how long a thing lasted, nothing that a terminal could obey."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (name in _INSTANTS or name.endswith(("_at_ms", "_timestamp_ms"))):
        return _instant(value)
    if isinstance(value, int) and name.endswith("_for_ms"):
        return duration(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{str(n).replace('_', ' ')} {shown(n, v)}" for n, v in value.items() if v is not None)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(shown("", item) or "none" for item in value) + "]"
    text = str(value)
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return printable if len(printable) <= _LONGEST_VALUE else printable[:_LONGEST_VALUE] + "…"


def duration(milliseconds: int) -> str:
    """How long, in the largest unit that leaves something before the point: what took a moment did not take 0 s."""
    if abs(milliseconds) < 1_000:
        return f"{milliseconds} ms"
    tenths = milliseconds // 100
    return f"{tenths / 10:.1f}".removesuffix(".0") + " s" if abs(milliseconds) < 10_000 else f"{tenths // 10} s"


def _instant(milliseconds: int) -> str:
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d} UTC"


def _quoted_details(invariant: Invariant, row: Row) -> list[str]:
    """The damaged places that the breach is about, the first few."""
    details = RELATIONS[invariant.relation].details
    if not invariant.details or details is None:
        return []
    told = row[details.column]
    places = json.loads(told) if isinstance(told, str) else told or []
    chosen = [place for place in places if not details.key or place.get(details.key) in invariant.details]
    lines = [_place(place) for place in chosen[:_QUOTED_DETAILS]]
    if len(chosen) > _QUOTED_DETAILS:
        lines.append(f"… and {len(chosen) - _QUOTED_DETAILS} more places.")
    return lines


def _place(place: Row) -> str:
    """One damaged place, whatever of it is known."""
    known = {name: text for name, value in place.items() if (text := shown(name, value)) is not None}
    where = [
        _stretch("byte", "bytes", known.get("position"), known.get("end_position"), "{}..{}"),
        _stretch("offset", "offsets", known.get("start_offset"), known.get("end_offset"), "[{}, {})"),
        f"offset {known['offset']}" if "offset" in known else "",
        f"{known['records']} records" if "records" in known else "",
    ]
    what = [
        known.get("kind", known.get("cause", "")),
        f"expected sequence {known['expected_sequence']}" if "expected_sequence" in known else "",
        f"found sequence {known['found_sequence']}" if "found_sequence" in known else "",
        f"leader holds {known['leader_batch']}" if "leader_batch" in known else "",
        f"follower holds {known['follower_batch']}" if "follower_batch" in known else "",
        f"held before {known['previous_batch']}" if "previous_batch" in known else "",
        f"holds now {known['batch']}" if "batch" in known else "",
        known.get("detail", ""),
    ]
    at, said = ", ".join(filter(None, where)), ", ".join(filter(None, what))
    return f"{at}: {said}" if at and said else at or said


def _stretch(one: str, many: str, start: str | None, end: str | None, both: str) -> str:
    """From where to where, in the words for as much of it as is known: damage hides either end, or both."""
    if start is not None and end is not None:
        return f"{many} {both.format(start, end)}"
    if start is not None:
        return f"{one} {start}" if one == "byte" else f"{many} from {start} on"
    return f"{many} below {end}" if end is not None else ""


def _plain(value: object) -> Any:
    """A value as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def _whole_number(value: Any) -> Any:
    """A value as Python has it: what was added or subtracted came as a decimal, which is whole."""
    return int(value) if isinstance(value, Decimal) else value
