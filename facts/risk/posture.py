"""Posture: what the loss of one or two brokers, or racks, would cost each topic now.

In: partitions as the metadata log has them, with what the captured replicas hold; brokers and their racks. Out: rows of
`risks`. Nothing here has happened. A risk is no breach, and is told apart from breaches.

A failure takes brokers away at once, disks and all. What then becomes of a partition:

    leader, enough in sync     a member of the ISR is left, and the ISR is not below the minimum            unharmed
    leader, too few in sync    the same, below the minimum: acks=all is refused, the high watermark stands  refuses
    unclean election           nobody eligible is left, the topic allows unclean elections, a replica lives unclean
    no leader                  nobody eligible is left: neither reads nor writes                            unavailable

Eligible is a live member of the ISR, else of the ELR, else, where both are empty, the last known leader
(PartitionChangeBuilder#electAnyLeader, KIP-966). The minimum is min.insync.replicas, or the number of replicas where
that is smaller (Partition#effectiveMinIsr). Whatever becomes of its leadership, a partition `loses` committed records
if no replica that is left holds all of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import combinations
from typing import Final, TypeVar

from tidegauge.relations import RiskRow

NOW: Final = "now"
BROKER: Final = "broker"
BROKERS: Final = "brokers"
RACK: Final = "rack"
RACKS: Final = "racks"
PARTITIONS_NAMED: Final = 50
"""How many partitions a row names, kind by kind; the counts beside them are exact."""

Away = frozenset[int]
Name = TypeVar("Name", int, str)
_NOBODY: Final[Away] = frozenset()


class Service(IntEnum):
    """What clients of a partition get, best first."""

    FULL = 0
    REFUSES = 1
    """Reads, and writes with acks=1; acks=all is refused."""
    UNCLEAN = 2
    """Served by a replica that was not in sync."""
    UNAVAILABLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one captured replica holds of its partition's lineage: [log start, shared end)."""

    broker_id: int
    log_start_offset: int
    shared_end_offset: int
    damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A partition under a failure. `records`: committed records gone; None where the logs do not tell how many."""

    service: Service
    loses: bool
    records: int | None

    def worse_than(self, other: "Outcome") -> bool:
        """Whether a client or an owner of the data would tell the difference."""
        return self.service > other.service or (self.loses and not other.loses)


@dataclass(frozen=True, kw_only=True)
class PartitionPosture:
    """One partition. `alive`: brokers that may lead. `committed_end_offset`: the known part of what is committed.

    In a stopped cluster nobody leads and the ISR is what the last broker left of it: `in_sync` are then the replicas
    whose logs hold all that is committed, for these come back as they are.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]
    eligible: frozenset[int]
    last_known: tuple[int, ...]
    alive: frozenset[int]
    min_insync_replicas: int
    unclean_allowed: bool
    holdings: tuple[Holding, ...]
    log_start_offset: int | None
    committed_end_offset: int | None
    held_by: frozenset[int] | None
    """Captured replicas whose logs hold everything committed; None where copies of different moments cannot tell."""

    @cached_property
    def complete(self) -> frozenset[int]:
        """Replicas that hold everything committed: by ISR and ELR, unless their logs say otherwise."""
        if self.held_by is None:
            return (self.in_sync | self.eligible) - {h.broker_id for h in self.holdings if h.damaged}
        return self.held_by | (self.in_sync | self.eligible) - {h.broker_id for h in self.holdings}

    @cached_property
    def now(self) -> Outcome:
        """The partition as it is."""
        return self.without(_NOBODY)

    @property
    def brokers(self) -> frozenset[int]:
        """Brokers whose failure may cost it anything."""
        return frozenset(self.replicas) | self.in_sync | self.eligible | {h.broker_id for h in self.holdings}

    def without(self, away: Away) -> Outcome:
        """What becomes of it when these brokers fail."""
        service, successor = self._served(away)
        left = self.complete - away
        loses = not left and self._holds_records
        if service is Service.UNCLEAN and successor not in left and self._holds_records:
            loses = True
        return Outcome(service=service, loses=loses, records=self._gone(away, successor) if loses else 0)

    def _served(self, away: Away) -> tuple[Service, int | None]:
        present = self.alive - away
        in_sync = self.in_sync & present
        if in_sync:
            needed = min(self.min_insync_replicas, len(self.replicas))
            return (Service.FULL if len(in_sync) >= needed else Service.REFUSES), None
        candidates = self.eligible & present
        if not self.in_sync and not self.eligible and len(self.last_known) == 1:
            candidates = frozenset(self.last_known) & present
        if candidates:
            alone = min(self.min_insync_replicas, len(self.replicas)) <= 1
            return (Service.FULL if alone else Service.REFUSES), None
        others = [b for b in self.replicas if b in present]
        if self.unclean_allowed and others:
            return Service.UNCLEAN, others[0]
        return Service.UNAVAILABLE, None

    @property
    def _holds_records(self) -> bool:
        """Whether anything committed is there to be lost; where nothing bounds it, there may be."""
        if self.committed_end_offset is None or self.log_start_offset is None:
            return True
        return self.committed_end_offset > self.log_start_offset

    def _gone(self, away: Away, successor: int | None) -> int | None:
        """Committed records that nobody has any more, or that the unclean leader lacks; not known where the logs, which
        may have been copied at different moments, have all of them after all.
        """
        if self.committed_end_offset is None or self.log_start_offset is None:
            return None
        ends = {h.broker_id: h.shared_end_offset for h in self.holdings if not h.damaged}
        left = set(self.replicas) - away if successor is None else {successor}
        if not left <= ends.keys():
            return None
        kept = max((ends[b] for b in left), default=self.log_start_offset)
        return max(0, self.committed_end_offset - max(kept, self.log_start_offset)) or None


def complete_holders(
    holdings: Sequence[Holding], *, log_start_offset: int, committed_end_offset: int, retained: bool
) -> frozenset[int]:
    """The replicas whose undamaged logs hold [log start, committed end).

    `retained`: each broker may delete old segments by itself, so that logs begin at different offsets and none of it
    is a loss.
    """
    starts = [h.log_start_offset for h in holdings if h.log_start_offset < committed_end_offset]
    start = max(starts, default=log_start_offset) if retained else min(log_start_offset, committed_end_offset)
    return frozenset(
        h.broker_id
        for h in holdings
        if not h.damaged and h.shared_end_offset >= committed_end_offset and h.log_start_offset <= start
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Brokers that fail together, and how that is named."""

    kind: str
    brokers: tuple[int, ...]
    racks: tuple[str, ...] = ()


def risk_rows(partitions: Iterable[PartitionPosture], racks: Mapping[int, str | None]) -> Iterator[RiskRow]:
    """Rows of `risks`, topic by topic.

    One row says what is so already (`now`), where anything is. Then one for each broker, and each rack, whose loss
    costs the topic anything; and one for each two that cost more together than each of them does alone. What a row
    counts is what the failure costs beyond `now`.
    """
    by_rack: dict[str, set[int]] = {}
    for broker, rack in racks.items():
        if rack is not None:
            by_rack.setdefault(rack, set()).add(broker)
    by_topic: dict[str, list[PartitionPosture]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    for topic in sorted(by_topic):
        members = sorted(by_topic[topic], key=lambda p: p.partition)
        yield from _rows_of(topic, members, racks, by_rack)


def _rows_of(
    topic: str,
    partitions: Sequence[PartitionPosture],
    racks: Mapping[int, str | None],
    by_rack: Mapping[str, set[int]],
) -> Iterator[RiskRow]:
    now = [(p, p.now) for p in partitions if p.now.service > Service.FULL or p.now.loses]
    if now:
        yield _row(topic, Failure(kind=NOW, brokers=()), now, len(partitions))
    for failure in _failures(partitions, racks, by_rack):
        away = frozenset(failure.brokers)
        concerned = [p for p in partitions if p.brokers & away]
        hit = [(p, outcome) for p in concerned if (outcome := p.without(away)).worse_than(p.now)]
        if hit:
            yield _row(topic, failure, hit, len(partitions))


def _failures(
    partitions: Sequence[PartitionPosture], racks: Mapping[int, str | None], by_rack: Mapping[str, set[int]]
) -> Iterator[Failure]:
    """Single failures, and those double ones that cost some partition more than each half of it does."""
    brokers = sorted({b for p in partitions for b in p.brokers})
    yield from (Failure(kind=BROKER, brokers=(b,)) for b in brokers)
    pairs = {pair for p in partitions for pair in _adding(p, {b: frozenset({b}) for b in p.brokers})}
    yield from (Failure(kind=BROKERS, brokers=pair) for pair in sorted(pairs))
    named = sorted({rack for b in brokers if (rack := racks.get(b)) is not None})
    yield from (Failure(kind=RACK, brokers=tuple(sorted(by_rack[r])), racks=(r,)) for r in named)
    rack_pairs: set[tuple[str, str]] = set()
    for p in partitions:
        own = {rack for b in p.brokers if (rack := racks.get(b)) is not None}
        rack_pairs |= set(_adding(p, {r: frozenset(by_rack[r]) for r in own}))
    for first, second in sorted(rack_pairs):
        together = tuple(sorted(by_rack[first] | by_rack[second]))
        yield Failure(kind=RACKS, brokers=together, racks=(first, second))


def _adding(partition: PartitionPosture, parts: Mapping[Name, Away]) -> Iterator[tuple[Name, Name]]:
    """Pairs that cost the partition more than each of the two does."""
    alone = {name: partition.without(away) for name, away in parts.items()}
    for first, second in combinations(sorted(parts), 2):
        both = partition.without(parts[first] | parts[second])
        if both.worse_than(alone[first]) and both.worse_than(alone[second]) and both.worse_than(partition.now):
            yield first, second


def _row(
    topic: str, failure: Failure, hit: Sequence[tuple[PartitionPosture, Outcome]], partition_count: int
) -> RiskRow:
    def numbers(service: Service) -> list[int]:
        return [p.partition for p, outcome in hit if outcome.service is service]

    losing = [p.partition for p, outcome in hit if outcome.loses]
    records = [outcome.records for _, outcome in hit if outcome.loses]
    refusing, unclean, unavailable = (numbers(s) for s in (Service.REFUSES, Service.UNCLEAN, Service.UNAVAILABLE))
    return {
        "topic": topic,
        "failure": failure.kind,
        "brokers": list(failure.brokers),
        "racks": list(failure.racks),
        "partition_count": partition_count,
        "losing": len(losing),
        "unavailable": len(unavailable),
        "unclean": len(unclean),
        "refusing": len(refusing),
        "records_at_risk": sum(r for r in records if r is not None) if records else 0,
        "records_at_risk_known": None not in records,
        "losing_partitions": losing[:PARTITIONS_NAMED],
        "unavailable_partitions": unavailable[:PARTITIONS_NAMED],
        "unclean_partitions": unclean[:PARTITIONS_NAMED],
        "refusing_partitions": refusing[:PARTITIONS_NAMED],
    }
