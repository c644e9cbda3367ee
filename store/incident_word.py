"""What somebody says of an incident in, what became of it out.

The rules that must hold: of two people neither overrules the other unawares, whatever is refused changes nothing, and
each word that changes something stands in a trail that is never rewritten. The work is done by functions in the store
(`split_incident` and its like), so that who may call them needs no right on its tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegauge.store.acknowledgement import Verification
from tidegauge.store.connection import connect
from tidegauge.store.rows import text_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Who says it, who vouches for that name, and from where (None where only the store knows)."""

    by: str
    verification: Verification = "unverified"
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What became of it; `outcome` is what the store's function says, each has its list there (r0029_incidents.sql)."""

    outcome: str
    other_id: str | None
    detail: str | None


def split(url: str, incident_id: str, members: Sequence[str], *, speaker: Speaker, note: str) -> Word:
    """Makes another incident of some breaches and losses of one. Raises `StoreError`."""
    which = [text_value(member) for member in members]
    return _said(url, "split_incident", speaker, incident_id, which, text_value(speaker.by), text_value(note))


def merge(url: str, incident_id: str, into: str, *, speaker: Speaker, note: str) -> Word:
    """Puts all of one incident into another one. Raises `StoreError`."""
    said = (text_value(into), text_value(speaker.by), text_value(note))
    return _said(url, "merge_incidents", speaker, incident_id, *said)


def acknowledge_incident(url: str, incident_id: str, *, speaker: Speaker, until: datetime | None, note: str) -> Word:
    """Says that somebody takes care of all its open breaches. Raises `StoreError`."""
    said = (text_value(speaker.by), until, text_value(note))
    return _said(url, "acknowledge_incident", speaker, incident_id, *said)


def note_step(url: str, incident_id: str, step: str, *, is_done: bool, speaker: Speaker, note: str = "") -> Word:
    """Ticks a step of the checklist off, or takes that back. Raises `StoreError`."""
    said = (text_value(step), is_done, text_value(speaker.by), text_value(note))
    return _said(url, "note_incident_step", speaker, incident_id, *said)


def _said(url: str, function: str, speaker: Speaker, incident_id: str, *said: object) -> Word:
    values = (text_value(incident_id), *said, speaker.verification, speaker.address)
    marks = ", ".join("%s" for _ in values[:-1])
    with connect(url, "keep what was said of an incident") as connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT outcome, other_id, detail FROM tidegauge.{function}({marks}, CAST(%s AS inet))",
            values,
        )
        outcome, other_id, detail = cursor.fetchone()
    return Word(outcome=outcome, other_id=other_id, detail=detail)
