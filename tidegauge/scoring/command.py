"""`tidegauge score`: the command line of a scoring run.

In: options. Out: a scoring run, or one of its steps; the score as text or JSON. Exit 1 where anything was missed.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidegauge.endings import EXIT_BREACHES, QUIET, progress, told
from tidegauge.parameters import AMOUNT, FILE, PATH
from tidegauge.terminal import plain

if TYPE_CHECKING:
    from tidegauge.scoring.run import Batch
    from tidegauge.scoring.score import Score

_FAILURES_TOLD: Final = 20


class _Seeds(click.ParamType[range]):
    """`A..B`, both ends included, or one number."""

    name = "seeds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """The range."""
        if isinstance(value, range):
            return value
        found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", str(value))
        if found is None:
            self.fail(f"{value!r} is no range of seeds. Give A..B, such as 1..200.", param, ctx)
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            self.fail(f"{value} ends before it begins.", param, ctx)
        return range(first, last + 1)


@click.command("score")
@click.option(
    "--seeds", type=_Seeds(), metavar="A..B", help="Random worlds with faults, by their seeds, both ends included."
)
@click.option(
    "--fault-free",
    type=_Seeds(),
    metavar="A..B",
    help="Random worlds in which nothing is done; other seeds than --seeds.",
)
@click.option("--scenarios", is_flag=True, help="Every scenario too.")
@click.option("--scenario", "files", type=FILE, multiple=True, help="A scenario's file; may be given more than once.")
@click.option("--hours", type=AMOUNT, help="Virtual time of each world.")
@click.option("--out", required=True, type=PATH, help="A new directory: score.json, score.md, worlds that failed.")
@click.option(
    "--store",
    help="Where the score goes; 'none' publishes nothing. Default: TIDEGAUGE_STORE_URL, else the embedded one.",
)
@click.option("--master", help="Spark master. Default: TIDEGAUGE_SPARK_MASTER, else local[*].")
@click.option(
    "--step",
    type=click.Choice(["simulate", "audit", "publish"]),
    help="Only this step of three, in the directory that the one before it wrote: what each Airflow task runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the score as JSON on standard output.")
@QUIET
@told
def score_command(
    seeds: range | None,
    fault_free: range | None,
    scenarios: bool,
    files: tuple[Path, ...],
    hours: float | None,
    out: Path,
    store: str | None,
    master: str | None,
    step: str | None,
    as_json: bool,
) -> None:
    """Score the audit: simulate worlds whose truth is known, audit them all in one run, count what was caught.

    Exit 1 where anything was missed, or an alarm was false.
    """
    from tidegauge.scoring import run as steps
    from tidegauge.snapshots.places_above import check_within

    check_within(out)
    if step in (None, "simulate"):
        steps.simulate(_batch(seeds, fault_free, scenarios, hours, files), out, progress=progress)
    if step in (None, "audit"):
        steps.audited(out, master=master, progress=progress)
    if step in (None, "publish"):
        steps.publish(out, store=store, progress=progress)
    if step == "simulate":
        return
    found = steps.read_score(out)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1))
    else:
        for line in _report(found, out):
            click.echo(plain(line))
    sys.exit(0 if found.perfect else EXIT_BREACHES)


def _batch(
    seeds: range | None, fault_free: range | None, scenarios: bool, hours: float | None, files: tuple[Path, ...]
) -> "Batch":
    from tidegauge.scoring.run import Batch
    from tidegauge.sim_engine.random_worlds.random_world import DEFAULT_HOURS

    return Batch(
        seeds=seeds or range(0),
        fault_free=fault_free or range(0),
        scenarios=scenarios,
        hours=hours or DEFAULT_HOURS,
        files=tuple(map(str, files)),
    )


def _report(score: "Score", out: Path) -> Iterator[str]:
    from tidegauge.scoring.table import tables

    yield from tables(score)
    if score.failures:
        yield ""
        yield f"{len(score.failures):,} failures, the first of them:"
        for failure in score.failures[:_FAILURES_TOLD]:
            yield f"  {failure.case}, {failure.moment}: {failure.what}, {failure.detail}"
            yield f"    {failure.replay}"
    yield ""
    yield f"score   {out / 'score.json'}"
