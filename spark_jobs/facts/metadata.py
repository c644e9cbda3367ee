"""The metadata log replayed: brokers, topics, partitions, configs, and every partition's history of elections.

In: records of `__cluster_metadata` in offset order, from its start or from a metadata snapshot. Out:
`MetadataHistory`. The rule that must hold: a change record carries only what it changes (PartitionRegistration#merge):
leader -2 is "as before", a new leader raises the leader epoch by one, every change raises the partition epoch by one.
Records of a metadata transaction count once it has ended, and never if it was aborted (KIP-868, MetadataBatchLoader).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafka_log.metadata_records import MetadataRecord
from spark_jobs.facts.context import PartitionChange

_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_NO_CHANGE: Final = -2
_RECOVERING: Final = 1
COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """A record with where and when it stands. From a snapshot file: the snapshot's end offset, and no time."""

    offset: int
    timestamp_ms: int | None
    record: MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker as the controller knows it. `epoch` is the offset of its registration."""

    broker_id: int
    epoch: int
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directory_ids: tuple[str, ...]
    incarnation_id: str


@dataclass(slots=True, kw_only=True)
class TopicState:
    """A topic; deleted ones are kept, so that a re-created name is not taken for the old one."""

    name: str
    topic_id: str
    deleted: bool = False
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
    ever_compacted: set[str] = field(default_factory=set)
    """Names of topics whose cleanup.policy has held "compact"."""
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int | None = None
    end_offset: int = 0
    last_record_at_ms: int | None = None
    """When its last record was written: the active controller writes one twice a second, whatever happens."""
    config_changed_at_ms: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """(resource type, name, config) -> when it was last set or removed; not there for what a snapshot holds."""

    def topic_named(self, name: str) -> TopicState | None:
        """The topic of that name: the living one, else the last deleted one."""
        found = None
        for topic in self.topics.values():
            if topic.name == name:
                if not topic.deleted:
                    return topic
                found = topic
        return found

    @property
    def alive_brokers(self) -> frozenset[int]:
        """Registered, not fenced, not on their way out."""
        return frozenset(b.broker_id for b in self.brokers.values() if not b.fenced and not b.in_controlled_shutdown)


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
}


def broker_config_of(name: str) -> str:
    """The broker config that stands in for a topic config that is not set."""
    return _DEFAULTS[name][0]


def effective_topic_config(history: MetadataHistory, topic: str, name: str) -> EffectiveConfig:
    """A topic's config as far as the metadata log tells: its own, the cluster-wide dynamic default, Kafka's default.

    A broker's properties file may set another default, which no file of a log dir tells; since KIP-966 the controller
    writes `min.insync.replicas` into the metadata log, where it matters most.
    """
    own = history.configs.get((_TOPIC_RESOURCE, topic), {})
    if name in own:
        return EffectiveConfig(value=own[name], source="topic")
    broker_name, default = _DEFAULTS[name]
    shared = history.configs.get((_BROKER_RESOURCE, ""), {})
    if broker_name in shared:
        return EffectiveConfig(value=shared[broker_name], source="broker")
    return EffectiveConfig(value=default, source="default")


def replay(log: Iterable[LoggedRecord], *, snapshot: Iterable[LoggedRecord] = ()) -> MetadataHistory:
    """Replays a metadata snapshot (if the log's head is gone) and the log behind it."""
    history = MetadataHistory()
    for logged in snapshot:
        _apply(history, logged, from_snapshot=True)
    for logged in _settled(history, log):
        _apply(history, logged, from_snapshot=False)
    return history


def _settled(history: MetadataHistory, log: Iterable[LoggedRecord]) -> Iterator[LoggedRecord]:
    """Records outside of metadata transactions, and those of a transaction when it ends."""
    held: list[LoggedRecord] | None = None
    for logged in log:
        history.end_offset = max(history.end_offset, logged.offset + 1)
        if logged.timestamp_ms is not None:
            history.last_record_at_ms = max(history.last_record_at_ms or 0, logged.timestamp_ms)
        match logged.record.name:
            case "BeginTransactionRecord":
                # A second one means that damage took the first one's end: what it held has long been in force.
                yield from held or ()
                held = []
            case "EndTransactionRecord":
                yield from held or ()
                held = None
            case "AbortTransactionRecord":
                held = None
            case _ if held is None:
                yield logged
            case _:
                held.append(logged)
    if held and held[-1].offset - held[0].offset >= len(held):
        yield from held  # A hole: the end may be in it. Without one, the transaction is still open, and nobody saw it.


def _apply(history: MetadataHistory, logged: LoggedRecord, *, from_snapshot: bool) -> None:
    fields: Mapping[str, Any] = logged.record.fields
    if from_snapshot:
        history.end_offset = max(history.end_offset, logged.offset)
    match logged.record.name:
        case "TopicRecord":
            history.topics[fields["topic_id"]] = TopicState(name=fields["name"], topic_id=fields["topic_id"])
        case "RemoveTopicRecord":
            topic = history.topics.get(fields["topic_id"])
            if topic is not None:
                topic.deleted = True
                history.configs.pop((_TOPIC_RESOURCE, topic.name), None)
                history.ever_compacted.discard(topic.name)
        case "PartitionRecord":
            _partition(history, logged, fields, from_snapshot=from_snapshot)
        case "PartitionChangeRecord":
            _partition_change(history, logged, fields)
        case "ClearElrRecord":
            _clear_elr(history, logged, fields["topic_name"])
        case "ConfigRecord":
            _config(history, fields)
            if logged.timestamp_ms is not None:
                changed = (fields["resource_type"], fields["resource_name"], fields["name"])
                history.config_changed_at_ms[changed] = logged.timestamp_ms
        case "FeatureLevelRecord":
            history.features[fields["name"]] = fields["feature_level"]
            if fields["feature_level"] == 0:
                del history.features[fields["name"]]  # Level 0 takes a feature away (FeaturesDelta).
        case "ProducerIdsRecord":
            history.next_producer_id = max(history.next_producer_id or 0, fields["next_producer_id"])
        case name if "Broker" in name:
            _broker(history, name, fields)


def _config(history: MetadataHistory, fields: Mapping[str, Any]) -> None:
    key = (fields["resource_type"], fields["resource_name"])
    configs = history.configs.setdefault(key, {})
    if fields["value"] is None:
        configs.pop(fields["name"], None)
    else:
        configs[fields["name"]] = fields["value"]
        if key[0] == _TOPIC_RESOURCE and fields["name"] == "cleanup.policy" and COMPACT in fields["value"]:
            history.ever_compacted.add(key[1])


def _broker(history: MetadataHistory, name: str, fields: Mapping[str, Any]) -> None:
    brokers = history.brokers
    broker_id = fields.get("broker_id", fields.get("id"))
    match name:
        case "RegisterBrokerRecord":
            brokers[broker_id] = BrokerState(
                broker_id=broker_id,
                epoch=fields["broker_epoch"],
                rack=fields["rack"],
                fenced=fields["fenced"],
                in_controlled_shutdown=fields["in_controlled_shutdown"],
                directory_ids=tuple(fields["log_dirs"]),
                incarnation_id=fields["incarnation_id"],
            )
        case "UnregisterBrokerRecord":
            brokers.pop(broker_id, None)
        case "FenceBrokerRecord" | "UnfenceBrokerRecord" if broker_id in brokers:
            brokers[broker_id] = replace(brokers[broker_id], fenced=name == "FenceBrokerRecord")
        case "BrokerRegistrationChangeRecord" if broker_id in brokers:
            state = brokers[broker_id]
            # 1 fences, -1 unfences, 0 is no change (BrokerRegistrationFencingChange).
            if fields["fenced"]:
                state = replace(state, fenced=fields["fenced"] > 0)
            if fields["in_controlled_shutdown"]:
                state = replace(state, in_controlled_shutdown=fields["in_controlled_shutdown"] > 0)
            if fields["log_dirs"]:
                state = replace(state, directory_ids=tuple(fields["log_dirs"]))
            brokers[broker_id] = state


def _leader(value: int) -> int | None:
    return value if value >= 0 else None


def _partition(
    history: MetadataHistory, logged: LoggedRecord, fields: Mapping[str, Any], *, from_snapshot: bool
) -> None:
    topic = history.topics.get(fields["topic_id"])
    if topic is None:
        return  # A partition of a topic whose record the damaged log lost: nothing to hang it on.
    leader = _leader(fields["leader"])
    last_known = tuple(fields["last_known_elr"] or ())
    state = PartitionState(
        leader_id=leader,
        last_leader_id=leader if leader is not None else (last_known[0] if last_known else None),
        leader_epoch=fields["leader_epoch"],
        partition_epoch=fields["partition_epoch"],
        replicas=tuple(fields["replicas"]),
        isr=tuple(fields["isr"]),
        elr=tuple(fields["eligible_leader_replicas"] or ()),
        last_known_elr=last_known,
        adding_replicas=tuple(fields["adding_replicas"]),
        removing_replicas=tuple(fields["removing_replicas"]),
        recovering=fields["leader_recovery_state"] == _RECOVERING,
        directories=tuple(fields["directories"]),
    )
    before = topic.partitions.get(fields["partition_id"])
    if before is not None:
        state.changes, state.epoch_leaders = before.changes, before.epoch_leaders
    topic.partitions[fields["partition_id"]] = state
    if leader is not None:
        state.epoch_leaders[state.leader_epoch] = leader
    state.changes.append(_change(state, logged, before=None, election="none", from_snapshot=from_snapshot))


def _partition_change(history: MetadataHistory, logged: LoggedRecord, fields: Mapping[str, Any]) -> None:
    topic = history.topics.get(fields["topic_id"])
    state = topic.partitions.get(fields["partition_id"]) if topic is not None else None
    if topic is None or state is None:
        return
    before = replace(state, changes=[], epoch_leaders={})
    for name, key in (
        ("isr", "isr"),
        ("replicas", "replicas"),
        ("adding_replicas", "adding_replicas"),
        ("removing_replicas", "removing_replicas"),
        ("elr", "eligible_leader_replicas"),
        ("last_known_elr", "last_known_elr"),
        ("directories", "directories"),
    ):
        if fields[key] is not None:
            setattr(state, name, tuple(fields[key]))
    if fields["leader_recovery_state"] >= 0:
        state.recovering = fields["leader_recovery_state"] == _RECOVERING
    state.partition_epoch += 1
    election = "none"
    if fields["leader"] != _NO_CHANGE:
        state.leader_epoch += 1
        state.leader_id = _leader(fields["leader"])
        if state.leader_id is not None:
            allowed = effective_topic_config(history, topic.name, "unclean.leader.election.enable").value == "true"
            election = _election(
                before, state, state.leader_id, fields["leader_recovery_state"], unclean_allowed=allowed
            )
            state.last_leader_id = state.leader_id
            state.epoch_leaders[state.leader_epoch] = state.leader_id
    state.changes.append(_change(state, logged, before=before, election=election, from_snapshot=False))


def _clear_elr(history: MetadataHistory, logged: LoggedRecord, topic_name: str) -> None:
    """An empty name is every topic. A change like any other where there was something to clear (TopicDelta#replay)."""
    for topic in history.topics.values():
        if topic.deleted or topic_name not in ("", topic.name):
            continue
        for state in topic.partitions.values():
            if state.elr or state.last_known_elr:
                before = replace(state, changes=[], epoch_leaders={})
                state.elr = state.last_known_elr = ()
                state.partition_epoch += 1
                state.changes.append(_change(state, logged, before=before, election="none", from_snapshot=False))


def _election(
    before: PartitionState, after: PartitionState, leader: int, recovery_state: int, *, unclean_allowed: bool
) -> str:
    """How a leader came to be (PartitionChangeBuilder#electAnyLeader, #completeReassignmentIfNeeded, KIP-966)."""
    if leader == before.leader_id:
        return "none"  # Its epoch was raised (an ISR member left, a move ended), nobody was elected.
    # The record that makes it leader is also the one that takes a member out of the ELR that came back uncleanly.
    elr_emptied = not before.elr or (not after.elr and not unclean_allowed)
    if not before.isr and elr_emptied and before.last_known_elr == (leader,):
        # After unclean shutdowns of all, who led last leads again (#canElectLastKnownLeader). Kafka marks it as
        # recovering, for its disk may have lost what was not flushed; the election itself gives no record up.
        return "last_known"
    if recovery_state == _RECOVERING:
        return "unclean"
    if leader in before.isr:
        return "clean"
    if leader in before.elr:
        return "elr"
    if _ends_move(before, after) and leader in after.isr and not after.recovering:
        # The old leader asked for it to join the ISR, and the same record gave it the lead: the ISR that it was elected
        # from was never written down.
        return "clean"
    return "unclean"


def _ends_move(before: PartitionState, after: PartitionState) -> bool:
    """Whether a change ended a reassignment."""
    was_moving = bool(before.adding_replicas or before.removing_replicas)
    return was_moving and not after.adding_replicas and not after.removing_replicas


def _change(
    state: PartitionState,
    logged: LoggedRecord,
    *,
    before: PartitionState | None,
    election: str,
    from_snapshot: bool,
) -> PartitionChange:
    return PartitionChange(
        metadata_offset=logged.offset,
        sequence_in_log=len(state.changes),
        from_snapshot=from_snapshot,
        at_ms=logged.timestamp_ms,
        leader_id=state.leader_id,
        previous_leader_id=before.leader_id if before is not None else None,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        isr=state.isr,
        previous_isr=before.isr if before is not None else (),
        elr=state.elr,
        previous_elr=before.elr if before is not None else (),
        last_known_elr=state.last_known_elr,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        recovering=state.recovering,
        election=election,
    )
