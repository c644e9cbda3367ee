"""A person's decision on a loss in, what became of it out.

The rules that must hold: a decision is about what is undecided at that moment, and about no more: what is told of
later, or turns out worse, waits for another one. Deciding twice changes nothing; something else than what was decided
has to be opened again first, so that of two people neither overrules the other unawares. The work is done by a function
in the store (`decide_loss`), which adds each decision to a trail that is never rewritten.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from tidegauge.store.acknowledgement import Verification
from tidegauge.store.connection import connect
from tidegauge.store.rows import text_value

Action = Literal["accepted", "salvaged", "produced_again", "reopened"]
"""Given up; saved from a disk; written anew by its producers; undecided after all."""
Outcome = Literal[
    "decided", "reopened", "already", "otherwise", "open", "back", "changed", "unknown", "nobody", "silent"
]

LONGEST_NOTE: Final = 2000
"""Characters; the console's forms say so, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of it. The other fields are those of the decision that is in force; null where there is none.

    `outcome`: `already` decided so; decided `otherwise`; `open` was not decided at all; proven to be `back`; `changed`
    since it was looked at, and `records` are undecided now; `unknown` id; said by `nobody`; `silent`, without a note.
    """

    outcome: Outcome
    action: Action | None
    decided_by: str | None
    decided_at: datetime | None
    note: str | None
    verification: Verification | None
    records: int | None


def decide(
    url: str,
    loss_id: str,
    action: Action,
    *,
    by: str,
    note: str,
    seen_records: int | None = None,
    verification: Verification = "unverified",
    address: str | None = None,
) -> Decision:
    """Decides a loss, or opens it again. `seen_records`: how many undecided records whoever decides was shown; None
    where that was now. `address`: from where it was said; None where only the store knows. Raises `StoreError`.
    """
    with connect(url, "decide a loss") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT outcome, action, decided_by, decided_at, note, verification, records "
            "FROM tidegauge.decide_loss(%s, %s, %s, %s, %s, %s, CAST(%s AS inet))",
            (text_value(loss_id), action, text_value(by), text_value(note), seen_records, verification, address),
        )
        outcome, told_action, decided_by, decided_at, told_note, told_verification, records = cursor.fetchone()
    return Decision(
        outcome=outcome,
        action=told_action,
        decided_by=decided_by,
        decided_at=decided_at,
        note=told_note,
        verification=told_verification,
        records=None if records is None else int(records),
    )
