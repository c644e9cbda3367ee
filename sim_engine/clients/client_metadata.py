"""How a client knows who leads what, and whom it asks.

In: a broker's answer. Out: what the client believes. A client never goes back to an older leader epoch of a partition
(Kafka Metadata#updateLatestMetadata, KIP-320).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.messages import ClientMetadataRequest
from tidegauge.sim_engine.metadata.controller import ClusterImage
from tidegauge.sim_engine.network import broker_node, client_node
from tidegauge.sim_engine.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaders:
    """(leader, leader epoch, topic id) by partition, as a client knows them. `asked` counts its metadata requests."""

    known: Mapping[TopicPartition, tuple[int, int, str]] = field(default_factory=dict)
    asked: int = 0
    asked_at_ms: int = -1

    def leader(self, partition: TopicPartition) -> int | None:
        """Who leads, if anybody is known to."""
        found = self.known.get(partition)
        return found[0] if found is not None and found[0] >= 0 else None

    def epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch that the client heard of, -1 if none."""
        found = self.known.get(partition)
        return found[1] if found is not None else -1


def ask(turn: Turn, client: str, leaders: Leaders) -> Leaders:
    """Asks one of the brokers, another one each time."""
    brokers = turn.broker_ids
    asked = leaders.asked + 1
    target = brokers[(turn.below(len(brokers), f"bootstrap {client}") + asked) % len(brokers)]
    turn.send(client_node(client), broker_node(target), ClientMetadataRequest(correlation=asked))
    return replace(leaders, asked=asked, asked_at_ms=turn.now_ms)


def learned(leaders: Leaders, image: ClusterImage) -> Leaders:
    """What the client knows after an answer."""
    known = dict(leaders.known)
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            key = TopicPartition(topic.name, number)
            before = known.get(key)
            if before is None or before[2] != topic.topic_id or partition.leader_epoch >= before[1]:
                known[key] = (partition.leader, partition.leader_epoch, topic.topic_id)
    return replace(leaders, known=known)
