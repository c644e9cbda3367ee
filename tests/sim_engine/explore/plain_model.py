"""The specification again, in plain values and as its formulas read: what the compiled exploration is held against.

A state is `State`; records, epochs and offsets are numbers, a set of replicas is a frozenset, a log is a tuple of
(record id, leader epoch). `reachable` returns every state and the length of the shortest way to one that violates
StrongIsr.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

Entry = tuple[int, int]
Log = tuple[Entry, ...]
NONE = -1


@dataclass(frozen=True, slots=True)
class Replica:
    high_watermark: int
    epoch: int
    leader: int
    isr: frozenset[int]
    log: Log


@dataclass(frozen=True, slots=True)
class State:
    next_record: int
    leader: int
    isr: frozenset[int]
    requests: tuple[tuple[int, frozenset[int]], ...]
    replicas: tuple[Replica, ...]

    def with_replica(self, number: int, replica: Replica) -> "State":
        return replace(self, replicas=(*self.replicas[:number], replica, *self.replicas[number + 1 :]))

    def asked(self, leader: int, isr: frozenset[int]) -> "State":
        return replace(self, leader=leader, isr=isr, requests=(*self.requests, (leader, isr)))

    def presumes(self, number: int) -> bool:
        return self.replicas[number].leader == number

    def follows(self, follower: int, leader: int) -> bool:
        return self.replicas[follower].leader == leader


@dataclass(frozen=True, slots=True)
class PlainModel:
    name: str
    replicas: int
    log_size: int
    max_records: int
    max_leader_epoch: int

    def initial(self) -> State:
        blank = Replica(0, NONE, NONE, frozenset(), ())
        return State(0, NONE, frozenset(range(self.replicas)), (), (blank,) * self.replicas)

    def successors(self, s: State) -> Iterator[State]:
        yield from self._controller(s)
        for epoch, (leader, isr) in enumerate(s.requests):
            if leader != NONE and epoch > s.replicas[leader].epoch:
                yield s.with_replica(leader, replace(s.replicas[leader], epoch=epoch, leader=leader, isr=isr))
            yield from self._becoming_follower(s, epoch, leader, isr)
        for number in range(self.replicas):
            if s.presumes(number):
                yield from self._write(s, number)
                yield from self._isr(s, number)
                yield from self._high_watermark(s, number)
                yield from self._fetches(s, number)

    def _controller(self, s: State) -> Iterator[State]:
        if len(s.requests) > self.max_leader_epoch:
            return
        for number in range(self.replicas):
            if s.leader == number:
                yield s.asked(NONE, s.isr if s.isr == {number} else s.isr - {number})
            elif number in s.isr:
                yield s.asked(s.leader, s.isr - {number})
                yield s.asked(number, s.isr)

    def _write(self, s: State, number: int) -> Iterator[State]:
        replica = s.replicas[number]
        if s.next_record < self.max_records and len(replica.log) < self.log_size:
            grown = replace(replica, log=(*replica.log, (s.next_record, replica.epoch)))
            yield replace(s.with_replica(number, grown), next_record=s.next_record + 1)

    def _becoming_follower(self, s: State, epoch: int, leader: int, isr: frozenset[int]) -> Iterator[State]:
        for number, replica in enumerate(s.replicas):
            if leader in (NONE, number) or epoch <= replica.epoch:
                continue
            if self.name == "Kip320FirstTry":
                yield s.with_replica(number, replace(replica, epoch=epoch, leader=leader, isr=isr))
                continue
            ready = s.presumes(leader) and s.replicas[leader].epoch == epoch
            if self.name == "Kip320" and not ready:
                continue
            offset = self._truncation_offset(replica, s.replicas[leader].log)
            if offset <= len(replica.log):
                mark = min(offset, replica.high_watermark)
                yield s.with_replica(number, Replica(mark, epoch, leader, isr, replica.log[:offset]))

    def _truncation_offset(self, replica: Replica, leader_log: Log) -> int:
        if self.name == "KafkaTruncateToHighWatermark":
            return replica.high_watermark
        if self.name != "Kip101":
            return first_not_matching(leader_log, replica.log)
        if not replica.log:
            return 0
        asked = replica.log[-1][1]
        if not leader_log:
            return replica.high_watermark
        if leader_log[-1][1] == asked:
            return len(leader_log)
        return min((o for o, (_, epoch) in enumerate(leader_log) if epoch > asked), default=replica.high_watermark)

    def _caught_up(self, s: State, leader: int, follower: int, end: int) -> bool:
        mine, theirs = s.replicas[leader].log, s.replicas[follower].log
        if not s.follows(follower, leader):
            return False
        if self.name == "Kip320" and s.replicas[follower].epoch != s.replicas[leader].epoch:
            return False
        if end == 0:
            return True
        if end > len(mine) or end > len(theirs):
            return False
        return self.name != "Kip320FirstTry" or mine[end - 1][1] == theirs[end - 1][1]

    def _isr(self, s: State, leader: int) -> Iterator[State]:
        state = s.replicas[leader]
        if s.leader != leader or state.epoch != len(s.requests) - 1:
            return
        mark = state.high_watermark
        own_epoch = mark == len(state.log) or (mark < len(state.log) and state.log[mark][1] == state.epoch)
        for other in range(self.replicas):
            changed = None
            if other in state.isr:
                if other != leader and not self._caught_up(s, leader, other, len(state.log)):
                    changed = state.isr - {other}
            elif self.name == "Kip320":
                same = s.follows(other, leader) and s.replicas[other].epoch == state.epoch
                if same and own_epoch and (mark == 0 or mark - 1 < len(s.replicas[other].log)):
                    changed = state.isr | {other}
            elif self._caught_up(s, leader, other, mark) and (own_epoch or self.name != "Kip320FirstTry"):
                changed = state.isr | {other}
            if changed is not None:
                yield replace(s.with_replica(leader, replace(state, isr=changed)), isr=changed)

    def _high_watermark(self, s: State, leader: int) -> Iterator[State]:
        state = s.replicas[leader]
        mark = state.high_watermark
        if self.name in ("Kip320FirstTry", "Kip320"):
            ready = mark < len(state.log) and all(self._caught_up(s, leader, f, mark + 1) for f in state.isr)
        else:
            there = all(s.follows(f, leader) and mark < len(s.replicas[f].log) for f in state.isr)
            ready = mark < self.log_size and there
        if ready:
            yield s.with_replica(leader, replace(state, high_watermark=mark + 1))

    def _fetches(self, s: State, leader: int) -> Iterator[State]:
        mine = s.replicas[leader]
        for other, theirs in enumerate(s.replicas):
            if other == leader or not s.follows(other, leader):
                continue
            end = len(theirs.log)
            may = self.name in ("KafkaTruncateToHighWatermark", "Kip101", "Kip279") or self._caught_up(
                s, leader, other, end
            )
            if self.name == "Kip320":
                may = theirs.epoch == mine.epoch
            if may and end < len(mine.log):
                mark = min(mine.high_watermark, end + 1)
                yield s.with_replica(other, replace(theirs, high_watermark=mark, log=(*theirs.log, mine.log[end])))
            if self.name == "Kip320FirstTry":
                longer = end > len(mine.log)
                if longer or (end > 0 and mine.log[end - 1][1] != theirs.log[-1][1]):
                    offset = first_not_matching(mine.log, theirs.log)
                    mark = min(offset, theirs.high_watermark)
                    yield s.with_replica(other, replace(theirs, high_watermark=mark, log=theirs.log[:offset]))


def first_not_matching(leader_log: Log, follower_log: Log) -> int:
    matching = [o for o, (a, b) in enumerate(zip(leader_log, follower_log, strict=False)) if a == b]
    return max(matching) + 1 if matching else 0


def breaks_strong_isr(s: State) -> bool:
    return any(
        offset >= min(len(leader.log), len(s.replicas[member].log))
        or leader.log[offset] != s.replicas[member].log[offset]
        for number, leader in enumerate(s.replicas)
        if leader.leader == number
        for member in s.isr
        for offset in range(leader.high_watermark)
    )


def reachable(model: PlainModel) -> tuple[set[State], int | None]:
    seen = {model.initial()}
    level, length, shortest = list(seen), 0, None
    while level:
        if shortest is None and any(breaks_strong_isr(s) for s in level):
            shortest = length
        found = []
        for state in level:
            for following in model.successors(state):
                if following not in seen:
                    seen.add(following)
                    found.append(following)
        level, length = found, length + 1
    return seen, shortest
