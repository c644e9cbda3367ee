"""The score: marks of many snapshots, counted.

In: `Marks`. Out: `Score`, and its JSON. Every number can be looked into: what was missed or was a false alarm is
listed, with the command that makes its world again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidegauge.expectations.model import Invariant
from tidegauge.scoring.marks import Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantScore:
    """How one invariant did."""

    code: str
    name: str
    should_catch: int
    caught: int
    missed: int
    false_alarms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultScore:
    """How one kind of fault fared. `caught`: all that it should give was reported; `unseen`: it leaves no trace."""

    kind: str
    injected: int
    caught: int
    missed: int
    unseen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """What no audit can see in the files: what happened, why, how often."""

    what: str
    reason: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One thing that went wrong, and how to see it again."""

    case: str
    moment: str
    what: str
    detail: str
    replay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Everything counted. `fault_free_alarms`: breaches above info in worlds in which nothing was done."""

    ruleset_version: str
    worlds: int
    fault_free_worlds: int
    scenarios: int
    snapshots: int
    live_copies: int
    fault_free_alarms: int
    losses: int
    losses_exact: int
    losses_unseen: int
    invariants: tuple[InvariantScore, ...]
    faults: tuple[FaultScore, ...]
    impossible: tuple[Impossible, ...]
    failures: tuple[Failure, ...]

    @property
    def perfect(self) -> bool:
        """Nothing missed, nothing false."""
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """The score in plain values."""
        return asdict(self)


def from_json(value: Mapping[str, Any]) -> Score:
    """A score from its plain values."""
    parts: Mapping[str, type[Any]] = {
        "invariants": InvariantScore, "faults": FaultScore, "impossible": Impossible, "failures": Failure,
    }  # fmt: skip
    return Score(**{**value, **{name: tuple(of(**each) for each in value[name]) for name, of in parts.items()}})


def counted(marks: Sequence[Marks], catalogue: Mapping[str, Invariant], *, ruleset_version: str) -> Score:
    """Counts."""
    cases = [each.case for each in marks]
    names = {kind: {case.name for case in cases if case.kind == kind} for kind in ("fault-free", "faults", "scenario")}
    losses = [loss for case in cases for loss in case.losses]
    return Score(
        ruleset_version=ruleset_version,
        worlds=len(names["faults"]),
        fault_free_worlds=len(names["fault-free"]),
        scenarios=len(names["scenario"]),
        snapshots=len(cases),
        live_copies=sum(case.live for case in cases),
        fault_free_alarms=sum(each.alarms for each in marks if each.case.kind == "fault-free"),
        losses=len(losses),
        losses_exact=sum(len(each.exact) for each in marks),
        losses_unseen=sum(loss.unseen is not None for loss in losses),
        invariants=_by_invariant(marks, catalogue),
        faults=_by_fault(marks),
        impossible=_impossible(marks),
        failures=tuple(failure for each in marks for failure in _failures(each)),
    )


def _by_invariant(marks: Iterable[Marks], catalogue: Mapping[str, Invariant]) -> tuple[InvariantScore, ...]:
    caught: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    false: Counter[str] = Counter()
    for each in marks:
        caught.update(finding.code for _, finding in each.caught)
        missed.update(finding.code for _, finding in each.missed)
        false.update(str(breach["code"]) for breach in each.false_alarms)
    return tuple(
        InvariantScore(
            code=code,
            name=invariant.name,
            should_catch=caught[code] + missed[code],
            caught=caught[code],
            missed=missed[code],
            false_alarms=false[code],
        )
        for code, invariant in sorted(catalogue.items())
    )


def _by_fault(marks: Iterable[Marks]) -> tuple[FaultScore, ...]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for each in marks:
        if each.case.kind != "faults":
            continue
        missed = [fault for fault, _ in each.missed]
        for fault in each.case.faults:
            how = "unseen" if not fault.findings else "missed" if fault in missed else "caught"
            found[fault.kind].update(("injected", how))
    return tuple(
        FaultScore(kind=kind, injected=n["injected"], caught=n["caught"], missed=n["missed"], unseen=n["unseen"])
        for kind, n in sorted(found.items())
    )


def _impossible(marks: Iterable[Marks]) -> tuple[Impossible, ...]:
    found: Counter[tuple[str, str]] = Counter()
    for each in marks:
        found.update((fault.kind, fault.unseen) for fault in each.case.faults if fault.unseen is not None)
        found.update(("lost records", loss.unseen) for loss in each.case.losses if loss.unseen is not None)
    return tuple(Impossible(what=what, reason=reason, times=times) for (what, reason), times in sorted(found.items()))


def _failures(marks: Marks) -> Iterable[Failure]:
    case = marks.case

    def failure(what: str, detail: object) -> Failure:
        return Failure(case=case.name, moment=case.moment, what=what, detail=str(detail), replay=case.replay)

    for fault, finding in marks.missed:
        where = " ".join(
            str(part)
            for part in (finding.partition, _named("broker", finding.broker_id), _span(finding))
            if part is not None
        )
        yield failure(f"{finding.code} missed", f"{fault.kind}: {where}")
    for breach in marks.false_alarms:
        span = f"[{breach['start_offset']}, {breach['end_offset']})"
        yield failure(f"{breach['code']} false alarm", f"{breach['subject']} {span}")
    for loss in marks.not_told:
        lost = loss.lost
        yield failure("loss not told exactly", f"{lost.partition} [{lost.start_offset}, {lost.end_offset})")


def _named(what: str, value: int | None) -> str | None:
    return f"{what} {value}" if value is not None else None


def _span(finding: Any) -> str | None:
    return f"[{finding.start_offset}, {finding.end_offset})" if finding.start_offset is not None else None
