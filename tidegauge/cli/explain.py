"""One breach explained: its argument, what the metadata log tells of that time, what follows from it, what to do.

In: a breach id, and where the results are: an audit's directory, or a store. Out: lines for a terminal. Everything told
is of the run that saw the breach last; nothing is computed anew.
"""

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tidegauge.audit.explained import Explained, from_report
from tidegauge.cli.present import breach_lines, shown_plainly, subject_line
from tidegauge.expectations.data_docs import runbook
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import shown
from tidegauge.terminal import WIDTH, plain

_EVENTS_SHOWN: Final = 24
_CONSEQUENCES_SHOWN: Final = 20
_ANCHORS: Final = ("metadata_offset", "unclean_election_offset")

Row = Mapping[str, Any]


def explain(breach_id: str, directory: Path) -> Iterator[str]:
    """The breach of that id in any report below the directory. Raises `SnapshotError` if there is none."""
    return lines(from_report(breach_id, directory))


def lines(found: Explained) -> Iterator[str]:
    """A breach, wherever it was found."""
    breach = shown_plainly(found.breach)
    yield from breach_lines({**breach, "next": ""})
    if found.incident is not None:
        part = (
            f"Part of {found.incident.incident_id}: {found.incident.headline}. Here because: {found.incident.because}."
        )
        yield from textwrap.wrap(plain(part), WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield "  Evidence:"
    for name in _evidence_names(breach):
        value = breach["evidence"][name]
        if value is not None:
            text = shown(name, value) or ""
            yield from textwrap.wrap(
                plain(f"{name} = {text}"), WIDTH, initial_indent="    ", subsequent_indent="      "
            )
    yield from _timeline(found)
    if breach["implied_by"]:
        yield f"  It follows from {breach['implied_by']}."
    for consequence in map(shown_plainly, found.consequences[:_CONSEQUENCES_SHOWN]):
        about = subject_line(consequence["subject"])
        yield f"  From it follows {consequence['code']} {consequence['name']} [{consequence['breach_id']}]: {about}"
    if len(found.consequences) > _CONSEQUENCES_SHOWN:
        yield f"  … and {len(found.consequences) - _CONSEQUENCES_SHOWN} more that follow from it."
    yield from _runbook(breach["code"])
    if breach["next"]:
        yield f"  Next: {plain(breach['next'])}"


def _evidence_names(breach: Row) -> list[str]:
    """In the invariant's order, which a store does not keep."""
    invariant = CATALOGUE.get(breach["code"])
    order = invariant.evidence if invariant is not None else ()
    return sorted(breach["evidence"], key=lambda name: order.index(name) if name in order else len(order))


def _timeline(found: Explained) -> Iterator[str]:
    """Elections, changes of ISR and ELR, and what became of the brokers, around the moment that the breach is about."""
    events = sorted(
        [(c["metadata_offset"], 0, c) for c in found.partition_changes]
        + [(c["metadata_offset"], 1, c) for c in found.broker_changes],
        key=lambda e: e[:2],
    )
    if not events:
        return
    anchor = _anchor(found)
    at = next((i for i, (offset, kind, _) in enumerate(events) if offset == anchor and kind == 0), len(events) - 1)
    first = max(0, min(at - _EVENTS_SHOWN // 2, len(events) - _EVENTS_SHOWN))
    told = events[first : first + _EVENTS_SHOWN]
    yield "  The metadata log around it:"
    if first:
        yield f"    … {first} earlier"
    for offset, kind, row in told:
        mark = ">" if kind == 0 and offset == anchor else " "
        when = shown("at_ms", row["at_ms"]) or "before the log that is kept"
        text = _broker_event(row) if kind else _partition_event(row)
        line = f"{mark} offset {offset}, {when}: {text}"
        yield from textwrap.wrap(plain(line), WIDTH, initial_indent="    ", subsequent_indent="        ")
    later = len(events) - first - len(told)
    if later:
        yield f"    … {later} later"


def _anchor(found: Explained) -> int | None:
    """The record of the metadata log that the breach puts down to: an election, else the start of an epoch."""
    breach = found.breach
    for name in _ANCHORS:
        value = breach["subject"].get(name, breach["evidence"].get(name))
        if value is not None:
            return int(value)
    epochs = (breach["evidence"].get(name) for name in ("newer_epoch", "leader_last_leader_epoch", "last_leader_epoch"))
    epoch = next((e for e in epochs if e is not None), None)
    of_epoch = (c["metadata_offset"] for c in found.partition_changes if c["leader_epoch"] == epoch)
    return next(of_epoch, None)


def _partition_event(row: Row) -> str:
    leader = f"broker {row['leader_id']} leads" if row["leader_id"] is not None else "nobody leads"
    before = row["previous_leader_id"]
    election = {
        "unclean": f"unclean election: {leader}, while the ISR was {_ids(row['previous_isr'])}",
        "clean": f"election: {leader}",
        "elr": f"election from the ELR {_ids(row['previous_elr'])}: {leader}",
        "last_known": f"election of who led last: {leader}",
    }.get(row["election"])
    if election is None:
        election = leader if row["leader_id"] == before or before is None else f"{leader}, broker {before} led before"
    parts = [f"{election}, leader epoch {row['leader_epoch']}", f"ISR {_ids(row['isr'])}"]
    if row["elr"]:
        parts.append(f"ELR {_ids(row['elr'])}")
    if row["adding_replicas"] or row["removing_replicas"]:
        parts.append(f"moving: in {_ids(row['adding_replicas'])}, out {_ids(row['removing_replicas'])}")
    return "; ".join(parts)


def _broker_event(row: Row) -> str:
    epoch = f", broker epoch {row['broker_epoch']}" if row["change"].startswith("registered") else ""
    return f"broker {row['broker_id']} {row['change']}{epoch}"


def _ids(brokers: Any) -> str:
    return "[" + ", ".join(map(str, brokers or ())) + "]"


def _runbook(code: str) -> Iterator[str]:
    """The invariant's runbook below its title; a breach of an invariant that there is no more has none."""
    invariant = CATALOGUE.get(code)
    if invariant is None:
        return
    yield f"  Runbook {invariant.name}:"
    for line in runbook(invariant).splitlines()[1:]:
        if line.startswith("#"):
            yield f"    {line.lstrip('# ')}"
        elif line.strip():
            yield f"      {line}"
