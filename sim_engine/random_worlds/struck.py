"""What a strike is, and what there is to strike in a world.

In: a world. Out: `Struck`, the word on what was done to which broker and partition, and the partitions, leaders and
batches that a strike chooses from. Choices come in an order that a seed decides alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.stored_batch import StoredBatch
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.plan import Plan
from tidegauge.sim_engine.world import World

_WRITTEN_ANEW_MS: Final = 75_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """What was done. Offsets are those of the batch, segment or transaction that it was done to."""

    kind: WorldFault
    at_ms: int
    broker_id: int | None = None
    partition: TopicPartition | None = None
    topic_id: str | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    detail: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    """Those that it may have cost something, if they are not one."""

    @property
    def where(self) -> str:
        """Broker and partition, as far as they are told."""
        broker = broker_node(self.broker_id) if self.broker_id is not None else None
        return " ".join(text for text in (broker, str(self.partition or "")) if text)


Blow = tuple[World, tuple[Struck, ...]]
Strike = Callable[[World, Plan, Chance], Blow]


def struck_batch(
    world: World,
    kind: WorldFault,
    broker_id: int,
    partition: TopicPartition,
    at_ms: int,
    batch: StoredBatch,
    *,
    detail: str = "",
) -> Struck:
    """The word on a strike at one batch of one replica."""
    return Struck(
        kind=kind,
        at_ms=at_ms,
        broker_id=broker_id,
        partition=partition,
        topic_id=world.brokers[broker_id].disk.replicas[partition].topic_id,
        start_offset=batch.base_offset,
        end_offset=batch.last_offset + 1,
        detail=detail,
    )


def partitions_of_users(world: World) -> list[TopicPartition]:
    """Those of users' topics that there are now."""
    topics = world.controller.image.topics
    return [TopicPartition(n, p) for n, t in sorted(topics.items()) if not n.startswith("__") for p in t.partitions]


def partitions_with_data(world: World, broker_id: int) -> list[TopicPartition]:
    """The users' partitions on a broker's disk that hold something."""
    replicas = world.brokers[broker_id].disk.replicas
    return sorted(
        p for p, r in replicas.items() if not p.topic.startswith("__") and any(s.batches for s in r.log.segments)
    )


def replicas_of(world: World, partition: TopicPartition) -> tuple[int, ...]:
    """Where a partition lies, as the controller has it."""
    return tuple(world.controller.image.topics[partition.topic].partitions[partition.partition].replicas)


def leader_of(world: World, partition: TopicPartition) -> int | None:
    """Who leads; None if nobody does."""
    leader = world.controller.image.topics[partition.topic].partitions[partition.partition].leader
    return leader if leader >= 0 else None


def topic_id_of(world: World, partition: TopicPartition) -> str | None:
    """The id of the topic that has the name now."""
    topic = world.controller.image.topics.get(partition.topic)
    return topic.topic_id if topic is not None else None


def checkpoints_are_its_own(world: World, partition: TopicPartition, broker_id: int) -> bool:
    """Whether a copy's files can tell that a broker's checkpoints speak of this log.

    They name it by topic alone. After another topic of the name, it takes until each was written anew; of a plain copy
    the metadata log's last record tells how long ago that was.
    """
    broker = world.brokers[broker_id]
    begun = [e.at_ms for e in world.truth.elections if e.kind == "first" and e.partition == partition]
    if len(begun) < 2 or broker.disk.clean_broker_epoch is not None:
        return True
    told_ms = max(batch.max_timestamp for s in world.controller.metadata.log.segments for batch in s.batches)
    return broker.running is not None and told_ms - begun[-1] > _WRITTEN_ANEW_MS
