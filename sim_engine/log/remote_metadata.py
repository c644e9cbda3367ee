"""What `__remote_log_metadata` tells of the segments in a remote tier.

In: a copied segment's life. Out: records as real brokers write them, and the partition that takes them; a view that
grows with each record read. Nothing is in the tier but what these records say.

Source: KIP-405, RemoteLogMetadataSerde, RemoteLogMetadataTopicPartitioner, RemoteLogMetadataCache,
RemoteLogLeaderEpochState.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from tidegauge.kafka_log.coordinator_records import (
    RemoteLogRecord,
    decode_remote_log_fields,
    encode_remote_log_record,
)
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.replica_log import EpochStart
from tidegauge.sim_engine.log.stored_batch import NewRecord

_SEGMENT: Final = 0
_UPDATE: Final = 1
_UINT32: Final = 0xFFFFFFFF
_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_FACTOR: Final = 0x5BD1E995


class RemoteState(IntEnum):
    """How far a segment has got (RemoteLogSegmentState)."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """One segment in the tier, as the metadata tell it; `segment_id` in Kafka's base64 form."""

    segment_id: str
    partition: TopicPartition
    topic_id: str
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    epochs: tuple[EpochStart, ...]
    size_bytes: int
    state: RemoteState
    transaction_index_empty: bool


def segment_record(segment: RemoteSegment) -> NewRecord:
    """The record that begins a copy; every later one is an update."""
    fields = {
        "remote_log_segment_id": _id(segment),
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset - 1,
        "broker_id": segment.broker_id,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "event_timestamp_ms": segment.event_timestamp_ms,
        "segment_leader_epochs": tuple(
            {"leader_epoch": e.leader_epoch, "offset": e.start_offset} for e in segment.epochs
        ),
        "segment_size_in_bytes": segment.size_bytes,
        "custom_metadata": None,
        "remote_log_segment_state": segment.state,
        "txn_index_empty": segment.transaction_index_empty,
    }
    return _record(_SEGMENT, "RemoteLogSegmentMetadataRecord", fields, segment.event_timestamp_ms)


def update_record(segment: RemoteSegment) -> NewRecord:
    """The record that says which state a segment has reached."""
    fields = {
        "remote_log_segment_id": _id(segment),
        "broker_id": segment.broker_id,
        "event_timestamp_ms": segment.event_timestamp_ms,
        "custom_metadata": None,
        "remote_log_segment_state": segment.state,
    }
    return _record(_UPDATE, "RemoteLogSegmentMetadataUpdateRecord", fields, segment.event_timestamp_ms)


def moved(segment: RemoteSegment, state: RemoteState, *, broker_id: int, now_ms: int) -> RemoteSegment:
    """The segment in its next state, which this broker brought about."""
    assert state > segment.state, f"{state.name} does not follow {segment.state.name}"
    return replace(segment, state=state, broker_id=broker_id, event_timestamp_ms=now_ms)


def metadata_partition(topic_id: str, partition: int, partition_count: int) -> int:
    """The partition of `__remote_log_metadata` that holds the records of a partition."""
    most, least = struct.unpack(">QQ", base64.urlsafe_b64decode(topic_id + "=="))
    code = 1
    for part in (least ^ least >> 32, most ^ most >> 32, partition):
        code = (31 * code + part) & _UINT32
    return (_murmur2(struct.pack(">I", code)) & 0x7FFFFFFF) % partition_count


@dataclass(frozen=True, slots=True)
class RemoteView:
    """Segments by id, in the order in which their copies began; a deleted one is gone."""

    segments: Mapping[str, RemoteSegment] = field(default_factory=dict)

    def after(self, segment: RemoteSegment) -> "RemoteView":
        """The view once a record of this segment's state has been read."""
        others = {k: v for k, v in self.segments.items() if k != segment.segment_id}
        if segment.state == RemoteState.DELETE_SEGMENT_FINISHED:
            return RemoteView(others)
        return RemoteView({**self.segments, segment.segment_id: segment})

    def read(self, value: bytes) -> "RemoteView":
        """The view after one record of the topic. Updates of segments that it does not know are passed over."""
        decoded = decode_remote_log_fields(value)
        assert not isinstance(decoded, Corruption), decoded
        said: Mapping[str, Any] = decoded.fields
        segment_id = said["remote_log_segment_id"]["id"] if decoded.api_key in (_SEGMENT, _UPDATE) else None
        if decoded.api_key == _SEGMENT:
            return self.after(_segment_of(said))
        known = self.segments.get(segment_id) if segment_id is not None else None
        if known is None:
            return self
        return self.after(
            replace(
                known,
                broker_id=said["broker_id"],
                event_timestamp_ms=said["event_timestamp_ms"],
                state=RemoteState(said["remote_log_segment_state"]),
            )
        )

    def of_topic(self, topic_id: str) -> "RemoteView":
        """The view of one topic's segments: another one had its name before, perhaps."""
        return RemoteView({k: s for k, s in self.segments.items() if s.topic_id == topic_id})

    def of(self, partition: TopicPartition, *states: RemoteState) -> Iterator[RemoteSegment]:
        """A partition's segments, of these states if any are named, by start offset."""
        found = (s for s in self.segments.values() if s.partition == partition and (not states or s.state in states))
        return iter(sorted(found, key=lambda s: s.start_offset))

    def end_offset(self, partition: TopicPartition, epochs: tuple[EpochStart, ...]) -> int:
        """Where the tier ends for a log with these epochs (RemoteLogManager#findHighestRemoteOffset); 0 if empty."""
        copied = list(self.of(partition, RemoteState.COPY_SEGMENT_FINISHED))
        for at in range(len(epochs) - 1, -1, -1):
            epoch = epochs[at].leader_epoch
            ends = [_end_in_epoch(s, epoch) for s in copied if any(e.leader_epoch == epoch for e in s.epochs)]
            if ends:
                # The log may know that the epoch ended earlier than who copied did.
                limit = epochs[at + 1].start_offset if at + 1 < len(epochs) else max(ends)
                return min(max(ends), limit)
        return 0


def _end_in_epoch(segment: RemoteSegment, epoch: int) -> int:
    later = [e.start_offset for e in segment.epochs if e.leader_epoch > epoch]
    return min(later, default=segment.end_offset)


def _segment_of(said: Mapping[str, Any]) -> RemoteSegment:
    owner = said["remote_log_segment_id"]["topic_id_partition"]
    return RemoteSegment(
        segment_id=said["remote_log_segment_id"]["id"],
        partition=TopicPartition(owner["name"], owner["partition"]),
        topic_id=owner["id"],
        start_offset=said["start_offset"],
        end_offset=said["end_offset"] + 1,
        broker_id=said["broker_id"],
        max_timestamp_ms=said["max_timestamp_ms"],
        event_timestamp_ms=said["event_timestamp_ms"],
        epochs=tuple(EpochStart(e["leader_epoch"], e["offset"]) for e in said["segment_leader_epochs"]),
        size_bytes=said["segment_size_in_bytes"],
        state=RemoteState(said["remote_log_segment_state"]),
        transaction_index_empty=said["txn_index_empty"],
    )


def _id(segment: RemoteSegment) -> Mapping[str, Any]:
    owner = {"name": segment.partition.topic, "id": segment.topic_id, "partition": segment.partition.partition}
    return {"topic_id_partition": owner, "id": segment.segment_id}


def _record(api_key: int, name: str, fields: Mapping[str, Any], now_ms: int) -> NewRecord:
    value = encode_remote_log_record(RemoteLogRecord(api_key=api_key, name=name, version=0, fields=fields))
    return NewRecord(timestamp=now_ms, key=None, value=value)


def _murmur2(data: bytes) -> int:
    """Utils#murmur2 of bytes in whole words."""
    code = _MURMUR_SEED ^ len(data)
    for (word,) in struct.iter_unpack("<I", data):
        mixed = word * _MURMUR_FACTOR & _UINT32
        mixed = (mixed ^ mixed >> 24) * _MURMUR_FACTOR & _UINT32
        code = code * _MURMUR_FACTOR & _UINT32 ^ mixed
    code = (code ^ code >> 13) * _MURMUR_FACTOR & _UINT32
    return code ^ code >> 15
