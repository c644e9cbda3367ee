"""Which end marker belongs to which decision, where many transactions share a producer id and epoch (version 1).

In: a producer's decisions that list a partition, in the order of the coordinator's log, and its end markers there, in
the order of the partition's. Out: a `Found` for each decision. The rule that must hold: a coordinator decides on a
transaction once the markers of the one before are written, so decisions and markers come in one order. A marker is
given to one decision; one that is left over was sent again by a new coordinator, or its decision is not in the copy.

Both logs have times, of two brokers' clocks. Where those agree, a marker lies between its decision and the next one.
Where that leaves a decision without its marker, other readings are tried, of clocks that differ by as much as a
decision and a marker near it do. The one under which the fewest decisions are in want stands, and of several that with
the least difference: a marker that is truly missing is missing under all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.facts.transactional_ids import Decision

CLOCK_MARGIN_MS: Final = 5_000
"""How far the clocks of a coordinator and of a partition's leader may be apart."""

_READINGS: Final = 20
"""So many differences of the clocks are tried, the least ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """An end marker in a partition."""

    offset: int
    outcome: str
    at_ms: int


@dataclass(slots=True)
class Found:
    """The marker of a decision, and how many speak of it."""

    marker: Marker | None = None
    count: int = 0


def share_out(decisions: Sequence[Decision], own: Sequence[Marker]) -> list[Found]:
    """Each decision's marker; a marker of the other outcome where one must be the decision's and contradicts it.

    A marker may come late: it is sent for as long as a broker does not answer, and the record of the completion has the
    time of before it was sent (TransactionMetadata#prepareComplete). It is looked for up to the next decision.
    """
    best = _by_time(decisions, own, 0)
    wanting = _in_want(decisions, best)
    for ahead_ms in _differences(decisions, own) if wanting else ():
        reading = _by_time(decisions, own, ahead_ms)
        if (in_want := _in_want(decisions, reading)) < wanting:
            best, wanting = reading, in_want
    return best


def _in_want(decisions: Sequence[Decision], found: Sequence[Found]) -> int:
    return sum(f.marker is None or f.marker.outcome != d.outcome for d, f in zip(decisions, found, strict=True))


def _differences(decisions: Sequence[Decision], own: Sequence[Marker]) -> list[int]:
    """By how much the partition's clock may be ahead: as a few decisions and the markers around them have it."""
    apart = {
        marker.at_ms - decided
        for at in {0, len(decisions) // 2, len(decisions) - 1}
        if (decided := decisions[at].decided_at_ms) is not None
        for marker in own
        if abs(marker.at_ms - decided) <= CLOCK_MARGIN_MS and marker.outcome == decisions[at].outcome
    }
    return sorted(apart, key=abs)[:_READINGS]


def _by_time(decisions: Sequence[Decision], own: Sequence[Marker], ahead_ms: int) -> list[Found]:
    """Markers between a decision and the next one, by clocks of which the partition's is so much ahead."""
    taken: list[int | None] = []
    begin = [(d.decided_at_ms or 0) + ahead_ms for d in decisions]
    at = 0
    for decision, since, until in zip(decisions, begin, [*begin[1:], float("inf")], strict=True):
        while at < len(own) and own[at].at_ms < since:
            at += 1
        place = at
        while place < len(own) and own[place].at_ms < until and own[place].outcome != decision.outcome:
            place += 1
        found = place < len(own) and own[place].at_ms < until
        taken.append(place if found else None)
        at = place + 1 if found else at
    _fill(decisions, own, taken)
    return [Found(marker=own[place], count=1) if place is not None else Found() for place in taken]


def _fill(decisions: Sequence[Decision], own: Sequence[Marker], taken: list[int | None]) -> None:
    """What is between the markers of the decisions before and behind goes to those between, in order."""
    after = [len(own)] * (len(decisions) + 1)
    for number in range(len(decisions) - 1, -1, -1):
        mine = taken[number]
        after[number] = after[number + 1] if mine is None else mine
    at = 0
    for number, decision in enumerate(decisions):
        if taken[number] is None:
            following = decisions[number + 1] if number + 1 < len(decisions) else None
            taken[number] = _between(decision, following, own, range(at, after[number + 1]))
        mine = taken[number]
        at = at if mine is None else mine + 1


def _between(decision: Decision, following: Decision | None, own: Sequence[Marker], places: range) -> int | None:
    """The first of these markers that is the decision's by outcome; else the first that must be, and contradicts it."""
    decided = decision.decided_at_ms or 0
    late = float("inf") if following is None else _earliest(following) + 2 * CLOCK_MARGIN_MS
    contradicting = None
    for place in places:
        marker = own[place]
        if marker.at_ms > max(_latest(decision), late):
            break
        if marker.outcome == decision.outcome and marker.at_ms >= decided - CLOCK_MARGIN_MS:
            return place
        # Another outcome is held against it only if it came after the decision by all clocks: before, it is another's.
        if contradicting is None and decided <= marker.at_ms <= _latest(decision):
            contradicting = place
    return contradicting


def _earliest(decision: Decision) -> int:
    return decision.decided_at_ms - CLOCK_MARGIN_MS if decision.decided_at_ms is not None else 0


def _latest(decision: Decision) -> float:
    return decision.completed_at_ms + CLOCK_MARGIN_MS if decision.completed_at_ms is not None else float("inf")
