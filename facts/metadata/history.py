"""What the metadata log says: brokers, topics, partitions, configs, and every partition's history of elections.

In: nothing; these are the values that `facts.metadata.replay` fills in. Out: `MetadataHistory`. What is gone from the
log (its head, a damaged record) is told as not known, never made up.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypedDict

from tidegauge.facts.metadata.broker_history import BrokerChange, BrokerState
from tidegauge.facts.metadata.config_history import Birth, ConfigChange, ConfigKey
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.metadata.releases import Release, release_of_level
from tidegauge.kafka_log.metadata_records import MetadataRecord

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
COMPACT: Final = "compact"
METADATA_VERSION: Final = "metadata.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """A record with where and when it stands. From a snapshot file: the snapshot's end offset, and no time."""

    offset: int
    timestamp_ms: int | None
    record: MetadataRecord
    batch_offset: int | None = None
    """Where its batch begins: what stands in one batch comes into force at once. None: a batch of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRecord:
    """A place in the log where a record stood that cannot be read."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """Whose copy of the metadata log was replayed, and its files: segments by base offset, in order."""

    node_id: int
    segments: tuple[tuple[int, str], ...]
    begun_with: str | None = None
    """The metadata snapshot that stands for the log's head; None where the log is whole."""

    def path_of(self, offset: int | None, *, from_snapshot: bool = False) -> str | None:
        """The file in which the record of an offset stands; None if it is in none of them."""
        if from_snapshot or offset is None:
            return self.begun_with if from_snapshot else None
        at = bisect_right([base for base, _ in self.segments], offset) - 1
        return self.segments[at][1] if at >= 0 else self.begun_with


class MetadataRecordPlace(TypedDict):
    """Whose copy of the metadata log a record was read from, and in which file it stands."""

    node_id: int | None
    path: str | None


def record_place(files: LogFiles | None, offset: int | None, *, from_snapshot: bool = False) -> MetadataRecordPlace:
    """The columns that say it."""
    if files is None:
        return {"node_id": None, "path": None}
    return {"node_id": files.node_id, "path": files.path_of(offset, from_snapshot=from_snapshot)}


@dataclass(slots=True, kw_only=True)
class Registration:
    """One RegisterBrokerRecord: which process of which release, and what its successors said of it.

    `metadata_version` is the highest metadata.version that the broker knows, which tells its release.
    """

    broker_id: int
    metadata_offset: int
    batch_offset: int
    at_ms: int | None
    from_snapshot: bool
    broker_epoch: int
    incarnation_id: str
    previous_broker_epoch: int | None
    previous_incarnation_id: str | None
    metadata_version: int | None
    after_damage: bool
    stale_records: int = 0
    first_stale_offset: int | None = None
    """Records about this registration that carry the epoch of another one, and the first of them."""

    @property
    def release(self) -> Release | None:
        """Kafka's release that the broker ran, major and minor; None if it does not tell."""
        return release_of_level(self.metadata_version) if self.metadata_version is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevel:
    """One FeatureLevelRecord."""

    name: str
    level: int
    metadata_offset: int
    at_ms: int | None


@dataclass(slots=True, kw_only=True)
class TopicState:
    """A topic; deleted ones are kept, so that a re-created name is not taken for the old one."""

    name: str
    topic_id: str
    metadata_offset: int | None = None
    """The record that created it."""
    from_snapshot: bool = False
    deleted: bool = False
    deleted_at_ms: int | None = None
    created_offset: int | None = None
    """The record with which its creation came into force; None where the log does not have it."""
    created_at_ms: int | None = None
    partitions: dict[int, "PartitionState"] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """A partition's registration now, and how it came to be. No leader is None."""

    leader_id: int | None
    last_leader_id: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    recovering: bool
    directories: tuple[str, ...]
    """Directory id of each replica, in the order of `replicas`; empty before metadata version 3.7."""
    changes: list[PartitionChange] = field(default_factory=list)
    epoch_leaders: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class MetadataHistory:
    """Everything the metadata log says, at its end."""

    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    """By topic id."""
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """(resource type, name) -> configs; name "" is the brokers' cluster-wide default."""
    controllers: set[int] = field(default_factory=set)
    """Those that ever registered, voters or not; nothing is written when one is taken away."""
    ever_compacted: set[str] = field(default_factory=set)
    """Names of topics whose cleanup.policy has held "compact"."""
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int | None = None
    end_offset: int = 0
    last_record_at_ms: int | None = None
    """When its last record was written: the active controller writes one twice a second, whatever happens."""
    last_idle_record_at_ms: int | None = None
    """When the last one was written that says nothing (NoOpRecord); no controller before 3.3 writes any, and none whose
    metadata.max.idle.interval.ms is 0."""
    broker_changes: list[BrokerChange] = field(default_factory=list)
    config_changes: dict[ConfigKey, list[ConfigChange]] = field(default_factory=dict)
    """(resource type, name, config) -> every change of it, oldest first; what a snapshot holds is the first one."""

    registrations: dict[int, list[Registration]] = field(default_factory=dict)
    """Every registration of each broker that the log still has, oldest first."""
    feature_levels: list[FeatureLevel] = field(default_factory=list)
    """Every change of a feature's level that the log still has, oldest first."""
    start_offset: int = 0
    """Where the replay began: above 0 the log's head is gone, and a snapshot stands for it."""
    start_ms: int | None = None
    """When the first record was written that the log still has."""
    damaged_offsets: list[int] = field(default_factory=list)
    """Where records could not be read: whatever comes after them may lack what they said."""
    captured: bool = True
    """A copy of the metadata log is in the snapshot, from its head on or from a snapshot of it; without one nothing
    here tells anything.
    """
    files: LogFiles | None = None
    """Where it was read; None in tests of other things."""
    migrated_from_zookeeper: bool = False
    """Its first epochs are ZooKeeper's, then, and may be any number."""
    brokers_in_force: frozenset[int] = frozenset()
    """During a replay: the brokers that are told of by the records which come into force together just now."""
    _by_name: dict[str, list[TopicState]] = field(default_factory=dict, repr=False)

    def add_topic(self, topic: TopicState) -> None:
        """A TopicRecord."""
        self.topics[topic.topic_id] = topic
        self._by_name.setdefault(topic.name, []).append(topic)

    def lives(self, name: str) -> Sequence[TopicState]:
        """Every topic that has had this name, oldest first; all but the last should be deleted."""
        return self._by_name.get(name, ())

    def topic_named(self, name: str) -> TopicState | None:
        """The topic of that name: the living one, else the last deleted one."""
        lives = self.lives(name)
        return next((t for t in lives if not t.deleted), lives[-1] if lives else None)

    def config_changed_at_ms(self, resource_type: int, name: str, config: str) -> int | None:
        """When a config was last set or removed; None where no record of the log did that."""
        changes = self.config_changes.get((resource_type, name, config))
        return changes[-1].at_ms if changes else None

    @property
    def beginning(self) -> Birth:
        """Since when settings are known that are of no topic: since the log began, or what is left of it."""
        damaged = max(self.damaged_offsets, default=-1)
        return Birth(
            offset=self.start_offset,
            at_ms=None,
            created=self.start_offset == 0,
            known_from_offset=max(self.start_offset, damaged + 1),
            known_from_ms=self.start_ms if damaged < 0 else None,
        )

    def birth_of(self, name: str) -> Birth:
        """Since when the settings of the topic of that name are known."""
        topic = self.topic_named(name)
        if topic is None or topic.created_offset is None:
            return replace(self.beginning, created=False)
        damaged = max(self.damaged_offsets, default=-1)
        lost = damaged > topic.created_offset
        return Birth(
            offset=topic.created_offset,
            at_ms=topic.created_at_ms,
            created=True,
            known_from_offset=damaged + 1 if lost else topic.created_offset,
            known_from_ms=None if lost else topic.created_at_ms,
        )

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered, not fenced, not on its way out."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    @property
    def alive_brokers(self) -> frozenset[int]:
        """Registered, not fenced, not on their way out."""
        return frozenset(b for b in self.brokers if self.is_alive(b))


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConfig:
    """A config's value and where it comes from: topic, broker (the cluster-wide dynamic default), default."""

    value: str
    source: str


_DEFAULTS: Final[Mapping[str, tuple[str, str]]] = {
    # Topic config -> (the broker config that stands in for it, Kafka's default).
    "cleanup.policy": ("log.cleanup.policy", "delete"),
    "min.insync.replicas": ("min.insync.replicas", "1"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable", "false"),
    "remote.storage.enable": ("remote.storage.enable", "false"),
    "preallocate": ("log.preallocate", "false"),
    "retention.ms": ("log.retention.ms", "604800000"),
    "retention.bytes": ("log.retention.bytes", "-1"),
    "segment.bytes": ("log.segment.bytes", "1073741824"),
    "index.interval.bytes": ("log.index.interval.bytes", "4096"),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms", "60000"),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms", "86400000"),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio", "0.5"),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms", "0"),
}


def broker_config_of(name: str) -> str:
    """The broker config that stands in for a topic config that is not set."""
    return _DEFAULTS[name][0]


def default_of(name: str) -> str:
    """Kafka's default of a topic config."""
    return _DEFAULTS[name][1]


def effective_topic_config(history: MetadataHistory, topic: str, name: str) -> EffectiveConfig:
    """A topic's config as far as the metadata log tells: its own, the cluster-wide dynamic default, Kafka's default.

    A broker's properties file may set another default, which no file of a log dir tells; since KIP-966 the controller
    writes `min.insync.replicas` into the metadata log, where it matters most.
    """
    own = history.configs.get((TOPIC_RESOURCE, topic), {})
    if name in own:
        return EffectiveConfig(value=own[name], source="topic")
    broker_name, default = _DEFAULTS[name]
    shared = history.configs.get((BROKER_RESOURCE, ""), {})
    if broker_name in shared:
        return EffectiveConfig(value=shared[broker_name], source="broker")
    return EffectiveConfig(value=default, source="default")
