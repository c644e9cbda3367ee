"""A report on a terminal: coverage, incidents and their breaches, what does not hold, losses, where to look on.

In: the report (report.json's object). Out: text. The rule that must hold: what the snapshot contains (topic names above
all) is data, and cannot write to the terminal as anything else.
"""

import json
import os
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from tidegauge.expectations.causes import CAUSES
from tidegauge.expectations.incidents.model import ToldIncident
from tidegauge.terminal import WIDTH, plain, plain_values

if TYPE_CHECKING:
    from tidegauge.snapshots.location import Location

_COLOURS: Final = {"critical": "red", "warning": "yellow", "info": "cyan", "unknown": "magenta"}
INCIDENTS_SHOWN: Final = 20
BREACHES_SHOWN: Final = 20
"""Of each incident so many breaches are named. Those below warning are counted only."""

_TELLING: Final = frozenset({"C10", "D06", "D18", "H03", "J02", "K07"})
"""Invariants whose breaches are losses."""
_HIDING: Final = frozenset({"metadata_log", "metadata_log_start", "broker", "log_dir", "replica", "segment"})
"""Evidence without which a loss may not be seen. Without an earlier snapshot none is looked for."""

_TRANSACTIONS_SHOWN: Final = 10
_RISKS_SHOWN: Final = 5

_PARAGRAPHS: Final = frozenset({"explanation"})

Report = Mapping[str, Any]


def print_report(report_path: "Location", data_docs_path: "Location | None", *, command: str = "tidegauge") -> None:
    """Prints a report file, and last where to begin; `command` is how `tidegauge` is run there."""
    report = json.loads(report_path.read_text(encoding="utf-8"))
    for line in lines(report):
        click.echo(line)
    click.echo(f"Report     {linked(report_path)}")
    if data_docs_path is not None:
        click.echo(f"Data docs  {linked(data_docs_path)}")
    missing = report["coverage"].get("missing_evidence", ())
    click.echo(f"Begin      {begin(report['incidents'], missing, report_path.parent, command=command)}")


def begin(
    incidents: Sequence[ToldIncident],
    missing_evidence: Sequence[Any],
    directory: "Location",
    *,
    command: str = "tidegauge",
) -> str:
    """What to do first: the command that prints what to do of the worst incident, or that there is nothing to do."""
    worst = next((incident for incident in incidents if incident["severity"] != "info"), None)
    if worst is not None:
        return plain(f"{command} plan {worst['incident_id']} --report {shlex.quote(str(directory))}")
    if any(piece["blinds"] for piece in missing_evidence):
        return "nothing is breached in what could be judged; bring back the missing evidence above"
    return "nothing to do: nothing is breached"


def linked(path: "Location") -> str:
    """A place, as a link where a terminal can follow it (OSC 8); a path is percent-encoded there."""
    if not isinstance(path, Path) or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return plain(path)
    return f"\x1b]8;;{path.absolute().as_uri()}\x1b\\{plain(path)}\x1b]8;;\x1b\\"


def lines(report: Report) -> Iterator[str]:
    """The report, line by line."""
    report = shown_plainly(report)
    run = report["run"]
    yield click.style(f"Cluster {plain(run['cluster'])}, snapshot {plain(run['snapshot_id'])}", bold=True)
    if restricted := run.get("restricted_to"):
        asked = ", ".join((*restricted["partitions"], *restricted["invariants"]))
        yield f"A look at {plain(asked)} only: no verdict on the cluster, and not published."
    if others := run.get("same_cluster_as"):
        yield f"The same cluster, by its cluster.id, is published as {plain(', '.join(others))} too."
    yield from _missing(report)
    yield from _coverage(report)
    yield from _incidents(report)
    yield ""
    yield from _table(report)
    yield from _losses(report)
    yield from _risks(report)
    yield from _open_transactions(report)


def _coverage(report: Report) -> Iterator[str]:
    coverage, run = report["coverage"], report["run"]
    unread = coverage["unread"]
    reused = f" ({coverage['segments_reused']} reused)" if coverage["segments_reused"] else ""
    yield (
        f"Read {coverage['brokers']} brokers, {coverage['replicas']} replicas, "
        f"{coverage['segments']} segments{reused}, "
        f"{coverage['batches']} batches, {_size(coverage['bytes'])}; {run['consistency']} copy; "
        f"{f'{len(unread)} files not read' if unread else 'nothing left unread'}."
    )
    for entry in unread[:5]:
        yield f"  not read: {plain(entry['path'])}: {plain(entry['reason'])}"
    if len(unread) > 5:
        yield f"  … and {len(unread) - 5} more, in the report."


def _missing(report: Report) -> Iterator[str]:
    """What evidence is missing, which verdicts that leaves open, and what would bring it back."""
    pieces = [p for p in report["coverage"].get("missing_evidence", ()) if p["blinds"]]
    if not pieces:
        return
    blind = {code for piece in pieces for code in piece["blinds"]}
    total = len(report["invariants"])
    yield click.style(f"Missing evidence leaves {len(blind)} of {total} verdicts open:", bold=True)
    for piece in pieces:
        name = click.style(piece["evidence"].replace("_", " "), fg=_COLOURS["unknown"])
        yield from textwrap.wrap(
            f"{name}: {plain(piece['why'])}. Open: {' '.join(piece['blinds'])}.",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
        )
        yield from textwrap.wrap(
            f"To bring it back: {piece['remedy']}.", WIDTH, initial_indent="    ", subsequent_indent="    "
        )


def _size(n: int) -> str:
    value = float(n)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _table(report: Report) -> Iterator[str]:
    invariants = report["invariants"]
    held = sum(1 for i in invariants if i["verdict"] == "holds")
    unknown = [i for i in invariants if i["verdict"] == "unknown"]
    breached = [i for i in invariants if i["verdict"] == "breached"]
    yield f"{len(invariants)} invariants: {held} hold, {len(breached)} are breached, {len(unknown)} are not known."
    if breached:
        yield f"  {'code':5} {'invariant':34} {'severity':9} {'checked':>8} {'breached':>8} {'unknown':>8}"
    for i in sorted(breached, key=lambda i: (_rank(i["severity"]), i["code"])):
        severity = click.style(f"{i['severity']:9}", fg=_COLOURS[i["severity"]])
        yield f"  {i['code']:5} {i['name']:34} {severity} {i['checked']:>8} {i['breached']:>8} {i['unknown']:>8}"
    if unknown:
        reasons: dict[str, list[str]] = {}
        for i in unknown:
            for reason in i["reasons"]:
                reasons.setdefault(reason, []).append(i["code"])
        yield "Not known, and so not green:"
        for reason, codes in sorted(reasons.items()):
            yield from textwrap.wrap(
                f"{plain(reason)}: {' '.join(codes)}", WIDTH, initial_indent="  ", subsequent_indent="    "
            )


def _rank(severity: str) -> int:
    return ("critical", "warning", "info").index(severity)


def _incidents(report: Report) -> Iterator[str]:
    """Each incident, a sentence first, and beneath it its breaches: the worst one argued, the others named."""
    worth = [b for b in report["breaches"] if b["severity"] != "info"]
    roots = {b["breach_id"]: b for b in worth if not b["implied_by"]}
    incidents: Sequence[ToldIncident] = report["incidents"]
    shown = [i for i in incidents if i["severity"] != "info"]
    for incident in shown[:INCIDENTS_SHOWN]:
        yield ""
        severity = click.style(incident["severity"], fg=_COLOURS[incident["severity"]])
        yield from _headline(incident, severity)
        members = {m["breach_id"] for m in incident["members"]}
        own = [breach for breach_id, breach in roots.items() if breach_id in members]
        for breach in own[:1]:
            yield from breach_lines(breach)
            implied = sorted({b["code"] for b in worth if b["implied_by"] == breach["breach_id"]})
            if implied:
                yield f"  Follows from it: {', '.join(implied)}."
        yield from _folded(own[1:])
    if len(shown) > INCIDENTS_SHOWN:
        yield f"\n… and {len(shown) - INCIDENTS_SHOWN} more incidents, in the report."
    infos = sum(b["severity"] == "info" for b in report["breaches"])
    if infos:
        yield f"\n{infos} further finding{'s' if infos > 1 else ''} of severity info, in the report."


def _headline(incident: ToldIncident, severity: str) -> Iterator[str]:
    first, *more = textwrap.wrap(f"{incident['headline']}.", WIDTH, subsequent_indent="  ")
    yield click.style(first, bold=True)
    yield from (click.style(line, bold=True) for line in more)
    yield f"  {incident['avoid']}  {severity}  [{incident['incident_id']}]"


def _folded(breaches: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """The other breaches of an incident, a line each."""
    if breaches:
        yield f"  Folded into it: {len(breaches)} more breach{'es' if len(breaches) > 1 else ''}."
    for breach in breaches[:BREACHES_SHOWN]:
        about = subject_line(cast(Mapping[str, object], breach["subject"]))
        yield f"    {breach['code']} {breach['name']}  {about}  [{breach['breach_id']}]"
    if len(breaches) > BREACHES_SHOWN:
        yield f"    … and {len(breaches) - BREACHES_SHOWN} more, in the report."


def breach_lines(breach: Mapping[str, Any]) -> Iterator[str]:
    """One breach as an argument, the next command at its end."""
    breach = shown_plainly(breach)
    title = f"{breach['code']} {breach['name']}  {subject_line(breach['subject'])}"
    severity = click.style(breach["severity"], fg=_COLOURS[breach["severity"]])
    yield f"{click.style(title, bold=True)}  {severity}  [{breach['breach_id']}]"
    for line in breach["explanation"].splitlines():
        yield from textwrap.wrap(plain(line), WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield from _diagnosis(breach)
    if breach["next"]:
        yield f"  Next: {plain(breach['next'])}"


def shown_plainly(told: Mapping[str, Any]) -> dict[str, Any]:
    """A report or a part of one, which anybody may have written: nothing in it can steer a terminal."""
    return cast(dict[str, Any], plain_values(told, paragraphs=_PARAGRAPHS))


def _diagnosis(breach: Mapping[str, Any]) -> Iterator[str]:
    """What it points to, and whom to believe; an older report tells neither."""
    cause = CAUSES.get(breach.get("points_to") or "")
    if cause is None:
        return
    why = breach.get("diagnosis") or cause.statement
    believe = ""
    if breach["believe"]:
        brokers = ", ".join(map(str, breach["believe"]))
        believe = f" Believe broker{'s' if len(breach['believe']) > 1 else ''} {brokers}."
    line = f"Points to {cause.title}: {why}{believe}"
    yield from textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ")


def subject_line(subject: Mapping[str, object]) -> str:
    """What a breach is about, in a few words: the partition first."""
    told = dict(subject)
    topic, partition = told.pop("topic", None), told.pop("partition", None)
    parts = [f"{plain(topic)}-{partition}"] if topic is not None and partition is not None else []
    parts += [f"{key.removesuffix('_id')} {plain(value)}" for key, value in told.items() if value is not None]
    return ", ".join(parts)


def _losses(report: Report) -> Iterator[str]:
    losses = report["losses"]
    yield ""
    if not losses:
        yield f"Losses: none found{_as_far_as(report)}."
        return
    certain = [loss for loss in losses if loss["state"] != "possible"]
    possible = [loss for loss in losses if loss["state"] == "possible"]
    told = [f"{sum(x['records'] for x in certain)} records in {_ranges(certain)}"] if certain else []
    told += [f"{sum(x['records'] for x in possible)} records possible in {_ranges(possible)}"] if possible else []
    yield click.style(f"Losses: {', '.join(told)}", bold=True)
    for loss in losses:
        held = f"held by broker {', '.join(map(str, loss['held_by']))}" if loss["held_by"] else "on no disk in the copy"
        yield (
            f"  {plain(loss['topic'])}-{loss['partition']} [{loss['start_offset']}, {loss['end_offset']})  "
            f"{loss['records']} records, {loss['state'].replace('_', ' ')}, {held}, "
            f"at least {loss['declared_committed']} declared committed"
        )
        yield from textwrap.wrap(plain(loss["cause"]), WIDTH, initial_indent="    ", subsequent_indent="    ")
        if loss["groups_affected"]:
            yield f"    Groups that had read past it: {', '.join(map(plain, loss['groups_affected']))}"


def _as_far_as(report: Report) -> str:
    """What the lack of evidence may hide, of those verdicts that tell of losses."""
    pieces = report["coverage"].get("missing_evidence", ())
    hidden = {code for p in pieces if p["evidence"] in _HIDING for code in p["blinds"]} & _TELLING
    return f" in what was read; not known are {' '.join(sorted(hidden))}" if hidden else ""


def _ranges(losses: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(losses)} range{'s' if len(losses) != 1 else ''}"


def _risks(report: Report) -> Iterator[str]:
    """What is wrong already, and what one failure would cost; the rest is counted. A risk is no breach."""
    found = report.get("risks", [])
    single = [r for r in found if r["failure"] in ("now", "broker", "rack")]
    if not found:
        return
    yield f"Risks, of which none is a breach: {len(single)} of one failure, {len(found) - len(single)} of two"
    for risk in single[:_RISKS_SHOWN]:
        costs = [
            f"{risk[name]} {word}"
            for name, word in (
                ("losing", "lose committed records"),
                ("unavailable", "have no leader"),
                ("unclean", "get an unclean leader"),
                ("refusing", "refuse acks=all"),
            )
            if risk[name]
        ]
        who = ", ".join(map(plain, risk["racks"] or risk["brokers"]))
        failure = "as it is now" if risk["failure"] == "now" else f"without {risk['failure']} {who}"
        yield f"  {plain(risk['topic'])}, {failure}: of {risk['partition_count']} partitions {', '.join(costs)}"
    if len(single) > _RISKS_SHOWN or len(found) > len(single):
        yield "  … all of them in the report and in data docs, risks.html."


def _open_transactions(report: Report) -> Iterator[str]:
    """Transactions without an end: consumers that read only what is committed wait behind them."""
    found = report["open_transactions"]
    if not found:
        return
    yield f"Open transactions: {len(found)}"
    for t in found[:_TRANSACTIONS_SHOWN]:
        owner = plain(t["transactional_id"]) if t["transactional_id"] is not None else "no transactional id on record"
        state = (
            "its coordinator's log does not list it"
            if t["hanging"]
            else f"{plain(t['coordinator_state'])} at its coordinator"
        )
        yield (
            f"  {plain(t['topic'])}-{t['partition']} from {t['first_offset']}  "
            f"producer {t['producer_id']} epoch {t['producer_epoch']}, {owner}: {state}"
        )
    if len(found) > _TRANSACTIONS_SHOWN:
        yield f"  … and {len(found) - _TRANSACTIONS_SHOWN} more, in the report."
