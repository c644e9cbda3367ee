"""Groups at their coordinator: members join, follow and leave, and the clock that puts out who is silent.

In: requests of a group's members. Out: the new coordinator and what is to be done (`coordinator_effects`). What a
member is told of its assignment is written before.

Source: Kafka GroupMetadataManager (4.4), KIP-62, KIP-848.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidegauge.sim_engine.coordinators import classic_group, consumer_group
from tidegauge.sim_engine.coordinators.classic_group import ClassicGroup, ClassicMember, ClassicState
from tidegauge.sim_engine.coordinators.committed_offsets import offsets_expired
from tidegauge.sim_engine.coordinators.consumer_group import ConsumerGroup, ConsumerMember, Topics
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Asker, Effect
from tidegauge.sim_engine.coordinators.group_state import GroupPartition
from tidegauge.sim_engine.coordinators.led_groups import (
    GroupCoordinator,
    Step,
    not_a_member,
    with_classic,
    write,
    written,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


def join_classic(coordinator: GroupCoordinator, to: Asker, *, group: str, member: ClassicMember, now_ms: int) -> Step:
    """JoinGroup of a member that has its id: it is answered when the next generation begins."""
    state = coordinator.state_of(group)
    if state is None:
        return coordinator, [Answer(to=to, error="NOT_COORDINATOR")]
    if group in state.consumer and state.consumer[group].members:
        return coordinator, [Answer(to=to, error="INCONSISTENT_GROUP_PROTOCOL")]
    known = state.classic.get(group)
    effects: list[Effect] = []
    if known is None or not known.has_record:
        # A new group is written down before anybody is in it.
        known = ClassicGroup(group_id=group, state_ms=now_ms, has_record=True)
        effects.append(write(coordinator, group, [classic_group.record_of(known)]))
    delay_ms = coordinator.settings.initial_rebalance_delay_ms
    waiting = replace(member, joining=to)
    known = classic_group.joined(known, waiting, now_ms=now_ms, delay_ms=delay_ms)
    coordinator, more = _rebalanced(with_classic(coordinator, group, state, known), group, now_ms)
    return coordinator, effects + more


def sync_classic(
    coordinator: GroupCoordinator,
    to: Asker,
    *,
    group: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes],
    now_ms: int,
) -> Step:
    """SyncGroup: the leader's brings the assignment, and it is written before anybody gets its part."""
    state = coordinator.state_of(group)
    known = state.classic.get(group) if state is not None else None
    error = "NOT_COORDINATOR" if state is None else not_a_member(known, member_id, generation)
    if state is None or known is None or error is not None:
        return coordinator, [Answer(to=to, error=error or "UNKNOWN_MEMBER_ID")]
    if known.state is ClassicState.PREPARING:
        return coordinator, [Answer(to=to, error="REBALANCE_IN_PROGRESS")]
    if known.state is ClassicState.STABLE:
        return coordinator, [Answer(to=to, body=known.members[member_id].assignment)]
    asked = replace(known.members[member_id], syncing=to, last_heartbeat_ms=now_ms)
    known = replace(known, members={**known.members, member_id: asked})
    if member_id != known.leader:
        return with_classic(coordinator, group, state, known), []
    whole = classic_group.synced(known, assignments, now_ms=now_ms)
    answers = tuple(
        Answer(to=each.syncing, body=whole.members[key].assignment)
        for key, each in known.members.items()
        if each.syncing is not None
    )
    record = classic_group.record_of(whole)
    return with_classic(coordinator, group, state, whole), [write(coordinator, group, [record], *answers)]


def heartbeat_classic(
    coordinator: GroupCoordinator, to: Asker, *, group: str, member_id: str, generation: int, now_ms: int
) -> Step:
    """Heartbeat: a member lives, and learns that it has to join again."""
    state = coordinator.state_of(group)
    known = state.classic.get(group) if state is not None else None
    error = "NOT_COORDINATOR" if state is None else not_a_member(known, member_id, generation)
    if state is None or known is None or error is not None:
        return coordinator, [Answer(to=to, error=error or "UNKNOWN_MEMBER_ID")]
    heard = replace(known.members[member_id], last_heartbeat_ms=now_ms)
    coordinator = with_classic(coordinator, group, state, replace(known, members={**known.members, member_id: heard}))
    preparing = known.state is ClassicState.PREPARING
    return coordinator, [Answer(to=to, error="REBALANCE_IN_PROGRESS" if preparing else "NONE")]


def leave_classic(coordinator: GroupCoordinator, to: Asker, *, group: str, member_id: str, now_ms: int) -> Step:
    """LeaveGroup."""
    state = coordinator.state_of(group)
    known = state.classic.get(group) if state is not None else None
    if state is None or known is None or member_id not in known.members:
        return coordinator, [Answer(to=to, error="NOT_COORDINATOR" if state is None else "UNKNOWN_MEMBER_ID")]
    coordinator, effects = _classic_without(coordinator, group, state, known, {member_id}, now_ms)
    return coordinator, [*effects, Answer(to=to)]


def heartbeat_consumer(
    coordinator: GroupCoordinator,
    to: Asker,
    *,
    group: str,
    member: ConsumerMember,
    member_epoch: int,
    topics: Topics,
    now_ms: int,
) -> Step:
    """ConsumerGroupHeartbeat: 0 joins, -1 leaves, the member's epoch says it is alive and has what it was given."""
    state = coordinator.state_of(group)
    if state is None:
        return coordinator, [Answer(to=to, error="NOT_COORDINATOR")]
    known = state.consumer.get(group) or ConsumerGroup(group_id=group)
    if group in state.classic and state.classic[group].members:
        return coordinator, [Answer(to=to, error="INCONSISTENT_GROUP_PROTOCOL")]
    here = known.members.get(member.member_id)
    if member_epoch == JOIN_EPOCH and here is None:
        known, records = consumer_group.joined(known, member, topics, now_ms=now_ms)
    elif here is None:
        return coordinator, [Answer(to=to, error="UNKNOWN_MEMBER_ID")]
    elif member_epoch == LEAVE_EPOCH:
        known, records = consumer_group.without_members(known, [member.member_id], topics)
    elif member_epoch not in (JOIN_EPOCH, here.epoch, here.previous_epoch):
        return coordinator, [Answer(to=to, error="FENCED_MEMBER_EPOCH")]
    else:
        known, records = consumer_group.reconciled(known, member.member_id, topics, now_ms=now_ms)
    state = replace(state, consumer={**state.consumer, group: known})
    return written(coordinator, group, state, records, Answer(to=to, body=known.members.get(member.member_id)))


def tick(coordinator: GroupCoordinator, *, topics: Topics, now_ms: int, check_expiry: bool = False) -> Step:
    """The clock: rebalances that waited enough, members that were silent for too long, offsets that expire."""
    effects: list[Effect] = []
    for number in sorted(coordinator.partitions):
        for group in sorted(coordinator.partitions[number].classic):
            state = coordinator.partitions[number]
            known = state.classic[group]
            silent = {
                key
                for key, m in known.members.items()
                if m.joining is None and now_ms - m.last_heartbeat_ms > m.session_timeout_ms
            }
            if silent:
                coordinator, more = _classic_without(coordinator, group, state, known, silent, now_ms)
            else:
                coordinator, more = _rebalanced(coordinator, group, now_ms)
            effects += more
        for group in sorted(coordinator.partitions[number].consumer):
            state = coordinator.partitions[number]
            consumer = state.consumer[group]
            silent_ms = coordinator.settings.consumer_session_ms
            gone = [key for key, m in consumer.members.items() if now_ms - m.last_heartbeat_ms > silent_ms]
            if gone:
                consumer, records = consumer_group.without_members(consumer, gone, topics)
                state = replace(state, consumer={**state.consumer, group: consumer})
                coordinator, more = written(coordinator, group, state, records)
                effects += more
        if check_expiry:
            coordinator, more = offsets_expired(coordinator, number, now_ms)
            effects += more
    return coordinator, effects


def _rebalanced(coordinator: GroupCoordinator, group: str, now_ms: int) -> Step:
    state = coordinator.state_of(group)
    assert state is not None
    known = state.classic[group]
    if not classic_group.is_complete(known, now_ms=now_ms):
        return coordinator, []
    known, answers = classic_group.next_generation(known, now_ms=now_ms, protocol="range")
    coordinator = with_classic(coordinator, group, state, known)
    if not known.members:
        return coordinator, [write(coordinator, group, [classic_group.record_of(known)])]
    return coordinator, list(answers)


def _classic_without(
    coordinator: GroupCoordinator,
    group: str,
    state: GroupPartition,
    known: ClassicGroup,
    gone: set[str],
    now_ms: int,
) -> Step:
    waiting = [asker for key in sorted(gone) for asker in (known.members[key].syncing,) if asker is not None]
    effects: list[Effect] = [Answer(to=asker, error="UNKNOWN_MEMBER_ID") for asker in waiting]
    known = classic_group.without_members(known, gone, now_ms=now_ms)
    # Who waits for an assignment that will not come is told to join again.
    synced = {key: m for key, m in known.members.items() if m.syncing is not None}
    if known.state is ClassicState.PREPARING and synced:
        effects += [Answer(to=m.syncing, error="REBALANCE_IN_PROGRESS") for m in synced.values()]
        told = {key: replace(m, syncing=None) for key, m in synced.items()}
        known = replace(known, members={**known.members, **told})
    coordinator = with_classic(coordinator, group, state, known)
    if not known.members:
        return coordinator, [*effects, write(coordinator, group, [classic_group.record_of(known)])]
    coordinator, more = _rebalanced(coordinator, group, now_ms)
    return coordinator, effects + more
