"""Which copies of the coordinators' logs speak for their coordinators.

In: the metadata history, the replicas, the summaries of their segments. Out: partitions. A coordinator's memory is what
its log says up to the high watermark, so a log beyond it may say more.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow.dataset as ds

from tidegauge.derivation.gathering.replica_files import ReplicaWork
from tidegauge.facts.coordinators.rows import CoordinatorLog
from tidegauge.facts.coordinators.tables import from_offset
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.types import TopicPartition


def led_copies(
    history: MetadataHistory, replicas: Mapping[TopicPartition, Sequence[ReplicaWork]]
) -> dict[TopicPartition, ReplicaWork]:
    """The leader's copy of each partition that has it in the snapshot."""
    found = {}
    for key, works in replicas.items():
        named = history.topic_named(key.topic)
        state = named.partitions.get(key.partition) if named is not None else None
        own = [w for w in works if state is not None and w.place.broker_id == state.leader_id and not w.place.is_future]
        if own:
            found[key] = own[0]
    return found


def replicated(
    copies: Mapping[TopicPartition, ReplicaWork], summaries: ds.Dataset, *, snapshot_key: str, topic: str
) -> frozenset[TopicPartition]:
    """Partitions of a topic whose leader's copy ends at or below the high watermark beside it."""
    rows = summaries.to_table(
        columns=["partition", "broker_id", "directory", "valid_end_offset"],
        filter=(ds.field("snapshot") == snapshot_key) & (ds.field("topic") == topic),
    ).to_pylist()
    ends: dict[str, int] = {}
    for row in rows:
        ends[row["directory"]] = max(ends.get(row["directory"], 0), row["valid_end_offset"] or 0)
    return frozenset(
        key
        for key, work in copies.items()
        if key.topic == topic
        and work.checkpointed.high_watermark is not None
        and work.place.directory in ends
        and work.checkpointed.high_watermark >= ends[work.place.directory]
    )


def waiting_commits(
    copies: Mapping[TopicPartition, ReplicaWork], logs: Iterable[CoordinatorLog]
) -> frozenset[tuple[str, str, int]]:
    """Group, topic and partition of the commits that the high watermark beside the leader's copy does not cover."""
    found = set()
    for log in logs:
        work = copies.get(TopicPartition(log.topic, log.partition))
        if log.topic == CONSUMER_OFFSETS and work is not None:
            beyond = from_offset(log.table, work.checkpointed.high_watermark or 0)
            found |= {key for key in beyond if isinstance(key, tuple)}
    return frozenset(found)
