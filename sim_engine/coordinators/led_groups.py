"""A broker's group coordinator: the partitions of `__consumer_offsets` that it leads, and how a step leaves them.

In: partitions won and lost, ends of transactions, a step's state and records. Out: the coordinator. A coordinator's
state moves on when its batch is appended; if the batch is refused, the broker drops the step and answers with `failed`;
a new coordinator reads it all again.

Source: Kafka CoordinatorRuntime, GroupCoordinatorService (4.4).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.classic_group import ClassicGroup
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Effect, Write
from tidegauge.sim_engine.coordinators.group_records import GROUPS_WRITE, KeyValue
from tidegauge.sim_engine.coordinators.group_state import (
    GroupPartition,
    ReplayedMarker,
    ReplayedRecord,
    replayed,
    transaction_ended,
)
from tidegauge.sim_engine.log.stored_batch import Producer


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The brokers' settings."""

    partition_count: int = 50
    initial_rebalance_delay_ms: int = 3000
    consumer_session_ms: int = 45_000
    offsets_retention_ms: int = 7 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinator:
    """A broker's coordinator."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    partitions: Mapping[int, GroupPartition] = field(default_factory=dict)

    def partition_of(self, group: str) -> TopicPartition:
        """Where a group's records are."""
        return TopicPartition(CONSUMER_OFFSETS, coordinator_partition(group, self.settings.partition_count))

    def state_of(self, group: str) -> GroupPartition | None:
        """The partition of a group, if this broker leads it."""
        return self.partitions.get(self.partition_of(group).partition)


Step = tuple[GroupCoordinator, list[Effect]]


def elected(
    coordinator: GroupCoordinator,
    partition: int,
    coordinator_epoch: int,
    entries: Iterable[ReplayedRecord | ReplayedMarker],
    *,
    now_ms: int,
) -> GroupCoordinator:
    """The broker leads a partition now, and has read it."""
    state = replayed(GroupPartition(coordinator_epoch=coordinator_epoch), entries, now_ms=now_ms)
    return replace(coordinator, partitions={**coordinator.partitions, partition: state})


def resigned(coordinator: GroupCoordinator, partition: int) -> Step:
    """The broker does not lead a partition any more; members that wait are told to look for the next coordinator."""
    state = coordinator.partitions.get(partition)
    members = [m for group in state.classic.values() for m in group.members.values()] if state is not None else []
    waiting = [asker for m in members for asker in (m.joining, m.syncing) if asker is not None]
    left = {number: each for number, each in coordinator.partitions.items() if number != partition}
    return replace(coordinator, partitions=left), [Answer(to=asker, error="NOT_COORDINATOR") for asker in waiting]


def marker_appended(
    coordinator: GroupCoordinator, partition: int, producer_id: int, *, committed: bool
) -> GroupCoordinator:
    """The leader wrote a transaction's end into a partition of `__consumer_offsets`."""
    state = coordinator.partitions.get(partition)
    return coordinator if state is None else with_partition(coordinator, partition, transaction_ended(
        state, producer_id, committed=committed
    ))  # fmt: skip


def failed(effects: Iterable[Effect], error: str) -> list[Answer]:
    """The answers of a step whose batch was not appended (the coordinator stays as it was before)."""
    told = {
        "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
        "KAFKA_STORAGE_ERROR": "NOT_COORDINATOR",
    }.get(error, error)
    return [
        replace(answer, error=told, body=None)
        for effect in effects
        for answer in (effect.answers if isinstance(effect, Write) else (effect,))
        if isinstance(answer, Answer)
    ]


def not_a_member(group: ClassicGroup | None, member_id: str, generation: int) -> str | None:
    """The error of a member of another generation, or of none."""
    if group is None or member_id not in group.members:
        return "UNKNOWN_MEMBER_ID"
    return None if generation == group.generation else "ILLEGAL_GENERATION"


def written(
    coordinator: GroupCoordinator,
    group: str,
    state: GroupPartition,
    records: Sequence[KeyValue],
    *answers: Answer,
    producer: Producer = GROUPS_WRITE,
) -> Step:
    """The state that follows and its records; without any, the answers leave at once."""
    now = with_partition(coordinator, coordinator.partition_of(group).partition, state)
    if not records:
        return now, list(answers)
    return now, [write(coordinator, group, records, *answers, producer=producer)]


def write(
    coordinator: GroupCoordinator,
    group: str,
    records: Sequence[KeyValue],
    *answers: Answer,
    producer: Producer = GROUPS_WRITE,
) -> Write:
    """One batch."""
    partition = coordinator.partition_of(group)
    return Write(partition=partition, records=tuple(records), answers=answers, producer=producer)


def with_classic(
    coordinator: GroupCoordinator, group: str, state: GroupPartition, known: ClassicGroup
) -> GroupCoordinator:
    """The coordinator with a classic group."""
    state = replace(state, classic={**state.classic, group: known})
    return with_partition(coordinator, coordinator.partition_of(group).partition, state)


def with_partition(coordinator: GroupCoordinator, partition: int, state: GroupPartition) -> GroupCoordinator:
    """The coordinator with a partition."""
    return replace(coordinator, partitions={**coordinator.partitions, partition: state})
