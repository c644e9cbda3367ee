"""A restricted audit: some partitions, some invariants, asked for by name. Names in, what is read and judged out.

The rule that must hold: what was left out is told nowhere as if it had been looked at. Of partitions, only the rows of
those asked for are kept, and only invariants are judged whose rows are partitions' own: what a whole cluster owes
(transactions over many partitions, coordinators, brokers) cannot be told from a part of it. Kafka's internal topics and
the metadata log are read all the same, since they say who led and what a coordinator knows. Such a report is never
published: breaches that it could not see would count as resolved.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, cast

from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.facts.rows import AnyRow, by_relation
from tidegauge.kafka_log.internal_topics import INTERNAL_TOPICS
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import RELATIONS, Rows
from tidegauge.snapshots.errors import SnapshotError

_PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>0|[1-9][0-9]{0,9})", re.DOTALL)
_OF_MANY: Final = frozenset({"transactional_ids", "transaction_outcomes"})
"""Relations whose rows name a partition and are worked out from many."""
_OF_PARTITIONS: Final = (
    frozenset(r.name for r in RELATIONS.values() if {"topic", "partition"} <= set(r.column_names)) - _OF_MANY
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """What is asked for; nothing asked for is everything."""

    partitions: frozenset[TopicPartition] = frozenset()
    invariants: tuple[str, ...] = ()

    @property
    def is_restricted(self) -> bool:
        """Whether anything is left out."""
        return bool(self.partitions or self.invariants)

    def reads(self, topic: str, partition: int) -> bool:
        """Whether a partition's segments are read."""
        return self.keeps(TopicPartition(topic, partition)) or topic in INTERNAL_TOPICS

    def keeps(self, partition: TopicPartition) -> bool:
        """Whether facts of a partition are derived and judged."""
        return not self.partitions or partition in self.partitions

    def rows(self, rows: Rows) -> Rows:
        """Rows without those of partitions that were not asked for."""
        return cast(Rows, {name: [r for r in of_relation if self._keeps(r)] for name, of_relation in by_relation(rows)})

    def _keeps(self, row: AnyRow) -> bool:
        partition = row.get("partition")
        return not self.partitions or partition is None or (row.get("topic"), partition) in self.partitions

    def relations(self) -> Set[str]:
        """Relations whose rows are judged."""
        return _OF_PARTITIONS if self.partitions else frozenset(RELATIONS)

    def judged(self) -> tuple[Invariant, ...]:
        """The invariants to judge."""
        relations = self.relations()
        return tuple(
            i
            for i in CATALOGUE.values()
            if i.relation in relations and (not self.invariants or i.code in self.invariants)
        )


EVERYTHING: Final = Restriction()


def restriction_of(partitions: object, invariants: object) -> Restriction:
    """From the values that a run keeps. Raises `TypeError` or `ValueError` for any others."""
    if not isinstance(partitions, list | tuple) or not isinstance(invariants, list | tuple):
        raise TypeError("partitions and invariants must be lists")
    places = []
    for topic, partition in partitions:
        if not isinstance(topic, str) or not isinstance(partition, int):
            raise TypeError(f"{topic!r}, {partition!r} is no partition")
        places.append(TopicPartition(topic, partition))
    if unknown := [code for code in invariants if not isinstance(code, str) or code not in CATALOGUE]:
        raise ValueError(f"{unknown[0]!r} is no invariant")
    return Restriction(partitions=frozenset(places), invariants=tuple(invariants))


def restriction(partitions: Sequence[str], invariants: Sequence[str]) -> Restriction:
    """From TOPIC-PARTITION and codes. Raises `SnapshotError` for what names nothing."""
    places = frozenset(map(_partition, partitions))
    codes = tuple(sorted({_code(given) for given in invariants}))
    asked = Restriction(partitions=places, invariants=codes)
    if not asked.judged():
        raise SnapshotError(
            f"{', '.join(codes)} cannot be judged on some partitions alone: the whole cluster has to be audited. "
            "Leave --partition out."
        )
    return asked


def _partition(given: str) -> TopicPartition:
    found = _PARTITION.fullmatch(given)
    if found is None or int(found["partition"]) >= 1 << 31:
        raise SnapshotError(f"--partition {given} is not a partition. Give a topic and a number, such as orders-0.")
    return TopicPartition(found["topic"], int(found["partition"]))


def _code(given: str) -> str:
    by_name = {i.name: i.code for i in CATALOGUE.values()}
    code = by_name.get(given, given.upper())
    if code not in CATALOGUE:
        near = get_close_matches(given, [*CATALOGUE, *by_name], n=1)
        hint = f" Is {near[0]} meant?" if near else ""
        raise SnapshotError(
            f"--invariant {given}: no invariant has this code.{hint} Each has a folder in expectations/invariants/."
        )
    return code


def check_there(asked: Restriction, held: Set[TopicPartition]) -> None:
    """Raises `SnapshotError` for a partition of which no snapshot holds a replica."""
    missing = sorted(asked.partitions - held)
    if missing:
        topic = missing[0].topic
        of_topic = sorted(p for t, p in held if t == topic)
        known = (
            f"Of {topic} it holds {', '.join(map(str, of_topic[:20]))}{' …' if len(of_topic) > 20 else ''}."
            if of_topic
            else f"It holds no partition of {topic!r}."
        )
        raise SnapshotError(f"The snapshot holds no replica of {missing[0]}. {known}")
