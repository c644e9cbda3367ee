"""The metadata log replayed: records in, what they say together out.

In: records of `__cluster_metadata` in offset order, from its start or from a metadata snapshot. Out: `MetadataHistory`.
Records of a metadata transaction count once it has ended, and never if it was aborted; those of one batch come into
force at once (KIP-868, MetadataBatchLoader).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from tidegauge.facts.metadata.broker_history import BrokerState, broker_change
from tidegauge.facts.metadata.config_history import ConfigChange, ConfigKey
from tidegauge.facts.metadata.history import (
    COMPACT,
    METADATA_VERSION,
    TOPIC_RESOURCE,
    DamagedRecord,
    FeatureLevel,
    LoggedRecord,
    MetadataHistory,
    Registration,
    TopicState,
)
from tidegauge.facts.metadata.in_sync_index import InSyncIndex
from tidegauge.facts.metadata.partition_replay import (
    apply_clear_elr,
    apply_partition,
    apply_partition_change,
    tell_min_insync_replicas,
)
from tidegauge.facts.metadata.transactions import Migration, comes_after, snapshot_inside

_ZOOKEEPER_MIGRATION: Final = (1, 2, 3)
"""States of a migration that began: its records bring ZooKeeper's epochs (ZkMigrationState)."""

Fields = Mapping[str, Any]


class Observer(Protocol):
    """Who follows a replay."""

    def reached(self, history: MetadataHistory, offset: int) -> None:
        """All that is below the offset is in force."""

    def in_force(self, records: tuple[LoggedRecord, ...]) -> None:
        """These came into force, together."""


def replay(
    log: Iterable[LoggedRecord | DamagedRecord],
    *,
    snapshot: Iterable[LoggedRecord] = (),
    start_offset: int = 0,
    snapshot_ends: Sequence[int] = (),
    observer: Observer | None = None,
) -> MetadataHistory:
    """Replays a metadata snapshot (if the log's head is gone) and the log behind it, which begins at `start_offset`.

    `snapshot_ends` are those of all nodes' metadata snapshots: they tell of a transaction that it is not in flight.
    """
    history = MetadataHistory(start_offset=start_offset, end_offset=start_offset)
    in_sync = InSyncIndex(history)
    begun = tuple(snapshot)
    for logged in begun:
        history.start_offset = history.end_offset = logged.offset
        _apply(history, in_sync, logged, from_snapshot=True, in_force_offset=logged.offset)
    if begun:
        tell_min_insync_replicas(history)
        in_sync.settle(history.start_offset, None)
        if observer is not None:
            observer.in_force(begun)
    migration = Migration()
    for logged in begun:
        migration.record(logged.record)
    for group in _groups(history, log, snapshot_ends, migration):
        if observer is not None:
            observer.reached(history, group[0].offset)
        history.brokers_in_force = frozenset(b for logged in group if (b := _broker_of(logged)) is not None)
        for logged in group:
            _apply(history, in_sync, logged, from_snapshot=False, in_force_offset=group[-1].offset)
        in_sync.settle(group[-1].offset, group[-1].timestamp_ms)
        if observer is not None:
            observer.in_force(group)
    in_sync.close(history.last_record_at_ms)
    if observer is not None:
        observer.reached(history, history.end_offset)
    return history


def _tell_instants(history: MetadataHistory, name: str, at_ms: int) -> None:
    history.last_record_at_ms = max(history.last_record_at_ms or 0, at_ms)
    history.start_ms = at_ms if history.start_ms is None else history.start_ms
    if name == "NoOpRecord":
        history.last_idle_record_at_ms = max(history.last_idle_record_at_ms or 0, at_ms)


def _groups(
    history: MetadataHistory,
    log: Iterable[LoggedRecord | DamagedRecord],
    snapshot_ends: Sequence[int],
    migration: Migration,
) -> Iterator[tuple[LoggedRecord, ...]]:
    """Records that come into force together: those of a batch, or of a metadata transaction when it ends.

    Of a transaction without an end that something came after (K17) the end is lost, and it is taken to have ended where
    that shows: nodes that went on from there have its records in force.
    """
    batch: list[LoggedRecord] = []
    held: list[LoggedRecord] | None = None
    begun_offset = 0
    for logged in log:
        history.end_offset = max(history.end_offset, logged.offset + 1)
        if isinstance(logged, DamagedRecord):
            if batch:
                yield tuple(batch)
                batch = []
            history.damaged_offsets.append(logged.offset)
            continue
        name = logged.record.name
        if logged.timestamp_ms is not None:
            _tell_instants(history, name, logged.timestamp_ms)
        ends = name in ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord")
        if batch and (ends or logged.batch_offset is None or logged.batch_offset != batch[-1].batch_offset):
            yield tuple(batch)
            batch = []
        migration.record(logged.record)
        if held is not None and not ends:
            inside = snapshot_inside(begun_offset, logged.offset, snapshot_ends) is not None
            if inside or comes_after(logged.record, migration):
                if held:
                    yield tuple(held)
                held = None
        match name:
            case "BeginTransactionRecord":
                # A second one means that the first one's end is lost: what it held has long been in force.
                if held:
                    yield tuple(held)
                held, begun_offset = [], logged.offset
            case "EndTransactionRecord":
                if held:
                    yield tuple(held)
                held = None
            case "AbortTransactionRecord":
                held = None
            case _ if held is None:
                batch.append(logged)
            case _:
                held.append(logged)
    if batch:
        yield tuple(batch)
    if held and (
        held[-1].offset - held[0].offset >= len(held)
        or snapshot_inside(begun_offset, history.end_offset, snapshot_ends) is not None
    ):
        yield tuple(held)  # A hole: the end may be in it. Without one it is still open, and nobody saw it.


def _apply(
    history: MetadataHistory, in_sync: InSyncIndex, logged: LoggedRecord, *, from_snapshot: bool, in_force_offset: int
) -> None:
    fields: Fields = logged.record.fields
    match logged.record.name:
        case "TopicRecord":
            topic = TopicState(
                name=fields["name"],
                topic_id=fields["topic_id"],
                metadata_offset=logged.offset,
                from_snapshot=from_snapshot,
            )
            if not from_snapshot and not history.migrated_from_zookeeper:
                topic.created_offset, topic.created_at_ms = in_force_offset, logged.timestamp_ms
            history.add_topic(topic)
        case "RemoveTopicRecord":
            gone = history.topics.get(fields["topic_id"])
            if gone is not None:
                gone.deleted, gone.deleted_at_ms = True, logged.timestamp_ms
                for name in list(history.configs.get((TOPIC_RESOURCE, gone.name), ())):
                    _config(history, logged, (TOPIC_RESOURCE, gone.name, name), None, in_force_offset)
                history.configs.pop((TOPIC_RESOURCE, gone.name), None)
                history.ever_compacted.discard(gone.name)
                in_sync.topic_removed(gone.topic_id, logged.timestamp_ms)
        case "PartitionRecord" | "PartitionChangeRecord":
            if logged.record.name == "PartitionRecord":
                state = apply_partition(history, logged, fields, from_snapshot=from_snapshot)
            else:
                state = apply_partition_change(history, logged, fields)
            if state is not None:
                in_sync.partition_changed(fields["topic_id"], fields["partition_id"], state.isr)
        case "ClearElrRecord":
            apply_clear_elr(history, logged, fields["topic_name"])
        case "ConfigRecord":
            changed = (fields["resource_type"], fields["resource_name"], fields["name"])
            at_ms = None if from_snapshot else logged.timestamp_ms
            _config(history, replace(logged, timestamp_ms=at_ms), changed, fields["value"], in_force_offset)
        case "FeatureLevelRecord":
            _feature(history, logged, fields)
        case "ProducerIdsRecord":
            history.next_producer_id = max(history.next_producer_id or 0, fields["next_producer_id"])
        case "ZkMigrationStateRecord":
            history.migrated_from_zookeeper |= fields["zk_migration_state"] in _ZOOKEEPER_MIGRATION
        case "RegisterControllerRecord":
            history.controllers.add(fields["controller_id"])
        case name if "Broker" in name:
            broker_id = _broker_of(logged)
            assert broker_id is not None, "a record about a broker names it"
            before = history.brokers.get(broker_id)
            _broker(history, broker_id, logged, fields, from_snapshot=from_snapshot)
            change = broker_change(
                before,
                history.brokers.get(broker_id),
                metadata_offset=logged.offset,
                at_ms=logged.timestamp_ms,
                from_snapshot=from_snapshot,
            )
            history.broker_changes += [change] if change is not None else []
            in_sync.broker_changed(broker_id)


def _broker_of(logged: LoggedRecord) -> int | None:
    """The broker that a record is about; None for a record about anything else."""
    fields: Fields = logged.record.fields
    return fields.get("broker_id", fields.get("id")) if "Broker" in logged.record.name else None


def _feature(history: MetadataHistory, logged: LoggedRecord, fields: Fields) -> None:
    name, level = fields["name"], fields["feature_level"]
    history.feature_levels.append(
        FeatureLevel(name=name, level=level, metadata_offset=logged.offset, at_ms=logged.timestamp_ms)
    )
    history.features[name] = level
    if level == 0:
        del history.features[name]  # Level 0 takes a feature away (FeaturesDelta).


def _config(
    history: MetadataHistory, logged: LoggedRecord, key: ConfigKey, value: str | None, in_force_offset: int
) -> None:
    resource_type, resource, name = key
    history.config_changes.setdefault(key, []).append(
        ConfigChange(
            metadata_offset=logged.offset, in_force_offset=in_force_offset, at_ms=logged.timestamp_ms, value=value
        )
    )
    configs = history.configs.setdefault((resource_type, resource), {})
    if value is None:
        configs.pop(name, None)
    else:
        configs[name] = value
        if resource_type == TOPIC_RESOURCE and name == "cleanup.policy" and COMPACT in value:
            history.ever_compacted.add(resource)


def _broker(
    history: MetadataHistory, broker_id: int, logged: LoggedRecord, fields: Fields, *, from_snapshot: bool
) -> None:
    brokers, name = history.brokers, logged.record.name
    if name == "RegisterBrokerRecord":
        _registration(history, logged, fields, from_snapshot=from_snapshot)
    elif broker_id in brokers:
        _stale(history, brokers[broker_id], logged, fields)
    match name:
        case "RegisterBrokerRecord":
            brokers[broker_id] = BrokerState(
                broker_id=broker_id,
                broker_epoch=fields["broker_epoch"],
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


def _registration(history: MetadataHistory, logged: LoggedRecord, fields: Fields, *, from_snapshot: bool) -> None:
    of_broker = history.registrations.setdefault(fields["broker_id"], [])
    before = of_broker[-1] if of_broker else None
    versions = [f["max_supported_version"] for f in fields["features"] if f["name"] == METADATA_VERSION]
    of_broker.append(
        Registration(
            broker_id=fields["broker_id"],
            metadata_offset=logged.offset,
            batch_offset=logged.offset if logged.batch_offset is None else logged.batch_offset,
            at_ms=logged.timestamp_ms,
            from_snapshot=from_snapshot,
            broker_epoch=fields["broker_epoch"],
            incarnation_id=fields["incarnation_id"],
            previous_broker_epoch=before.broker_epoch if before is not None else None,
            previous_incarnation_id=before.incarnation_id if before is not None else None,
            metadata_version=max(versions, default=None),
            after_damage=bool(history.damaged_offsets),
        )
    )


def _stale(history: MetadataHistory, broker: BrokerState, logged: LoggedRecord, fields: Fields) -> None:
    broker_epoch = fields.get("broker_epoch", fields.get("epoch"))
    if broker_epoch != broker.broker_epoch and history.registrations.get(broker.broker_id):
        registration = history.registrations[broker.broker_id][-1]
        registration.stale_records += 1
        if registration.first_stale_offset is None:
            registration.first_stale_offset = logged.offset
