"""End markers on their way: from a coordinator to leaders, into their logs, and back as answers.

In: a coordinator's wish, a leader's request, answers. Out: markers in logs, and what became of them. A leader answers
when all markers of a request are replicated or refused; a coordinator that hears nothing asks again, and so a partition
may get a marker twice.

Source: Kafka TransactionMarkerChannelManager, KafkaApis#handleWriteTxnMarkersRequest.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.brokers import leader_role
from tidegauge.sim_engine.coordinators import led_groups
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE, SendMarkers
from tidegauge.sim_engine.coordinators.coordinator_messages import MarkersRequest, MarkersResponse
from tidegauge.sim_engine.hosting.hosted import HeldMarker, HeldMarkers, SentMarkers, hosted_by, leader_of, put_hosted
from tidegauge.sim_engine.log.stored_batch import StoredBatch, marker_batch
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.turn import Turn

ANSWER_MS: Final = 5_000

Settled = Callable[[Turn, int, str, int, Mapping[TopicPartition, str]], None]
"""(turn, broker, transactional id, coordinator epoch, errors)"""


def send(turn: Turn, broker_id: int, wish: SendMarkers, settled: Settled) -> None:
    """One request to each leader. Of a partition that is no more nothing is left to end."""
    running = turn.running(broker_id)
    assert running is not None
    by_leader: dict[int, list[TopicPartition]] = {}
    errors = {}
    for partition in wish.partitions:
        leader = leader_of(running.image, partition)
        if leader is None or leader < 0:
            errors[partition] = NONE if leader is None else "NOT_LEADER_OR_FOLLOWER"
        else:
            by_leader.setdefault(leader, []).append(partition)
    for leader, partitions in sorted(by_leader.items()):
        turn.sequence += 1
        number = turn.sequence
        hosted = hosted_by(turn, broker_id)
        sent = SentMarkers(
            transactional_id=wish.transactional_id,
            coordinator_epoch=wish.coordinator_epoch,
            partitions=tuple(partitions),
            expires_ms=turn.now_ms + ANSWER_MS,
        )
        put_hosted(turn, broker_id, replace(hosted, sent={**hosted.sent, number: sent}))
        request = MarkersRequest(
            correlation=number,
            transactional_id=wish.transactional_id,
            coordinator_epoch=wish.coordinator_epoch,
            producer_id=wish.producer_id,
            producer_epoch=wish.producer_epoch,
            committed=wish.committed,
            client_version=wish.client_version,
            partitions=tuple(partitions),
        )
        turn.from_broker(broker_id, broker_node(leader), request)
    if errors:
        settled(turn, broker_id, wish.transactional_id, wish.coordinator_epoch, errors)


def write(turn: Turn, broker_id: int, source: str, request: MarkersRequest) -> None:
    """A leader writes the markers."""
    turn.sequence += 1
    number = turn.sequence
    hosted = hosted_by(turn, broker_id)
    held = HeldMarkers(source=source, request=request, waiting=frozenset(request.partitions), errors={})
    put_hosted(turn, broker_id, replace(hosted, marker_requests={**hosted.marker_requests, number: held}))
    for partition in request.partitions:
        error = append_marker(turn, broker_id, partition, request, number)
        if error != NONE:
            _done(turn, broker_id, number, partition, error)


def append_marker(turn: Turn, broker_id: int, partition: TopicPartition, request: MarkersRequest, number: int) -> str:
    """One marker; the error if it is refused."""

    def make(base_offset: int, leader_epoch: int) -> StoredBatch:
        return marker_batch(
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            timestamp=turn.now_ms,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            committed=request.committed,
            coordinator_epoch=request.coordinator_epoch,
        )

    turn.sequence += 1
    write_number = turn.sequence
    hosted = hosted_by(turn, broker_id)
    held = HeldMarker(partition=partition, request=number)
    put_hosted(turn, broker_id, replace(hosted, held={**hosted.held, write_number: held}))
    version = request.client_version
    error = leader_role.append_local(turn, broker_id, partition, make, number=write_number, transaction_version=version)
    hosted = hosted_by(turn, broker_id)
    if error != NONE:
        left = {n: each for n, each in hosted.held.items() if n != write_number}
        put_hosted(turn, broker_id, replace(hosted, held=left))
        return error
    guards = {key: guard for key, guard in hosted.guards.items() if key != (partition, request.producer_id)}
    hosted = replace(hosted, guards=guards)
    if partition.topic == CONSUMER_OFFSETS:
        groups = led_groups.marker_appended(
            hosted.groups, partition.partition, request.producer_id, committed=request.committed
        )
        hosted = replace(hosted, groups=groups)
    put_hosted(turn, broker_id, hosted)
    return NONE


def replicated(turn: Turn, broker_id: int, held: HeldMarker, error: str) -> None:
    """A marker is replicated, or will not be as far as this leader knows."""
    _done(turn, broker_id, held.request, held.partition, error)


def _done(turn: Turn, broker_id: int, number: int, partition: TopicPartition, error: str) -> None:
    hosted = hosted_by(turn, broker_id)
    held = hosted.marker_requests.get(number)
    if held is None:
        return
    held = replace(held, waiting=held.waiting - {partition}, errors={**held.errors, partition: error})
    left = {n: each for n, each in hosted.marker_requests.items() if n != number}
    if held.waiting:
        put_hosted(turn, broker_id, replace(hosted, marker_requests={**left, number: held}))
        return
    put_hosted(turn, broker_id, replace(hosted, marker_requests=left))
    response = MarkersResponse(
        correlation=held.request.correlation,
        transactional_id=held.request.transactional_id,
        coordinator_epoch=held.request.coordinator_epoch,
        errors=held.errors,
    )
    turn.from_broker(broker_id, held.source, response)


def answered(turn: Turn, broker_id: int, response: MarkersResponse, settled: Settled) -> None:
    """A leader says what became of markers; a late answer says nothing any more."""
    hosted = hosted_by(turn, broker_id)
    if response.correlation not in hosted.sent:
        return
    left = {number: each for number, each in hosted.sent.items() if number != response.correlation}
    put_hosted(turn, broker_id, replace(hosted, sent=left))
    settled(turn, broker_id, response.transactional_id, response.coordinator_epoch, response.errors)


def expire(turn: Turn, broker_id: int, settled: Settled) -> None:
    """Markers of which nothing was heard are to be sent again."""
    hosted = hosted_by(turn, broker_id)
    late = {number: each for number, each in hosted.sent.items() if each.expires_ms <= turn.now_ms}
    if not late:
        return
    put_hosted(turn, broker_id, replace(hosted, sent={n: e for n, e in hosted.sent.items() if n not in late}))
    for _, each in sorted(late.items()):
        errors = dict.fromkeys(each.partitions, "REQUEST_TIMED_OUT")
        settled(turn, broker_id, each.transactional_id, each.coordinator_epoch, errors)
