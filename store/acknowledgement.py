"""Somebody's word on a breach in, what became of it out.

Saying the same twice changes nothing; saying something else replaces what was in force, and the earlier word is kept. A
word is about one opening of a breach: when the breach was resolved and comes back, nobody has acknowledged it. The work
is done by functions in the store, so that who may call them needs no right on its tables; they add each word, and each
withdrawal, to a trail that is never rewritten (`acknowledgement_event`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tidegauge.store.connection import connect

Outcome = Literal["acknowledged", "already", "replaced", "resolved", "unknown", "past", "nobody"]
Verification = Literal["airflow", "proxy", "token", "unverified"]
"""Who vouches for a name: the login in front of the console, or nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """What became of it. The other fields are those of the word that is in force (`acknowledged`, `already`), or that
    was until now (`replaced`); null where nothing was changed (`resolved`, `unknown`, `past`, `nobody`).
    """

    outcome: Outcome
    acknowledged_by: str | None
    acknowledged_at: datetime | None
    acknowledged_until: datetime | None
    note: str | None
    verification: Verification | None


def acknowledge(
    url: str,
    cluster: str,
    breach_id: str,
    *,
    by: str,
    until: datetime | None,
    note: str = "",
    verification: Verification = "unverified",
    address: str | None = None,
) -> Acknowledgement:
    """Says that `by` takes care of a breach, until an instant or (None) until it is resolved. `address`: from where
    that was said, as an IP address; None where only the store knows who asked it. Raises `StoreError`.
    """
    with connect(url, "acknowledge a breach") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT outcome, acknowledged_by, acknowledged_at, acknowledged_until, note, verification "
            "FROM tidegauge.acknowledge(%s, %s, %s, %s, %s, %s, CAST(%s AS inet))",
            (cluster, breach_id, by, until, note, verification, address),
        )
        outcome, *of_word = cursor.fetchone()
    names = ("acknowledged_by", "acknowledged_at", "acknowledged_until", "note", "verification")
    return Acknowledgement(outcome=outcome, **dict(zip(names, of_word, strict=True)))


def withdraw(
    url: str,
    cluster: str,
    breach_id: str,
    *,
    by: str,
    verification: Verification = "unverified",
    address: str | None = None,
) -> bool:
    """Takes back what is in force; False where nothing was. Raises `StoreError`."""
    with connect(url, "withdraw an acknowledgement") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT tidegauge.withdraw_acknowledgement(%s, %s, %s, %s, CAST(%s AS inet))",
            (cluster, breach_id, by, verification, address),
        )
        return bool(cursor.fetchone()[0])
