"""Committed offsets: who may commit, what is written, what is told, and when it goes.

In: requests of consumers, transactional producers and operators. Out: the new coordinator and what is to be done. A
commit is refused unless it comes from a member of this generation, or from somebody outside any group; its answer
leaves when its record is replicated.

Source: Kafka OffsetMetadataManager (4.4), KIP-447.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.classic_group import ClassicGroup, ClassicState
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Asker, Effect
from tidegauge.sim_engine.coordinators.group_records import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    CONSUMER_TARGET,
    GROUPS_WRITE,
    CommittedOffset,
    group_record,
    offset_record,
    transactional,
)
from tidegauge.sim_engine.coordinators.group_state import GroupPartition, with_offset
from tidegauge.sim_engine.coordinators.led_groups import GroupCoordinator, Step, not_a_member, written
from tidegauge.sim_engine.log.stored_batch import Producer

Offsets = Mapping[TopicPartition, CommittedOffset]

NO_GENERATION: Final = -1


def commit_offsets(
    coordinator: GroupCoordinator,
    to: Asker,
    *,
    group: str,
    offsets: Offsets,
    member_id: str = "",
    generation: int = NO_GENERATION,
) -> Step:
    """OffsetCommit: of a member (its generation, or its epoch in a consumer group), or of nobody's consumer."""
    return _committed(coordinator, to, group, offsets, member_id, generation, GROUPS_WRITE)


def commit_in_transaction(
    coordinator: GroupCoordinator,
    to: Asker,
    *,
    group: str,
    offsets: Offsets,
    producer_id: int,
    producer_epoch: int,
    member_id: str = "",
    generation: int = NO_GENERATION,
) -> Step:
    """TxnOffsetCommit: part of the producer's transaction, which must reach this group's partition already."""
    producer = transactional(producer_id, producer_epoch)
    return _committed(coordinator, to, group, offsets, member_id, generation, producer)


def fetch_offsets(
    coordinator: GroupCoordinator,
    to: Asker,
    *,
    group: str,
    partitions: Sequence[TopicPartition] | None = None,
    require_stable: bool = True,
) -> Step:
    """OffsetFetch: what is committed; `UNSTABLE_OFFSET_COMMIT` while a transaction is about to commit another."""
    state = coordinator.state_of(group)
    if state is None:
        return coordinator, [Answer(to=to, error="NOT_COORDINATOR")]
    known = [partition for name, partition in state.offsets if name == group]
    wanted = known if partitions is None else list(partitions)
    if require_stable and any(state.is_unstable(group, partition) for partition in wanted):
        return coordinator, [Answer(to=to, error="UNSTABLE_OFFSET_COMMIT")]
    found = {p: state.offsets[group, p] for p in wanted if (group, p) in state.offsets}
    return coordinator, [Answer(to=to, body=found)]


def delete_offsets(coordinator: GroupCoordinator, to: Asker, *, group: str, topics: Iterable[str]) -> Step:
    """OffsetDelete, and what a coordinator does for every group when a topic is deleted."""
    state = coordinator.state_of(group)
    if state is None:
        return coordinator, [Answer(to=to, error="NOT_COORDINATOR")]
    doomed = set(topics)
    gone = [p for p in state.partitions_of(group) if p.topic in doomed]
    return _without_offsets(coordinator, group, state, gone, Answer(to=to))


def delete_group(coordinator: GroupCoordinator, to: Asker, *, group: str) -> Step:
    """DeleteGroups: an empty group goes with all its offsets."""
    state = coordinator.state_of(group)
    if state is None:
        return coordinator, [Answer(to=to, error="NOT_COORDINATOR")]
    classic, consumer = state.classic.get(group), state.consumer.get(group)
    if classic is None and consumer is None:
        return coordinator, [Answer(to=to, error="GROUP_ID_NOT_FOUND")]
    if (classic is not None and classic.members) or (consumer is not None and consumer.members):
        return coordinator, [Answer(to=to, error="NON_EMPTY_GROUP")]
    gone = state.partitions_of(group)
    records = [offset_record(group, p, None) for p in gone]
    if consumer is not None:
        records += [group_record(kind, {"group_id": group}, None) for kind in (CONSUMER_TARGET, CONSUMER_GROUP)]
    if classic is not None:
        records.append(group_record(CLASSIC_GROUP, {"group": group}, None))
    for partition in gone:
        state = with_offset(state, (group, partition), None)
    state = replace(
        state,
        classic={name: each for name, each in state.classic.items() if name != group},
        consumer={name: each for name, each in state.consumer.items() if name != group},
    )
    return written(coordinator, group, state, records, Answer(to=to))


def offsets_expired(coordinator: GroupCoordinator, number: int, now_ms: int) -> Step:
    """Offsets of groups without members expire some days after the group became empty, or after their commit."""
    effects: list[Effect] = []
    for group in sorted({name for name, _ in coordinator.partitions[number].offsets}):
        state = coordinator.partitions[number]
        classic, consumer = state.classic.get(group), state.consumer.get(group)
        if (classic is not None and classic.members) or (consumer is not None and consumer.members):
            continue
        since = classic.state_ms if classic is not None else -1
        oldest = now_ms - coordinator.settings.offsets_retention_ms
        gone = [
            p
            for (name, p), offset in state.offsets.items()
            if name == group and max(since, offset.commit_ms) <= oldest and not state.is_unstable(group, p)
        ]
        if gone:
            coordinator, more = _without_offsets(coordinator, group, state, gone)
            effects += more
    return coordinator, effects


def _committed(
    coordinator: GroupCoordinator,
    to: Asker,
    group: str,
    offsets: Offsets,
    member_id: str,
    generation: int,
    producer: Producer,
) -> Step:
    """Both kinds of commit. `producer`: whose transaction the offsets belong to and wait for, or the groups' own."""
    state = coordinator.state_of(group)
    error = "NOT_COORDINATOR" if state is None else _may_not_commit(state, group, member_id, generation)
    if state is None or error is not None:
        return coordinator, [Answer(to=to, error=error or "NOT_COORDINATOR")]
    for partition, offset in offsets.items():
        state = with_offset(state, (group, partition), offset, producer.producer_id)
    records = [offset_record(group, partition, offset) for partition, offset in offsets.items()]
    return written(coordinator, group, _known(state, group), records, Answer(to=to), producer=producer)


def _may_not_commit(state: GroupPartition, group: str, member_id: str, generation: int) -> str | None:
    consumer = state.consumer.get(group)
    if consumer is not None and (consumer.members or group not in state.classic):
        member = consumer.members.get(member_id)
        if member is None:
            return None if not consumer.members and generation < 0 else "UNKNOWN_MEMBER_ID"
        return None if generation == member.epoch else "STALE_MEMBER_EPOCH"
    classic = state.classic.get(group)
    if classic is None or not classic.members:
        return None if generation < 0 else "ILLEGAL_GENERATION" if classic is None else "UNKNOWN_MEMBER_ID"
    if (error := not_a_member(classic, member_id, generation)) is not None:
        return error
    return "REBALANCE_IN_PROGRESS" if classic.state is ClassicState.COMPLETING else None


def _known(state: GroupPartition, group: str) -> GroupPartition:
    """Who commits without a group has one from then on, of which only its offsets are written."""
    if group in state.classic or group in state.consumer:
        return state
    return replace(state, classic={**state.classic, group: ClassicGroup(group_id=group)})


def _without_offsets(
    coordinator: GroupCoordinator,
    group: str,
    state: GroupPartition,
    gone: Sequence[TopicPartition],
    *answers: Answer,
) -> Step:
    for partition in gone:
        state = with_offset(state, (group, partition), None)
    return written(coordinator, group, state, [offset_record(group, p, None) for p in gone], *answers)
