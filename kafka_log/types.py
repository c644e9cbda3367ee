"""The names of Kafka's numbers.

Nothing flows in or out here: these are the words that the rest of the code uses so that an offset is never handed over
where a leader epoch was meant. All of them are plain integers at run time; only the type checker sees the difference.
"""

from dataclasses import dataclass
from typing import NewType

Offset = NewType("Offset", int)
"""Position of a record in its partition, from 0 on. Names in `_offset` are inclusive, in `_end_offset` exclusive."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Number of a partition's leadership, raised by the controller with every new leader; -1 where none is known."""

BrokerId = NewType("BrokerId", int)
"""`node.id` of a broker or controller."""

ProducerId = NewType("ProducerId", int)
"""Number of an idempotent or transactional producer; -1 in batches of a producer that is neither."""

ProducerEpoch = NewType("ProducerEpoch", int)
"""Incarnation of a producer id, 16 bits, raised to fence an older one; -1 where there is no producer id."""

Millis = NewType("Millis", int)
"""A point in time in milliseconds since 1970-01-01 UTC; -1 where Kafka writes no timestamp."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic, ordered by topic name and then by number; `str()` gives `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Give the name that the partition's directory has."""
        return f"{self.topic}-{self.partition}"
