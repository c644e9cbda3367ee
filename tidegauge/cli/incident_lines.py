"""Incidents on a terminal and as JSON: rows of the store, or an incident of a report, in; lines or objects out.

The rule that must hold: a command is a line of its own and reads as it was made, so that what is copied is what a shell
takes; everything else that a snapshot holds is shown and not obeyed.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from tidegauge.cli.by_hand import json_value
from tidegauge.expectations.incidents.plan import with_bootstrap
from tidegauge.store.incident_reading import headline
from tidegauge.terminal import WIDTH, plain

if TYPE_CHECKING:
    from tidegauge.expectations.incidents.model import ToldStep
    from tidegauge.store.incident_reading import EventRow, IncidentRow, MemberRow, ShownIncident

_MEMBERS_SHOWN: Final = 200
_ROW_KEYS: Final = (
    "incident_id", "cluster", "source", "state", "severity", "kind", "cause", "anchor", "what", "avoid", "began_at",
    "ended_at", "brokers", "believe", "partitions", "groups_affected", "records_lost", "records_at_risk",
    "records_possible", "records_read", "breaches", "open_breaches", "losses", "undecided_losses", "risks",
    "first_seen_at", "last_seen_at", "times_opened", "split_from",
)  # fmt: skip
_MEMBER_KEYS: Final = (
    "kind", "member", "topic", "partitions", "rule", "because", "code", "name", "severity", "implied_by", "is_open",
    "acknowledged", "loss_state", "records_lost", "records_at_risk", "records_possible",
)  # fmt: skip
_EVENT_KEYS: Final = (
    "happened_at", "action", "incident_id", "other_id", "members", "step", "said_by", "verification", "note",
)  # fmt: skip


def listed(found: "Sequence[IncidentRow]") -> Iterator[str]:
    """A sentence each."""
    if not found:
        yield "No incident is open."
    for row in found:
        yield from _head(row)


def _head(row: "IncidentRow") -> Iterator[str]:
    simulated = " (simulated)" if row["source"] == "simulated" else ""
    state = "" if row["state"] == "open" else f", {row['state']}"
    yield click.style(f"{row['incident_id']}  {plain(row['cluster'])}{simulated}  {row['severity']}{state}", bold=True)
    yield from _wrapped(f"{headline(row)}.")
    if row["state"] != "over":
        yield from _wrapped(row["avoid"])


def shown(found: "ShownIncident") -> Iterator[str]:
    """One incident in full."""
    row = found.row
    yield from _head(row)
    since = f"First seen in a capture of {_at(row['first_seen_at'])}, last in one of {_at(row['last_seen_at'])}"
    yield from _wrapped(f"{since}." + (f" Split from {row['split_from']}." if row["split_from"] else ""))
    yield f"  What belongs to it ({len(found.members)}):"
    for member in found.members[:_MEMBERS_SHOWN]:
        yield from _wrapped(_member(member), "    ")
    if len(found.members) > _MEMBERS_SHOWN:
        yield f"    … and {len(found.members) - _MEMBERS_SHOWN} more; --json has all."
    done = found.done()
    steps = row["steps"]
    if steps:
        yield f"  Checklist: {sum(s['step'] in done for s in steps)} of {len(steps)} done; " + plain(
            f"tidegauge plan {row['incident_id']} prints it."
        )
    for event in found.events:
        yield from _wrapped(_event(event))


def _member(member: "MemberRow") -> str:
    state = "" if member["is_open"] else " (over)"
    if member["kind"] == "breach":
        about = f"{member['code']} {member['name']} {_places(member)}".rstrip()
    elif member["kind"] == "loss":
        about = f"loss of {_places(member)}, {(member['loss_state'] or '').replace('_', ' ')}"
    else:
        about = "risk as it is now"
    return f"{about} [{member['member']}]{state}: {member['because']} ({member['rule'].replace('_', ' ')})"


def _places(member: "MemberRow") -> str:
    if member["topic"] is None:
        return ""
    return ", ".join(f"{member['topic']}-{partition}" for partition in member["partitions"]) or member["topic"]


def _event(event: "EventRow") -> str:
    said = {
        "split": f"split {len(event['members'] or ())} members off as {event['other_id']}",
        "merged": f"merged {event['incident_id']} into {event['other_id']}",
        "acknowledged": f"acknowledged {len(event['members'] or ())} breaches",
        "done": f"did {event['step']}",
        "undone": f"took back that {event['step']} was done",
    }[event["action"]]
    return f"{_at(event['happened_at'])} {event['said_by']} {said}" + (f": {event['note']}" if event["note"] else "")


def planned(
    incident_id: str,
    sentence: str,
    steps: "Sequence[ToldStep]",
    done: "Mapping[str, EventRow]",
    bootstrap: str | None,
) -> Iterator[str]:
    """The checklist, each command on a line of its own."""
    yield click.style(plain(incident_id), bold=True)
    yield from textwrap.wrap(plain(f"{sentence}."), WIDTH)
    for number, step in enumerate(steps, 1):
        ticked = done.get(step["step"])
        by = f" (done by {ticked['said_by']}, {_at(ticked['happened_at'])})" if ticked is not None else ""
        yield ""
        mark = "x" if ticked is not None else " "
        yield from textwrap.wrap(
            plain(f"{number}. [{mark}] {step['sentence']}{by}"), WIDTH, subsequent_indent="       "
        )
        yield plain(f"       step: {step['step']}")
        command, to_complete = step["command"], step["to_complete"]
        if command is None:
            continue
        if bootstrap is not None:
            command, to_complete = with_bootstrap(command, bootstrap, to_complete)
        if to_complete:
            yield from textwrap.wrap(
                plain(f"to be completed: {to_complete}"), WIDTH, initial_indent="       ", subsequent_indent="       "
            )
        yield plain(f"    {command}")


def as_object(row: "IncidentRow") -> dict[str, object]:
    """What `--json` prints of an incident; docs/reference/incidents.md has its keys."""
    found: dict[str, object] = {key: json_value(value) for key, value in row.items() if key in _ROW_KEYS}
    return {"headline": headline(row)} | found


def in_full(found: "ShownIncident") -> dict[str, object]:
    """The same with what belongs to it."""
    done = found.done()
    steps = [
        {
            **step,
            "done_by": done[step["step"]]["said_by"] if step["step"] in done else None,
            "done_at": json_value(done[step["step"]]["happened_at"]) if step["step"] in done else None,
        }
        for step in found.row["steps"]
    ]
    return {
        "schema_version": 1,
        "incident": as_object(found.row),
        "members": [{k: json_value(v) for k, v in m.items() if k in _MEMBER_KEYS} for m in found.members],
        "steps": steps,
        "events": [{k: json_value(v) for k, v in e.items() if k in _EVENT_KEYS} for e in found.events],
    }


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(plain(text), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _at(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
