"""The share coordinator of one broker: how far share groups got with partitions, in `__share_group_state`.

In: a share group's writes (what was delivered, acknowledged, given back), and reads. Out: the new coordinator and its
records. A snapshot and the updates behind it, laid over one another in order, are the state; an update of a leader that
is not the newest is refused.

Source: Kafka ShareCoordinatorShard, PersisterStateBatchCombiner, SharePartitionKey#asCoordinatorKey (4.4), KIP-932.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegauge.kafka_log.coordinator_records import (
    OtherCoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from tidegauge.kafka_log.internal_topics import SHARE_GROUP_STATE
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Asker, Effect, Write
from tidegauge.sim_engine.coordinators.group_records import GROUPS_WRITE, KeyValue

SNAPSHOT: Final = 0
UPDATE: Final = 1
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, order=True)
class SharePartition:
    """A partition as a share group has it."""

    group_id: str
    topic_id: str
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text whose hash finds the coordinator."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """Offsets in one delivery state; `last_offset` is inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """How far the group got. `complete_count`: records from the start offset on that are done, -1 if nobody counts."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    complete_count: int = -1
    created_ms: int = 0
    written_ms: int = 0
    batches: tuple[StateBatch, ...] = ()
    updates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The brokers' settings (`share.coordinator.*`)."""

    partition_count: int = 50
    updates_per_snapshot: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinator:
    """A broker's coordinator: the states of the partitions of `__share_group_state` that it leads."""

    settings: ShareSettings = field(default_factory=ShareSettings)
    partitions: Mapping[int, Mapping[SharePartition, ShareState]] = field(default_factory=dict)

    def partition_of(self, key: SharePartition) -> TopicPartition:
        """Where the records of a group's partition are."""
        number = coordinator_partition(key.coordinator_key, self.settings.partition_count)
        return TopicPartition(SHARE_GROUP_STATE, number)


Step = tuple[ShareCoordinator, list[Effect]]


def elected(
    coordinator: ShareCoordinator, partition: int, records: Iterable[tuple[bytes | None, bytes | None]]
) -> ShareCoordinator:
    """The broker leads a partition now, and has read it."""
    return replace(coordinator, partitions={**coordinator.partitions, partition: replayed(records)})


def resigned(coordinator: ShareCoordinator, partition: int) -> ShareCoordinator:
    """The broker does not lead a partition any more."""
    left = {number: states for number, states in coordinator.partitions.items() if number != partition}
    return replace(coordinator, partitions=left)


def initialize(
    coordinator: ShareCoordinator,
    to: Asker,
    *,
    key: SharePartition,
    state_epoch: int,
    start_offset: int = NO_OFFSET,
    now_ms: int,
) -> Step:
    """InitializeShareGroupState: a group gets a partition; an operator's reset does the same with a higher epoch."""
    state = _state(coordinator, key)
    if isinstance(state, str):
        return coordinator, [Answer(to=to, error=state)]
    if state is not None and state.state_epoch > state_epoch:
        return coordinator, [Answer(to=to, error="FENCED_STATE_EPOCH")]
    begun = ShareState(
        snapshot_epoch=state.snapshot_epoch + 1 if state is not None else 0,
        state_epoch=state_epoch,
        leader_epoch=state.leader_epoch if state is not None else 0,
        start_offset=start_offset,
        created_ms=now_ms,
        written_ms=now_ms,
    )
    return _written(coordinator, key, begun, snapshot_record(key, begun), Answer(to=to))


def write_state(
    coordinator: ShareCoordinator,
    to: Asker,
    *,
    key: SharePartition,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    complete_count: int,
    batches: Sequence[StateBatch],
    now_ms: int,
) -> Step:
    """WriteShareGroupState of the partition's leader: an update, and each 500th time all of it anew."""
    state = _state(coordinator, key)
    if isinstance(state, str) or state is None:
        return coordinator, [Answer(to=to, error=state or "INVALID_REQUEST")]
    if leader_epoch < state.leader_epoch:
        return coordinator, [Answer(to=to, error="FENCED_LEADER_EPOCH")]
    if state_epoch < state.state_epoch:
        return coordinator, [Answer(to=to, error="FENCED_STATE_EPOCH")]
    update = replace(
        state,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        complete_count=complete_count,
        batches=tuple(batches),
    )
    merged = _laid_over(state, update)
    if merged.updates >= coordinator.settings.updates_per_snapshot:
        merged = replace(merged, snapshot_epoch=state.snapshot_epoch + 1, updates=0, written_ms=now_ms)
        return _written(coordinator, key, merged, snapshot_record(key, merged), Answer(to=to))
    return _written(coordinator, key, merged, update_record(key, update), Answer(to=to))


def replayed(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[SharePartition, ShareState]:
    """The states that a partition's records say."""
    found: dict[SharePartition, ShareState] = {}
    for key_bytes, value_bytes in records:
        record = decode_coordinator_record(SHARE_GROUP_STATE, key_bytes, value_bytes)
        assert isinstance(record, OtherCoordinatorRecord), record
        said: Mapping[str, Any] = record.key
        key = SharePartition(said["group_id"], said["topic_id"], said["partition"])
        if record.value is None:
            found.pop(key, None)
        elif record.key_type == SNAPSHOT:
            found[key] = _read(record.value, ShareState())
        elif key in found:
            found[key] = _laid_over(found[key], _read(record.value, found[key]))
    return found


def snapshot_record(key: SharePartition, state: ShareState) -> KeyValue:
    """All of a state."""
    value = {
        **_update(state),
        "state_epoch": state.state_epoch,
        "create_timestamp": state.created_ms,
        "write_timestamp": state.written_ms,
    }
    return _encoded(SNAPSHOT, key, value)


def update_record(key: SharePartition, update: ShareState) -> KeyValue:
    """What changed."""
    return _encoded(UPDATE, key, _update(update))


def _update(state: ShareState) -> dict[str, Any]:
    return {
        "snapshot_epoch": state.snapshot_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.complete_count,
        "state_batches": tuple(
            {
                "first_offset": b.first_offset,
                "last_offset": b.last_offset,
                "delivery_state": b.delivery_state,
                "delivery_count": b.delivery_count,
            }
            for b in state.batches
        ),
    }


def _read(said: Mapping[str, Any], before: ShareState) -> ShareState:
    return ShareState(
        snapshot_epoch=said["snapshot_epoch"],
        state_epoch=said.get("state_epoch", before.state_epoch),
        leader_epoch=said["leader_epoch"],
        start_offset=said["start_offset"],
        complete_count=said["delivery_complete_count"],
        created_ms=said.get("create_timestamp", before.created_ms),
        written_ms=said.get("write_timestamp", before.written_ms),
        batches=tuple(StateBatch(**batch) for batch in said["state_batches"]),
        updates=before.updates,
    )


def _laid_over(state: ShareState, update: ShareState) -> ShareState:
    """The update's batches win where both say something; what is below the start offset is done with."""
    start = update.start_offset if update.start_offset != NO_OFFSET else state.start_offset
    runs: list[StateBatch] = []
    for batch in state.batches:
        runs += _without(batch, update.batches)
    runs = sorted((*runs, *update.batches), key=lambda b: b.first_offset)
    kept: list[StateBatch] = []
    for batch in runs:
        if batch.last_offset < start:
            continue
        batch = replace(batch, first_offset=max(batch.first_offset, start))
        last = kept[-1] if kept else None
        if last is not None and last.last_offset + 1 == batch.first_offset and _alike(last, batch):
            kept[-1] = replace(last, last_offset=batch.last_offset)
        else:
            kept.append(batch)
    return replace(
        state,
        leader_epoch=update.leader_epoch,
        start_offset=start,
        complete_count=update.complete_count,
        batches=tuple(kept),
        updates=state.updates + 1,
    )


def _without(batch: StateBatch, others: Sequence[StateBatch]) -> list[StateBatch]:
    """The parts of a batch of which no other says anything."""
    left = [batch]
    for other in others:
        parts = []
        for part in left:
            if other.last_offset < part.first_offset or part.last_offset < other.first_offset:
                parts.append(part)
                continue
            if part.first_offset < other.first_offset:
                parts.append(replace(part, last_offset=other.first_offset - 1))
            if other.last_offset < part.last_offset:
                parts.append(replace(part, first_offset=other.last_offset + 1))
        left = parts
    return left


def _alike(one: StateBatch, other: StateBatch) -> bool:
    return (one.delivery_state, one.delivery_count) == (other.delivery_state, other.delivery_count)


def _state(coordinator: ShareCoordinator, key: SharePartition) -> ShareState | str | None:
    states = coordinator.partitions.get(coordinator.partition_of(key).partition)
    return "NOT_COORDINATOR" if states is None else states.get(key)


def _written(
    coordinator: ShareCoordinator, key: SharePartition, state: ShareState | None, record: KeyValue, answer: Answer
) -> Step:
    partition = coordinator.partition_of(key)
    states = {each: value for each, value in coordinator.partitions[partition.partition].items() if each != key}
    if state is not None:
        states[key] = state
    now = replace(coordinator, partitions={**coordinator.partitions, partition.partition: states})
    return now, [Write(partition=partition, records=(record,), answers=(answer,), producer=GROUPS_WRITE)]


def _encoded(kind: int, key: SharePartition, value: Mapping[str, Any] | None) -> KeyValue:
    named: dict[str, Any] = {"group_id": key.group_id, "topic_id": key.topic_id, "partition": key.partition}
    record = OtherCoordinatorRecord(
        key_type=kind, name="", key=named, version=0 if value is not None else None, value=value
    )
    return encode_coordinator_record(SHARE_GROUP_STATE, record)
