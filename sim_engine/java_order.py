"""The order that Java's hash tables give: what coordinators' logs show of the language they run in.

In: topic partitions, topics. Out: the order in which a broker writes a set down. The records are those that a real
coordinator writes, byte for byte.

Source: HashMap (tables of a power of two, three quarters full), TopicPartition#hashCode.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from tidegauge.kafka_log.java_hash import string_hash
from tidegauge.kafka_log.types import TopicPartition

T = TypeVar("T")

_SMALLEST_TABLE: Final = 16


def partitions_in_order(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Topic partitions in the order of a HashSet into which they were put one after the other."""
    return _in_order(dict.fromkeys(partitions), _partition_hash)


def topics_in_order(topics: Iterable[str]) -> tuple[str, ...]:
    """Names in the order of a HashMap's keys that `computeIfAbsent` put in: of one bucket the last comes first."""
    return _in_order(reversed(dict.fromkeys(topics)), string_hash)


def _partition_hash(partition: TopicPartition) -> int:
    return 31 * (31 + partition.partition) + string_hash(partition.topic)


def _in_order(items: Iterable[T], code_of: Callable[[T], int]) -> tuple[T, ...]:
    kept = list(items)
    size = _SMALLEST_TABLE
    while len(kept) * 4 > size * 3:
        size *= 2

    def bucket(item: T) -> int:
        code = code_of(item) & 0xFFFFFFFF
        return (code ^ code >> 16) & (size - 1)

    return tuple(sorted(kept, key=bucket))
