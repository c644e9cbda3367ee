"""Incidents: the list, one with all that belongs to it and its checklist, and what people say of it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from fastapi import APIRouter

from tidegauge.console.callers import Caller, who_says
from tidegauge.console.database import Store
from tidegauge.console.figures import figure
from tidegauge.console.reading import incidents
from tidegauge.console.refusal import RefusalError, not_found
from tidegauge.console.web import Asked, Page, add_page
from tidegauge.store.incident_reading import ShownIncident, headline
from tidegauge.store.incident_word import Speaker, Word
from tidegauge.store.loss_decision import LONGEST_NOTE

_COLUMNS: Final = (
    "cluster", "incident_id", "state", "severity", "kind", "cause", "headline", "avoid", "began_at", "ended_at",
    "brokers", "believe", "partitions", "groups_affected", "records_lost", "records_at_risk", "records_possible",
    "breaches", "open_breaches", "losses", "undecided_losses", "first_seen_at", "last_seen_at", "times_opened",
)  # fmt: skip
_MEMBER_COLUMNS: Final = (
    "kind", "member", "topic", "partitions", "code", "name", "severity", "is_open", "rule", "because", "records_lost",
    "records_at_risk", "records_possible",
)  # fmt: skip
_EVENT_COLUMNS: Final = (
    "happened_at", "action", "incident_id", "other_id", "step", "said_by", "verification", "note",
)  # fmt: skip
SAID: Final = {
    "split": "Split. What was named is an incident of its own now; it is kept so in later audits.",
    "merged": "Merged. What is below belongs together now, and is kept so in later audits.",
    "acknowledged": "Acknowledged: each breach of it that is open. Its losses wait for their own decision.",
    "done": "Ticked off.",
    "undone": "Open again.",
    "already": "That was so before: nothing has changed.",
}
_REFUSED: Final[Mapping[str, tuple[int, str]]] = {
    "elsewhere": (409, "{detail} is no member of it, or somebody was faster."),
    "all": (409, "That is all of it: nothing would stay. Name only what has another cause."),
    "itself": (400, "An incident cannot be merged into itself."),
    "clusters": (409, "The two are of two clusters, and an incident is of one."),
    "unknown": (404, "There is no incident {other}."),
    "gone": (409, "Somebody merged {detail} into {other} meanwhile."),
    "over": (409, "No breach of it is open, so there is nothing to acknowledge."),
    "step": (409, "Its checklist has no such step any more."),
    "open": (409, "It was not ticked off."),
    "past": (400, "Say for how many hours, one at least, or leave it empty."),
}


def add(router: APIRouter) -> None:
    """`/incidents`, `/clusters/CLUSTER/incidents/INCIDENT_ID`"""
    add_page(router, "/incidents", listing)
    add_page(router, "/clusters/{cluster}/incidents/{incident}", incident)


def listing(asked: Asked) -> Page:
    """Those that are open, the worst first."""
    cluster = asked.query.get("cluster") or None
    with_over = asked.query.get("state") == "all"
    found = incidents.listed(asked.store, cluster=cluster, with_over=with_over, limit=asked.size)
    return Page(
        template="incidents.html.j2",
        values={"found": found, "cluster": cluster, "with_over": with_over, "is_cut": len(found) == asked.size},
        figures={"incidents": figure(found, *_COLUMNS)},
    )


def _of_address(asked: Asked) -> ShownIncident:
    """The incident that the address names. Raises `RefusalError`."""
    cluster, incident_id = asked.path["cluster"], asked.path["incident"]
    found = incidents.incident(asked.store, cluster, incident_id, limit=asked.size)
    if found is None:
        raise not_found(f"Cluster {cluster!r} has no incident {incident_id!r}.")
    if isinstance(found, str):
        raise not_found(f"{incident_id!r} was merged into {found!r}, which has it now.")
    return found


def incident(asked: Asked) -> Page:
    """One incident: the sentence, what not to do, what belongs to it, what to do, what people said."""
    found = _of_address(asked)
    row = {**found.row, "headline": headline(found.row)}
    return Page(
        template="incident.html.j2",
        values={
            "incident": row,
            "members": found.members,
            "events": found.events,
            "done": found.done(),
            "said": SAID.get(asked.query.get("said", "")),
            "caller": asked.caller(),
            "takes_tokens": asked.takes_tokens,
            "longest_note": LONGEST_NOTE,
        },
        figures={
            "incident": figure([row], *_COLUMNS),
            "members": figure(map(dict, found.members), *_MEMBER_COLUMNS),
            "events": figure(map(dict, found.events), *_EVENT_COLUMNS),
        },
    )


def say(asked: Asked, store: Store, form: dict[str, str], caller: Caller) -> str:
    """Does what a form says, and returns what to tell (a key of `SAID`). Raises `RefusalError`, `StoreError`."""
    row = _of_address(asked).row
    who = who_says(form, caller)
    note = form.get("note", "").strip()
    action = form.get("action", "")
    if action not in ("split", "merge", "acknowledge", "done", "undone"):
        raise _refused(400, "Choose one of split, merge, acknowledge, done, undone.")
    if who is None:
        raise _refused(400, "Say who says so: a name or an address, not longer than a line.")
    if (not note and action in ("split", "merge")) or len(note) > LONGEST_NOTE or "\0" in note:
        raise _refused(400, f"Say why, in at most {LONGEST_NOTE} characters and without a NUL.")
    speaker = Speaker(by=who, verification=caller.verification, address=caller.address)
    word = _done(action, row["incident_id"], store, form, note, speaker, asked)
    if word.outcome in SAID:
        return word.outcome
    status, words = _REFUSED[word.outcome]
    raise _refused(status, words.format(detail=word.detail or "it", other=word.other_id or row["incident_id"]))


def _done(
    action: str,
    incident_id: str,
    store: Store,
    form: dict[str, str],
    note: str,
    speaker: Speaker,
    asked: Asked,
) -> Word:
    hours = form.get("hours", "")
    until = asked.now + timedelta(hours=int(hours)) if hours.isdecimal() and 0 < len(hours) < 5 else None
    ways: Mapping[str, Callable[[], Word]] = {
        "split": lambda: store.split_incident(incident_id, form.get("members", "").split(), speaker, note),
        "merge": lambda: store.merge_incident(incident_id, form.get("into", "").strip(), speaker, note),
        "acknowledge": lambda: store.acknowledge_incident(incident_id, speaker, until, note),
        "done": lambda: store.note_step(incident_id, form.get("step", ""), True, speaker, note),
        "undone": lambda: store.note_step(incident_id, form.get("step", ""), False, speaker, note),
    }
    return ways[action]()


def _refused(status: int, words: str) -> RefusalError:
    return RefusalError(status, "Not done", f"{words} Nothing was changed.")
