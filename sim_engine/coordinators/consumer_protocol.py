"""What members of a classic group tell one another through their coordinator, which does not read it.

In: topics; partitions. Out: the bytes of a subscription and of an assignment, version 3, and back. They are a Java
client's bytes, because they lie in the group's record on the disk.

    subscription   version i16 | topics | user data | owned partitions | generation i32 | rack
    assignment     version i16 | topics with partition numbers | user data

Source: Kafka ConsumerProtocolSubscription, ConsumerProtocolAssignment, RangeAssignor.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidegauge.kafka_log.types import TopicPartition

_VERSION: Final = (3).to_bytes(2, "big")
_NULL_BYTES: Final = b"\xff\xff\xff\xff"
_NULL_STRING: Final = b"\xff\xff"
_NO_GENERATION: Final = b"\xff\xff\xff\xff"


def write_subscription(topics: Iterable[str]) -> bytes:
    """A member that owns nothing and says no rack."""
    names = sorted(topics)
    body = b"".join(_text(name) for name in names)
    return _VERSION + _count(len(names)) + body + _NULL_BYTES + _count(0) + _NO_GENERATION + _NULL_STRING


def read_subscription(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription."""
    count, at = int.from_bytes(data[2:6], "big"), 6
    topics = []
    for _ in range(count):
        name, at = _read_text(data, at)
        topics.append(name)
    return tuple(topics)


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """What a member gets."""
    numbers = _by_topic(partitions)
    body = b"".join(
        _text(topic) + _count(len(each)) + b"".join(_count(number) for number in each)
        for topic, each in numbers.items()
    )
    return _VERSION + _count(len(numbers)) + body + _NULL_BYTES


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment; none where it is empty."""
    if not data:
        return ()
    count, at = int.from_bytes(data[2:6], "big"), 6
    found = []
    for _ in range(count):
        topic, at = _read_text(data, at)
        size, at = int.from_bytes(data[at : at + 4], "big"), at + 4
        for _ in range(size):
            found.append(TopicPartition(topic, int.from_bytes(data[at : at + 4], "big")))
            at += 4
    return tuple(found)


def ranges(members: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> dict[str, bytes]:
    """Each topic's partitions in ranges over its subscribers by id; the first ones get one more (RangeAssignor)."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic in sorted({topic for topics in members.values() for topic in topics} & partition_counts.keys()):
        subscribers = sorted(member for member, topics in members.items() if topic in topics)
        each, more = divmod(partition_counts[topic], len(subscribers))
        number = 0
        for at, member in enumerate(subscribers):
            size = each + (at < more)
            assigned[member] += [TopicPartition(topic, n) for n in range(number, number + size)]
            number += size
    return {member: write_assignment(partitions) for member, partitions in assigned.items()}


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for partition in partitions:
        found.setdefault(partition.topic, []).append(partition.partition)
    return found


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    return data[at + 2 : end].decode(), end


def _count(number: int) -> bytes:
    return number.to_bytes(4, "big")
