"""The records of groups in `__consumer_offsets`, as brokers of 4.4 write them.

In: fields by name. Out: key and value. Versions are those that a broker chooses for its release, 4 for an offset, 3 for
a classic group, 0 for everything else; a null value takes back what its key said.

Source: Kafka GroupCoordinatorRecordHelpers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegauge.kafka_log.coordinator_records import (
    OtherCoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.stored_batch import NO_SEQUENCE, Producer

KeyValue = tuple[bytes, bytes | None]

OFFSET: Final = 1
CLASSIC_GROUP: Final = 2
CONSUMER_GROUP: Final = 3
CONSUMER_MEMBER: Final = 5
CONSUMER_TARGET: Final = 6
CONSUMER_TARGET_MEMBER: Final = 7
CONSUMER_CURRENT: Final = 8

_VERSIONS: Final = {OFFSET: 4, CLASSIC_GROUP: 3}

GROUPS_WRITE: Final = Producer(producer_id=-1, producer_epoch=-1, base_sequence=0)
"""Whose the batches of group and share coordinators are: nobody's, but with sequence 0 in the header, not -1."""


NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """How far a group got with a partition; `leader_epoch` -1 where the client did not say."""

    offset: int
    commit_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: str = NO_TOPIC_ID


def group_record(key_type: int, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> KeyValue:
    """A record about a group; `value` None is its tombstone."""
    version = _VERSIONS.get(key_type, 0) if value is not None else None
    record = OtherCoordinatorRecord(key_type=key_type, name="", key=key, version=version, value=value)
    return encode_coordinator_record(CONSUMER_OFFSETS, record)


def offset_record(group: str, partition: TopicPartition, committed: CommittedOffset | None) -> KeyValue:
    """A committed offset; None takes it back."""
    key = {"group": group, "topic": partition.topic, "partition": partition.partition}
    if committed is None:
        return group_record(OFFSET, key, None)
    return group_record(
        OFFSET,
        key,
        {
            "offset": committed.offset,
            "leader_epoch": committed.leader_epoch,
            "metadata": committed.metadata,
            "commit_timestamp": committed.commit_ms,
            "topic_id": committed.topic_id,
        },
    )


def decoded(key: bytes | None, value: bytes | None) -> tuple[int, dict[str, Any], dict[str, Any] | None]:
    """Key type, key and value of a record that a broker wrote."""
    record = decode_coordinator_record(CONSUMER_OFFSETS, key, value)
    assert isinstance(record, OtherCoordinatorRecord), record
    return record.key_type, dict(record.key), dict(record.value) if record.value is not None else None


def committed_offset(value: Mapping[str, Any]) -> CommittedOffset:
    """The offset that a record's value says."""
    return CommittedOffset(
        offset=value["offset"],
        commit_ms=value["commit_timestamp"],
        leader_epoch=value.get("leader_epoch", -1),
        metadata=value["metadata"],
        topic_id=value.get("topic_id", NO_TOPIC_ID),
    )


def transactional(producer_id: int, producer_epoch: int) -> Producer:
    """Whose a batch of offsets in a transaction is; each begins with sequence 0, whatever came before."""
    assert producer_id != NO_SEQUENCE
    return Producer(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, transactional=True)
