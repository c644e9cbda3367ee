"""`tidegauge restart-check`: before a broker starts, what its start would cut."""

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidegauge.endings import EXIT_BREACHES, QUIET, told, warning
from tidegauge.parameters import CONSISTENCY
from tidegauge.snapshots.manifest import Consistency
from tidegauge.terminal import plain

if TYPE_CHECKING:
    from tidegauge.recovery.restart import Cut, RestartCheck

_NAMED = 5
"""Undecided partitions that are named one by one."""


@click.command("restart-check")
@click.option(
    "--broker", "starting", multiple=True, required=True, metavar="ID=LOG_DIR[,LOG_DIR]",
    help="A broker that is about to start, with all its log dirs; repeatable.",
)  # fmt: skip
@click.option(
    "--beside", multiple=True, metavar="ID=LOG_DIR[,LOG_DIR]",
    help="Another broker, which is not about to start: its log dirs, or a copy of them; repeatable.",
)  # fmt: skip
@CONSISTENCY
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
@QUIET
@told
def restart_check_command(starting: tuple[str, ...], beside: tuple[str, ...], consistency: str, as_json: bool) -> None:
    """Say which offsets a broker would cut off its logs if it started now. Reads only the ends of the logs.

    Exit 1 if records that were committed, or may have been, would go; also where nothing at hand tells whether they
    would, since the logs of the other brokers are not at hand. Exit 0 if the broker may start. So it can stand in front
    of a start: ExecStartPre= of a systemd unit, or an init container.
    """
    from tidegauge.recovery.restart import restart_check

    found = restart_check(
        starting, beside, consistency=Consistency(consistency), warn=lambda text: warning(f"Warning: {text}")
    )
    if as_json:
        click.echo(json.dumps(as_object(found), indent=1))
    else:
        for line in _lines(found, starting):
            click.echo(line)
    if not found.safe:
        sys.exit(EXIT_BREACHES)


def as_object(found: "RestartCheck") -> dict[str, object]:
    """What `--json` prints."""
    return {
        "schema_version": 1,
        "brokers": list(found.brokers),
        "replicas": found.replicas,
        "safe": found.safe,
        "cuts": [asdict(cut) for cut in found.cuts],
        "undecided": [asdict(one) for one in found.undecided],
    }


def _lines(found: "RestartCheck", starting: tuple[str, ...]) -> Iterator[str]:
    """What people read: the sentence that decides first."""
    from tidegauge.recovery.restart import CutState

    brokers = f"broker{'s' * (len(found.brokers) > 1)} {' and '.join(map(str, found.brokers))}"
    wanted = [cut for cut in found.cuts if cut.state is not CutState.HARMLESS]
    committed = sum(cut.committed for cut in wanted)
    possible = sum(cut.records for cut in wanted) - committed
    counted = [f"{committed:,} committed records"] * (committed > 0)
    counted += [f"{possible:,} records that may have been committed"] * (possible > 0)
    if wanted:
        yield click.style(f"Keep {brokers} down: a start would cut {' and '.join(counted)}.", bold=True)
    elif found.undecided:
        yield click.style(
            f"Keep {brokers} down until it is known what a start would cut: nothing at hand tells of "
            f"{len(found.undecided):,} of {found.replicas:,} replicas.",
            bold=True,
        )
    else:
        yield click.style(
            f"{brokers[0].upper()}{brokers[1:]} may start: nothing that was committed would be cut off "
            f"{'its' if len(found.brokers) == 1 else 'their'} {found.replicas:,} replicas.",
            bold=True,
        )
    for cut in wanted:
        yield from _cut_lines(cut)
    if wanted:
        given = " ".join(f"--broker {shlex.quote(text)}" for text in starting)
        yield ""
        yield "Save what these disks hold before anything else, then decide whom to believe:"
        yield f"  tidegauge capture --cluster NAME {given} --out ROOT"
    if found.undecided:
        yield ""
        if wanted:
            yield f"Nothing at hand tells of {len(found.undecided):,} of {found.replicas:,} replicas:"
        for one in found.undecided[:_NAMED]:
            yield f"  {plain(one.topic)}-{one.partition} on broker {one.broker_id}: {one.reason}"
        if len(found.undecided) > _NAMED:
            yield f"  and {len(found.undecided) - _NAMED:,} more (--json has all)"
        yield "Name the other brokers' log dirs, or copies of them, by --beside ID=LOG_DIR."
    harmless = [cut for cut in found.cuts if cut.state is CutState.HARMLESS]
    if harmless:
        yield ""
        yield (
            f"{sum(cut.records for cut in harmless):,} records in {len(harmless):,} places would go, and nobody will "
            "miss them: they were never committed, or another broker has them."
        )


def _cut_lines(cut: "Cut") -> Iterator[str]:
    others = [str(broker) for broker in cut.held_by if broker != cut.broker_id]
    held = f"broker {', '.join(others)} holds them too" if others else "no other disk at hand holds them"
    how = f"{cut.committed:,} of them committed" if cut.committed else "nothing tells whether they were committed"
    yield ""
    yield (
        f"  {plain(cut.topic)}-{cut.partition} [{cut.start_offset}, {cut.end_offset}) on broker {cut.broker_id}: "
        f"{cut.records:,} records, {how}; {held}."
    )
    yield f"    {plain(cut.cause)}"
