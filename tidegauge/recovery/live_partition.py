"""One partition of a running cluster: its settings and offsets, its batches as they lie in the log, and appending.

In: a `LeaderClient`. Out: what the leader says. Batches are read up to the high watermark, those of open and aborted
transactions and end markers included, with producer ids, sequences and leader epochs. What is appended is one batch at
a time, with acks=all, under a producer id that the caller keeps.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import numpy as np

from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.recovery.leader_client import Answer, LeaderClient, RefusedRequestError
from tidegauge.snapshots.errors import ClusterError

_FETCH_BYTES: Final = 4 << 20
_FETCH_WAIT_MS: Final = 500
_APPEND_TIMEOUT_MS: Final = 20_000
_BY_NAME: Final = 12
"""The newest version of Produce and Fetch that names topics, not their ids: brokers before 2.8 know no other."""
_EARLIEST, _LATEST = -2, -1
_TOPIC: Final = 2
_READ_UNCOMMITTED: Final = 0
_DUPLICATE: Final = "DuplicateSequenceNumberError"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """Where records would go. `settings` are the topic's, defaults included; empty where the client may not ask."""

    cluster_id: str | None
    topic_id: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    settings_refused: str | None = None


@dataclass(slots=True, kw_only=True)
class LivePartition:
    """A partition, through its leader."""

    client: LeaderClient
    unreadable: list[str] = field(default_factory=list)
    """Stretches that the leader served and nobody can read."""

    @property
    def place(self) -> TopicPartition:
        """Which one."""
        return self.client.place

    def describe(self) -> PartitionDescription:
        """Raises `SnapshotError` where there is no such partition, and `ClusterError`."""
        metadata = self.client.metadata()
        topic_id = getattr(metadata.topics[0], "topic_id", None)
        try:
            settings, refused = self._settings(), None
        except RefusedRequestError as error:
            settings, refused = {}, str(error)
        return PartitionDescription(
            cluster_id=metadata.cluster_id or None,
            topic_id=_uuid(topic_id.bytes) if topic_id is not None and topic_id.int else None,
            settings=settings,
            settings_refused=refused,
        )

    def _settings(self) -> dict[str, str]:
        request = import_module("kafka.protocol.admin").DescribeConfigsRequest

        def asked() -> Any:
            resource = request.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=self.place.topic, configuration_keys=None
            )
            return request(resources=[resource], include_synonyms=False, include_documentation=False)

        def read(response: Any) -> Answer:
            return int(response.results[0].error_code), response.results[0]

        result = self.client.ask_any(asked, read, what="DescribeConfigs")
        return {str(c.name): str(c.value) for c in result.configs if c.value is not None}

    def log_start_offset(self) -> int:
        """The first offset that the leader has."""
        return self._offset(_EARLIEST)

    def end_offset(self) -> int:
        """The high watermark: where a consumer's reading ends."""
        return self._offset(_LATEST)

    def offset_at(self, timestamp_ms: int) -> int | None:
        """The first record with this timestamp or a later one; None if there is none."""
        found = self._offset(timestamp_ms)
        return None if found < 0 else found

    def _offset(self, timestamp: int) -> int:
        request = import_module("kafka.protocol.consumer").ListOffsetsRequest
        topic = request.ListOffsetsTopic

        def asked() -> Any:
            wanted = topic.ListOffsetsPartition(
                partition_index=self.place.partition, current_leader_epoch=-1, timestamp=timestamp
            )
            topics = [topic(name=self.place.topic, partitions=[wanted])]
            return request(replica_id=-1, isolation_level=_READ_UNCOMMITTED, topics=topics)

        def read(response: Any) -> Answer:
            answer = response.topics[0].partitions[0]
            return int(answer.error_code), int(answer.offset)

        return int(self.client.ask(asked, read, what="ListOffsets"))

    def epoch_end_offset(self, leader_epoch: int) -> int | None:
        """Where a leader epoch ends in the leader's log (KIP-101); None where it no longer remembers."""
        request = import_module("kafka.protocol.consumer").OffsetForLeaderEpochRequest
        topic = request.OffsetForLeaderTopic

        def asked() -> Any:
            wanted = topic.OffsetForLeaderPartition(
                partition=self.place.partition, current_leader_epoch=-1, leader_epoch=leader_epoch
            )
            return request(replica_id=-1, topics=[topic(topic=self.place.topic, partitions=[wanted])])

        def read(response: Any) -> Answer:
            answer = response.topics[0].partitions[0]
            return int(answer.error_code), int(answer.end_offset)

        found = int(self.client.ask(asked, read, what="OffsetForLeaderEpoch"))
        return None if found < 0 else found

    def batches(self, start: int, end: int) -> Iterator[tuple[np.void, bytes]]:
        """The sound batches that touch [start, end), byte for byte. What is damaged goes to `unreadable`."""
        at = start
        while at < end:
            data = self._fetched(at)
            rows, damage = scan_buffer(data)
            if not len(rows):
                raise ClusterError(
                    f"The leader of {self.place} serves nothing that can be read at offset {at}, though its log goes "
                    f"on to {end}: {damage[0].detail if damage else 'no batch'}. Nothing behind it can be compared."
                )
            for row in rows:
                if int(row["last_offset"]) < at:
                    continue
                if row["crc_valid"]:
                    position = int(row["position"])
                    yield row, data[position : position + int(row["size_bytes"])]
                else:
                    self.unreadable.append(f"offsets {row['base_offset']}..{row['last_offset']}: the checksum is wrong")
            at = max(at, int(rows["last_offset"].max()) + 1)

    def _fetched(self, offset: int) -> bytes:
        request = import_module("kafka.protocol.consumer").FetchRequest
        topic = request.FetchTopic

        def asked() -> Any:
            wanted = topic.FetchPartition(
                partition=self.place.partition, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
                log_start_offset=-1, partition_max_bytes=_FETCH_BYTES,
            )  # fmt: skip
            return request(
                replica_id=-1, max_wait_ms=_FETCH_WAIT_MS, min_bytes=1, max_bytes=_FETCH_BYTES, session_id=0,
                session_epoch=-1, isolation_level=_READ_UNCOMMITTED, forgotten_topics_data=[], rack_id="",
                topics=[topic(topic=self.place.topic, partitions=[wanted])], max_version=_BY_NAME,
            )  # fmt: skip

        def read(response: Any) -> Answer:
            answer = response.responses[0].partitions[0]
            return int(answer.error_code), bytes(answer.records or b"")

        return bytes(self.client.ask(asked, read, what="Fetch"))

    def new_producer(self) -> tuple[int, int]:
        """A producer id that nobody else has, and its epoch."""
        request = import_module("kafka.protocol.producer").InitProducerIdRequest

        def asked() -> Any:
            return request(transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)

        def read(response: Any) -> Answer:
            return int(response.error_code), (int(response.producer_id), int(response.producer_epoch))

        producer_id, epoch = self.client.ask_any(asked, read, what="InitProducerId")
        return producer_id, epoch

    def append(self, batch: bytes) -> int | None:
        """Sends one batch until every replica in sync has it; its base offset, None where the leader no longer knows.

        The leader takes the same producer id, epoch and sequence once, however often it is sent. Raises `ClusterError`.
        """
        request = import_module("kafka.protocol.producer").ProduceRequest
        topic = request.TopicProduceData

        def asked() -> Any:
            data = topic.PartitionProduceData(index=self.place.partition, records=batch)
            return request(
                transactional_id=None, acks=-1, timeout_ms=_APPEND_TIMEOUT_MS, max_version=_BY_NAME,
                topic_data=[topic(name=self.place.topic, partition_data=[data])],
            )  # fmt: skip

        def read(response: Any) -> Answer:
            answer = response.responses[0].partition_responses[0]
            return int(answer.error_code), int(answer.base_offset)

        try:
            found = int(self.client.ask(asked, read, what="Produce"))
        except RefusedRequestError as error:
            if error.name == _DUPLICATE:
                return None
            raise
        return found if found >= 0 else None


def _uuid(data: bytes) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
