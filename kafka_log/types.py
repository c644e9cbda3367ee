"""The name of a partition."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic, ordered by topic name and then by number; `str()` gives `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Give the name that the partition's directory has."""
        return f"{self.topic}-{self.partition}"
