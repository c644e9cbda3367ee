"""`tidegauge simulate`: a scenario, played and written as snapshots whose truth is known.

In: a scenario's name or file, a seed, a directory. Out: one snapshot with its TRUTH.json for each moment, and the
story for a terminal or as JSON. Nothing that is there already is written over.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegauge.expectations.registry import CATALOGUE
from tidegauge.sim_engine.random_worlds.expected import ANY_CODE
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange, Moment, Scenario
from tidegauge.sim_engine.scenarios.write_moment import write_moment
from tidegauge.sim_engine.scenarios.written.playing import as_scenario
from tidegauge.sim_engine.scenarios.written.reading import read_scenario
from tidegauge.sim_engine.truth import Truth
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.places_above import made_safe


def listing() -> Iterator[str]:
    """Every scenario's name and what it is about."""
    width = max(map(len, SCENARIOS))
    for name, scenario in SCENARIOS.items():
        yield f"{name:{width}}  {scenario.about}"


def is_file(name: str) -> bool:
    """Whether a command line names a scenario's file, there or not, and no scenario of ours."""
    return name not in SCENARIOS and (name.endswith((".yaml", ".yml")) or "/" in name or Path(name).is_file())


def scenario_named(name: str) -> Scenario:
    """A scenario of ours, or a file's. Raises `ScenarioFileError` for a file that cannot be played."""
    return as_scenario(read_scenario(Path(name), codes=CATALOGUE)) if is_file(name) else SCENARIOS[name]


def simulate(scenario: Scenario, *, seed: int, out: Path) -> dict[str, Any]:
    """Plays and writes. Raises `SnapshotError` if the directory holds anything, or for a file whose steps cannot be."""
    _refuse_full(out)
    played = scenario.play(seed)
    made_empty(out)
    # Another seed is another cluster: results of both under one name would be one history.
    cluster = scenario.name if seed == 1 else f"{scenario.name}-{seed}"
    for moment in played.moments:
        write_moment(moment, out / moment.name, cluster=cluster, seed=seed)
    return _result(scenario, seed, out, played.moments)


def made_empty(out: Path) -> None:
    """Makes it. Raises `SnapshotError` if something is there already, or if somebody else could exchange it."""
    _refuse_full(out)
    made_safe(out)


def _refuse_full(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SnapshotError(f"{out} exists and holds something. Name a directory that does not exist, or empty it.")


def report(result: dict[str, Any]) -> Iterator[str]:
    """The result for a terminal."""
    yield f"{result['scenario']}, seed {result['seed']}"
    yield ""
    yield from (result["text"] or result["about"]).splitlines()
    for moment in result["moments"]:
        yield ""
        yield f"{moment['name']}: {moment['what']}"
        yield f"  snapshot  {moment['snapshot']}"
        yield from told_under("happened", moment["happened"] or ["nothing that matters"])
        yield from told_under("lost", [_lost_range(each) for each in moment["losses"]] or ["nothing"])
        yield from told_under("findings", [finding_lines(each) for each in moment["findings"]] or ["none"])
        if moment["unseen"]:
            yield f"  unseen    {moment['unseen']}"
        yield f"  next      {moment['next']}"


def _result(scenario: Scenario, seed: int, out: Path, moments: tuple[Moment, ...]) -> dict[str, Any]:
    told: list[str] = []
    found = []
    for moment in moments:
        lines = chronicle(moment.truth)
        # A moment goes on from the one before, or is of a cluster of its own.
        new = lines[len(told) :] if lines[: len(told)] == told else lines
        told = lines
        audit = f"tidegauge audit {out / moment.name} --out {out}-audit/{moment.name}"
        if moment.previous is not None:
            audit += f" --previous {out / moment.previous}"
        found.append(
            {
                "name": moment.name,
                "what": moment.what,
                "snapshot": str(out / moment.name),
                "happened": new,
                "losses": [lost_plain(loss) for loss in moment.losses],
                "findings": [finding_plain(each) for each in moment.findings],
                "unseen": moment.unseen,
                "next": audit,
            }
        )
    told_of = {"scenario": scenario.name, "about": scenario.about, "seed": seed, "text": scenario.text}
    return {**told_of, "moments": found}


def chronicle(truth: Truth) -> list[str]:
    """Faults, elections, truncations and losses in the order in which they happened, a line each.

    First leaders, and what happens to Kafka's own topics, are left out.
    """
    notes: list[tuple[int, str]] = []
    for fault in truth.faults:
        notes.append((fault.at_ms, ", ".join(text for text in (fault.kind, fault.where, fault.detail) if text)))
    for chosen in truth.elections:
        if chosen.kind != "first" and not _internal(chosen.partition.topic):
            who = f"broker {chosen.leader} leads" if chosen.leader >= 0 else "nobody leads"
            notes.append((chosen.at_ms, f"{chosen.partition}: {who}, epoch {chosen.leader_epoch} ({chosen.kind})"))
    for cut in truth.truncations:
        if not _internal(cut.partition.topic):
            what = f"broker {cut.broker_id} cuts [{cut.start_offset}, {cut.end_offset}) ({cut.cause})"
            notes.append((cut.at_ms, f"{cut.partition}: {what}"))
    for loss in truth.losses:
        which = "committed" if loss.committed else "acknowledged, not committed"
        what = f"[{loss.start_offset}, {loss.end_offset}) is lost: {which} ({loss.cause})"
        notes.append((loss.at_ms, f"{loss.partition}: {what}"))
    return [f"{_clock(at_ms)}  {text}" for at_ms, text in sorted(notes, key=lambda note: note[0])]


def _internal(topic: str) -> bool:
    return topic.startswith("__")


def _clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S.%f}"[:-3]


def lost_plain(loss: LostRange) -> dict[str, Any]:
    """A lost range in values that JSON knows."""
    return {
        "partition": str(loss.partition),
        "start_offset": loss.start_offset,
        "end_offset": loss.end_offset,
        "committed": loss.committed,
    }


def finding_plain(finding: Finding) -> dict[str, Any]:
    """An expected finding in values that JSON knows."""
    return {
        "code": finding.code,
        "name": "any breach" if finding.code == ANY_CODE else CATALOGUE[finding.code].name,
        "partition": str(finding.partition) if finding.partition is not None else None,
        "broker_id": finding.broker_id,
        "start_offset": finding.start_offset,
        "end_offset": finding.end_offset,
    }


def finding_lines(finding: dict[str, Any]) -> str:
    """The same for a terminal."""
    where = [finding["partition"]] if finding["partition"] is not None else []
    if finding["broker_id"] is not None:
        where.append(f"broker {finding['broker_id']}")
    if finding["start_offset"] is not None:
        end = finding["end_offset"]
        where.append(f"[{finding['start_offset']}, {end})" if end is not None else f"from {finding['start_offset']}")
    return f"{finding['code']} {finding['name']}: {', '.join(where)}"


def _lost_range(loss: dict[str, Any]) -> str:
    which = "committed" if loss["committed"] else "acknowledged, not committed"
    return f"{loss['partition']} [{loss['start_offset']}, {loss['end_offset']}), {which}"


def told_under(title: str, lines: list[str]) -> Iterator[str]:
    """Lines below one another, the first behind its title."""
    for number, line in enumerate(lines):
        yield f"  {title if number == 0 else '':9} {line}"
