"""What is scored: snapshots of simulated clusters, and what an audit of each has to say.

In: seeds, names of scenarios, a directory. Out: snapshots in it, and a `Case` for each. What is expected comes from
those who made the world; nobody here knows Kafka or an invariant.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.random_worlds.expected import Injected, ToldLoss
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.random_world import DEFAULT_HOURS, RandomMoment, random_world
from tidegauge.sim_engine.random_worlds.write_world import write
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange, Moment
from tidegauge.sim_engine.scenarios.write_moment import write_moment
from tidegauge.sim_engine.scenarios.written.playing import as_scenario
from tidegauge.sim_engine.scenarios.written.reading import read_scenario
from tidegauge.snapshots.whole_files import write_whole

Kind = Literal["fault-free", "faults", "scenario"]

_NEVER_COMMITTED: Final = "one broker acknowledged it (acks 1) and lost it before any file called it committed"
_NO_END: Final = "the files show that replicas differ from there on, and not where the lost records end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something wrong in a snapshot: what must be reported on its account, or why nothing can be."""

    kind: str
    findings: tuple[Finding, ...] = ()
    unseen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A lost range, and the invariants that may tell of it; or why none can."""

    lost: LostRange
    codes: frozenset[str] = frozenset()
    unseen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One snapshot. `replay` is the command that makes it again; `live`: a copy of a running cluster."""

    kind: Kind
    name: str
    moment: str
    snapshot: str
    previous: str | None
    live: bool
    replay: str
    faults: tuple[Fault, ...] = ()
    allowed: tuple[Finding, ...] = ()
    losses: tuple[Loss, ...] = ()


def world_cases(seed: int, *, faults: bool, out: Path, hours: float = DEFAULT_HOURS) -> list[Case]:
    """A random world's moments, written below `out`."""
    world = random_world(seed, faults=tuple(WorldFault) if faults else (), hours=hours)
    written = write(world, out)
    kinds = "all" if faults else "none"
    replay = f"tidegauge simulate --seed {seed} --faults {kinds} --hours {hours} --out world-{seed}"
    return [
        Case(
            kind="faults" if faults else "fault-free",
            name=f"seed {seed}",
            moment=moment.name,
            snapshot=str(written[moment.name]),
            previous=str(written[moment.previous]) if moment.previous is not None else None,
            live=moment.kind == "live",
            replay=replay,
            faults=tuple(_injected(each) for each in moment.expected.injected),
            allowed=moment.expected.allowed,
            losses=_losses(moment),
        )
        for moment in world.moments
    ]


def _injected(each: Injected) -> Fault:
    return Fault(kind=each.kind.value, findings=each.findings, unseen=each.unseen)


def _losses(moment: RandomMoment) -> tuple[Loss, ...]:
    told: Sequence[ToldLoss] = moment.expected.losses
    return (
        *(Loss(lost=each.lost, codes=each.codes) for each in told),
        *(Loss(lost=lost, unseen=reason) for lost, reason in moment.expected.unseen_losses),
    )


def scenario_cases(name: str, *, seed: int, out: Path, file: str | None = None) -> list[Case]:
    """A scenario's moments, written below `out`: one of ours, or that of a `file`."""
    scenario = SCENARIOS[name] if file is None else as_scenario(read_scenario(Path(file)))
    cases = []
    for moment in scenario.play(seed).moments:
        written = write_moment(moment, out / moment.name, cluster=name, seed=seed)
        cases.append(
            Case(
                kind="scenario",
                name=name,
                moment=moment.name,
                snapshot=str(written),
                previous=str(out / moment.previous) if moment.previous is not None else None,
                live=False,
                replay=f"tidegauge simulate {shlex.quote(file or name)} --seed {seed} --out {name}",
                faults=_told(name, moment),
                losses=tuple(_told_loss(moment, lost) for lost in moment.losses),
            )
        )
    return cases


def _told(name: str, moment: Moment) -> tuple[Fault, ...]:
    if moment.findings:
        return (Fault(kind=name, findings=moment.findings),)
    return (Fault(kind=name, unseen=moment.unseen),) if moment.unseen is not None else ()


def _told_loss(moment: Moment, lost: LostRange) -> Loss:
    """A scenario names the findings that tell of a lost range; where none has its offsets, no file does."""
    span = lost.partition, lost.start_offset, lost.end_offset
    codes = frozenset(f.code for f in moment.findings if (f.partition, f.start_offset, f.end_offset) == span)
    if codes:
        return Loss(lost=lost, codes=codes)
    return Loss(lost=lost, unseen=moment.unseen or (_NO_END if lost.committed else _NEVER_COMMITTED))


def save(cases: Sequence[Case], path: Path) -> None:
    """Keeps cases for a later step."""
    write_whole(path, json.dumps([asdict(case) for case in cases], default=sorted))


def load(path: Path) -> list[Case]:
    """Reads them back."""
    return [_case(value) for value in json.loads(path.read_text(encoding="utf-8"))]


def _case(value: dict[str, Any]) -> Case:
    faults = tuple(Fault(**{**f, "findings": tuple(map(_finding, f["findings"]))}) for f in value["faults"])
    losses = tuple(
        Loss(**{**x, "lost": _placed(LostRange, x["lost"]), "codes": frozenset(x["codes"])}) for x in value["losses"]
    )
    allowed = tuple(map(_finding, value["allowed"]))
    return Case(**{**value, "faults": faults, "losses": losses, "allowed": allowed})


def _finding(value: dict[str, Any]) -> Finding:
    found: Finding = _placed(Finding, value)
    return found


def _placed(of: Any, value: dict[str, Any]) -> Any:
    where = value["partition"]
    return of(**{**value, "partition": TopicPartition(*where) if where is not None else None})
