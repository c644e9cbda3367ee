"""A member of a consumer group: it joins, reads what it is given from the committed offset on, and commits.

In: calls, messages, ticks. Out: requests, and in the ledger what it was given and what it committed. It reads only
partitions of its assignment, never before it knows where the group got to, and commits only what it was given; told
that the group moves on without it, it forgets its assignment and joins again.

Source: Kafka ConsumerCoordinator, AbstractCoordinator, ConsumerMembershipManager; KIP-62, KIP-848.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import ClientTick
from tidegauge.sim_engine.clients.consumer import visible
from tidegauge.sim_engine.coordinators.classic_group import ClassicMember, JoinedGroup
from tidegauge.sim_engine.coordinators.consumer_group import ConsumerMember
from tidegauge.sim_engine.coordinators.consumer_protocol import (
    ranges,
    read_assignment,
    read_subscription,
    write_subscription,
)
from tidegauge.sim_engine.coordinators.coordinator_actions import LeaveGroup, StartGroupConsumer
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE
from tidegauge.sim_engine.coordinators.coordinator_messages import (
    CommitRequest,
    ConsumerHeartbeatRequest,
    GroupAnswer,
    GroupHeartbeatRequest,
    GroupRequest,
    JoinRequest,
    OffsetFetchRequest,
    SyncRequest,
)
from tidegauge.sim_engine.coordinators.group_records import NO_TOPIC_ID, CommittedOffset
from tidegauge.sim_engine.dice import uuid_for
from tidegauge.sim_engine.hosting.hosted import leader_of, partition_counts
from tidegauge.sim_engine.messages import (
    ClientMetadataRequest,
    ClientMetadataResponse,
    ConsumeRequest,
    ConsumeResponse,
)
from tidegauge.sim_engine.metadata.controller import ClusterImage
from tidegauge.sim_engine.network import broker_node, client_node
from tidegauge.sim_engine.turn import Turn

POLL: Final = "group-poll"
_ANSWER_MS: Final = 5_000
_FETCH_ANSWER_MS: Final = 3_000
_JOIN_ANSWER_MS: Final = 10_000
"""Kafka waits for the rebalance timeout and 5 s more, but its TCP connection tells it when a coordinator died."""

_REJOIN: Final = frozenset({"REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"})
_FORGOTTEN: Final = frozenset({"UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commit that a member was told is done."""

    at_ms: int
    client: str
    group: str
    generation: int
    offsets: Mapping[str, int]
    what: str = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConsumer:
    """A member. `asked` is its request to the coordinator: what, correlation, until when an answer is waited for."""

    call: StartGroupConsumer
    member_id: str
    image: ClusterImage | None = None
    generation: int = -1
    leader_of_group: JoinedGroup | None = None
    stage: str = "join"
    asked: tuple[GroupRequest, int, int] | None = None
    beaten_ms: int = 0
    committed_ms: int = 0
    assignment: tuple[TopicPartition, ...] = ()
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    fetching: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    leaving: bool = False


def start(turn: Turn, call: StartGroupConsumer) -> None:
    """A member begins."""
    turn.sequence += 1
    member_id = uuid_for(turn.seed, f"member-{call.client}-{turn.sequence}")
    if call.protocol == "classic":
        member_id = f"consumer-{call.group}-{call.client}-{member_id}"
    turn.put_client(call.client, GroupConsumer(call=call, member_id=member_id, committed_ms=turn.now_ms))
    _ask_who_leads(turn, call.client)
    turn.after(call.poll_interval_ms, ClientTick(call.client, POLL, 0))


def leave(turn: Turn, action: LeaveGroup) -> None:
    """The member commits and goes."""
    now = _client(turn, action.client)
    if now is not None:
        turn.put_client(action.client, replace(now, leaving=True))
        _drive(turn, action.client)


def tick(turn: Turn, action: ClientTick) -> None:
    """A poll: the group's business first, then what there is to read."""
    now = _client(turn, action.client)
    if now is None:
        return
    late = now.asked is not None and now.asked[2] <= turn.now_ms
    if late:
        turn.put_client(action.client, replace(now, asked=None))
    if late or now.image is None:
        _ask_who_leads(turn, action.client)
    _drive(turn, action.client)
    _fetch(turn, action.client)
    if _client(turn, action.client) is not None:
        turn.after(now.call.poll_interval_ms, action)


def delivered(turn: Turn, client: str, message: object) -> None:
    """An answer."""
    now = _client(turn, client)
    if now is None:
        return
    match message:
        case ClientMetadataResponse():
            known = replace(now, image=message.image)
            if _others(now, message.image):
                known = replace(_rejoining(known), asked=None)
            turn.put_client(client, known)
            if now.image is None:
                _drive(turn, client)
        case GroupAnswer() if now.asked is not None and now.asked[1] == message.correlation:
            turn.put_client(client, replace(now, asked=None))
            _coordinated(turn, client, now.asked[0], message)
        case ConsumeResponse():
            _fetched(turn, client, now, message)


def _others(now: GroupConsumer, image: ClusterImage) -> bool:
    """Whether a topic of the subscription has come, has gone, or is another one by now: the group shares out anew."""
    if now.image is None:
        return False
    ids = [{name: topic.topic_id for name, topic in each.topics.items()} for each in (now.image, image)]
    return any(ids[0].get(topic) != ids[1].get(topic) for topic in now.call.topics)


def _drive(turn: Turn, client: str) -> None:
    """Sends what the member has to say to its coordinator now, one thing at a time."""
    now = _client(turn, client)
    if now is None or now.asked is not None or now.image is None:
        return
    turn.sequence += 1
    request = _next_request(now, turn.sequence, turn.now_ms)
    if request is None:
        return
    count = partition_counts(now.image).get(CONSUMER_OFFSETS, 1)
    where = TopicPartition(CONSUMER_OFFSETS, coordinator_partition(now.call.group, count))
    leader = leader_of(now.image, where)
    if leader is None or leader < 0:
        _ask_who_leads(turn, client)
        return
    patience = _JOIN_ANSWER_MS if isinstance(request, (JoinRequest, SyncRequest)) else _ANSWER_MS
    turn.put_client(client, replace(now, asked=(request, request.correlation, turn.now_ms + patience)))
    turn.send(client_node(client), broker_node(leader), request)


def _next_request(now: GroupConsumer, correlation: int, now_ms: int) -> GroupRequest | None:
    group = now.call.group
    if now.stage == "join":
        if now.leaving:
            return None
        return _joining(now, correlation)
    if now.stage == "sync":
        return _syncing(now, correlation)
    if now.stage == "offsets":
        return OffsetFetchRequest(correlation=correlation, group=group, partitions=now.assignment)
    due = now.leaving or now_ms - now.committed_ms >= now.call.commit_interval_ms
    ahead = {p: o for p, o in now.positions.items() if now.committed.get(p) != o}
    if due and ahead:
        offsets = {
            p: CommittedOffset(
                offset=o, commit_ms=now_ms, leader_epoch=now.epochs.get(p, -1), topic_id=_topic_id(now, p)
            )
            for p, o in sorted(ahead.items())
        }
        return CommitRequest(
            correlation=correlation,
            group=group,
            offsets=offsets,
            member_id=now.member_id,
            generation=now.generation,
        )
    if now.leaving:
        return _beating(now, correlation, leaves=True)
    if now_ms - now.beaten_ms >= now.call.heartbeat_interval_ms:
        return _beating(now, correlation, leaves=False)
    return None


def _topic_id(now: GroupConsumer, partition: TopicPartition) -> str:
    topic = now.image.topics.get(partition.topic) if now.image is not None else None
    return topic.topic_id if topic is not None else NO_TOPIC_ID


def _joining(now: GroupConsumer, correlation: int) -> GroupRequest:
    if now.call.protocol == "consumer":
        return ConsumerHeartbeatRequest(
            correlation=correlation, group=now.call.group, member=_consumer_member(now), member_epoch=0
        )
    member = ClassicMember(
        member_id=now.member_id, client_id=now.call.client, subscription=write_subscription(now.call.topics)
    )
    return JoinRequest(correlation=correlation, group=now.call.group, member=member)


def _syncing(now: GroupConsumer, correlation: int) -> SyncRequest:
    joined = now.leader_of_group
    assert joined is not None
    assert now.image is not None
    members = {key: read_subscription(data) for key, data in joined.members}
    assignments = ranges(members, partition_counts(now.image)) if joined.leader == now.member_id else {}
    return SyncRequest(
        correlation=correlation,
        group=now.call.group,
        member_id=now.member_id,
        generation=joined.generation,
        assignments=assignments,
    )


def _beating(now: GroupConsumer, correlation: int, *, leaves: bool) -> GroupRequest:
    if now.call.protocol == "consumer":
        return ConsumerHeartbeatRequest(
            correlation=correlation,
            group=now.call.group,
            member=_consumer_member(now),
            member_epoch=-1 if leaves else now.generation,
        )
    return GroupHeartbeatRequest(
        correlation=correlation,
        group=now.call.group,
        member_id=now.member_id,
        generation=now.generation,
        leaves=leaves,
    )


def _consumer_member(now: GroupConsumer) -> ConsumerMember:
    return ConsumerMember(member_id=now.member_id, client_id=now.call.client, topics=now.call.topics)


def _coordinated(turn: Turn, client: str, request: GroupRequest, answer: GroupAnswer) -> None:
    """The coordinator answered: on to the next stage, or back to the first."""
    now = _client(turn, client)
    assert now is not None
    if answer.error in _FORGOTTEN and now.call.protocol == "consumer":
        turn.put_client(client, replace(_rejoining(now), generation=-1))
    elif answer.error in _REJOIN or answer.error in _FORGOTTEN:
        turn.put_client(client, _rejoining(now))
    elif answer.error != NONE:
        _ask_who_leads(turn, client)
        return
    else:
        after = _after(turn, now, request, answer)
        turn.put_client(client, after)
        if after is None:
            return
    _drive(turn, client)


def _after(turn: Turn, now: GroupConsumer, request: GroupRequest, answer: GroupAnswer) -> GroupConsumer | None:
    body = answer.body
    match request:
        case JoinRequest():
            assert isinstance(body, JoinedGroup)
            return replace(now, leader_of_group=body, generation=body.generation, stage="sync")
        case SyncRequest():
            assert isinstance(body, bytes)
            return _assigned(replace(now, beaten_ms=turn.now_ms), read_assignment(body))
        case OffsetFetchRequest():
            assert isinstance(body, dict)
            known = {p: each.offset for p, each in body.items() if p in now.assignment}
            positions = {p: now.positions.get(p, known.get(p, 0)) for p in now.assignment}
            return replace(now, positions=positions, committed=known, stage="run")
        case CommitRequest():
            said = {p: each.offset for p, each in request.offsets.items()}
            note = Committed(
                at_ms=turn.now_ms,
                client=now.call.client,
                group=now.call.group,
                generation=now.generation,
                offsets={str(p): offset for p, offset in said.items()},
            )
            turn.truth = replace(turn.truth, groups=turn.truth.groups.appended(note))
            return replace(now, committed={**now.committed, **said}, committed_ms=turn.now_ms)
        case GroupHeartbeatRequest():
            return None if request.leaves else replace(now, beaten_ms=turn.now_ms)
        case ConsumerHeartbeatRequest():
            return _followed(turn, now, request, body)
        case _:
            return now


def _followed(turn: Turn, now: GroupConsumer, request: ConsumerHeartbeatRequest, body: object) -> GroupConsumer | None:
    """A heartbeat's answer tells a member of the consumer protocol what it has now."""
    if request.member_epoch < 0:
        return None
    assert isinstance(body, ConsumerMember)
    assert now.image is not None
    names = {topic.topic_id: topic.name for topic in now.image.topics.values()}
    given = sorted(TopicPartition(names[topic_id], n) for topic_id, n in body.assigned if topic_id in names)
    now = replace(now, generation=body.epoch, beaten_ms=turn.now_ms)
    if tuple(given) == now.assignment and now.stage == "run":
        return now
    return _assigned(now, tuple(given))


def _assigned(now: GroupConsumer, assignment: tuple[TopicPartition, ...]) -> GroupConsumer:
    """Partitions that it keeps it reads on; for the others the group knows where to begin."""
    kept = {p: o for p, o in now.positions.items() if p in assignment}
    stage = "offsets" if assignment else "run"
    return replace(now, assignment=assignment, positions=kept, fetching={}, stage=stage)


def _rejoining(now: GroupConsumer) -> GroupConsumer:
    return replace(now, stage="join", assignment=(), positions={}, committed={}, fetching={})


def _fetch(turn: Turn, client: str) -> None:
    now = _client(turn, client)
    if now is None or now.stage != "run" or now.image is None:
        return
    fetching = dict(now.fetching)
    lost = any(topic not in now.image.topics for topic in now.call.topics)
    for partition, position in sorted(now.positions.items()):
        asked = fetching.get(partition)
        leader = leader_of(now.image, partition)
        if (asked is not None and turn.now_ms - asked[1] < _FETCH_ANSWER_MS) or leader is None:
            lost = lost or leader is None
            continue
        lost = lost or asked is not None or leader < 0
        if leader < 0:
            continue
        turn.sequence += 1
        fetching[partition] = (turn.sequence, turn.now_ms)
        request = ConsumeRequest(
            correlation=turn.sequence,
            partition=partition,
            fetch_offset=position,
            read_committed=now.call.read_committed,
        )
        turn.send(client_node(client), broker_node(leader), request)
    turn.put_client(client, replace(now, fetching=fetching))
    if lost:
        _ask_who_leads(turn, client)


def _fetched(turn: Turn, client: str, now: GroupConsumer, response: ConsumeResponse) -> None:
    partition = response.partition
    if now.fetching.get(partition, (-1, -1))[0] != response.correlation:
        return
    now = replace(now, fetching={p: each for p, each in now.fetching.items() if p != partition})
    position = now.positions.get(partition)
    if response.error == "OFFSET_OUT_OF_RANGE" and position is not None:
        turn.tell(client, response.error, partition=partition, offset=position, detail="earliest")
        now = replace(now, positions={**now.positions, partition: response.log_start_offset})
    elif response.error != NONE:
        _ask_who_leads(turn, client)
    elif response.batches and position is not None:
        given = visible(response.batches, response.aborted if now.call.read_committed else ())
        ledger.consumed(turn, client, partition, (b for b in given if b.last_offset >= position))
        last = response.batches[-1]
        now = replace(
            now,
            positions={**now.positions, partition: max(position, last.last_offset + 1)},
            epochs={**now.epochs, partition: last.leader_epoch},
        )
    turn.put_client(client, now)


def _ask_who_leads(turn: Turn, client: str) -> None:
    turn.sequence += 1
    brokers = turn.broker_ids
    asked = brokers[turn.below(len(brokers), f"metadata {client}")]
    turn.send(client_node(client), broker_node(asked), ClientMetadataRequest(correlation=turn.sequence))


def _client(turn: Turn, name: str) -> GroupConsumer | None:
    found = turn.client(name)
    return found if isinstance(found, GroupConsumer) else None
