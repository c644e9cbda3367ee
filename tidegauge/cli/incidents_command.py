"""`tidegauge incidents` and `tidegauge plan`: what went wrong, what belongs to it, and what to do, step by step."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
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
    migrated_store,
    user,
)  # fmt: skip
from tidegauge.endings import EXIT_BREACHES, told
from tidegauge.parameters import PLACE
from tidegauge.terminal import plain

if TYPE_CHECKING:
    from tidegauge.snapshots.location import Location
    from tidegauge.store.incident_reading import ShownIncident
    from tidegauge.store.incident_word import Speaker, Word

_REFUSED: Final[Mapping[str, str]] = {
    "unknown": "There is no incident {other} in this store. `tidegauge incidents list --all` lists them.",
    "elsewhere": "{detail} is not a member of {name}{where}. Nothing was changed. `tidegauge incidents show {name}` "
    "lists what is.",
    "all": "That is all of {name}: nothing would stay in it. Nothing was changed. Name only what has another cause.",
    "itself": "{name} cannot be merged into itself. Nothing was changed. Name another incident after it.",
    "clusters": "{name} and {other} are of two clusters, and an incident is of one. Nothing was changed.",
    "gone": "{detail} was merged into {other} by somebody. Nothing was changed. Name {other} instead.",
    "over": "{name} is over: no breach of it is open, so there is nothing to acknowledge. A loss of it that waits is "
    "decided with `tidegauge losses`.",
    "step": "{name} has no step {step}. Nothing was changed. `tidegauge plan {name}` prints those it has.",
    "open": "The step {step} of {name} was not ticked off, so there is nothing to take back.",
    "past": "--for has to be longer than nothing. Nothing was changed.",
    "nobody": "--by has to name who says so, for those who ask later. Nothing was changed.",
    "silent": "--note has to say why, for those who ask later. Nothing was changed.",
}


@click.group("incidents", cls=Lists)
def incidents_group() -> None:
    """Incidents: breaches, losses and risks of one cause and time, as one.

    Without a command of its own it lists them.
    """


@incidents_group.command("list")
@CLUSTER
@WITH_OVER
@AS_JSON
@STORE
@told
def list_command(cluster: str | None, with_over: bool, as_json: bool, store: str | None) -> None:
    """List the incidents that are not over, the worst first. Exit 1 if one is critical."""
    from tidegauge.cli.incident_lines import as_object, listed
    from tidegauge.store.incident_reading import incidents

    with migrated_store(store) as url:
        found = incidents(url, cluster=cluster, with_over=with_over)
    if found is None:
        raise click.UsageError(f"No run of a cluster named {plain(cluster or '')} is published in this store.")
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "incidents": [as_object(row) for row in found]}, indent=1))
    else:
        for line in listed(found):
            click.echo(line)
    if any(row["severity"] == "critical" and row["state"] != "over" for row in found):
        sys.exit(EXIT_BREACHES)


@incidents_group.command("show")
@click.argument("incident_id", metavar="ID")
@AS_JSON
@STORE
@told
def show_command(incident_id: str, as_json: bool, store: str | None) -> None:
    """Show the incident ID: its sentence, what belongs to it and by which rule, the checklist, what people said."""
    from tidegauge.cli.incident_lines import in_full, shown

    found = _found(incident_id, store)
    if as_json:
        click.echo(json.dumps(in_full(found), indent=1))
        return
    for line in shown(found):
        click.echo(line)


@incidents_group.command("split")
@click.argument("incident_id", metavar="ID")
@click.option(
    "--breach", "breaches", multiple=True, help="A breach of it; what follows from it goes along. Repeatable."
)
@click.option("--loss", "losses", multiple=True, help="A loss of it. Repeatable.")
@NOTE
@BY
@STORE
@told
def split_command(
    incident_id: str, breaches: tuple[str, ...], losses: tuple[str, ...], note: str, by: str | None, store: str | None
) -> None:
    """Make another incident of some breaches and losses of the incident ID. Later audits keep it so."""
    from tidegauge.store.incident_word import split

    if not breaches and not losses:
        raise click.UsageError("Name what to split off: --breach ID, --loss ID, each as often as it takes.")
    check_note(note)
    with migrated_store(store) as url:
        word = split(url, incident_id, [*breaches, *losses], speaker=_speaker(by), note=note)
    _say(word, "split", incident_id, f"{plain(incident_id)} was split: what was named is {word.other_id} now.")


@incidents_group.command("merge")
@click.argument("incident_id", metavar="ID")
@click.argument("into", metavar="INTO")
@NOTE
@BY
@STORE
@told
def merge_command(incident_id: str, into: str, note: str, by: str | None, store: str | None) -> None:
    """Put all of the incident ID into the incident INTO. Later audits keep it so."""
    from tidegauge.store.incident_word import merge

    check_note(note)
    with migrated_store(store) as url:
        word = merge(url, incident_id, into, speaker=_speaker(by), note=note)
    if word.outcome == "already":
        click.echo(f"{plain(incident_id)} was merged into {plain(into)} before: nothing was changed.")
        return
    _say(word, "merged", incident_id, f"{plain(incident_id)} is part of {plain(into)} now.")


@incidents_group.command("acknowledge")
@click.argument("incident_id", metavar="ID")
@click.option("--for", "hours", type=click.FloatRange(min=0, min_open=True), metavar="HOURS",
              help="For how long. Default: until its breaches are resolved.")  # fmt: skip
@NOTE
@BY
@STORE
@told
def acknowledge_command(incident_id: str, hours: float | None, note: str, by: str | None, store: str | None) -> None:
    """Say that somebody takes care of the incident ID: acknowledge its open breaches. Its losses stay undecided."""
    from tidegauge.store.incident_word import acknowledge_incident

    check_note(note)
    try:
        until = None if hours is None else datetime.now(UTC) + timedelta(hours=hours)
    except OverflowError:
        raise click.UsageError(f"--for {hours:g} hours is longer than a calendar goes. Leave it out.") from None
    speaker = _speaker(by)
    with migrated_store(store) as url:
        word = acknowledge_incident(url, incident_id, speaker=speaker, until=until, note=note)
    if word.outcome == "already":
        click.echo(f"{plain(incident_id)} was acknowledged before, in the same words: nothing was changed.")
        return
    done = f"{plain(incident_id)}: {word.detail} breaches acknowledged, by {plain(speaker.by)}."
    _say(word, "acknowledged", incident_id, done)


@incidents_group.command("done")
@click.argument("incident_id", metavar="ID")
@click.argument("step")
@click.option("--undo", is_flag=True, help="It is not done after all.")
@click.option("--note", default="", help="What came of it.")
@BY
@STORE
@told
def done_command(incident_id: str, step: str, undo: bool, note: str, by: str | None, store: str | None) -> None:
    """Tick off STEP of the checklist of the incident ID, by its name as `tidegauge plan` prints it."""
    from tidegauge.store.incident_word import note_step

    check_note(note)
    speaker = _speaker(by)
    with migrated_store(store) as url:
        word = note_step(url, incident_id, step, is_done=not undo, speaker=speaker, note=note)
    if word.outcome == "already":
        click.echo(f"{plain(step)} was ticked off before, by {plain(word.detail or '')}: nothing was changed.")
        return
    said = "is open again" if undo else "is done"
    _say(word, "undone" if undo else "done", incident_id, f"{plain(step)} {said}, by {plain(speaker.by)}.", step=step)


@click.command("plan")
@click.argument("incident_id", metavar="INCIDENT")
@click.option("--report", "report_dir", type=PLACE, help="The audit's --out directory, or its URL.")
@click.option("--store", help="Postgres URL. Default, without --report: TIDEGAUGE_STORE_URL, else the embedded one.")
@click.option("--bootstrap", metavar="HOST:PORT", help="A broker's address, for the steps that ask the cluster.")
@told
def plan_command(incident_id: str, report_dir: "Location | None", store: str | None, bootstrap: str | None) -> None:
    """Print the checklist of INCIDENT: sentences, and commands that can be pasted into a shell.

    A step in which something is still missing says so, and what. `tidegauge incidents done` ticks a step off.
    """
    from tidegauge.audit.explained import incident_in_report
    from tidegauge.cli.incident_lines import planned

    if report_dir is not None and store is not None:
        raise click.UsageError("Name --report or --store, not both.")
    if report_dir is not None:
        incident = incident_in_report(incident_id, report_dir)
        lines = planned(incident["incident_id"], incident["headline"], incident["steps"], {}, bootstrap)
    else:
        from tidegauge.store.incident_reading import headline

        found = _found(incident_id, store)
        row = found.row
        lines = planned(row["incident_id"], headline(row), row["steps"], found.done(), bootstrap)
    for line in lines:
        click.echo(line)


def _found(incident_id: str, store: str | None) -> "ShownIncident":
    from tidegauge.store.incident_reading import incident

    with migrated_store(store) as url:
        found = incident(url, incident_id)
    if found is None:
        raise click.UsageError(_REFUSED["unknown"].format(other=plain(incident_id)))
    if isinstance(found, str):
        raise click.UsageError(f"{plain(incident_id)} was merged into {plain(found)}. Name that one instead.")
    return found


def _speaker(by: str | None) -> "Speaker":
    from tidegauge.store.incident_word import Speaker

    return Speaker(by=user() if by is None else by)


def _say(word: "Word", wanted: str, incident_id: str, done: str, *, step: str = "") -> None:
    """Says that it was done, or raises with why not and what to do."""
    if word.outcome == wanted:
        click.echo(done)
        return
    where = f" but of {word.other_id}" if word.other_id is not None else ""
    raise click.UsageError(
        plain(
            _REFUSED[word.outcome].format(
                name=incident_id,
                other=word.other_id or incident_id,
                detail=word.detail or incident_id,
                where=where,
                step=step,
            )
        )
    )
