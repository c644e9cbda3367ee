"""Moving a partition to other brokers: first everybody, then those who stay.

In: an image and the replicas that are wanted. Out: the metadata records. Nobody leaves before all who come are in sync.

Source: Kafka PartitionReassignmentReplicas, ReplicationControlManager#alterPartitionReassignment; KIP-455.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.sim_engine.metadata.controller import ClusterImage, PartitionImage
from tidegauge.sim_engine.metadata.metadata_log import record


def reassign(image: ClusterImage, topic: str, number: int, replicas: Sequence[int]) -> list[MetadataRecord]:
    """Begins a reassignment: the wanted replicas first, behind them those that will go."""
    partition = image.topics[topic].partitions[number]
    existing = tuple(b for b in partition.replicas if b not in partition.adding)
    removing = tuple(b for b in existing if b not in replicas)
    adding = tuple(b for b in replicas if b not in existing)
    merged = (*replicas, *removing)
    if merged == partition.replicas and adding == partition.adding and removing == partition.removing:
        return []
    return [
        _change(
            image,
            topic,
            number,
            replicas=merged,
            directories=_directories(image, partition, merged),
            adding_replicas=adding,
            removing_replicas=removing,
        )
    ]


def completed(image: ClusterImage, topic: str, number: int) -> list[MetadataRecord]:
    """Ends a reassignment whose new replicas are all in sync; nothing if it is not that far."""
    topic_image = image.topics.get(topic)
    partition = topic_image.partitions.get(number) if topic_image is not None else None
    if partition is None or not (partition.adding or partition.removing):
        return []
    isr = tuple(b for b in partition.isr if b not in partition.removing)
    if not isr or not set(partition.adding) <= set(isr):
        return []
    replicas = tuple(b for b in partition.replicas if b not in partition.removing)
    alive = [b for b in replicas if b in isr and image.may_lead(b)]
    if partition.leader not in isr and not alive:
        return []
    fields: dict[str, Any] = {
        "replicas": replicas,
        "directories": _directories(image, partition, replicas),
        "adding_replicas": (),
        "removing_replicas": (),
    }
    if isr != partition.isr:
        fields["isr"] = isr
    if partition.removing:
        # The epoch rises even where the leader stays, so that those who left are fenced.
        fields["leader"] = partition.leader if partition.leader in isr else alive[0]
    return [_change(image, topic, number, **fields)]


def _directories(image: ClusterImage, partition: PartitionImage, replicas: Sequence[int]) -> tuple[str, ...]:
    known: Mapping[int, str] = dict(zip(partition.replicas, partition.directories, strict=True))
    return tuple(known.get(b) or image.brokers[b].log_dirs[0] for b in replicas)


def _change(image: ClusterImage, topic: str, number: int, **fields: Any) -> MetadataRecord:
    topic_id = image.topics[topic].topic_id
    return record("PartitionChangeRecord", 2, partition_id=number, topic_id=topic_id, **fields)
