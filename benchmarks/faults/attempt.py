"""One attempt: a fault and a number in, what was seen and what was wrong out.

The rule that must hold, whatever the fault: once the same command was given again, the store has exactly one published
run of the snapshot, and it says what an undisturbed audit says; nothing is staged; `report.json` is of that run; no
process and no temporary file is left.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

from benchmarks.faults.faults import LOST, PHASES, Calm, Fault, Met
from benchmarks.faults.place import CLUSTER, ROOT, Ended, Place, new_place

_STORED: Final = "import runpy; runpy.run_module('benchmarks.faults.stored', run_name='__main__', alter_sys=True)"

_SAID: Final = ("store ", "verdict: ")
"""What an audit says besides of its phases: which store it uses, and what it found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What came of one. `codes` of the disturbed audits, `left` until the retry; `wrong` is empty if all held. `spark`:
    whether its audits ran on Spark.
    """

    fault: str
    seed: str
    number: int
    how: str
    codes: tuple[int, ...]
    left: tuple[str, ...]
    left_for_good: tuple[str, ...]
    store_right: bool
    wrong: tuple[str, ...]
    said: str = ""
    spark: bool = True


def calm(parent: Path) -> Mapping[bool, Calm]:
    """Whether on Spark -> an undisturbed audit there, to compare with and to know how long its phases take. Both find
    the same. Raises `RuntimeError` if one fails or they differ.
    """
    found = {spark: _undisturbed(parent, spark=spark) for spark in (False, True)}
    without, on_spark = found.values()
    if (without.code, without.found, without.opened) != (on_spark.code, on_spark.found, on_spark.opened):
        raise RuntimeError("an undisturbed audit on Spark differs from one without")
    return found


def _undisturbed(parent: Path, *, spark: bool) -> Calm:
    with new_place(parent, LOST, spark=spark) as place:
        began = time.monotonic()
        running = place.audit()
        marks = [began]
        for at in range(len(PHASES)):  # Without Spark the first is passed over.
            running.until(lambda at=at: any(phase in running.said for phase in PHASES[at:]))  # type: ignore[misc]
            marks.append(time.monotonic())
        ended = running.ended()
        marks.append(time.monotonic())
        if ended.code not in (0, 1):
            raise RuntimeError(f"an undisturbed audit ended with {ended.code}: {ended.said}")
        held = _held(place)
        if left := place.left():
            raise RuntimeError(f"an undisturbed audit leaves {sorted(left)}")
        seconds = tuple(after - before for before, after in pairwise(marks))
        return Calm(code=ended.code, found=held["found"], opened=held["open"], seconds=seconds)


def on_spark(fault: Fault, number: int) -> bool:
    """Whether the audits of an attempt run on Spark: one of five does, and all where the fault is one of Spark's."""
    return fault.of_spark or number % 5 == 0


def attempt(fault: Fault, seed: str, number: int, expected: Calm, parent: Path, *, spark: bool) -> Attempt:
    """Makes it, and looks. `expected`: of audits that run where these do."""
    rng = Random(f"{fault.name} {seed} {number}")
    with new_place(parent, LOST, spark=spark, user=fault.user) as place:
        met = fault.meet(place, rng, expected)
        left = place.left(fault.unavoidable)
        wrong = [*_of_the_end(met, fault, expected), *(f"left behind: {w}" for w in sorted(left - fault.unavoidable))]
        wrong += _of_a_report_alone(place, met.ended)
        again = place.audit().ended()
        store_wrong = _of_the_retry(place, again, expected, met)
        left_for_good = place.left()
        wrong += [*store_wrong, *(f"left for good: {what}" for what in sorted(left_for_good))]
        told = "\n".join([*(f"--- {e.code}\n{e.said}" for e in met.ended), f"--- again {again.code}\n{again.said}"])
        root = str(place.root)
        said, *wrong = (
            text.replace(root, "PLACE").replace(quote(root, safe=""), "PLACE").replace(str(ROOT), "REPOSITORY")
            for text in (told, *wrong)
        )
    return Attempt(
        fault=fault.name, seed=seed, number=number, how=met.how, codes=tuple(e.code for e in met.ended),
        left=tuple(sorted(left)), left_for_good=tuple(sorted(left_for_good)), store_right=not store_wrong,
        wrong=tuple(wrong), said=said if wrong else "", spark=spark,
    )  # fmt: skip


def _of_the_end(met: Met, fault: Fault, expected: Calm) -> Iterable[str]:
    """Exit codes are those of the documents, and an error is a paragraph."""
    for ended in met.ended:
        if ended.code not in fault.codes | {expected.code}:
            yield f"it ended with {ended.code}"
        if "Traceback" in ended.said:
            yield "it showed a traceback"
        words = [line for line in ended.said.splitlines() if line.startswith("tidegauge: ")]
        if ended.code in (2, 3) and len(words) != 1:
            yield f"{len(words)} errors were told, not one"
        if stray := _stray(ended.said):
            yield f"it said {stray!r}"


def _stray(said: str) -> str | None:
    """The first line that is neither progress nor our error's."""
    for line in said.splitlines():
        if line.startswith("tidegauge: "):
            return None  # what follows is its paragraph
        if line.strip() and not line.startswith((*PHASES, *_SAID, "not published", "evaluate")):
            return line
    return None


def _of_a_report_alone(place: Place, ended: Iterable[Ended]) -> Iterable[str]:
    """A report is there when the store has its run."""
    path = place.out / "report.json"
    if not path.exists():
        return
    try:
        run_id = json.loads(path.read_text())["run"]["run_id"]
    except (ValueError, KeyError) as error:
        yield f"report.json is not whole: {error}"
        return
    if run_id not in _held(place)["runs"].get("published", []):
        yield "report.json tells of a run that the store has not published"


def _of_the_retry(place: Place, again: Ended, expected: Calm, met: Met) -> list[str]:
    """What is wrong in the store and in the run directory once the same command was given again."""
    if again.code != expected.code:
        return [f"the same command again ended with {again.code}"]
    held = _held(place)
    runs: dict[str, list[str]] = held["runs"]
    wrong = []
    if len(runs.get("published", [])) != 1:
        wrong.append(f"{len(runs.get('published', []))} runs are published, not one")
    if runs.get("staging"):
        wrong.append(f"{len(runs['staging'])} runs are staged")
    if held["facts_of_failed"]:
        wrong.append("runs that were given up have facts")
    wrong += [f"other {name} than an undisturbed audit's" for name, value in held["found"].items()
              if value != expected.found[name]]  # fmt: skip
    if not met.more and held["open"] != expected.opened:
        wrong.append("other breaches are open than after an undisturbed audit")
    for out in (place.out, *met.more):
        report = json.loads((out / "report.json").read_text())
        if report["run"]["run_id"] not in runs.get("published", []):
            wrong.append(f"{out.name}/report.json tells of a run that the store has not published")
        if [b["breach_id"] for b in sorted(report["breaches"], key=lambda b: b["breach_id"])] != [
            row["breach_id"] for row in held["found"]["breaches"]
        ]:
            wrong.append(f"{out.name}/report.json has other breaches than the store")
    return wrong


def _held(place: Place) -> dict[str, Any]:
    """What the store holds, asked by who owns it."""
    url = place.more.get("TIDEGAUGE_STORE_URL")
    asked = (CLUSTER, LOST.name.removesuffix(".tar.gz"), *([] if url is None else [url]))
    answer: dict[str, Any] = json.loads(place.asked(_STORED, *asked))
    return answer
