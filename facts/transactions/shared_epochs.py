"""Which end marker belongs to which decision, where many transactions share a producer id and epoch (version 1).

In: a producer's decisions that list a partition, in the order of the coordinator's log, and its end markers there, in
the order of the partition's. Out: a `Found` for each decision. A coordinator decides on a transaction once the markers
of the one before are written, so decisions and markers come in one order. A marker is given to one decision; one that
is left over was sent again by a new coordinator, or its decision is not in the copy.

Order and outcome say whether a marker is missing: it is, if the outcomes of the decisions do not come one after the
other among those of the markers. They do not always say which marker is whose, for markers may be left over:

    decisions          c2  a3  c4          the decision on c1 is compacted away
    markers       c1       a3  c4          c2 has none, or c1's is c2's, and the decision that is gone had none

There both logs' times help, of two brokers' clocks: whatever these differ by, they do so for most of the markers alike.
Where such a reading leaves a decision in want and the order alone does not, nothing is known of it (`by_clocks`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidegauge.facts.coordinators.transactional_ids import Decision
from tidegauge.facts.transactions.end_markers import Marker

_NEAR_MS: Final = 5_000
"""A marker mostly follows its decision within this time, by one clock; most brokers' clocks are not further apart."""

_READINGS: Final = 20
"""So many differences of the clocks are tried, the least ones."""

_AROUND: Final = 4
"""How many markers to each side of a decision's like place are tried for it."""


@dataclass(slots=True)
class Found:
    """The marker of a decision, and how many speak of it. `by_clocks`: that it has none, or one that contradicts it, is
    said by clocks alone.
    """

    marker: Marker | None = None
    count: int = 0
    by_clocks: bool = False


def share_out(decisions: Sequence[Decision], own: Sequence[Marker]) -> list[Found]:
    """Each decision's marker; a marker of the other outcome where one must be the decision's and contradicts it.

    A marker may come late: it is sent for as long as a broker does not answer, and the record of the completion has the
    time of before it was sent (TransactionMetadata#prepareComplete). It is looked for up to the next decision.
    """
    best = _best(decisions, own, _by_time(decisions, own, 0), _near(decisions, own))
    if not _in_want(decisions, best):
        return best
    ordered = _by_order(decisions, own)
    if ordered is not None and sum(f.count for f in ordered) == len(own):
        return ordered
    further = _best(decisions, own, best, _far(decisions, own))
    if ordered is None or (not _in_want(decisions, further) and _alike(decisions, further)):
        return further
    return [Found(by_clocks=True) if _wants(d, f) else f for d, f in zip(decisions, best, strict=True)]


def _best(
    decisions: Sequence[Decision], own: Sequence[Marker], best: list[Found], differences: Iterable[int]
) -> list[Found]:
    """The reading under which the fewest decisions are in want, and of several the first."""
    wanting = _in_want(decisions, best)
    for ahead_ms in differences if wanting else ():
        reading = _by_time(decisions, own, ahead_ms)
        if (in_want := _in_want(decisions, reading)) < wanting:
            best, wanting = reading, in_want
    return best


def _wants(decision: Decision, found: Found) -> bool:
    if found.marker is None:
        return decision.completed_offset is not None
    return found.marker.outcome != decision.outcome


def _in_want(decisions: Sequence[Decision], found: Sequence[Found]) -> int:
    return sum(_wants(d, f) for d, f in zip(decisions, found, strict=True))


def _alike(decisions: Sequence[Decision], found: Sequence[Found]) -> bool:
    """Whether most of the markers are equally far from their decisions."""
    apart = sorted(
        f.marker.at_ms - d.decided_at_ms
        for d, f in zip(decisions, found, strict=True)
        if f.marker is not None and d.decided_at_ms is not None
    )
    middle = apart[len(apart) // 2] if apart else 0
    return 2 * sum(abs(each - middle) <= _NEAR_MS for each in apart) > len(apart)


def _near(decisions: Sequence[Decision], own: Sequence[Marker]) -> list[int]:
    """By how much the partition's clock may be ahead: as a few decisions and the markers around them have it."""
    apart = {
        marker.at_ms - decided
        for at in _probed(decisions)
        if (decided := decisions[at].decided_at_ms) is not None
        for marker in own
        if abs(marker.at_ms - decided) <= _NEAR_MS and marker.outcome == decisions[at].outcome
    }
    return sorted(apart, key=abs)[:_READINGS]


def _far(decisions: Sequence[Decision], own: Sequence[Marker]) -> list[int]:
    """The same where clocks differ by any time: as markers have it at like places, from the beginning or the end."""
    apart = set()
    for at in _probed(decisions):
        decided = decisions[at].decided_at_ms
        for like in (at, len(own) - len(decisions) + at):
            around = own[max(0, like - _AROUND) : max(0, like + _AROUND + 1)]
            apart |= {m.at_ms - decided for m in around if decided is not None and m.outcome == decisions[at].outcome}
    return sorted(apart, key=abs)[: 2 * _READINGS]


def _probed(decisions: Sequence[Decision]) -> set[int]:
    return {0, len(decisions) // 2, len(decisions) - 1}


def _by_order(decisions: Sequence[Decision], own: Sequence[Marker]) -> list[Found] | None:
    """A marker for each completed decision, by order and outcome alone, the last ones first; None if some has none."""
    found = [Found() for _ in decisions]
    place = len(own)
    for number in range(len(decisions) - 1, -1, -1):
        if decisions[number].completed_offset is None:
            continue
        place -= 1
        while place >= 0 and own[place].outcome != decisions[number].outcome:
            place -= 1
        if place < 0:
            return None
        found[number] = Found(marker=own[place], count=1)
    return found


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
    _fill(decisions, own, taken, ahead_ms)
    return [Found(marker=own[place], count=1) if place is not None else Found() for place in taken]


def _fill(decisions: Sequence[Decision], own: Sequence[Marker], taken: list[int | None], ahead_ms: int) -> None:
    """What is between the markers of the decisions before and behind goes to those between, in order."""
    after = [len(own)] * (len(decisions) + 1)
    for number in range(len(decisions) - 1, -1, -1):
        mine = taken[number]
        after[number] = after[number + 1] if mine is None else mine
    at = 0
    for number, decision in enumerate(decisions):
        if taken[number] is None:
            following = decisions[number + 1] if number + 1 < len(decisions) else None
            taken[number] = _between(decision, following, own, range(at, after[number + 1]), ahead_ms)
        mine = taken[number]
        at = at if mine is None else mine + 1


def _between(
    decision: Decision, following: Decision | None, own: Sequence[Marker], places: range, ahead_ms: int
) -> int | None:
    """The first of these markers that is the decision's by outcome; else the first that must be, and contradicts it."""
    decided = decision.decided_at_ms or 0
    late = float("inf") if following is None else _earliest(following) + 2 * _NEAR_MS
    contradicting = None
    for place in places:
        marker, at_ms = own[place], own[place].at_ms - ahead_ms
        if at_ms > max(_latest(decision), late):
            break
        if marker.outcome == decision.outcome and at_ms >= decided - _NEAR_MS:
            return place
        # Another outcome is held against it only if it came after the decision by all clocks: before, it is another's.
        if contradicting is None and decided <= at_ms <= _latest(decision):
            contradicting = place
    return contradicting


def _earliest(decision: Decision) -> int:
    return decision.decided_at_ms - _NEAR_MS if decision.decided_at_ms is not None else 0


def _latest(decision: Decision) -> float:
    return decision.completed_at_ms + _NEAR_MS if decision.completed_at_ms is not None else float("inf")
