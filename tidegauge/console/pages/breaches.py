"""Breaches: the list, one breach with its argument and its life, and the acknowledgement of it."""

from datetime import UTC, datetime, timedelta
from typing import Final

from fastapi import APIRouter

from tidegauge.console.callers import Caller, who_says
from tidegauge.console.database import Row, Store
from tidegauge.console.figures import Figure, figure
from tidegauge.console.reading import breaches, losses
from tidegauge.console.refusal import RefusalError, not_found
from tidegauge.console.web import Asked, Page, add_page
from tidegauge.expectations.causes import CAUSES

BREACH_COLUMNS: Final = (
    "cluster", "breach_id", "state", "code", "name", "severity", "subject", "start_offset", "end_offset", "records",
    "explanation", "implied_by", "opened_at", "last_seen_at", "resolved_at", "acknowledged_by", "acknowledged_until",
    "acknowledgement_verification",
)  # fmt: skip
_SHOWN = 100
_LONGEST_NOTE = 2_000
_LONGEST: Final = timedelta(days=36_525)
_PERIODS: Final = {
    "1 hour": timedelta(hours=1),
    "1 day": timedelta(days=1),
    "3 days": timedelta(days=3),
    "1 week": timedelta(days=7),
}
SAID: Final = {
    "acknowledged": "Acknowledged.",
    "already": "That was acknowledged before, in the same words: nothing has changed.",
    "replaced": "Acknowledged. It replaces what was said before, which is kept below.",
    "withdrawn": "The acknowledgement was withdrawn.",
    "nothing": "There was no acknowledgement in force: nothing has changed.",
}


def add(router: APIRouter) -> None:
    """`/breaches`, `/clusters/CLUSTER/breaches/BREACH_ID`"""
    add_page(router, "/breaches", listing)
    add_page(router, "/clusters/{cluster}/breaches/{breach}", breach)


def listing(asked: Asked) -> Page:
    """Breaches by filter, worst first."""
    filters = breaches.Filters(
        state=asked.choice("state", breaches.STATES) or "open",
        severity=asked.choice("severity", breaches.SEVERITIES),
        cluster=asked.query.get("cluster") or None,
        code=asked.query.get("code") or None,
    )
    found = breaches.listed(asked.store, filters, after=asked.after, size=asked.size)
    kept = {"state": filters.state, "severity": filters.severity, "cluster": filters.cluster, "code": filters.code}
    next_page = asked.links.breaches(**kept, after=found.after) if found.after else None
    return Page(
        template="breaches.html.j2",
        values={
            "filters": filters,
            "found": found,
            "lost": losses.of_breaches(asked.store, found.rows) if filters.state == "resolved" else {},
            "next_page": next_page,
            "counts": breaches.counts(asked.store, filters.cluster),
            "states": breaches.STATES,
            "severities": breaches.SEVERITIES,
        },
        figures={"breaches": figure(found.rows, *BREACH_COLUMNS, next_page=next_page)},
    )


def of_address(asked: Asked) -> Row:
    """The breach that the address names. Raises `RefusalError`."""
    found = breaches.breach(asked.store, asked.path["cluster"], asked.path["breach"])
    if found is None:
        raise not_found(f"Cluster {asked.path['cluster']!r} has no breach {asked.path['breach']!r}.")
    return found


def breach(asked: Asked) -> Page:
    """One breach: argument, evidence, life, next command."""
    row = of_address(asked)
    cluster, breach_id = row["cluster"], row["breach_id"]
    root = breaches.breach(asked.store, cluster, row["implied_by"]) if row["implied_by"] is not None else None
    sightings = breaches.sightings(asked.store, cluster, breach_id, _SHOWN)
    words = breaches.acknowledgements(asked.store, cluster, breach_id)
    consequences = breaches.consequences(asked.store, cluster, breach_id, _SHOWN)
    return Page(
        template="breach.html.j2",
        values={
            "breach": row,
            "root": root,
            "lost": losses.of_breaches(asked.store, [row]).get((cluster, breach_id))
            if row["found_state"] == "resolved"
            else None,
            "cause": CAUSES.get(row["points_to"] or ""),
            "place_link": asked.links.subject(cluster, row["subject"]),
            "consequences": consequences,
            "lost_consequences": losses.of_breaches(
                asked.store, [c for c in consequences if c["found_state"] == "resolved"]
            ),
            "sightings": sightings,
            "words": words,
            "periods": tuple(_PERIODS),
            "said": SAID.get(asked.query.get("said", "")),
            "caller": asked.caller(),
            "takes_tokens": asked.takes_tokens,
        },
        figures={
            "breach": figure([row], *BREACH_COLUMNS, "evidence", "next"),
            "evidence": _evidence(row),
            "history": figure(
                sightings, "run_id", "snapshot_id", "captured_at", "severity", "start_offset", "end_offset", "records"
            ),
            "consequences": figure(consequences, *BREACH_COLUMNS),
            "acknowledgements": figure(
                words,
                "acknowledged_by",
                "acknowledged_at",
                "acknowledged_until",
                "note",
                "in_force",
                "ended_at",
                "ended_by",
                "verification",
                "ended_verification",
            ),
        },
    )


def _evidence(row: Row) -> Figure:
    return figure(({"name": name, "value": value} for name, value in row["evidence"].items()), "name", "value")


def acknowledge(asked: Asked, store: Store, form: dict[str, str], caller: Caller) -> str:
    """Says it, and returns what to tell (a key of `SAID`). Raises `RefusalError`, `StoreError`."""
    row = of_address(asked)
    who = who_says(form, caller)
    note = form.get("note", "").strip()
    if who is None:
        raise RefusalError(
            400, "Not acknowledged", "Say who takes care of it: a name or an address, not longer than a line."
        )
    cluster, breach_id = row["cluster"], row["breach_id"]
    if form.get("action") == "withdraw":
        done = store.withdraw(cluster, breach_id, by=who, verification=caller.verification, address=caller.address)
        return "withdrawn" if done else "nothing"
    if len(note) > _LONGEST_NOTE or "\0" in note:
        raise RefusalError(
            400, "Not acknowledged", f"The note is longer than {_LONGEST_NOTE} characters, or holds a NUL."
        )
    until = _until(form.get("until", ""), asked.now)
    result = store.acknowledge(
        cluster, breach_id, by=who, until=until, note=note, verification=caller.verification, address=caller.address
    )
    match result.outcome:
        case "past":
            raise RefusalError(
                400, "Not acknowledged", "The time until which it should hold is over. Choose a later one."
            )
        case "resolved":
            raise RefusalError(409, "Not acknowledged", "The breach is resolved: there is nothing to acknowledge.")
        case "unknown" | "nobody":
            raise not_found("The breach went away meanwhile.")
        case outcome:
            return outcome


def _until(text: str, now: datetime) -> datetime | None:
    """One of the periods from now (to the minute, so that the same said twice is the same), an instant, or None."""
    if text in ("", "resolved"):
        return None
    if text in _PERIODS:
        return now.replace(second=0, microsecond=0) + _PERIODS[text]
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise RefusalError(
            400, "Not acknowledged", f"{text!r} is no instant. Give one as 2026-11-21T18:00, in UTC."
        ) from None
    told = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    # In some time zone the calendar's last day is behind its end: whoever reads the store there could show no page.
    if told - now > _LONGEST:
        raise RefusalError(
            400, "Not acknowledged", f"{text!r} is more than a hundred years ahead. Choose: until it is resolved."
        )
    return told
