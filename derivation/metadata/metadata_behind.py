"""Where the metadata log at hand ends too early: replicas that know of elections or topics which it does not tell.

In: the metadata history, the brokers whose own copies of it cannot end too early, what replicas' own files say. Out:
`Ahead`, by partition. A broker does nothing that its own copy of the metadata log has not told it
(BrokerMetadataPublisher). So only the replica of a broker can be ahead whose copy is not at hand, or was made while it
ran: then the log may have been copied long before the replica. Where the two are of one moment, and the log says less,
something is wrong with the replica.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidegauge.derivation.files.checkpoint_files import ReplicaCheckpoints
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.listing import ReplicaFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A broker whose replica is ahead of the metadata log. `leader_epoch` None: the log does not tell of it at all."""

    broker_id: int
    leader_epoch: int | None


def ahead_of_metadata(
    history: MetadataHistory, sure: Collection[int], replicas: Iterable[tuple[ReplicaFiles, ReplicaCheckpoints]]
) -> dict[TopicPartition, Ahead]:
    """The partitions of which the log tells less than a replica.

    `sure`: brokers whose own copies of the log are at hand, and of one moment with their replicas.
    """
    found: dict[TopicPartition, Ahead] = {}
    for replica, said in replicas if history.captured else ():
        if replica.state != "live" or replica.topic == CLUSTER_METADATA or replica.broker_id in sure:
            continue
        key = replica.topic_partition
        if not _is_told(history, key, said):
            found[key] = Ahead(broker_id=replica.broker_id, leader_epoch=None)
        elif (epoch := said.newest_epoch) is not None and key not in found and _is_newer(history, key, epoch):
            found[key] = Ahead(broker_id=replica.broker_id, leader_epoch=epoch)
    return found


def _is_told(history: MetadataHistory, key: TopicPartition, said: ReplicaCheckpoints) -> bool:
    lives = history.lives(key.topic)
    if said.topic_id is not None:
        lives = [t for t in lives if t.topic_id == said.topic_id]
    return any(t.deleted or key.partition in t.partitions for t in lives)


def _is_newer(history: MetadataHistory, key: TopicPartition, leader_epoch: int) -> bool:
    topic = history.topic_named(key.topic)
    state = topic.partitions.get(key.partition) if topic is not None and not topic.deleted else None
    return state is not None and leader_epoch > state.leader_epoch
