"""Losses: those of a cluster, one with its life, and the decision of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from fastapi import APIRouter

from tidegauge.console.callers import Caller, who_says
from tidegauge.console.database import Row, Store
from tidegauge.console.figures import figure
from tidegauge.console.pages.cluster import of_address as cluster_of_address
from tidegauge.console.reading import losses
from tidegauge.console.refusal import RefusalError, not_found
from tidegauge.console.web import Asked, Page, add_page
from tidegauge.store.loss_decision import LONGEST_NOTE, Action

_COLUMNS: Final = (
    "cluster", "loss_id", "topic", "topic_id", "partition", "leader_epoch", "state", "undecided", "records",
    "records_lost", "records_at_risk", "records_possible", "records_decided", "records_back", "start_offset",
    "end_offset", "since", "first_told_at", "last_told_at", "held_by", "cause", "groups_affected", "decided_by",
)  # fmt: skip
_STRETCH_COLUMNS: Final = (
    "start_offset", "end_offset", "records", "state", "state_at", "undecided", "held_by", "first_told_at",
    "last_told_at", "back_at", "decision", "decided_by",
)  # fmt: skip
_DECISION_COLUMNS: Final = (
    "decided_at", "action", "records", "ranges", "decided_by", "verification", "from_address", "database_role", "note",
)  # fmt: skip
_SHOWN: Final = 200
ACTIONS: Final[Mapping[str, Action]] = {
    "accept": "accepted", "salvaged": "salvaged", "produced-again": "produced_again", "reopen": "reopened",
}  # fmt: skip
SAID: Final = {
    "decided": "Decided. It is kept below, for those who ask later.",
    "reopened": "Open again. What was decided before is kept below.",
    "already": "That was decided before: nothing has changed.",
}
_SEEN: Final = {
    "possible": "told as possible", "at_risk": "told as at risk", "lost": "told as lost",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What became of a loss at an instant: seen by a run, or said by somebody."""

    at: datetime
    what: str
    records: int
    who: str | None = None
    verification: str | None = None
    run_id: str | None = None
    note: str | None = None


def add(router: APIRouter) -> None:
    """`/clusters/CLUSTER/losses`, `/clusters/CLUSTER/losses/LOSS_ID`"""
    add_page(router, "/clusters/{cluster}/losses", listing)
    add_page(router, "/clusters/{cluster}/losses/{loss}", loss)


def listing(asked: Asked) -> Page:
    """A cluster's losses, those that wait for a decision first."""
    cluster = cluster_of_address(asked)["cluster"]
    found = losses.listed(asked.store, cluster, after=asked.after, size=asked.size)
    total = losses.totals(asked.store, cluster).get(cluster)
    next_page = asked.links.losses(cluster, after=found.after) if found.after else None
    return Page(
        template="losses.html.j2",
        values={
            "cluster": cluster,
            "found": found,
            "next_page": next_page,
            "headline": total["headline"] if total is not None else None,
        },
        figures={"losses": figure(found.rows, *_COLUMNS, next_page=next_page)},
    )


def of_address(asked: Asked) -> Row:
    """The loss that the address names. Raises `RefusalError`."""
    found = losses.loss(asked.store, asked.path["cluster"], asked.path["loss"])
    if found is None:
        raise not_found(f"Cluster {asked.path['cluster']!r} has no loss {asked.path['loss']!r}.")
    return found


def loss(asked: Asked) -> Page:
    """One loss: what it is, how it came to be so, what people decided."""
    row = of_address(asked)
    cluster, loss_id = row["cluster"], row["loss_id"]
    stretches = losses.stretches(asked.store, cluster, loss_id, asked.size)
    decisions = losses.decisions(asked.store, cluster, loss_id)
    breaches = losses.breaches(asked.store, cluster, loss_id, _SHOWN)
    life = sorted((*_sights(stretches), *_decided(decisions)), key=lambda step: step.at)
    return Page(
        template="loss.html.j2",
        values={
            "loss": row,
            "stretches": stretches,
            "life": life,
            "breaches": breaches,
            "said": SAID.get(asked.query.get("said", "")),
            "caller": asked.caller(),
            "takes_tokens": asked.takes_tokens,
            "longest_note": LONGEST_NOTE,
        },
        figures={
            "loss": figure([row], *_COLUMNS),
            "stretches": figure(stretches, *_STRETCH_COLUMNS),
            "decisions": figure(decisions, *_DECISION_COLUMNS),
            "life": figure(map(asdict, life), "at", "what", "records", "who", "run_id", "note"),
            "breaches": figure(breaches, "breach_id", "code", "name", "state", "records_lost"),
        },
    )


def _sights(stretches: Sequence[Row]) -> Iterator[_Step]:
    """What audits saw of it: each kind of sight once a run that had it first."""
    found: dict[tuple[str, str], _Step] = {}
    for stretch in stretches:
        life = stretch["life"]
        told = [(_SEEN[state], seen["first"], stretch["cause"]) for state, seen in life["seen"].items()]
        told += [("on no disk any more", life["absent"]["first"], None)] if life["absent"] else []
        told += [("on the leader again", life["back"], None)] if life["back"] else []
        for what, moment, note in told:
            before = found.get((what, moment["run_id"]))
            found[what, moment["run_id"]] = _Step(
                at=datetime.fromisoformat(moment["captured_at"]),
                what=what,
                records=stretch["records"] + (before.records if before is not None else 0),
                run_id=moment["run_id"],
                note=note,
            )
    yield from found.values()


def _decided(decisions: Sequence[Row]) -> Iterator[_Step]:
    for decision in decisions:
        yield _Step(
            at=decision["decided_at"],
            what=decision["action"].replace("_", " "),
            records=int(decision["records"]),
            who=decision["decided_by"],
            verification=decision["verification"],
            note=decision["note"],
        )


def decide(asked: Asked, store: Store, form: dict[str, str], caller: Caller) -> str:
    """Decides it, and returns what to tell (a key of `SAID`). Raises `RefusalError`, `StoreError`."""
    row = of_address(asked)
    who = who_says(form, caller)
    note = form.get("note", "").strip()
    action = ACTIONS.get(form.get("action", ""))
    if action is None:
        raise _refused(400, f"Choose one of {', '.join(ACTIONS)}.")
    if who is None:
        raise _refused(400, "Say who decides: a name or an address, not longer than a line.")
    if not note or len(note) > LONGEST_NOTE or "\0" in note:
        raise _refused(400, f"Say why, in at most {LONGEST_NOTE} characters and without a NUL.")
    seen = form.get("seen", "")
    result = store.decide(
        row["loss_id"],
        action,
        by=who,
        note=note,
        seen_records=int(seen) if seen.isdecimal() and len(seen) < 20 else None,
        verification=caller.verification,
        address=caller.address,
    )
    match result.outcome:
        case "decided" | "reopened" | "already":
            return result.outcome
        case "otherwise":
            told = (result.action or "").replace("_", " ")
            raise _refused(409, f"{result.decided_by} decided otherwise meanwhile ({told}). Reopen it first.")
        case "changed":
            raise _refused(409, f"It has changed since you looked: {result.records} records wait now. Look again.")
        case "open":
            raise _refused(409, "Nobody has decided it, so there is nothing to open again.")
        case "back":
            raise _refused(409, "Its records are back on the leader: there is nothing to decide.")
    raise not_found("The loss went away meanwhile.")


def _refused(status: int, words: str) -> RefusalError:
    return RefusalError(status, "Not decided", f"{words} Nothing was changed.")
