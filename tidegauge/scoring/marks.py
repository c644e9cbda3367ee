"""Marks: what an audit's report says of a snapshot, held against what it had to say.

In: a `Case` and its report. Out: `Marks`. A finding is caught by the invariant that it names, where it says and at the
offsets that it says; an alarm (severity above info) that nobody expected and nothing explains is false; a lost range is
told exactly or not at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegauge.scoring.cases import Case, Fault, Loss
from tidegauge.sim_engine.random_worlds.expected import matches
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Of one snapshot. `alarms`: how many breaches above info there are, false or not."""

    case: Case
    caught: tuple[tuple[Fault, Finding], ...]
    missed: tuple[tuple[Fault, Finding], ...]
    false_alarms: tuple[Mapping[str, Any], ...]
    alarms: int
    exact: tuple[Loss, ...]
    not_told: tuple[Loss, ...]

    @property
    def sound(self) -> bool:
        """Nothing missed, nothing false."""
        return not (self.missed or self.false_alarms or self.not_told)


def mark(case: Case, report: Mapping[str, Any]) -> Marks:
    """Holds a report against its case."""
    breaches = report["breaches"]
    caught: list[tuple[Fault, Finding]] = []
    missed: list[tuple[Fault, Finding]] = []
    for fault in case.faults:
        for finding in fault.findings:
            (caught if _reported(finding, breaches) else missed).append((fault, finding))
    known = [*(finding for fault in case.faults for finding in fault.findings), *case.allowed]
    alarms = [b for b in breaches if b["severity"] != "info"]
    told = [loss for loss in case.losses if loss.unseen is None]
    exact = tuple(loss for loss in told if _told_exactly(loss.lost, loss.codes, breaches))
    return Marks(
        case=case,
        caught=tuple(caught),
        missed=tuple(missed),
        false_alarms=tuple(b for b in alarms if not any(_is(finding, b) for finding in known)),
        alarms=len(alarms),
        exact=exact,
        not_told=tuple(loss for loss in told if loss not in exact),
    )


def _reported(finding: Finding, breaches: Iterable[Mapping[str, Any]]) -> bool:
    return any(_is(finding, breach) for breach in breaches)


def _is(finding: Finding, breach: Mapping[str, Any]) -> bool:
    subject = breach["subject"]
    return matches(
        finding,
        code=breach["code"],
        partition=_partition(subject),
        broker_id=subject.get("broker_id", subject.get("follower_id")),
        start_offset=breach["start_offset"],
        end_offset=breach["end_offset"],
    )


def _told_exactly(lost: LostRange, codes: Iterable[str], breaches: Iterable[Mapping[str, Any]]) -> bool:
    return any(
        breach["code"] in codes
        and _partition(breach["subject"]) == str(lost.partition)
        and (breach["start_offset"], breach["end_offset"]) == (lost.start_offset, lost.end_offset)
        for breach in breaches
    )


def _partition(subject: Mapping[str, Any]) -> str | None:
    return f"{subject['topic']}-{subject['partition']}" if "partition" in subject and "topic" in subject else None
