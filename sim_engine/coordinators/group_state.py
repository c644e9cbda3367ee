"""What one partition of `__consumer_offsets` says: groups, committed offsets, offsets of open transactions.

In: its records, with whose transaction they belong to, and the markers between them. Out: the state. An offset in a
transaction is nobody's until the transaction's marker is in this partition; an abort leaves what was committed before.

Source: Kafka GroupMetadataManager#replay, OffsetMetadataManager#replay and #replayEndTransactionMarker.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators import classic_group, consumer_group
from tidegauge.sim_engine.coordinators.classic_group import ClassicGroup
from tidegauge.sim_engine.coordinators.consumer_group import ConsumerGroup
from tidegauge.sim_engine.coordinators.group_records import (
    CLASSIC_GROUP,
    CONSUMER_CURRENT,
    CONSUMER_GROUP,
    CONSUMER_MEMBER,
    CONSUMER_TARGET,
    CONSUMER_TARGET_MEMBER,
    OFFSET,
    CommittedOffset,
    committed_offset,
    decoded,
)

OffsetKey = tuple[str, TopicPartition]
"""Group id and partition."""

_OF_CONSUMER_GROUPS: Final = frozenset(
    {CONSUMER_GROUP, CONSUMER_MEMBER, CONSUMER_TARGET, CONSUMER_TARGET_MEMBER, CONSUMER_CURRENT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRecord:
    """A record and whose open transaction it is part of; -1: of none."""

    key: bytes | None
    value: bytes | None
    producer_id: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedMarker:
    """The end of a transaction in this partition."""

    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """The state. `open` are the offsets of open transactions by producer id; `other` is what is only carried along."""

    coordinator_epoch: int = 0
    classic: Mapping[str, ClassicGroup] = field(default_factory=dict)
    consumer: Mapping[str, ConsumerGroup] = field(default_factory=dict)
    offsets: Mapping[OffsetKey, CommittedOffset] = field(default_factory=dict)
    open: Mapping[int, Mapping[OffsetKey, CommittedOffset]] = field(default_factory=dict)
    other: Mapping[bytes, bytes] = field(default_factory=dict)

    def is_unstable(self, group: str, partition: TopicPartition) -> bool:
        """An open transaction has an offset for it."""
        return any((group, partition) in pending for pending in self.open.values())

    def partitions_of(self, group: str) -> list[TopicPartition]:
        """Where the group has an offset, or has one pending in an open transaction."""
        named = {p: None for name, p in self.offsets if name == group}
        named |= {p: None for pending in self.open.values() for name, p in pending if name == group}
        return list(named)

    def groups_in(self, topics: frozenset[str]) -> set[str]:
        """Groups that have an offset in one of these topics, or one pending."""
        return {name for keys in (self.offsets, *self.open.values()) for name, p in keys if p.topic in topics}


def replayed(
    state: GroupPartition, entries: Iterable[ReplayedRecord | ReplayedMarker], *, now_ms: int = 0
) -> GroupPartition:
    """The state after what a broker reads from the partition; members have their sessions from now on."""
    for entry in entries:
        if isinstance(entry, ReplayedMarker):
            state = transaction_ended(state, entry.producer_id, committed=entry.committed)
        else:
            state = _replay(state, entry, now_ms)
    return state


def transaction_ended(state: GroupPartition, producer_id: int, *, committed: bool) -> GroupPartition:
    """A marker is in the partition: the transaction's offsets count, or never were."""
    pending = state.open.get(producer_id)
    if pending is None:
        return state
    open_ = {key: each for key, each in state.open.items() if key != producer_id}
    if not committed:
        return replace(state, open=open_)
    offsets = {key: each for key, each in state.offsets.items() if key not in pending}
    return replace(state, open=open_, offsets={**offsets, **pending})


def with_offset(
    state: GroupPartition, key: OffsetKey, offset: CommittedOffset | None, producer_id: int = -1
) -> GroupPartition:
    """The state with one offset more; part of a transaction if a producer is named. Or without it (None).

    A tombstone belongs to no transaction, and takes back what is pending in any (OffsetMetadataManager#replay).
    """
    if offset is not None and producer_id >= 0:
        pending = {**state.open.get(producer_id, {}), key: offset}
        return replace(state, open={**state.open, producer_id: pending})
    offsets = {each: value for each, value in state.offsets.items() if each != key}
    if offset is not None:
        return replace(state, offsets={**offsets, key: offset})
    open_ = {by: {of: value for of, value in pending.items() if of != key} for by, pending in state.open.items()}
    return replace(state, offsets=offsets, open=open_)


def _replay(state: GroupPartition, record: ReplayedRecord, now_ms: int) -> GroupPartition:
    kind, key, value = decoded(record.key, record.value)
    if kind == OFFSET:
        offset = committed_offset(value) if value is not None else None
        partition = TopicPartition(key["topic"], key["partition"])
        return with_offset(state, (key["group"], partition), offset, record.producer_id)
    if kind == CLASSIC_GROUP:
        groups = {name: each for name, each in state.classic.items() if name != key["group"]}
        if value is not None:
            groups[key["group"]] = _heard_now(classic_group.group_of(key["group"], value), now_ms)
        return replace(state, classic=groups)
    if kind in _OF_CONSUMER_GROUPS:
        return replace(state, consumer=_consumer_groups(state.consumer, kind, key, value, now_ms))
    assert record.key is not None
    other = {each: said for each, said in state.other.items() if each != record.key}
    return replace(state, other=other if record.value is None else {**other, record.key: record.value})


def _consumer_groups(
    groups: Mapping[str, ConsumerGroup],
    kind: int,
    key: Mapping[str, Any],
    value: Mapping[str, Any] | None,
    now_ms: int,
) -> dict[str, ConsumerGroup]:
    group_id = key["group_id"]
    if kind == CONSUMER_GROUP and value is None:
        return {name: each for name, each in groups.items() if name != group_id}
    if group_id not in groups and value is None:
        return dict(groups)
    group = consumer_group.replayed(groups.get(group_id) or ConsumerGroup(group_id=group_id), kind, key, value)
    members = {k: replace(m, last_heartbeat_ms=now_ms) for k, m in group.members.items()}
    return {**groups, group_id: replace(group, members=members)}


def _heard_now(group: ClassicGroup, now_ms: int) -> ClassicGroup:
    return replace(group, members={k: replace(m, last_heartbeat_ms=now_ms) for k, m in group.members.items()})
