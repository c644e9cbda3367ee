"""The life of a loss over runs: what each run told of a partition in, what is so now out. Pure.

A loss is what was cut off one partition under one leader epoch (`LossKey`): a set of offset ranges (`Stretch`), each
with what was ever seen of it and when. The rules that must hold:

- What is kept is a join: of each kind of sight the first and the last moment. So runs may be carried in any order, one
  twice, an older one late; nothing that a newer snapshot told is changed by an older one.
- Nothing is left to see is no proof. A stretch is over only where a later snapshot shows the same records on the
  leader, below its high watermark (`back`); it is lost where a run says so, or where every disk that could hold what
  was at risk was read and has other records there, or none (`absent`).
- What is found on a disk again, newer than the proof that it was gone, is at risk again.

Kafka's logs match: one that holds a record of a leader epoch at an offset holds what the leader of that epoch had below
it (KIP-101, KIP-279). So the newest epoch of a range and its end stand for all of it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from itertools import pairwise
from typing import Final

Instant = tuple[datetime, str]
"""Of a snapshot: when it was captured, and its id, which orders those of one instant."""


class LossState(StrEnum):
    """What is so of a stretch; `RANK` says which is the worse."""

    BACK = "back"
    POSSIBLE = "possible"
    AT_RISK = "at_risk"
    LOST = "lost"


RANK: Final[Mapping[LossState, int]] = {state: rank for rank, state in enumerate(LossState)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossKey:
    """Identity over runs. A topic that was made again has another id, so it is another topic; of one without an id the
    name stands for it, of a message format without leader epochs (0 and 1) no epoch.
    """

    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    leader_epoch: int | None

    @property
    def loss_id(self) -> str:
        """As people name it; one id in all clusters of a store."""
        parts = (self.cluster, self.topic_id or self.topic, self.partition, self.leader_epoch)
        return "L-" + sha256("\0".join(map(repr, parts)).encode()).hexdigest()[:10]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Moment:
    """A run's place in the history of its cluster."""

    captured_at: datetime
    snapshot_id: str
    run_id: str

    @property
    def instant(self) -> Instant:
        """Two runs about one snapshot have the same."""
        return self.captured_at, self.snapshot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The first and the last moment of one kind of sight."""

    first: Moment
    last: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldRange:
    """A range as one run told it: of a part of it the records are counted in proportion, which is exact where each
    offset has one, and adds up to the whole wherever it is cut.
    """

    start_offset: int
    end_offset: int
    records: int
    declared_committed: int

    @property
    def order(self) -> tuple[int, int, int, int]:
        """The narrowest first: it knows best what a part of it holds; then the one that tells more."""
        return self.end_offset - self.start_offset, self.start_offset, -self.records, -self.declared_committed

    def part(self, count: int, start_offset: int, end_offset: int) -> int:
        """How much of a count over the whole range falls to a part of it."""
        length = self.end_offset - self.start_offset
        return count * (end_offset - self.start_offset) // length - count * (start_offset - self.start_offset) // length


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LatestWord:
    """Who held it and what cut it off, as the newest run that told of it says."""

    moment: Moment
    rank: int
    held_by: tuple[int, ...]
    cause: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FirstWord:
    """The first run that told of it, and the newest leader epoch of the partition that it knew. A snapshot that knows
    of older ones alone is a view of before: on a disk that was left behind nothing ever happened.
    """

    moment: Moment
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A person's decision: about this state and no worse one, and about records that had not come back since."""

    decision_id: int
    state: LossState
    back_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Offsets of which the same is known."""

    start_offset: int
    end_offset: int
    told: ToldRange
    latest: LatestWord
    holders: frozenset[int]
    """Every broker that ever held it."""
    first_word: FirstWord
    lowest_epoch: int | None
    """The oldest leader epoch that any of it was written in; None where no log that holds it tells."""
    seen: Mapping[LossState, Seen]
    """What runs told, by state; never BACK, and never empty."""
    absent: Seen | None = None
    """Snapshots that show it on no disk that could hold it."""
    back: Moment | None = None
    """The newest snapshot that shows it on the leader."""
    decided: Decided | None = None

    @property
    def last_told(self) -> Moment:
        """When it was told of for the last time."""
        return max(each.last for each in self.seen.values())

    @property
    def state(self) -> LossState:
        """By what was seen since it was last back."""
        after = {
            s: each.last for s, each in self.seen.items() if self.back is None or each.last.instant >= self.back.instant
        }
        at_risk, lost = after.get(LossState.AT_RISK), after.get(LossState.LOST)
        if at_risk is not None:
            absent = self.absent is not None and self.absent.last.instant > at_risk.instant
            gone = absent or (lost is not None and lost.instant >= at_risk.instant)
            return LossState.LOST if gone else LossState.AT_RISK
        if lost is not None:
            return LossState.LOST
        return LossState.POSSIBLE if after else LossState.BACK

    @property
    def is_undecided(self) -> bool:
        """Whether it waits for a person's decision, or for proof."""
        if self.state is LossState.BACK:
            return False
        back_at = self.back.captured_at if self.back is not None else None
        decided = self.decided
        return decided is None or RANK[self.state] > RANK[decided.state] or decided.back_at != back_at

    @property
    def state_since(self) -> Moment:
        """When it was first seen in its state."""
        if self.state is LossState.BACK and self.back is not None:
            return self.back
        firsts = [self.seen[self.state].first] if self.state in self.seen else []
        if self.state is LossState.LOST and self.absent is not None:
            firsts.append(self.absent.first)
        return min(firsts)

    @property
    def records(self) -> int:
        """Of these offsets."""
        return self.told.part(self.told.records, self.start_offset, self.end_offset)

    @property
    def declared_committed(self) -> int:
        """Of these records."""
        return self.told.part(self.told.declared_committed, self.start_offset, self.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRow:
    """A row of `losses`: one range and set of holders, as one run tells it."""

    start_offset: int
    end_offset: int
    records: int
    declared_committed: int
    state: LossState
    held_by: tuple[int, ...]
    cause: str
    groups: tuple[str, ...]
    lowest_epoch: int | None = None
    """The oldest leader epoch in it, by the logs of those that hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSpan:
    """Offsets that one replica has batches of one leader epoch for."""

    broker_id: int
    leader_epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSight:
    """What one snapshot shows of a partition's replicas. Whatever is not known proves nothing."""

    leader_id: int | None = None
    leader_epoch: int = -1
    """The newest one that the snapshot knows of."""
    log_start_offset: int | None = None
    """Of the leader's log."""
    high_watermark: int | None = None
    """A lower bound."""
    spans: Sequence[EpochSpan] = ()
    sound: Sequence[tuple[int, int]] = ()
    """Offsets for which the leader's log has a record each, read whole."""
    assigned: frozenset[int] = field(default_factory=frozenset)
    read: frozenset[int] = field(default_factory=frozenset)
    """Brokers of which every log dir was read to the end."""


def told_stretches(rows: Iterable[LossRow], moment: Moment, *, leader_epoch: int) -> tuple[Stretch, ...]:
    """What one run tells of one key; `leader_epoch`: the newest of the partition that it knows of."""
    found: tuple[Stretch, ...] = ()
    for row in rows:
        stretch = Stretch(
            start_offset=row.start_offset,
            end_offset=row.end_offset,
            told=ToldRange(
                start_offset=row.start_offset,
                end_offset=row.end_offset,
                records=row.records,
                declared_committed=row.declared_committed,
            ),
            latest=LatestWord(
                moment=moment, rank=RANK[row.state], held_by=row.held_by, cause=row.cause, groups=row.groups
            ),
            holders=frozenset(row.held_by),
            first_word=FirstWord(moment=moment, leader_epoch=leader_epoch),
            lowest_epoch=row.lowest_epoch,
            seen={row.state: Seen(first=moment, last=moment)},
        )
        found = merged(found, (stretch,))
    return found


def merged(one: Sequence[Stretch], other: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """Both, disjoint and in order; what both know is joined."""
    edges = sorted({edge for s in (*one, *other) for edge in (s.start_offset, s.end_offset)})
    starts = [[s.start_offset for s in side] for side in (one, other)]
    pieces = []
    for low, high in pairwise(edges):
        there = [
            s for side, begun in zip((one, other), starts, strict=True) if (s := _at(side, begun, low)) is not None
        ]
        if there:
            whole = there[0] if len(there) == 1 else _joined(*there)
            pieces.append(replace(whole, start_offset=low, end_offset=high))
    return _coalesced(pieces)


def with_sight(
    stretches: Sequence[Stretch], key: LossKey, moment: Moment, sight: PartitionSight
) -> tuple[Stretch, ...]:
    """The same stretches, with what one snapshot proves of them."""
    if key.leader_epoch is None:
        return tuple(stretches)  # Nothing tells one's records at an offset from another's.
    pieces: list[Stretch] = []
    back = _back(sight, key.leader_epoch)
    for stretch in stretches:
        first = stretch.first_word
        if moment.instant <= first.moment.instant or sight.leader_epoch < first.leader_epoch:
            pieces.append(stretch)
            continue
        at_risk = stretch.seen.get(LossState.AT_RISK)
        was_at_risk = at_risk is not None and moment.instant > at_risk.first.instant
        absent = _absent(sight, key.leader_epoch, stretch) if was_at_risk else []
        marks = sorted({edge for span in (*back, *absent) for edge in span})
        inner = [edge for edge in marks if stretch.start_offset < edge < stretch.end_offset]
        for low, high in pairwise((stretch.start_offset, *inner, stretch.end_offset)):
            piece = replace(stretch, start_offset=low, end_offset=high)
            if _within(low, high, back):
                piece = replace(piece, back=moment if piece.back is None else max(piece.back, moment))
            if _within(low, high, absent):
                piece = replace(piece, absent=_widened(piece.absent, Seen(first=moment, last=moment)))
            pieces.append(piece)
    return _coalesced(pieces)


def _back(sight: PartitionSight, leader_epoch: int) -> list[tuple[int, int]]:
    """Offsets at which the leader has the log that an epoch's leader had, committed and whole."""
    if sight.leader_id is None or sight.high_watermark is None or sight.log_start_offset is None:
        return []
    own = [s for s in sight.spans if s.broker_id == sight.leader_id and s.leader_epoch == leader_epoch]
    found = []
    for span in own:
        end = min(span.end_offset, sight.high_watermark)
        for low, high in sight.sound:
            start, stop = max(low, sight.log_start_offset), min(high, end)
            if start < stop:
                found.append((start, stop))
    return found


def _absent(sight: PartitionSight, leader_epoch: int, stretch: Stretch) -> list[tuple[int, int]]:
    """Offsets of a stretch at which no disk has records that could be its own."""
    if sight.leader_id is None or sight.log_start_offset is None:
        return []
    if not (sight.assigned and (sight.assigned | stretch.holders) <= sight.read):
        return []
    # Below the log start they may have come back, and been retained away.
    start, end = max(stretch.start_offset, sight.log_start_offset), stretch.end_offset
    found = []
    for span in sorted(sight.spans, key=lambda s: s.start_offset):
        # Of an older epoch, too, where a range may begin in one: it is named by its last.
        if not (stretch.lowest_epoch or 0) <= span.leader_epoch <= leader_epoch or span.end_offset <= start:
            continue
        if start < min(span.start_offset, end):
            found.append((start, min(span.start_offset, end)))
        start = max(start, span.end_offset)
    if start < end:
        found.append((start, end))
    return found


def _within(low: int, high: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(start <= low and high <= end for start, end in ranges)


def _at(side: Sequence[Stretch], starts: Sequence[int], offset: int) -> Stretch | None:
    place = bisect_right(starts, offset) - 1
    return side[place] if place >= 0 and offset < side[place].end_offset else None


def _joined(one: Stretch, other: Stretch) -> Stretch:
    seen = dict(one.seen)
    for state, each in other.seen.items():
        seen[state] = _widened(seen.get(state), each)
    absent = one.absent if other.absent is None else _widened(one.absent, other.absent)
    return Stretch(
        start_offset=one.start_offset,
        end_offset=one.end_offset,
        told=min(one.told, other.told, key=lambda told: told.order),
        latest=max(one.latest, other.latest),
        holders=one.holders | other.holders,
        first_word=min(one.first_word, other.first_word),
        lowest_epoch=min((e for e in (one.lowest_epoch, other.lowest_epoch) if e is not None), default=None),
        seen=seen,
        absent=absent,
        back=max((m for m in (one.back, other.back) if m is not None), default=None),
        decided=max(
            (d for d in (one.decided, other.decided) if d is not None), key=lambda d: d.decision_id, default=None
        ),
    )


def _widened(one: Seen | None, other: Seen) -> Seen:
    if one is None:
        return other
    return Seen(first=min(one.first, other.first), last=max(one.last, other.last))


def _coalesced(pieces: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Neighbours of which the same is known, as one."""
    return tuple(_together(pieces))


def _together(pieces: Iterable[Stretch]) -> Iterator[Stretch]:
    held: Stretch | None = None
    for piece in pieces:
        if held is not None and held.end_offset == piece.start_offset:
            longer = replace(held, end_offset=piece.end_offset)
            if longer == replace(piece, start_offset=held.start_offset):
                held = longer
                continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held
