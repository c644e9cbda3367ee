"""A broker's copy of the metadata log, and what it makes of it: which partitions it has, leads and follows.

In: the controller's answers, each at its own time. Out: logs made and dropped, leaderships taken and left. A broker
acts on the image it has, however old; nothing tells it more than its copy of the log.

Source: Kafka BrokerMetadataPublisher, ReplicaManager#applyDelta, TopicsDelta.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.log_dir import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.brokers import follower_role, leader_role, remote_log_manager, waiting_files
from tidegauge.sim_engine.controllers import metadata_upkeep
from tidegauge.sim_engine.files.render import Beside, Replica
from tidegauge.sim_engine.log.log_config import log_config
from tidegauge.sim_engine.log.replica_log import LogConfig, new_log
from tidegauge.sim_engine.messages import MetadataFetch, MetadataResponse
from tidegauge.sim_engine.metadata.controller import ClusterImage, PartitionImage, TopicImage
from tidegauge.sim_engine.turn import Turn

TOPICS_GONE: Final[list[Callable[[Turn, int, frozenset[str]], None]]] = []
"""Who hears, at a broker, that topics were deleted (another topic of the same name may be there already)."""


_WRITTEN_AT_ONCE: Final = (
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
"""When a partition goes."""


def ask(turn: Turn, broker_id: int) -> None:
    """Asks for what comes behind the broker's copy."""
    running = turn.running(broker_id)
    assert running is not None
    correlation = running.metadata_correlation + 1
    turn.put_running(broker_id, replace(running, metadata_correlation=correlation, metadata_asked_at_ms=turn.now_ms))
    end_offset = turn.broker(broker_id).disk.metadata.log_end_offset
    turn.to_controller(broker_id, MetadataFetch(correlation=correlation, broker_id=broker_id, end_offset=end_offset))


def answered(turn: Turn, broker_id: int, source: str, response: MetadataResponse) -> None:
    """There is more of the metadata log."""
    broker = turn.broker(broker_id)
    if broker.running is None or response.correlation != broker.running.metadata_correlation:
        return
    read_from = broker.disk.metadata.log_end_offset
    disk = replace(
        metadata_upkeep.followed(broker.disk, response.log, response.snapshot, now_ms=turn.now_ms),
        quorum_leader_id=response.quorum_leader,
        quorum_leader_epoch=response.quorum_epoch,
    )
    disk, running = metadata_upkeep.with_snapshot_if_due(
        disk, broker.running, read_from, turn.settings, now_ms=turn.now_ms
    )
    turn.put_disk(broker_id, disk)
    turn.put_running(broker_id, replace(running, known_image=response.image))
    apply_known(turn, broker_id)
    ask(turn, broker_id)


def apply_known(turn: Turn, broker_id: int) -> None:
    """Acts on the newest image that the broker has, once it has found its own registration in it."""
    running = turn.running(broker_id)
    assert running is not None
    image, before = running.known_image, running.image
    own = image.brokers.get(broker_id)
    if running.broker_epoch is None or own is None or own.broker_epoch != running.broker_epoch or image is before:
        return
    first = not before.brokers
    turn.put_running(broker_id, replace(running, image=image, fenced=own.fenced))
    if first:
        _drop_strays(turn, broker_id, image)
    gone = set()
    for name, topic in before.topics.items():
        now = image.topics.get(name)
        if now is None or now.topic_id != topic.topic_id:
            gone.add(name)
            for number in sorted(topic.partitions):
                remote_log_manager.topic_deleted(turn, broker_id, TopicPartition(name, number))
                drop(turn, broker_id, TopicPartition(name, number))
    for name, topic in image.topics.items():
        was = before.topics.get(name)
        if was is not None and was.topic_id != topic.topic_id:
            was = None
        if topic is not was or image.cluster_config is not before.cluster_config:
            _apply_topic(turn, broker_id, image, topic, was)
    for hear in TOPICS_GONE if gone else ():
        hear(turn, broker_id, frozenset(gone))
    follower_role.fetch_from_all(turn, broker_id)


def _apply_topic(turn: Turn, broker_id: int, image: ClusterImage, topic: TopicImage, was: TopicImage | None) -> None:
    config = log_config(topic.config, image.cluster_config, producer_expiration_ms=turn.settings.producer_expiration_ms)
    known: Mapping[int, PartitionImage] = was.partitions if was is not None else {}
    for number in sorted(topic.partitions):
        partition, now = TopicPartition(topic.name, number), topic.partitions[number]
        if broker_id not in now.replicas:
            if number in known and broker_id in known[number].replicas:
                drop(turn, broker_id, partition)
            continue
        _ensure_log(turn, broker_id, partition, topic.topic_id, config)
        if now is not known.get(number):
            if now.leader == broker_id:
                leader_role.lead(turn, broker_id, partition, now)
            else:
                follower_role.follow(turn, broker_id, partition, now)
            if config.remote_storage:
                remote_log_manager.begin(turn, broker_id)
        elif now.leader == broker_id:
            leader_role.advance(turn, broker_id, partition)


def _ensure_log(turn: Turn, broker_id: int, partition: TopicPartition, topic_id: str, config: LogConfig) -> None:
    disk = turn.broker(broker_id).disk
    replica = disk.replicas.get(partition)
    if replica is not None and replica.topic_id == topic_id:
        if replica.log.config != config:
            turn.put_log(broker_id, partition, replace(replica.log, config=config))
        return
    made = Replica(log=new_log(config, now_ms=turn.now_ms), topic_id=topic_id, created_at_ms=turn.now_ms)
    turn.put_disk(broker_id, replace(disk, replicas={**disk.replicas, partition: made}))


def drop(turn: Turn, broker_id: int, partition: TopicPartition, *, beside: Beside = Beside.DELETED) -> None:
    """The broker has this partition no longer: its directory waits under another name.

    replication-offset-checkpoint lists it until it is written again; the other checkpoint files are written at once.
    """
    leader_role.leave(turn, broker_id, partition)
    running = turn.running(broker_id)
    assert running is not None
    if partition in running.following:
        turn.put_following(broker_id, partition, None)
    if partition in turn.broker(broker_id).disk.replicas:
        waiting_files.set_aside(turn, broker_id, partition, beside)
        disk = turn.broker(broker_id).disk
        turn.put_disk(
            broker_id,
            replace(
                disk,
                replicas={p: r for p, r in disk.replicas.items() if p != partition},
                recovery_points={p: o for p, o in disk.recovery_points.items() if p != partition},
                log_starts={p: o for p, o in disk.log_starts.items() if p != partition},
                cleaner_offsets={p: o for p, o in disk.cleaner_offsets.items() if p != partition},
                written_at_ms={**disk.written_at_ms, **dict.fromkeys(_WRITTEN_AT_ONCE, turn.now_ms)},
            ),
        )


def _drop_strays(turn: Turn, broker_id: int, image: ClusterImage) -> None:
    """Replicas that the cluster gave to others, or deleted, while the broker was dead."""
    for partition, replica in sorted(turn.broker(broker_id).disk.replicas.items()):
        topic = image.topics.get(partition.topic)
        now = topic.partitions.get(partition.partition) if topic is not None else None
        if topic is None or now is None or topic.topic_id != replica.topic_id or broker_id not in now.replicas:
            drop(turn, broker_id, partition, beside=Beside.STRAY)


def tick_fetchers(turn: Turn, broker_id: int) -> int:
    """Looks after a metadata request that nobody answered, and after fetches that stand still."""
    running = turn.running(broker_id)
    assert running is not None
    if turn.now_ms - running.metadata_asked_at_ms >= turn.settings.metadata_timeout_ms:
        ask(turn, broker_id)
    follower_role.fetch_from_all(turn, broker_id)
    return turn.settings.fetch_backoff_ms
