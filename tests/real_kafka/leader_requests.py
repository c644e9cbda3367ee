"""Requests that an admin client sends to a partition's leader, asked until the cluster takes them.

Each attempt has a client of its own: one that once heard "no leader" keeps that for up to 15 minutes (librdkafka's
metadata cache), and refuses DeleteRecords and ListOffsets meanwhile without asking the brokers again.
"""

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.real_kafka.patience import until_taken


def new_admin(bootstrap: str) -> AdminClient:
    """A client that remembers nothing."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def delete_records(bootstrap: str, topic: str, partition: int, before_offset: int) -> None:
    """Moves a partition's log start (DeleteRecords)."""
    where = TopicPartition(topic, partition, before_offset)

    def ask() -> None:
        admin = new_admin(bootstrap)  # One that is let go of before its answer comes never gets it.
        admin.delete_records([where])[where].result(timeout=60)

    until_taken(ask)


def end_offset(bootstrap: str, topic: str, partition: int) -> int:
    """The partition's high watermark, as its leader tells it."""
    where, ends = TopicPartition(topic, partition), list[int]()

    def ask() -> None:
        admin = new_admin(bootstrap)
        asked = admin.list_offsets({where: OffsetSpec.latest()}, request_timeout=30)
        ends.append(int(asked[where].result(timeout=60).offset))

    until_taken(ask)
    return ends[-1]
