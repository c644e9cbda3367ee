"""`tidegauge explore`: a model's whole state space, and how it loses a record if it does.

In: a model's name and constants, perhaps a directory. Out: the result as the documented JSON, lines for a terminal, and
the disks of the state in which the shortest violation ends, as a snapshot with its TRUTH.json. Nothing that is there
already is written over, and without a violation nothing is written.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tidegauge.sim_engine.explore.layout import Constants
from tidegauge.sim_engine.explore.render_state import STARTED_AT_MS, disks_of
from tidegauge.sim_engine.explore.rules import Model
from tidegauge.sim_engine.explore.search import Explorer, Step
from tidegauge.sim_engine.explore.state_truth import document, violations
from tidegauge.sim_engine.explore.story import portrait, tell
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import Consistency
from tidegauge.snapshots.places_above import made_safe

_PROGRESS_SECONDS: Final = 1.0


def explore(
    model: str,
    constants: Constants,
    *,
    max_states: int | None,
    progress: Callable[[str], None],
    out: Path | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Explores; returns the JSON result and the state in which the shortest violation ends, in words.

    With `out`, that state's disks are written there. Raises `SnapshotError` if the directory is there already, or if
    somebody else could exchange it.
    """
    if out is not None and out.exists():
        raise SnapshotError(f"{out} exists. Name a directory that does not, or remove it first.")
    if out is not None:
        made_safe(out.parent)
    # What is measured is the exploration, not the compilation of its kernels, which happens once on a machine.
    Explorer(Model[model], Constants(replicas=1, log_size=1, max_records=1, max_leader_epoch=0)).explore()
    explorer = Explorer(Model[model], constants)
    started = told = time.monotonic()

    def tick(known: int, expanded: int, depth: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _PROGRESS_SECONDS:
            told = now
            rate = known / (now - started)
            progress(f"{known:,} distinct states, {known - expanded:,} to expand, depth {depth}, {rate:,.0f} states/s")

    found = explorer.explore(max_states=max_states, progress=tick)
    seconds = time.monotonic() - started
    steps = found.shortest_violation
    told_of: list[dict[str, object]] = []
    if steps is not None:
        told_of.append(_violation(explorer, steps, found.violating_states))
        if out is not None:
            _write(explorer, steps[-1], out, model=model, constants=constants)
            told_of[-1]["snapshot"] = str(out)
    result = {
        "model": model,
        "constants": {
            "Replicas": constants.replicas,
            "LogSize": constants.log_size,
            "MaxRecords": constants.max_records,
            "MaxLeaderEpoch": constants.max_leader_epoch,
        },
        "distinct_states": found.distinct_states,
        "transitions": found.transitions,
        "depth": found.depth,
        "complete": found.complete,
        "violations": told_of,
        "states_per_second": round(found.distinct_states / seconds),
        "bytes_per_state": round(explorer.bytes_in_use / found.distinct_states, 1),
    }
    return result, list(portrait(explorer.layout, steps[-1].fields)) if steps else []


def _write(explorer: Explorer, last: Step, out: Path, *, model: str, constants: Constants) -> None:
    """The disks of a state, as a snapshot with its truth."""
    write_snapshot(
        out,
        disks_of(explorer.layout, last.fields),
        cluster=model,
        snapshot_id=f"{model}-{'-'.join(str(n) for n in _numbers(constants))}",
        consistency=Consistency.ATOMIC,
        truth=document(explorer.layout, last.fields),
        at_ms=STARTED_AT_MS,
    )


def _violation(explorer: Explorer, steps: Sequence[Step], states: int) -> dict[str, object]:
    """The shortest way to a state that breaks the invariant; `states`: how many break it."""
    return {
        "invariant": "StrongIsr",
        "length": len(steps),
        "states": states,
        "actions": tell(explorer.layout, steps),
        "lacking": [
            {"leader_id": v.leader_id, "member_id": v.member_id, "offsets": [v.start_offset, v.end_offset]}
            for v in violations(explorer.layout, steps[-1].fields)
        ],
    }


def _numbers(constants: Constants) -> tuple[int, ...]:
    return constants.replicas, constants.log_size, constants.max_records, constants.max_leader_epoch


def report(result: dict[str, Any], end: list[str]) -> Iterator[str]:
    """The result for a terminal."""
    constants = ", ".join(f"{name} {value}" for name, value in result["constants"].items())
    whole = "all of them" if result["complete"] else "not all: stopped at --max-states"
    yield f"{result['model']} with {constants}"
    yield f"{result['distinct_states']:,} distinct states ({whole}), depth {result['depth']}, " + (
        f"{result['states_per_second']:,} states/s"
    )
    if not result["violations"]:
        yield "StrongIsr holds in each." if result["complete"] else "StrongIsr holds in those that were looked at."
    for violation in result["violations"]:
        yield f"{violation['invariant']} is violated in {violation['states']:,} of them; the shortest way to one:"
        yield from (f"  {number:2}. {action}" for number, action in enumerate(violation["actions"], 1))
        yield from (f"      {line}" for line in end)
        for lacking in violation["lacking"]:
            start, stop = lacking["offsets"]
            yield (
                f"  So broker {lacking['leader_id']} has declared [{start}, {stop}) committed, and broker "
                f"{lacking['member_id']}, a member of the ISR, does not have it."
            )
        if "snapshot" in violation:
            where = violation["snapshot"]
            yield f"  snapshot  {where}"
            yield f"  next      tidegauge audit {where} --out {where}-audit"
