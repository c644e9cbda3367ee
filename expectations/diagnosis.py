"""Diagnosis: what each breach points to, and which replicas to believe.

In: all breaches of a run, consequences under their roots, and which replicas of each partition were captured. Out: the
same breaches with `points_to`, `believe` and `diagnosis`. What is to be believed is argued from replicas that were
read; of one that was not, nothing is said. A consequence points to what its root points to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.expectations.causes import Believe, Rule
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach

PartitionKey = tuple[str, int]

_ACCUSED: Final = ("broker_id", "follower_id")
_PAIRS: Final = frozenset({"D02", "D03", "D07"})
_HELD: Final = frozenset({"D05", "D06"})
"""They tell what a follower holds and its leader lacks; whether it is proven committed, each by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """A partition's captured replicas."""

    captured: frozenset[int]


def diagnose(breaches: Iterable[Breach], copies: Mapping[PartitionKey, Copies]) -> tuple[Breach, ...]:
    """The breaches in their order, each with what it points to."""
    everything = tuple(breaches)
    at: dict[PartitionKey | None, list[Breach]] = {}
    for breach in everything:
        at.setdefault(_place(breach), []).append(breach)
    of_brokers = at.get(None, [])
    found = {b.breach_id: _diagnosed(b, _along(b, at[_place(b)], of_brokers), copies) for b in everything}
    return tuple(_of_root(found[b.breach_id], found.get(b.implied_by or "")) for b in everything)


def _along(breach: Breach, here: list[Breach], of_brokers: list[Breach]) -> list[Breach]:
    """What else is breached on the partition, and on the brokers that the breach names, whatever the partition."""
    named = {breach.subject.get(name) for name in ("broker_id", "leader_id", "follower_id")} - {None}
    beside = [b for b in of_brokers if b.subject.get("broker_id") in named and b is not breach]
    return [*here, *beside] if _place(breach) is not None else [breach, *beside]


def _of_root(breach: Breach, root: Breach | None) -> Breach:
    if root is None:
        return breach
    same_place = _place(breach) == _place(root)
    return replace(
        breach,
        points_to=root.points_to,
        believe=root.believe if same_place else (),
        diagnosis=root.diagnosis,
    )


def _diagnosed(breach: Breach, along: list[Breach], copies: Mapping[PartitionKey, Copies]) -> Breach:
    place = _place(breach)
    captured = copies[place].captured if place is not None and place in copies else frozenset()
    invariant = CATALOGUE[breach.code]
    for rule in invariant.diagnosis:
        if _meets(rule, breach, along, captured):
            believe = _believed(rule.believe, breach, along, captured)
            return replace(breach, points_to=rule.points_to, believe=believe, diagnosis=rule.because)
    return replace(breach, points_to=invariant.points_to)


def _meets(rule: Rule, breach: Breach, along: list[Breach], captured: frozenset[int]) -> bool:
    codes = {b.code for b in along if b is not breach and b.severity != "info"}
    if rule.along and not codes & set(rule.along):
        return False
    if codes & set(rule.without):
        return False
    evidence = breach.evidence
    return (
        _on(rule, breach, along, captured)
        and all(evidence.get(name) is not None for name in rule.known)
        and all(evidence.get(name) is None for name in rule.missing)
        and all(evidence.get(name) is True for name in rule.true)
        and all(_less(evidence.get(a), evidence.get(b)) for a, b in rule.less)
    )


def _less(first: object, second: object) -> bool:
    return isinstance(first, int) and isinstance(second, int) and first < second


def _on(rule: Rule, breach: Breach, along: list[Breach], captured: frozenset[int]) -> bool:
    if rule.on == "any":
        return True
    if len(captured) < 2:
        return False
    accused = _accused_of_same(breach, along)
    return captured <= accused if rule.on == "all" else len(accused) == 1


def _accused_of_same(breach: Breach, along: Iterable[Breach]) -> set[int]:
    """Replicas of which the same is told at the same offsets."""
    same = (b for b in along if b.code == breach.code and _overlap(b, breach))
    return {who for b in same if (who := _accused(b)) is not None}


def _believed(how: Believe, breach: Breach, along: list[Breach], captured: frozenset[int]) -> tuple[int, ...]:
    match how:
        case Believe.NOBODY:
            found: set[int] = set()
        case Believe.LEADER:
            leader = breach.subject.get("leader_id")
            found = {leader} if leader is not None else set()
        case Believe.HOLDER:
            found = _holders(breach, along)
        case Believe.OTHERS:
            found = set(captured) - _damaged(breach, along)
        case Believe.MAJORITY:
            found = _majority(breach, along, captured)
    return tuple(sorted(found)) if found != captured or len(captured) < 2 else ()


def _holders(breach: Breach, along: list[Breach]) -> set[int]:
    """The follower that holds what its leader lacks, and those that hold the same of that leader epoch."""
    follower, epoch = breach.subject.get("follower_id"), breach.evidence.get("truncated_leader_epoch")
    if follower is None:
        return set()
    same = {
        int(b.subject["follower_id"])
        for b in along
        if b.code in _HELD and b.evidence.get("truncated_leader_epoch") == epoch and _overlap(b, breach)
    }
    return {follower} | (same if epoch is not None else set())


def _majority(breach: Breach, along: list[Breach], captured: frozenset[int]) -> set[int]:
    """The leader and whoever agrees with it, or those who differ from it and hold one and the same batch there."""
    differing = _accused_of_same(breach, along)
    agreeing = set(captured) - differing
    if len(agreeing) > len(differing):
        return agreeing
    batches = [b.evidence.get("differing_batches") for b in along if b.code == breach.code and _overlap(b, breach)]
    alike = bool(batches[0]) and all(batch == batches[0] for batch in batches)
    return differing if alike and len(differing) > len(agreeing) else set()


def _damaged(breach: Breach, along: list[Breach]) -> set[int]:
    """Replicas that a breach here accuses by themselves, not against another one."""
    alone = [b for b in along if b.code not in _PAIRS and _place(b) == _place(breach) and b.severity != "info"]
    if breach.code in _PAIRS:
        wrong = {
            who for b in alone if b.code in ("A01", "A03", "D01", "B14", "A09") and (who := _accused(b)) is not None
        }
        return wrong or _accused_of_same(breach, along)
    return _accused_of_same(breach, along)


def _accused(breach: Breach) -> int | None:
    found = (breach.subject.get(name) for name in _ACCUSED)
    return next((int(who) for who in found if who is not None), None)


def _overlap(first: Breach, second: Breach) -> bool:
    """Whether two are about the same offsets, as far as they name any."""
    if None in (first.start_offset, second.start_offset):
        return True
    assert first.start_offset is not None
    assert second.start_offset is not None
    end = first.end_offset if first.end_offset is not None else first.start_offset + 1
    other_end = second.end_offset if second.end_offset is not None else second.start_offset + 1
    return first.start_offset < other_end and second.start_offset < end


def _place(breach: Breach) -> PartitionKey | None:
    topic, partition = breach.subject.get("topic"), breach.subject.get("partition")
    return (topic, partition) if topic is not None and partition is not None else None
