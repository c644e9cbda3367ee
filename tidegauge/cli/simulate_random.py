"""`tidegauge simulate --seed N`: a random world, written as snapshots whose truth is known.

In: a seed, kinds of faults, hours, a directory. Out: one snapshot with its TRUTH.json for each moment, and what was
done and what an audit should find, for a terminal or as JSON. Nothing that is there already is written over.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tidegauge.cli.simulate import chronicle, finding_lines, finding_plain, lost_plain, made_empty, told_under
from tidegauge.progress import working
from tidegauge.sim_engine.random_worlds.expected import Injected
from tidegauge.sim_engine.random_worlds.fault_kinds import ABOUT, WorldFault, fault_kinds_named
from tidegauge.sim_engine.random_worlds.random_world import DEFAULT_HOURS, RandomMoment, random_world
from tidegauge.sim_engine.random_worlds.write_world import write


def fault_listing() -> Iterator[str]:
    """Every kind of fault and what it is."""
    width = max(map(len, WorldFault))
    for kind in WorldFault:
        yield f"{kind:{width}}  {ABOUT[kind]}"


def kinds_asked(text: str | None) -> tuple[WorldFault, ...]:
    """The kinds that a command line names; none if it does not say. Raises `UsageError` for a name of no kind."""
    try:
        return fault_kinds_named(text) if text is not None else ()
    except ValueError:
        known = ", ".join(WorldFault)
        raise click.UsageError(f"--faults {text}: say none, all, or kinds of {known}, with commas between.") from None


def simulate_random(seed: int, *, faults: Sequence[WorldFault], hours: float | None, out: Path) -> dict[str, Any]:
    """Makes and writes the world. Raises `SnapshotError` if the directory holds anything."""
    made_empty(out)
    hours = DEFAULT_HOURS if hours is None else hours
    with working("simulate", "seconds of its life", parts=int(hours * 3600)) as advance:
        world = random_world(seed, faults=faults, hours=hours, heard=lambda lived_ms: advance(lived_ms // 1000))
    written = write(world, out)
    told: list[str] = []
    moments = []
    for moment in world.moments:
        lines = chronicle(moment.truth)
        moments.append(_moment(moment, written, lines[len(told) :]))
        told = lines
    return {"seed": seed, "faults": [str(kind) for kind in world.faults], "hours": hours, "moments": moments}


def random_report(result: dict[str, Any]) -> Iterator[str]:
    """The result for a terminal."""
    yield f"Seed {result['seed']}, faults: {', '.join(result['faults']) or 'none'}"
    for moment in result["moments"]:
        yield ""
        yield f"{moment['name']}: {moment['what']}"
        yield f"  snapshot  {moment['snapshot']}"
        yield from told_under("happened", moment["happened"] or ["nothing that matters"])
        yield from told_under("faults", [_injected_line(each) for each in moment["injected"]] or ["none"])
        found = [each for injected in moment["injected"] for each in injected["findings"]]
        yield from told_under("findings", [finding_lines(each) for each in found] or ["none"])
        yield f"  next      {moment['next']}"


def _moment(moment: RandomMoment, written: dict[str, Path], happened: list[str]) -> dict[str, Any]:
    snapshot = written[moment.name]
    audit = f"tidegauge audit {snapshot} --out {snapshot.parent}-audit/{moment.name}"
    if moment.previous is not None:
        audit += f" --previous {written[moment.previous]}"
    expected = moment.expected
    return {
        "name": moment.name,
        "what": moment.what,
        "kind": moment.kind,
        "snapshot": str(snapshot),
        "previous": moment.previous,
        "happened": happened,
        "injected": [_injected(each) for each in expected.injected],
        "losses": [lost_plain(each.lost) | {"codes": sorted(each.codes)} for each in expected.losses],
        "unseen_losses": [lost_plain(lost) | {"reason": reason} for lost, reason in expected.unseen_losses],
        "allowed": [finding_plain(each) for each in expected.allowed],
        "next": audit,
    }


def _injected(each: Injected) -> dict[str, Any]:
    return {
        "kind": str(each.kind),
        "at_ms": each.at_ms,
        "where": each.where,
        "detail": each.detail,
        "findings": [finding_plain(finding) for finding in each.findings],
        "unseen": each.unseen,
    }


def _injected_line(each: dict[str, Any]) -> str:
    text = ", ".join(part for part in (each["kind"], each["where"], each["detail"]) if part)
    return f"{text}: {each['unseen']}" if each["unseen"] else text
