"""What a random world is made of: its brokers, topics and clients.

In: a seed. Out: a `Plan`. The cluster is one that somebody could run: Kafka's own topics are there before the clients,
a topic's settings fit one another, a compacted topic gets keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.kafka_log.internal_topics import (
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import CreateTopic, StartConsumer, StartProducer
from tidegauge.sim_engine.coordinators.coordinator_actions import StartGroupConsumer, StartTransactionalProducer
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.settings import Generation, Settings

BEGIN_MS: Final = 6_500
TOPICS_MS: Final = 5_000
"""Brokers are up, and topics are there."""
_CODECS: Final = (0, 0, 0, 1, 2, 3, 4)
_NAMES: Final = ("orders", "payments", "audit.log", "click_stream", "accounts")


_REMOTE_METADATA: Final = {"remote.storage.enable": "false", "retention.ms": "-1", "cleanup.policy": "delete"}
_TIERED: Final = {
    "cleanup.policy": "delete",
    "remote.storage.enable": "true",
    "segment.bytes": "700",
    "local.retention.bytes": "1500",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A cluster and who uses it. `keyed` are the topics that are compacted."""

    brokers: tuple[int, ...]
    settings: Settings
    topics: tuple[CreateTopic, ...]
    producers: tuple[StartProducer, ...]
    transactional: tuple[StartTransactionalProducer, ...]
    members: tuple[StartGroupConsumer, ...]
    consumers: tuple[StartConsumer, ...]
    share_groups: tuple[str, ...]

    @property
    def data_topics(self) -> tuple[CreateTopic, ...]:
        """Those that clients write to."""
        return tuple(t for t in self.topics if not t.name.startswith("__"))

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The data topics' partitions."""
        return tuple(TopicPartition(t.name, n) for t in self.data_topics for n in range(len(t.assignment)))

    def is_keyed(self, topic: str) -> bool:
        """Whether the topic's records need keys."""
        return any(t.name == topic and "compact" in t.config.get("cleanup.policy", "") for t in self.topics)


def plan(seed: int, *, generation: Generation | None = None, tiered: bool = False) -> Plan:
    """A cluster as chance has it; `generation` is the protocol that its brokers speak, if that is not up to chance.

    `tiered`: with a topic whose older segments are in the remote tier.
    """
    chance = Chance(seed, "plan")
    brokers = tuple(range(1, 1 + chance.one_of((3, 3, 3, 4, 5))))
    topics = [_topic(chance, name, brokers) for name in chance.some_of(_NAMES, chance.between(1, 3))]
    data = tuple(TopicPartition(t.name, n) for t in topics for n in range(len(t.assignment)))
    names = tuple(t.name for t in topics)
    transactional = _transactional(chance)
    share_groups = ("sharers",) if chance.percent(30) else ()
    internal = [_internal(chance, CONSUMER_OFFSETS, brokers)]
    if transactional:
        internal.append(_internal(chance, TRANSACTION_STATE, brokers))
    if share_groups:
        internal.append(_internal(chance, SHARE_GROUP_STATE, brokers, cleaned="delete"))
    settings = _settings(chance, generation)
    if tiered:
        internal.append(CreateTopic(name=REMOTE_LOG_METADATA, assignment=(brokers[:3],), config=_REMOTE_METADATA))
        topics.append(CreateTopic(name="archive", assignment=(_replicas(chance, brokers, 3),), config=_TIERED))
        settings = replace(settings, remote_task_interval_ms=5_000, retention_check_interval_ms=5_000)
    return Plan(
        brokers=brokers,
        settings=settings,
        topics=(*internal, *topics),
        producers=_producers(chance),
        transactional=transactional,
        members=_members(chance, names),
        consumers=_consumers(chance, data),
        share_groups=share_groups,
    )


def _settings(chance: Chance, generation: Generation | None) -> Settings:
    drawn = Generation.KIP_320 if chance.percent(25) else Generation.ELR
    return Settings(
        generation=drawn if generation is None else generation,
        broker_config={"min.insync.replicas": str(chance.between(1, 2))},
        log_start_checkpoint_interval_ms=chance.one_of((5_000, 20_000, 60_000)),
        recovery_point_checkpoint_interval_ms=chance.one_of((5_000, 20_000, 60_000)),
        retention_check_interval_ms=chance.one_of((5_000, 20_000, 300_000)),
        cleaner_backoff_ms=chance.one_of((5_000, 15_000)),
        preferred_election_interval_ms=chance.one_of((None, None, 30_000)),
        no_op_interval_ms=chance.one_of((None, 5_000)),
    )


def _internal(chance: Chance, name: str, brokers: tuple[int, ...], *, cleaned: str = "compact") -> CreateTopic:
    config = {"cleanup.policy": cleaned, "min.insync.replicas": str(chance.between(1, 2))}
    if cleaned == "compact" and chance.percent(40):
        config |= {"segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.1"}
    assignment = [_replicas(chance, brokers, 3) for _ in range(chance.between(1, 2))]
    return CreateTopic(name=name, assignment=assignment, config=config)


def _topic(chance: Chance, name: str, brokers: tuple[int, ...]) -> CreateTopic:
    factor = chance.one_of((1, 2, 3, 3, 3, min(4, len(brokers))))
    assignment = [_replicas(chance, brokers, factor) for _ in range(chance.between(1, 2))]
    return CreateTopic(name=name, assignment=assignment, config=_topic_config(chance, factor))


def _replicas(chance: Chance, brokers: tuple[int, ...], factor: int) -> tuple[int, ...]:
    return tuple(chance.some_of(brokers, factor))


def _topic_config(chance: Chance, factor: int) -> Mapping[str, str]:
    config = {"min.insync.replicas": str(min(factor, chance.between(1, 2)))}
    if chance.percent(70):
        config["segment.bytes"] = chance.one_of(("700", "2000", "6000"))
    if chance.percent(50):
        config["index.interval.bytes"] = chance.one_of(("0", "100", "1000"))
    policy = chance.one_of(("delete", "delete", "delete", "compact", "compact,delete"))
    config["cleanup.policy"] = policy
    if "compact" in policy:
        config["min.cleanable.dirty.ratio"] = chance.one_of(("0.01", "0.5"))
        config["delete.retention.ms"] = chance.one_of(("0", "10000", "86400000"))
    if "delete" in policy and chance.percent(50):
        limit = chance.one_of(("retention.ms", "retention.bytes"))
        config[limit] = {"retention.ms": "30000", "retention.bytes": "4000"}[limit]
    return config


def _producers(chance: Chance) -> tuple[StartProducer, ...]:
    found = []
    for name, acks, idempotent in (("idempotent", -1, True), ("all", -1, False), ("one", 1, False)):
        if idempotent or chance.percent(60):
            codec = chance.one_of(_CODECS)
            found.append(StartProducer(client=name, acks=acks, idempotent=idempotent, codec=codec))
    return tuple(found)


def _transactional(chance: Chance) -> tuple[StartTransactionalProducer, ...]:
    return tuple(
        StartTransactionalProducer(
            client=f"tv{version}",
            transactional_id=f"tx-{version}",
            version=version,
            timeout_ms=chance.one_of((20_000, 60_000)),
        )
        for version in (1, 2)
        if chance.percent(60)
    )


def _members(chance: Chance, topics: tuple[str, ...]) -> tuple[StartGroupConsumer, ...]:
    return tuple(
        StartGroupConsumer(
            client=f"{group}-{number}",
            group=group,
            topics=topics,
            protocol=protocol,
            read_committed=chance.percent(50),
            commit_interval_ms=chance.one_of((1_000, 5_000)),
            poll_interval_ms=1_000,
        )
        for group, protocol in (("billing", "classic"), ("shipping", "consumer"))
        if chance.percent(60)
        for number in range(chance.between(1, 2))
    )


def _consumers(chance: Chance, partitions: tuple[TopicPartition, ...]) -> tuple[StartConsumer, ...]:
    return tuple(
        StartConsumer(client=name, partitions=partitions, read_committed=committed, poll_interval_ms=1_000)
        for name, committed in (("reader", False), ("committed-reader", True))
        if chance.percent(40)
    )
