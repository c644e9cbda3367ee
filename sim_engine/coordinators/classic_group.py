"""A group of the classic protocol: members join, one of them assigns, all sync (KIP-62, JoinGroup and SyncGroup).

In: a group and what a member wants. Out: the group after it, who gets which answer, and whether a record is due. One
generation has one assignment; a member of an older one is told to join again.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance …

Source: Kafka ClassicGroup, GroupMetadataManager#classicGroupJoin and #classicGroupSync.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Asker
from tidegauge.sim_engine.coordinators.group_records import CLASSIC_GROUP, KeyValue, group_record

PROTOCOL_TYPE: Final = "consumer"


class ClassicState(Enum):
    """Where a rebalance is."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member. `joining` and `syncing` are the requests that it waits on."""

    member_id: str
    client_id: str
    client_host: str = "/127.0.0.1"
    group_instance_id: str | None = None
    rebalance_timeout_ms: int = 300_000
    session_timeout_ms: int = 45_000
    subscription: bytes = b""
    assignment: bytes = b""
    last_heartbeat_ms: int = 0
    joining: Asker | None = None
    syncing: Asker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedGroup:
    """The body of a join's answer; only the leader is told of the others and their subscriptions."""

    generation: int
    leader: str
    member_id: str
    protocol: str
    members: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """A classic group; a group that only commits offsets has no record and no member."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    state_ms: int = -1
    members: Mapping[str, ClassicMember] = field(default_factory=dict)
    prepares_until_ms: int = 0
    has_record: bool = False


def record_of(group: ClassicGroup) -> KeyValue:
    """The group's record, with its members' assignments."""
    value = {
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "current_state_timestamp": group.state_ms,
        "members": tuple(
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "client_id": each.client_id,
                "client_host": each.client_host,
                "rebalance_timeout": each.rebalance_timeout_ms,
                "session_timeout": each.session_timeout_ms,
                "subscription": each.subscription,
                "assignment": each.assignment,
            }
            for each in group.members.values()
        ),
    }
    return group_record(CLASSIC_GROUP, {"group": group.group_id}, value)


def group_of(group_id: str, value: Mapping[str, Any]) -> ClassicGroup:
    """The group that a record says; its members' sessions begin anew (`last_heartbeat_ms` is the reader's business)."""
    members = {
        m["member_id"]: ClassicMember(
            member_id=m["member_id"],
            client_id=m["client_id"],
            client_host=m["client_host"],
            group_instance_id=m["group_instance_id"],
            rebalance_timeout_ms=m["rebalance_timeout"],
            session_timeout_ms=m["session_timeout"],
            subscription=m["subscription"],
            assignment=m["assignment"],
        )
        for m in value["members"]
    }
    return ClassicGroup(
        group_id=group_id,
        state=ClassicState.STABLE if members else ClassicState.EMPTY,
        generation=value["generation"],
        protocol_type=value["protocol_type"],
        protocol=value["protocol"],
        leader=value["leader"],
        state_ms=value["current_state_timestamp"],
        members=members,
        has_record=True,
    )


def joined(group: ClassicGroup, member: ClassicMember, *, now_ms: int, delay_ms: int) -> ClassicGroup:
    """A member joins or comes back; the group waits for the others up to the rebalance timeout, a new one shortly."""
    was_empty = not group.members
    members = {**group.members, member.member_id: replace(member, last_heartbeat_ms=now_ms)}
    group = replace(group, members=members, protocol_type=PROTOCOL_TYPE, leader=group.leader or member.member_id)
    if group.state is ClassicState.PREPARING:
        return group
    wait_ms = delay_ms if was_empty else max(m.rebalance_timeout_ms for m in members.values())
    return replace(
        group, state=ClassicState.PREPARING, state_ms=now_ms, prepares_until_ms=now_ms + wait_ms if wait_ms else now_ms
    )


def is_complete(group: ClassicGroup, *, now_ms: int) -> bool:
    """Whether the preparing group has waited enough."""
    if group.state is not ClassicState.PREPARING:
        return False
    if now_ms >= group.prepares_until_ms:
        return True
    # The first rebalance waits its delay out, so that all members of a new group are in one generation.
    return group.generation > 0 and all(m.joining is not None for m in group.members.values())


def next_generation(group: ClassicGroup, *, now_ms: int, protocol: str) -> tuple[ClassicGroup, list[Answer]]:
    """Who joined is in, who did not is out; the leader gets everybody's subscription."""
    here = {key: m for key, m in group.members.items() if m.joining is not None}
    if not here:
        return emptied(group, now_ms=now_ms), []
    leader = group.leader if group.leader in here else next(iter(here))
    generation = group.generation + 1
    answers = [
        Answer(
            to=m.joining,
            body=JoinedGroup(
                generation=generation,
                leader=leader,
                member_id=key,
                protocol=protocol,
                members=tuple((k, each.subscription) for k, each in here.items()) if key == leader else (),
            ),
        )
        for key, m in here.items()
    ]
    members = {k: replace(m, joining=None, last_heartbeat_ms=now_ms, assignment=b"") for k, m in here.items()}
    return (
        replace(
            group,
            state=ClassicState.COMPLETING,
            generation=generation,
            leader=leader,
            protocol=protocol,
            state_ms=now_ms,
            members=members,
        ),
        answers,
    )


def synced(group: ClassicGroup, assignments: Mapping[str, bytes], *, now_ms: int) -> ClassicGroup:
    """The leader's assignment is everybody's."""
    members = {k: replace(m, assignment=assignments.get(k, b""), syncing=None) for k, m in group.members.items()}
    return replace(group, state=ClassicState.STABLE, state_ms=now_ms, members=members, has_record=True)


def without_members(group: ClassicGroup, gone: set[str], *, now_ms: int) -> ClassicGroup:
    """Members left or were silent for too long: the others rebalance; a group without any is empty."""
    members = {k: m for k, m in group.members.items() if k not in gone}
    group = replace(group, members=members, leader=group.leader if group.leader in members else None)
    if not members:
        return emptied(group, now_ms=now_ms)
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING):
        until = now_ms + max(m.rebalance_timeout_ms for m in members.values())
        group = replace(group, state=ClassicState.PREPARING, state_ms=now_ms, prepares_until_ms=until)
    return group


def emptied(group: ClassicGroup, *, now_ms: int) -> ClassicGroup:
    """Nobody is left; that is a generation of its own."""
    return replace(
        group,
        state=ClassicState.EMPTY,
        generation=group.generation + 1,
        protocol=None,
        leader=None,
        state_ms=now_ms,
        members={},
        has_record=True,
    )
