"""The coordinators that a broker runs, and what of their work is under way.

In: a turn and a broker. Out: its `Hosted`, kept in the broker's memory, so that it dies with it. Everything that waits
has a number of its own, and is answered once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.consumer_group import Topics
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer
from tidegauge.sim_engine.coordinators.coordinator_messages import CommitRequest, MarkersRequest
from tidegauge.sim_engine.coordinators.led_groups import GroupCoordinator
from tidegauge.sim_engine.coordinators.share_coordinator import ShareCoordinator
from tidegauge.sim_engine.coordinators.transaction_coordinator import TransactionCoordinator
from tidegauge.sim_engine.messages import ProduceRequest
from tidegauge.sim_engine.metadata.controller import ClusterImage
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Running

_NAME: Final = "hosted"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldWrite:
    """A coordinator's batch that is not replicated yet; `what` is the transactional id whose state it is."""

    partition: TopicPartition
    what: str | None = None
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMarker:
    """One marker that this leader wrote; `request` is the number of the request that it belongs to."""

    partition: TopicPartition
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMarkers:
    """A request for markers: what is not replicated yet, and what became of the rest."""

    source: str
    request: MarkersRequest
    waiting: frozenset[TopicPartition]
    errors: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMarkers:
    """Markers on their way to a leader; without an answer in time they are taken for lost and sent again."""

    transactional_id: str
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A transactional batch, or commit, that waits to hear that its transaction is open (KIP-890)."""

    source: str
    request: ProduceRequest | CommitRequest
    partition: TopicPartition
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """A broker's coordinators. `guards`: the running verification by partition and producer id; a marker voids it."""

    transactions: TransactionCoordinator = field(default_factory=TransactionCoordinator)
    groups: GroupCoordinator = field(default_factory=GroupCoordinator)
    shares: ShareCoordinator = field(default_factory=ShareCoordinator)
    held: Mapping[int, HeldWrite | HeldMarker] = field(default_factory=dict)
    marker_requests: Mapping[int, HeldMarkers] = field(default_factory=dict)
    sent: Mapping[int, SentMarkers] = field(default_factory=dict)
    verifying: Mapping[int, Verification] = field(default_factory=dict)
    guards: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)
    timeouts_checked_ms: int = 0
    expiry_checked_ms: int = 0


def hosted_by(turn: Turn, broker_id: int) -> Hosted:
    """The broker's coordinators, with the settings and producer ids that the broker has now."""
    running = _running(turn, broker_id)
    found = running.coordinators.get(_NAME)
    hosted = Hosted(timeouts_checked_ms=turn.now_ms, expiry_checked_ms=turn.now_ms) if found is None else found
    assert isinstance(hosted, Hosted)
    return _with_settings(_with_producer_ids(hosted, running), running.image)


def _with_producer_ids(hosted: Hosted, running: Running) -> Hosted:
    transactions, ids = hosted.transactions, running.producer_ids
    if (transactions.next_producer_id, transactions.producer_ids_end) == (ids.next_id, ids.end):
        return hosted
    return replace(hosted, transactions=replace(transactions, next_producer_id=ids.next_id, producer_ids_end=ids.end))


def _with_settings(hosted: Hosted, image: ClusterImage) -> Hosted:
    transactions, groups, shares = hosted.transactions, hosted.groups, hosted.shares
    counts = [
        len(image.topics[topic].partitions) if topic in image.topics else 1
        for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS, SHARE_GROUP_STATE)
    ]
    version = image.features.get("transaction.version", 0)
    known = [each.settings.partition_count for each in (transactions, groups, shares)]
    if counts == known and version == transactions.settings.transaction_version:
        return hosted
    return replace(
        hosted,
        transactions=replace(
            transactions,
            settings=replace(transactions.settings, partition_count=counts[0], transaction_version=version),
        ),
        groups=replace(groups, settings=replace(groups.settings, partition_count=counts[1])),
        shares=replace(shares, settings=replace(shares.settings, partition_count=counts[2])),
    )


def put_hosted(turn: Turn, broker_id: int, hosted: Hosted) -> None:
    """The broker's coordinators are this from now on; producer ids that they took are taken."""
    running = _running(turn, broker_id)
    if running.coordinators.get(_NAME) is hosted:
        return
    ids = replace(running.producer_ids, next_id=hosted.transactions.next_producer_id)
    coordinators = {**running.coordinators, _NAME: hosted}
    turn.put_running(broker_id, replace(running, coordinators=coordinators, producer_ids=ids))


def partition_counts(image: ClusterImage) -> dict[str, int]:
    """How many partitions each topic has."""
    return {name: len(topic.partitions) for name, topic in image.topics.items()}


def known_topics(image: ClusterImage) -> Topics:
    """What a group coordinator knows of topics."""
    return Topics(
        ids={name: topic.topic_id for name, topic in image.topics.items()}, partition_counts=partition_counts(image)
    )


def leader_of(image: ClusterImage, partition: TopicPartition) -> int | None:
    """Who leads a partition: -1 nobody; None if there is no such partition."""
    topic = image.topics.get(partition.topic)
    found = topic.partitions.get(partition.partition) if topic is not None else None
    return found.leader if found is not None else None


def _running(turn: Turn, broker_id: int) -> Running:
    running = turn.running(broker_id)
    assert running is not None, "a dead broker coordinates nothing"
    return running
