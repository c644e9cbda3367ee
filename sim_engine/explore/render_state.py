"""A state of the specification as brokers' disks.

In: a state's fields. Out: one `BrokerDisk` a replica, with the metadata log that tells the elections. Every broker was
stopped at this very moment, so its high watermark is the one on its disk; a broker that knows no leader yet has an
empty log without epochs.
"""

import base64
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log.control import Voter
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.explore.layout import (
    END,
    ENTRIES,
    EPOCH,
    HIGH_WATERMARK,
    LEADER,
    NEXT_EPOCH,
    QUORUM_ISR,
    REQUESTS,
    Layout,
)
from tidegauge.sim_engine.files.render import BrokerDisk, Replica
from tidegauge.sim_engine.log.replica_log import (
    LogConfig,
    ReplicaLog,
    append,
    new_log,
    with_epoch,
    with_high_watermark,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord, data_batch
from tidegauge.sim_engine.metadata.metadata_log import FEATURES, METADATA_VERSION, MetadataLog, begun, record, written

Fields = NDArray[np.int64]

PARTITION: Final = TopicPartition("orders", 0)
STARTED_AT_MS: Final = 1_700_000_000_000
_NO_LEADER: Final = -1
_NO_CHANGE: Final = -2


def uuid_of(name: str) -> str:
    """An id in Kafka's form that is always the same for a name."""
    return base64.urlsafe_b64encode(name.encode().ljust(16, b".")[:16]).rstrip(b"=").decode()


def disks_of(layout: Layout, fields: Fields) -> list[BrokerDisk]:
    """The brokers' disks in this state, all stopped at once."""
    brokers = range(1, layout.constants.replicas + 1)
    metadata = _metadata(brokers, fields)
    topic_id = uuid_of(PARTITION.topic)
    disks = []
    for broker in brokers:
        log = _log(layout, fields, broker - 1)
        disks.append(
            BrokerDisk(
                broker_id=broker,
                cluster_id=uuid_of("explored"),
                directory_id=uuid_of(f"dir-{broker}"),
                replicas={PARTITION: Replica(log=log, topic_id=topic_id)},
                metadata=metadata.log,
                quorum_leader_id=1,
                quorum_leader_epoch=metadata.leader_epoch,
                high_watermarks={PARTITION: log.high_watermark},
                recovery_points={PARTITION: log.log_end_offset},
            )
        )
    return disks


def _log(layout: Layout, fields: Fields, number: int) -> ReplicaLog:
    at = layout.replicas_at + number * layout.replica_fields
    log = new_log(LogConfig(), now_ms=STARTED_AT_MS)
    for offset in range(int(fields[at + END])):
        record_id = int(fields[at + ENTRIES + 2 * offset]) - 1
        leader_epoch = int(fields[at + ENTRIES + 2 * offset + 1]) - 1
        value = NewRecord(timestamp=STARTED_AT_MS + record_id, key=None, value=f"record {record_id}".encode())
        batch = data_batch([value], base_offset=offset, leader_epoch=leader_epoch)
        log = append(log, batch, now_ms=STARTED_AT_MS)
    if fields[at + LEADER] == number + 1:
        log = with_epoch(log, int(fields[at + EPOCH]) - 1, log.log_end_offset)
    return with_high_watermark(log, int(fields[at + HIGH_WATERMARK]))


def _metadata(brokers: Sequence[int], fields: Fields) -> MetadataLog:
    voters = [
        Voter(
            voter_id=b,
            directory_id=uuid_of(f"dir-{b}"),
            endpoints=(("CONTROLLER", "127.0.0.1", 29090 + b),),
            min_kraft_version=0,
            max_kraft_version=1,
        )
        for b in brokers
    ]
    metadata = begun(leader_id=1, voters=voters, now_ms=STARTED_AT_MS)
    levels = {"metadata.version": METADATA_VERSION}
    metadata = written(
        metadata,
        [record("FeatureLevelRecord", 0, name=name, feature_level=level) for name, level in levels.items()],
        now_ms=STARTED_AT_MS,
    )
    for broker in brokers:
        metadata = written(metadata, [_registration(broker, metadata.end_offset)], now_ms=STARTED_AT_MS)
    for decided in _partition_records(brokers, fields):
        metadata = written(metadata, decided, now_ms=STARTED_AT_MS)
    return metadata


def _registration(broker: int, broker_epoch: int) -> MetadataRecord:
    return record(
        "RegisterBrokerRecord",
        4,
        broker_id=broker,
        incarnation_id=uuid_of(f"broker-{broker}"),
        broker_epoch=broker_epoch,
        end_points=({"name": "INTERNAL", "host": "127.0.0.1", "port": 39090 + broker, "security_protocol": 0},),
        features=tuple(
            {"name": name, "min_supported_version": low, "max_supported_version": high} for name, low, high in FEATURES
        ),
        fenced=False,
        log_dirs=(uuid_of(f"dir-{broker}"),),
    )


def _partition_records(brokers: Sequence[int], fields: Fields) -> list[list[MetadataRecord]]:
    """The topic with its first leadership, every one after it, and the ISR as the leader left it."""
    topic_id = uuid_of(PARTITION.topic)
    requests = requests_of(fields)
    first_leader, first_isr = requests[0] if requests else (_NO_LEADER, list(brokers))
    decided = [
        [
            record("TopicRecord", 0, name=PARTITION.topic, topic_id=topic_id),
            record(
                "PartitionRecord",
                2,
                partition_id=PARTITION.partition,
                topic_id=topic_id,
                replicas=tuple(brokers),
                isr=tuple(first_isr),
                leader=first_leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(uuid_of(f"dir-{b}") for b in brokers),
            ),
        ]
    ]
    isr = first_isr
    for leader, next_isr in requests[1:]:
        if leader != _NO_LEADER and leader not in isr:
            # A leader took it into the ISR before it was elected; no request tells of that, and the records must.
            decided.append([_change(topic_id, leader=_NO_CHANGE, isr=next_isr)])
        isr = next_isr
        decided.append([_change(topic_id, leader=leader, isr=isr)])
    if (last := members_of(int(fields[QUORUM_ISR]))) != isr:
        decided.append([_change(topic_id, leader=_NO_CHANGE, isr=last)])
    return decided


def image_of(layout: Layout, fields: Fields) -> tuple[Any, ...]:
    """What of a state its disks show: states with one image have the same files, byte for byte.

    What a broker only has in memory is not in it: whom it follows, and which ISR it knows of.
    """
    replicas = []
    for number in range(layout.constants.replicas):
        at = layout.replicas_at + number * layout.replica_fields
        entries = tuple(int(entry) for entry in fields[at + ENTRIES : at + ENTRIES + 2 * int(fields[at + END])])
        leads = fields[at + LEADER] == number + 1
        # A leader notes its epoch where it begins, with or without a record of it.
        own_epoch = int(fields[at + EPOCH]) if leads and (not entries or entries[-1] != fields[at + EPOCH]) else None
        replicas.append((int(fields[at + HIGH_WATERMARK]), entries, own_epoch))
    requests = tuple(int(field) for field in fields[REQUESTS : REQUESTS + 2 * int(fields[NEXT_EPOCH])])
    return requests, int(fields[QUORUM_ISR]), tuple(replicas)


def _change(topic_id: str, *, leader: int, isr: list[int]) -> MetadataRecord:
    return record(
        "PartitionChangeRecord",
        2,
        partition_id=PARTITION.partition,
        topic_id=topic_id,
        leader=leader,
        isr=tuple(isr),
    )


def requests_of(fields: Fields) -> list[tuple[int, list[int]]]:
    """Who was made leader, with which ISR, by leader epoch; -1 for nobody."""
    return [
        (int(fields[REQUESTS + 2 * epoch]) or _NO_LEADER, members_of(int(fields[REQUESTS + 2 * epoch + 1])))
        for epoch in range(int(fields[NEXT_EPOCH]))
    ]


def members_of(bits: int) -> list[int]:
    """The brokers of a set of replicas, by id."""
    return [i + 1 for i in range(bits.bit_length()) if bits >> i & 1]
