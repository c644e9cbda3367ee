"""`tidegauge losses`: what is lost or at risk until somebody decides it, and the decision."""

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from tidegauge.cli.by_hand import (
    AS_JSON,
    BY,
    CLUSTER,
    NOTE,
    STORE,
    WITH_OVER,
    Lists,
    check_note,
    json_value,
    migrated_store,
    user,
)  # fmt: skip
from tidegauge.endings import EXIT_BREACHES, told
from tidegauge.terminal import plain

if TYPE_CHECKING:
    from tidegauge.store.connection import NamedValues
    from tidegauge.store.loss_decision import Action, Decision
    from tidegauge.store.loss_reading import Losses

_WAYS: Final[Mapping[str, "Action"]] = {"salvaged": "salvaged", "produced-again": "produced_again"}

_LOSS_KEYS: Final = (
    "loss_id", "cluster", "topic", "topic_id", "partition", "leader_epoch", "source", "state", "undecided", "records",
    "records_lost", "records_at_risk", "records_possible", "records_decided", "records_back", "declared_committed",
    "start_offset", "end_offset", "first_told_at", "last_told_at", "since", "held_by", "cause", "groups_affected",
)  # fmt: skip
_STRETCH_KEYS: Final = (
    "start_offset", "end_offset", "records", "state", "state_at", "first_told_at", "last_told_at", "undecided",
    "held_by", "back_at", "decision",
)  # fmt: skip
_DECISION_KEYS: Final = ("decided_at", "action", "records", "ranges", "decided_by", "verification", "note")
_TOTAL_KEYS: Final = (
    "cluster", "source", "losses_undecided", "records_lost_undecided", "records_at_risk_undecided",
    "records_possible_undecided", "lost_since", "at_risk_since", "possible_since", "oldest_undecided_at",
    "records_decided", "records_back",
)  # fmt: skip


@click.group("losses", cls=Lists)
def losses_group() -> None:
    """Records that are lost or at risk, until somebody decides it or they are proven to be back.

    Without a command of its own it lists them.
    """


@losses_group.command("list")
@CLUSTER
@WITH_OVER
@AS_JSON
@STORE
@told
def list_command(cluster: str | None, with_over: bool, as_json: bool, store: str | None) -> None:
    """List the losses that nobody has decided, the worst first. Exit 1 if there is one."""
    from tidegauge.store.loss_reading import losses

    with migrated_store(store) as url:
        found = losses(url, cluster=cluster, with_decided=with_over)
    if cluster is not None and not found.totals:
        raise click.UsageError(f"No run of a cluster named {plain(cluster)} is published in this store.")
    if as_json:
        click.echo(json.dumps(as_object(found), indent=1))
    else:
        for line in _lines(found):
            click.echo(line)
    if any(total["losses_undecided"] for total in found.totals):
        sys.exit(EXIT_BREACHES)


@losses_group.command("accept")
@click.argument("loss_id", metavar="ID")
@NOTE
@BY
@STORE
@told
def accept_command(loss_id: str, note: str, by: str | None, store: str | None) -> None:
    """Accept the loss ID: its records are given up."""
    _decide(loss_id, "accepted", note, by, store)


@losses_group.command("close")
@click.argument("loss_id", metavar="ID")
@click.option(
    "--as", "way", required=True, type=click.Choice(list(_WAYS)),
    help="salvaged: saved from a disk; produced-again: written anew by whoever had written them.",
)  # fmt: skip
@NOTE
@BY
@STORE
@told
def close_command(loss_id: str, way: str, note: str, by: str | None, store: str | None) -> None:
    """Close the loss ID: its records are there again, though not in their old place."""
    _decide(loss_id, _WAYS[way], note, by, store)


@losses_group.command("reopen")
@click.argument("loss_id", metavar="ID")
@NOTE
@BY
@STORE
@told
def reopen_command(loss_id: str, note: str, by: str | None, store: str | None) -> None:
    """Open the loss ID again: what was decided of it does not hold. The trail keeps both."""
    _decide(loss_id, "reopened", note, by, store)


def _decide(loss_id: str, action: "Action", note: str, by: str | None, store: str | None) -> None:
    from tidegauge.store import decide

    check_note(note)
    with migrated_store(store) as url:
        decision = decide(url, loss_id, action, by=user() if by is None else by, note=note)
    if decision.outcome in ("decided", "reopened", "already"):
        click.echo(decision_words(loss_id, decision))
        return
    raise click.UsageError(refusal_words(loss_id, decision))


def decision_words(loss_id: str, decision: "Decision") -> str:
    """What became of it."""
    what = (decision.action or "").replace("_", " ")
    if decision.outcome == "already":
        return f"{plain(loss_id)} was {what} before, {_by(decision)}: nothing was changed."
    return f"{plain(loss_id)}: {decision.records:,} records {what}, by {plain(decision.decided_by)}."


def refusal_words(loss_id: str, decision: "Decision") -> str:
    """Why nothing was changed, and what to do."""
    name = plain(loss_id)
    match decision.outcome:
        case "otherwise":
            what = (decision.action or "").replace("_", " ")
            return (
                f"{name} is decided otherwise: {what} {_by(decision)}. Nothing was changed. Open it again first, if "
                f"that is wrong: tidegauge losses reopen {name} --note TEXT"
            )
        case "open":
            return f"{name} is open: nobody has decided it, so there is nothing to open again."
        case "back":
            return f"{name} is closed by proof: its records are back on the leader. Nothing was changed."
        case "nobody":
            return "--by has to name who decides, for those who ask later. Nothing was changed."
        case "silent":
            return "--note has to say why, for those who ask later. Nothing was changed."
    return f"There is no loss {name} in this store. `tidegauge losses list --all` lists them."


def _by(decision: "Decision") -> str:
    at = f" on {decision.decided_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if decision.decided_at is not None else ""
    return f"by {plain(decision.decided_by)}{at}" + (f" ({plain(decision.note)})" if decision.note else "")


def _lines(found: "Losses") -> Iterator[str]:
    from tidegauge.store.loss_reading import waiting_in

    open_ones = False
    for total in found.totals:
        if (words := waiting_in([total]).headline) is not None:
            open_ones = True
            simulated = " (simulated)" if total["source"] == "simulated" else ""
            yield click.style(f"{plain(total['cluster'])}{simulated}: {words}.", bold=True)
    if not open_ones:
        yield "No loss waits for a decision."
    for loss in found.losses:
        yield from _loss_lines(loss, found)


def _loss_lines(loss: "NamedValues", found: "Losses") -> Iterator[str]:
    epoch = "no leader epoch" if loss["leader_epoch"] is None else f"leader epoch {loss['leader_epoch']}"
    place = f"{plain(loss['cluster'])} {plain(loss['topic'])}-{loss['partition']}, {epoch}"
    yield f"{loss['loss_id']}  {place}  {loss['state'].replace('_', ' ')} since {_day(loss['since'])}"
    for stretch in found.stretches[loss["loss_id"]]:
        held = f"held by broker {', '.join(map(str, stretch['held_by']))}" if stretch["held_by"] else "on no disk"
        state = stretch["state"].replace("_", " ")
        where = "on the leader again" if state == "back" else "on no disk" if state == "lost" else held
        decided = stretch["decision"] if not stretch["undecided"] and state != "back" else None
        yield (
            f"  [{stretch['start_offset']}, {stretch['end_offset']})  {stretch['records']} records, {state}"
            f"{', ' + decided.replace('_', ' ') if decided else ''}, {where}, last told {_day(stretch['last_told_at'])}"
        )
    yield f"  {plain(loss['cause'])}"
    if loss["groups_affected"]:
        yield f"  Groups that had read past it: {', '.join(map(plain, loss['groups_affected']))}"
    for decision in found.decisions.get(loss["loss_id"], ()):
        action = decision["action"].replace("_", " ")
        yield (
            f"  {_day(decision['decided_at'])} {action}, {decision['records']} records, by "
            f"{plain(decision['decided_by'])}: {plain(decision['note'])}"
        )
    if loss["undecided"]:
        yield f"  Decide: tidegauge losses accept {loss['loss_id']} --note TEXT"


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d}"


def as_object(found: "Losses") -> dict[str, object]:
    """What `--json` prints; docs/reference/losses.md has its keys."""
    return {
        "schema_version": 1,
        "totals": [_plain(total, _TOTAL_KEYS) for total in found.totals],
        "losses": [
            _plain(loss, _LOSS_KEYS)
            | {
                "stretches": [_plain(s, _STRETCH_KEYS) for s in found.stretches[loss["loss_id"]]],
                "decisions": [_plain(d, _DECISION_KEYS) for d in found.decisions.get(loss["loss_id"], ())],
            }
            for loss in found.losses
        ],
    }


def _plain(row: "NamedValues", keys: tuple[str, ...]) -> dict[str, object]:
    return {key: json_value(row[key]) for key in keys}
