"""A scoring run: worlds simulated, audited together, marked, counted, published.

In: seeds and a directory. Out: in it `score.json` and `score.md`; in the store a row an invariant. Three steps, each of
which reads what the one before it wrote, so that the command line and the DAG take the same road:

    simulate   DIR/worlds/…, cases.json      every world played and written, on all cores
    audit      DIR/audits/…, score.json      one Spark run and one validation for all; marks
    publish    the store, score.md           the score becomes visible

The worlds are audited as any snapshot is, by `audit.steps`; what they have to say is looked at only afterwards. A
world's snapshots and reports stay where something was missed or false.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from tidegauge import settings
from tidegauge.audit.request import AuditRequest
from tidegauge.audit.steps import audit
from tidegauge.audit.validate_apart import validating
from tidegauge.embedded.store_in_use import store_at
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION
from tidegauge.progress import each, working
from tidegauge.runs.run import NO_STORE
from tidegauge.runs.run_places import place_below
from tidegauge.scoring.cases import Case, load, save, scenario_cases, world_cases
from tidegauge.scoring.marks import Marks, mark
from tidegauge.scoring.score import Score, counted, from_json
from tidegauge.scoring.table import tables
from tidegauge.sim_engine.random_worlds.random_world import DEFAULT_HOURS
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.written.reading import read_scenario
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.places import emptied
from tidegauge.snapshots.places_above import made_safe
from tidegauge.snapshots.removal import removed
from tidegauge.snapshots.whole_files import write_whole

Progress = Callable[[str], None]

CASES: Final = "cases.json"
SCORE: Final = "score.json"
TABLE: Final = "score.md"
_BATCH: Final = "batch.json"
_WORLDS: Final = "worlds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is scored: seeds of worlds with faults, seeds of worlds without, whether every scenario is, and files."""

    seeds: range
    fault_free: range = range(0)
    scenarios: bool = False
    hours: float = DEFAULT_HOURS
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses a seed that is in both ranges: a world is one snapshot directory."""
        both = range(max(self.seeds.start, self.fault_free.start), min(self.seeds.stop, self.fault_free.stop))
        if both:
            raise SnapshotError(f"Seed {both.start} is to be with faults and without. Name ranges that do not overlap.")
        if not (self.seeds or self.fault_free or self.scenarios or self.files):
            raise SnapshotError(
                "There is nothing to score. Name --seeds, --fault-free, --scenarios or --scenario FILE."
            )


def score(batch: Batch, out: Path, *, store: str | None, master: str | None, progress: Progress) -> Score:
    """All steps."""
    simulate(batch, out, progress=progress)
    found = audited(out, master=master, progress=progress)
    publish(out, store=store, progress=progress)
    return found


def simulate(batch: Batch, out: Path, *, progress: Progress) -> list[Case]:
    """Plays and writes every world. What an earlier try of the same batch left unfinished is begun anew.

    Raises `SnapshotError` if the directory holds anything else.
    """
    if (out / CASES).is_file() and _read_batch(out) == batch:
        return _cases(out)
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and _read_batch(out) != batch)):
        raise SnapshotError(f"{out} exists and holds something. Name a directory that does not exist, or empty it.")
    named = _named(batch.files)
    made_safe(out)
    worlds = out / _WORLDS
    shutil.rmtree(worlds, ignore_errors=True)
    worlds.mkdir(parents=True)
    write_whole(out / _BATCH, json.dumps(_plain(batch)))
    tasks = [
        *(_Task(seed=seed, faults=True, out=worlds / f"{seed}", hours=batch.hours) for seed in batch.seeds),
        *(_Task(seed=seed, faults=False, out=worlds / f"{seed}", hours=batch.hours) for seed in batch.fault_free),
        *(_Task(scenario=name, out=worlds / name) for name in (SCENARIOS if batch.scenarios else ())),
        *(_Task(scenario=name, file=file, out=worlds / f"of-file-{name}") for name, file in named.items()),
    ]
    progress(f"simulate: {len(tasks)} worlds")
    cases: list[Case] = []
    # Processes of their own, not forks: this one may have threads.
    with (
        working("simulate", "worlds", parts=len(tasks)) as advance,
        ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool,
    ):
        try:
            for found in each(advance, pool.map(_played, tasks, chunksize=4)):
                cases += found
        except BaseException:
            pool.shutdown(cancel_futures=True)  # else every other world is played before the error is told
            raise
    save(cases, out / CASES)
    return cases


def _named(files: Sequence[str]) -> dict[str, str]:
    """Scenarios' files by the names of their scenarios, each read and found to be right. Raises `SnapshotError`."""
    named: dict[str, str] = {}
    for file in files:
        name = read_scenario(Path(file), codes=CATALOGUE).name
        if name in named or name in SCENARIOS:
            other = named.get(name, "one of ours")
            raise SnapshotError(
                f"{file} and {other} have the name {name}, so their marks would be one. Change `scenario`."
            )
        named[name] = file
    return named


def _plain(batch: Batch) -> dict[str, Any]:
    return {
        "seeds": [batch.seeds.start, batch.seeds.stop],
        "fault_free": [batch.fault_free.start, batch.fault_free.stop],
        "scenarios": batch.scenarios,
        "hours": batch.hours,
        "files": list(batch.files),
    }


def _read_batch(out: Path) -> Batch | None:
    if not (out / _BATCH).is_file():
        return None
    with _as_written(out / _BATCH):
        value = json.loads((out / _BATCH).read_text(encoding="utf-8"))
        return Batch(
            seeds=range(*value["seeds"]),
            fault_free=range(*value["fault_free"]),
            scenarios=value["scenarios"],
            hours=value["hours"],
            files=tuple(value.get("files", ())),
        )


def _cases(out: Path) -> list[Case]:
    """What was simulated. Raises `SnapshotError` for a world that lies elsewhere: those that were sound are removed."""
    path = _written(out / CASES, "simulate")
    with _as_written(path):
        cases = load(path)
        if not cases:
            raise ValueError("it names no world")
        worlds = out.absolute() / _WORLDS
        for place in (place for case in cases for place in (case.snapshot, case.previous) if place is not None):
            if place_below(worlds, str(Path(place).absolute().relative_to(worlds))) == worlds:
                raise ValueError(f"{place} is no world")
        return cases


@contextmanager
def _as_written(path: Path) -> Iterator[None]:
    """Raises `SnapshotError` where a file of the directory is not one of ours."""
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise SnapshotError(
            f"{path} is not what a step before wrote ({type(error).__name__}: {error}). Name a directory that does not "
            "exist, and begin with the step simulate."
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    out: Path
    seed: int = 1
    faults: bool = False
    scenario: str | None = None
    file: str | None = None
    hours: float = DEFAULT_HOURS


def _played(task: _Task) -> list[Case]:
    if task.scenario is not None:
        return scenario_cases(task.scenario, seed=task.seed, out=task.out, file=task.file)
    return world_cases(task.seed, faults=task.faults, out=task.out, hours=task.hours)


def audited(out: Path, *, master: str | None, progress: Progress) -> Score:
    """Audits all that was simulated, in one run, and counts. A directory that has its score keeps it.

    Raises `SnapshotError` if that is an earlier ruleset's: it says nothing of this one.
    """
    if (out / SCORE).is_file():
        found = read_score(out)
        if found.ruleset_version != RULESET_VERSION:
            raise SnapshotError(
                f"{out} has the score of ruleset {found.ruleset_version}, and this is ruleset {RULESET_VERSION}. "
                "Name a directory that does not exist, or empty it."
            )
        return found
    cases = _cases(out)
    shutil.rmtree(out / "audits", ignore_errors=True)
    with validating() as validate:
        asked = AuditRequest(
            snapshots=tuple(case.snapshot for case in cases),
            out=out / "audits",
            fail_on="never",
            store=NO_STORE,
            previous={case.snapshot: case.previous for case in cases if case.previous is not None},
            data_docs=False,
        )
        result = audit(asked, master=master, progress=progress, validate=validate)
    marks = [
        mark(case, json.loads(path.read_text(encoding="utf-8")))
        for case, path in zip(cases, result.reports, strict=True)
    ]
    found = counted(marks, CATALOGUE, ruleset_version=RULESET_VERSION)
    write_whole(out / TABLE, "\n".join(tables(found)) + "\n")
    write_whole(out / SCORE, json.dumps(found.to_json(), indent=1) + "\n")
    _clear(out, marks, result.reports)
    return found


def _clear(out: Path, marks: Sequence[Marks], reports: Sequence[Location]) -> None:
    """Removes the worlds about which there is nothing more to say."""
    failed = {one.case.name for one in marks if not one.sound}
    for one, report in zip(marks, reports, strict=True):
        if one.case.name not in failed:
            removed(out.absolute() / _WORLDS, Path(one.case.snapshot).absolute())
            if report.parent != out / "audits":
                emptied(report.parent)
    for path in [*(out / _WORLDS).iterdir(), *(out / "audits").iterdir()]:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def read_score(out: Path) -> Score:
    """The score of a directory."""
    path = _written(out / SCORE, "audit")
    with _as_written(path):
        return from_json(json.loads(path.read_text(encoding="utf-8")))


def publish(out: Path, *, store: str | None, progress: Progress) -> None:
    """Publishes the score of the directory; does nothing where the store is `none`."""
    from tidegauge.store import migrate
    from tidegauge.store.scores import publish_score

    found = read_score(out)
    batch = _read_batch(_written(out / _BATCH, "simulate").parent)
    assert batch is not None, "it is there"
    wanted = store or settings.store_url()
    if wanted == NO_STORE:
        return
    with store_at(wanted) as url:
        migrate(url)
        run_id = publish_score(url, found.to_json(), seeds=_ends(batch.seeds), fault_free=_ends(batch.fault_free))
    progress(f"publish: {run_id}")


def _ends(seeds: range) -> list[int] | None:
    return [seeds.start, seeds.stop - 1] if seeds else None


def _written(path: Path, step: str) -> Path:
    if not path.is_file():
        raise SnapshotError(f"{path} is not there. Run the step {step} first: tidegauge score --step {step} …")
    return path
