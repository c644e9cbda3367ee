"""Requests to the group coordinator, by type.

In: a coordinator and a request. Out: its step. Every type of `GroupRequest` is here, and none does more than to call
the function of its name.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators import committed_offsets, group_coordinator
from tidegauge.sim_engine.coordinators.consumer_group import Topics
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Asker
from tidegauge.sim_engine.coordinators.coordinator_messages import (
    CommitRequest,
    ConsumerHeartbeatRequest,
    DeleteGroupRequest,
    GroupHeartbeatRequest,
    GroupRequest,
    JoinRequest,
    OffsetFetchRequest,
    SyncRequest,
)
from tidegauge.sim_engine.coordinators.group_records import NO_TOPIC_ID, CommittedOffset
from tidegauge.sim_engine.coordinators.led_groups import GroupCoordinator, Step


def group_step(now: GroupCoordinator, to: Asker, request: GroupRequest, *, topics: Topics, now_ms: int) -> Step:
    """What the coordinator makes of a request. Offsets are committed at the coordinator's time, with topics' ids."""
    match request:
        case CommitRequest():
            return _commit(now, to, request, topics=topics, now_ms=now_ms)
        case OffsetFetchRequest():
            return committed_offsets.fetch_offsets(
                now, to, group=request.group, partitions=request.partitions, require_stable=request.require_stable
            )
        case JoinRequest() | SyncRequest() | GroupHeartbeatRequest():
            return _classic_step(now, to, request, now_ms=now_ms)
        case ConsumerHeartbeatRequest():
            return group_coordinator.heartbeat_consumer(
                now,
                to,
                group=request.group,
                member=request.member,
                member_epoch=request.member_epoch,
                topics=topics,
                now_ms=now_ms,
            )
        case DeleteGroupRequest(topics=()):
            return committed_offsets.delete_group(now, to, group=request.group)
        case DeleteGroupRequest():
            return committed_offsets.delete_offsets(now, to, group=request.group, topics=request.topics)


def _commit(now: GroupCoordinator, to: Asker, request: CommitRequest, *, topics: Topics, now_ms: int) -> Step:
    if request.transactional_id is not None:
        return committed_offsets.commit_in_transaction(
            now,
            to,
            group=request.group,
            offsets=_stamped(request, topics, now_ms),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            member_id=request.member_id,
            generation=request.generation,
        )
    if _of_gone_topics(request, topics):
        return now, [Answer(to=to, error="UNKNOWN_TOPIC_ID")]
    return committed_offsets.commit_offsets(
        now,
        to,
        group=request.group,
        offsets=_stamped(request, topics, now_ms),
        member_id=request.member_id,
        generation=request.generation,
    )


def _classic_step(
    now: GroupCoordinator, to: Asker, request: JoinRequest | SyncRequest | GroupHeartbeatRequest, *, now_ms: int
) -> Step:
    """Of the protocol in which members share out the partitions themselves."""
    match request:
        case JoinRequest():
            return group_coordinator.join_classic(now, to, group=request.group, member=request.member, now_ms=now_ms)
        case SyncRequest():
            return group_coordinator.sync_classic(
                now,
                to,
                group=request.group,
                member_id=request.member_id,
                generation=request.generation,
                assignments=request.assignments,
                now_ms=now_ms,
            )
        case GroupHeartbeatRequest(leaves=True):
            return group_coordinator.leave_classic(
                now, to, group=request.group, member_id=request.member_id, now_ms=now_ms
            )
        case GroupHeartbeatRequest():
            return group_coordinator.heartbeat_classic(
                now,
                to,
                group=request.group,
                member_id=request.member_id,
                generation=request.generation,
                now_ms=now_ms,
            )


def _of_gone_topics(request: CommitRequest, topics: Topics) -> bool:
    """Whether a commit, which says topics' ids, is about one that was deleted."""
    said = {partition.topic: offset.topic_id for partition, offset in request.offsets.items()}
    return any(topic_id != NO_TOPIC_ID and topics.ids.get(topic) != topic_id for topic, topic_id in said.items())


def _stamped(request: CommitRequest, topics: Topics, now_ms: int) -> dict[TopicPartition, CommittedOffset]:
    return {
        partition: replace(offset, commit_ms=now_ms, topic_id=topics.ids.get(partition.topic, offset.topic_id))
        for partition, offset in request.offsets.items()
    }
