"""A group of the consumer protocol: the coordinator assigns, members follow with their heartbeats (KIP-848).

In: a group and a heartbeat. Out: the group after it and its records. A partition is a member's only after the one that
had it has given it up; a member's epoch is the group's when it has all of its target.

Source: Kafka ConsumerGroup, TargetAssignmentBuilder, CurrentAssignmentBuilder.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegauge.sim_engine.coordinators.group_records import (
    CONSUMER_CURRENT,
    CONSUMER_GROUP,
    CONSUMER_MEMBER,
    CONSUMER_TARGET,
    CONSUMER_TARGET_MEMBER,
    KeyValue,
    group_record,
)

STABLE: Final = 0
UNRELEASED: Final = 2
"""A member's state while partitions of its target are still another's (MemberState)."""

_FIRST_EPOCH: Final = 1

TopicIdPartition = tuple[str, int]
"""Topic id and partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member. `assigned` says under which group epoch each partition came to it."""

    member_id: str
    client_id: str
    client_host: str = "/127.0.0.1"
    topics: tuple[str, ...] = ()
    rebalance_timeout_ms: int = 300_000
    instance_id: str | None = None
    rack_id: str | None = None
    topic_regex: str | None = ""
    server_assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: int = STABLE
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    revoking: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    target: tuple[TopicIdPartition, ...] = ()
    last_heartbeat_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group; `assignment_epoch` behind `epoch` means that the target is yet to be computed."""

    group_id: str
    epoch: int = _FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_ms: int = 0
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """What a coordinator knows of topics: id and partition count by name."""

    ids: Mapping[str, str]
    partition_counts: Mapping[str, int]


Change = tuple[ConsumerGroup, list[KeyValue]]


def joined(group: ConsumerGroup, member: ConsumerMember, topics: Topics, *, now_ms: int) -> Change:
    """A member comes (heartbeat with epoch 0): it is noted, the group's epoch moves, and it gets what is free."""
    members = {**group.members, member.member_id: replace(member, last_heartbeat_ms=now_ms)}
    subscribed = {name for each in members.values() for name in each.topics}
    group = replace(group, members=members, epoch=group.epoch + 1, metadata_hash=_hash_of(subscribed, topics))
    records = [member_record(group, member.member_id), epoch_record(group)]
    group, more = reconciled(group, member.member_id, topics, now_ms=now_ms)
    return group, records + more


def reconciled(group: ConsumerGroup, member_id: str, topics: Topics, *, now_ms: int) -> Change:
    """A member's heartbeat: the target is computed if the epoch moved, and the member goes a step towards it."""
    records: list[KeyValue] = []
    if group.assignment_epoch < group.epoch:
        before = group
        group = replace(
            group,
            members=_with_targets(group.members, topics),
            assignment_epoch=group.epoch,
            assignment_ms=now_ms,
        )
        records += [
            target_member_record(group, key)
            for key, each in group.members.items()
            if key not in before.members or before.members[key].target != each.target or before.members[key].epoch == 0
        ]
        records.append(target_record(group))
    member = replace(group.members[member_id], last_heartbeat_ms=now_ms)
    moved = _step(group, member)
    group = replace(group, members={**group.members, member_id: moved})
    if replace(moved, last_heartbeat_ms=0) != replace(member, last_heartbeat_ms=0):
        records.append(current_record(group, member_id))
    return group, records


def without_members(group: ConsumerGroup, gone: Iterable[str], topics: Topics) -> Change:
    """Members left (heartbeat with epoch -1) or were silent for too long: all that was said of them is taken back."""
    gone = [key for key in gone if key in group.members]
    records = [
        group_record(kind, {"group_id": group.group_id, "member_id": key}, None)
        for key in gone
        for kind in (CONSUMER_CURRENT, CONSUMER_TARGET_MEMBER, CONSUMER_MEMBER)
    ]
    members = {key: each for key, each in group.members.items() if key not in gone}
    subscribed = {name for each in members.values() for name in each.topics}
    group = replace(
        group,
        members=members,
        epoch=group.epoch + 1,
        metadata_hash=_hash_of(subscribed, topics) if members else 0,
    )
    records.append(epoch_record(group))
    if not members:
        group = replace(group, assignment_epoch=group.epoch, assignment_ms=0)
        records.append(target_record(group))
    return group, records


def member_record(group: ConsumerGroup, member_id: str) -> KeyValue:
    """Who a member is."""
    member = group.members[member_id]
    return group_record(
        CONSUMER_MEMBER,
        {"group_id": group.group_id, "member_id": member_id},
        {
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": member.topics,
            "subscribed_topic_regex": member.topic_regex,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "server_assignor": member.server_assignor,
            "classic_member_metadata": None,
        },
    )


def epoch_record(group: ConsumerGroup) -> KeyValue:
    """The group's epoch."""
    value = {"epoch": group.epoch, "metadata_hash": group.metadata_hash}
    return group_record(CONSUMER_GROUP, {"group_id": group.group_id}, value)


def target_record(group: ConsumerGroup) -> KeyValue:
    """The epoch of the targets."""
    value = {"assignment_epoch": group.assignment_epoch, "assignment_timestamp": group.assignment_ms}
    return group_record(CONSUMER_TARGET, {"group_id": group.group_id}, value)


def target_member_record(group: ConsumerGroup, member_id: str) -> KeyValue:
    """What a member is to have."""
    value = {
        "topic_partitions": tuple(
            {"topic_id": topic_id, "partitions": numbers}
            for topic_id, numbers in _by_topic(group.members[member_id].target).items()
        )
    }
    return group_record(CONSUMER_TARGET_MEMBER, {"group_id": group.group_id, "member_id": member_id}, value)


def current_record(group: ConsumerGroup, member_id: str) -> KeyValue:
    """What a member has."""
    member = group.members[member_id]
    value = {
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": member.state,
        "assigned_partitions": _with_epochs(member.assigned),
        "partitions_pending_revocation": _with_epochs(member.revoking),
    }
    return group_record(CONSUMER_CURRENT, {"group_id": group.group_id, "member_id": member_id}, value)


def replayed(group: ConsumerGroup, kind: int, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> ConsumerGroup:
    """The group after one of its records."""
    if kind == CONSUMER_GROUP and value is not None:
        return replace(group, epoch=value["epoch"], metadata_hash=value["metadata_hash"])
    if kind == CONSUMER_TARGET and value is not None:
        return replace(group, assignment_epoch=value["assignment_epoch"], assignment_ms=value["assignment_timestamp"])
    if kind in (CONSUMER_GROUP, CONSUMER_TARGET):
        return group
    member_id = key["member_id"]
    if value is None:
        if kind != CONSUMER_MEMBER:
            return group
        return replace(group, members={k: m for k, m in group.members.items() if k != member_id})
    member = group.members.get(member_id) or ConsumerMember(member_id=member_id, client_id="")
    return replace(group, members={**group.members, member_id: _member_after(member, kind, value)})


def _member_after(member: ConsumerMember, kind: int, value: Mapping[str, Any]) -> ConsumerMember:
    if kind == CONSUMER_MEMBER:
        return replace(
            member,
            instance_id=value["instance_id"],
            rack_id=value["rack_id"],
            client_id=value["client_id"],
            client_host=value["client_host"],
            topics=value["subscribed_topic_names"],
            topic_regex=value["subscribed_topic_regex"],
            rebalance_timeout_ms=value["rebalance_timeout_ms"],
            server_assignor=value["server_assignor"],
        )
    if kind == CONSUMER_TARGET_MEMBER:
        target = tuple((t["topic_id"], n) for t in value["topic_partitions"] for n in t["partitions"])
        return replace(member, target=target)
    return replace(
        member,
        epoch=value["member_epoch"],
        previous_epoch=value["previous_member_epoch"],
        state=value["state"],
        assigned=_epochs_by_partition(value["assigned_partitions"], value["member_epoch"]),
        revoking=_epochs_by_partition(value["partitions_pending_revocation"], value["member_epoch"]),
    )


def _epochs_by_partition(topics: Iterable[Mapping[str, Any]], otherwise: int) -> dict[TopicIdPartition, int]:
    return {
        (t["topic_id"], n): epoch
        for t in topics
        for n, epoch in zip(t["partitions"], t["assignment_epochs"] or (otherwise,) * len(t["partitions"]), strict=True)
    }


def _step(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember:
    """What is not in the target is given up at once; what is free of the target is taken."""
    kept = {p: epoch for p, epoch in member.assigned.items() if p in member.target}
    taken = {p for key, each in group.members.items() if key != member.member_id for p in each.assigned}
    free = {p: group.assignment_epoch for p in member.target if p not in kept and p not in taken}
    epoch = group.assignment_epoch
    whole = len(kept) + len(free) == len(member.target)
    assigned = {p: {**kept, **free}[p] for p in member.target if p in kept or p in free}
    if assigned == member.assigned and epoch == member.epoch:
        return replace(member, state=STABLE if whole else UNRELEASED)
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=STABLE if whole else UNRELEASED,
        assigned=assigned,
    )


def _with_targets(members: Mapping[str, ConsumerMember], topics: Topics) -> dict[str, ConsumerMember]:
    """Each topic's partitions in equal ranges over its subscribers, in the order of their ids."""
    targets: dict[str, list[TopicIdPartition]] = {key: [] for key in members}
    for name in sorted({name for each in members.values() for name in each.topics} & topics.ids.keys()):
        subscribers = sorted(key for key, each in members.items() if name in each.topics)
        count = topics.partition_counts[name]
        for number in range(count):
            targets[subscribers[number * len(subscribers) // count]].append((topics.ids[name], number))
    return {key: replace(each, target=tuple(targets[key])) for key, each in members.items()}


def _hash_of(names: Iterable[str], topics: Topics) -> int:
    """Kafka hashes what it knows of the topics to see when it changes; nobody else reads the number."""
    known = [(name, topics.ids[name], topics.partition_counts[name]) for name in sorted(names) if name in topics.ids]
    digest = hashlib.sha256(repr(known).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic_id, number in partitions:
        found.setdefault(topic_id, []).append(number)
    return {topic_id: tuple(numbers) for topic_id, numbers in found.items()}


def _with_epochs(partitions: Mapping[TopicIdPartition, int]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "topic_id": topic_id,
            "partitions": numbers,
            "assignment_epochs": tuple(partitions[topic_id, n] for n in numbers),
        }
        for topic_id, numbers in _by_topic(partitions).items()
    )
