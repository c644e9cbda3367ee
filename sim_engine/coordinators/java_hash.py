"""The order and the partitions that Java's hash codes give: what coordinators' logs show of the language they run in.

In: a group's or transactional id; topic partitions. Out: the partition of the coordinator's topic, and the order in
which a broker writes a set down. The rule that must hold: an id's coordinator is where a real client looks for it.

Source: String#hashCode, HashMap (tables of a power of two, three quarters full), Utils#abs, TopicPartition#hashCode.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from kafka_log.types import TopicPartition

T = TypeVar("T")

_SMALLEST_TABLE: Final = 16
_INT_MIN: Final = -(2**31)


def string_hash(text: str) -> int:
    """String#hashCode, a signed 32-bit number."""
    units = text.encode("utf-16-be")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return _signed(code)


def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` that holds a group's or transactional id."""
    code = string_hash(key)
    return (0 if code == _INT_MIN else abs(code)) % partition_count


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


def _signed(code: int) -> int:
    return code - (1 << 32) if code & 0x80000000 else code
