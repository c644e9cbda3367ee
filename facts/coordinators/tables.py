"""Kafka's internal topics as tables: committed offsets, transactional ids, remote segments; the newest of each.

In: the batches of a segment of `__consumer_offsets`, `__transaction_state`, `__share_group_state` or
`__remote_log_metadata`. Out: a `CoordinatorTable`, mergeable over adjacent segments. An offset committed inside a
transaction counts when its transaction is committed, and not before (GroupMetadataManager#onTransactionCompleted,
KIP-98).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tidegauge.facts.coordinators.commit_falls import CommitCourse, Counted
from tidegauge.facts.coordinators.history import CoordinatorHistory
from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tidegauge.kafka_log.coordinator_records import (
    OffsetCommit,
    RemoteSegment,
    TransactionState,
    decode_offsets_record,
    decode_remote_log_record,
    decode_share_state_record,
    decode_transaction_record,
)
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tidegauge.kafka_log.records import Record
from tidegauge.kafka_log.types import TopicPartition

_ABORT: Final = 0
_COMMIT: Final = 1
_NOTHING_AHEAD: Final[Mapping["Key", CommitCourse]] = {}
_STATES_KEPT: Final = 32
"""Of a remote segment's states: a sound one has four, and some of them again after a retry."""

Key = tuple[str, str, int] | str
Value = tuple[int, OffsetCommit | TransactionState | RemoteSegment]
"""Offset of the record, and what it says."""


@dataclass(slots=True)
class CoordinatorTable:
    """Newest value per key; what open transactions have pending; and markers that end transactions begun before.

    `pending_epochs`: producer id -> the epoch that its open transaction began in. `unreadable` counts batches whose
    records could not be read. `history` is what every key's records tell beside the newest. `settled_at`: key -> the
    marker that made a transaction's value its newest one; `leading_markers` have their own offset beside what they say.
    `forgotten` are the offsets that a tombstone took back: what open transactions had pending for them went too.
    `courses` tell of committed offsets that fall.
    """

    latest: dict[Key, Value] = field(default_factory=dict)
    pending: dict[int, dict[Key, Value]] = field(default_factory=dict)
    pending_epochs: dict[int, int] = field(default_factory=dict)
    leading_markers: dict[int, tuple[bool, int]] = field(default_factory=dict)
    settled_at: dict[Key, int] = field(default_factory=dict)
    forgotten: set[Key] = field(default_factory=set)
    courses: dict[Key, CommitCourse] = field(default_factory=dict)
    unreadable: int = 0
    history: CoordinatorHistory = field(default_factory=CoordinatorHistory)


def latest_records(
    topic: str, batches: Iterable[tuple[np.void, tuple[Record, ...] | Corruption]], allowance: Allowance
) -> CoordinatorTable:
    """Reads one segment's batches: each one's row of the scan, and its records. `allowance`: the segment's, which its
    records were read with.
    """
    table = CoordinatorTable()
    for row, records in batches:
        if isinstance(records, Corruption):
            table.unreadable += 1
            continue
        producer_id = int(row["producer_id"])
        if int(row["attributes"]) & CONTROL_BIT:
            table.history.passed(int(row["base_offset"]), int(row["last_offset"]))
            control_type = int(row["control_type"])
            if control_type in (_ABORT, _COMMIT):
                _settle(table, producer_id, int(row["base_offset"]), committed=control_type == _COMMIT)
            continue
        transactional = bool(int(row["attributes"]) & TRANSACTIONAL_BIT)
        found: dict[Key, Value] = {}
        gone: dict[Key, Value] = {}
        for record in records:
            decoded = _decoded(topic, record, allowance)
            table.history.passed(record.offset, record.offset)
            table.history.take(record.offset, decoded)
            if isinstance(decoded, OffsetCommit):
                into = gone if decoded.tombstone else found
                _take(into, {(decoded.group, decoded.topic, decoded.partition): (record.offset, decoded)})
            elif isinstance(decoded, TransactionState):
                _take(found, {decoded.transactional_id: (record.offset, decoded)})
            elif isinstance(decoded, RemoteSegment):
                _take(found, {decoded.segment_id: (record.offset, decoded)})
            elif isinstance(decoded, Corruption):
                table.unreadable += 1
        _forget(table, gone)
        if transactional:
            _take(table.pending.setdefault(producer_id, {}), found)
            table.pending_epochs.setdefault(producer_id, int(row["producer_epoch"]))
        else:
            _stand(table, found, {})
            _follow(table, found, {})
        _stand(table, gone, {})
        _follow(table, gone, {})
    return table


def _forget(table: CoordinatorTable, keys: Iterable[Key]) -> None:
    """A tombstone waits for no transaction, and takes back what is pending (OffsetMetadataManager#replay)."""
    forgotten = set(keys)
    table.forgotten |= forgotten
    for producer_id, values in table.pending.items():
        table.pending[producer_id] = {key: value for key, value in values.items() if key not in forgotten}


def _decoded(topic: str, record: Record, allowance: Allowance) -> object:
    if topic == CONSUMER_OFFSETS:
        return decode_offsets_record(record.key, record.value, allowance=allowance)
    if topic == TRANSACTION_STATE:
        return decode_transaction_record(record.key, record.value, allowance=allowance)
    if topic == SHARE_GROUP_STATE:
        return decode_share_state_record(record.key, record.value, allowance=allowance)
    return decode_remote_log_record(record.value, allowance=allowance)


def _settle(
    table: CoordinatorTable,
    producer_id: int,
    offset: int,
    *,
    committed: bool,
    ahead: Mapping[Key, CommitCourse] = _NOTHING_AHEAD,
) -> None:
    """A marker ends the producer's transaction: here, and if it is its first one, what segments before have pending.

    `ahead`: commits of the marker's own segment. What counted there before the marker, be it a tombstone, was written
    after all that was pending, which then never counted.
    """
    table.leading_markers.setdefault(producer_id, (committed, offset))
    values = table.pending.pop(producer_id, {})
    table.pending_epochs.pop(producer_id, None)
    if committed:
        counted = {k: v for k, v in values.items() if k not in ahead or ahead[k].first.since_offset > offset}
        _stand(table, counted, dict.fromkeys(counted, offset))
        _follow(table, counted, dict.fromkeys(counted, offset))


def _stand(table: CoordinatorTable, values: dict[Key, Value], settled_at: Mapping[Key, int]) -> None:
    """Values that count from now on, unless a newer one does."""
    _take(table.latest, values)
    for key, (at, _) in values.items():
        if table.latest[key][0] == at:
            table.settled_at.pop(key, None)
            table.settled_at |= {key: settled_at[key]} if key in settled_at else {}


def _follow(table: CoordinatorTable, values: dict[Key, Value], settled_at: Mapping[Key, int]) -> None:
    """Committed offsets that count from now on, against those that did until now."""
    for key, (at, value) in values.items():
        if isinstance(value, OffsetCommit):
            counted = Counted(commit=value, record_offset=at, since_offset=settled_at.get(key, at))
            if key in table.courses:
                table.courses[key].take(counted)
            else:
                table.courses[key] = CommitCourse(first=counted, last=counted)


def _take(into: dict[Key, Value], values: dict[Key, Value]) -> None:
    for key, value in values.items():
        if key not in into:
            into[key] = value
        elif into[key][0] <= value[0]:
            into[key] = (value[0], _updated(into[key][1], value[1]))


def _updated(
    before: OffsetCommit | TransactionState | RemoteSegment, now: OffsetCommit | TransactionState | RemoteSegment
) -> OffsetCommit | TransactionState | RemoteSegment:
    """The newer value; an update of a remote segment only brings its state."""
    if isinstance(before, RemoteSegment) and isinstance(now, RemoteSegment):
        states = (*before.states, *now.states)[-_STATES_KEPT:]
        if now.start_offset is None:
            return replace(before, state=now.state, states=states)
        return replace(now, states=states)
    return now


def merge_tables(tables: Iterable[CoordinatorTable]) -> CoordinatorTable:
    """The table of adjacent segments, in log order."""
    total = CoordinatorTable()
    for table in tables:
        for producer_id, (committed, offset) in table.leading_markers.items():
            _settle(total, producer_id, offset, committed=committed, ahead=table.courses)
        _forget(total, table.forgotten)
        _stand(total, table.latest, table.settled_at)
        for key, course in table.courses.items():
            if key in total.courses:
                total.courses[key].join(course)
            else:
                total.courses[key] = replace(course)
        for producer_id, values in table.pending.items():
            _take(total.pending.setdefault(producer_id, {}), values)
            total.pending_epochs.setdefault(producer_id, table.pending_epochs[producer_id])
        total.unreadable += table.unreadable
        total.history.join(table.history)
    return total


def committed_offsets(tables: Iterable[CoordinatorTable]) -> tuple[OffsetCommit, ...]:
    """Committed offsets that stand: the newest per group and partition, tombstones left out."""
    return tuple(
        value
        for table in tables
        for _, value in table.latest.values()
        if isinstance(value, OffsetCommit) and not value.tombstone
    )


def forgotten_offsets(tables: Iterable[CoordinatorTable]) -> frozenset[tuple[str, str, int]]:
    """Group, topic and partition of the committed offsets of which the newest record is a tombstone."""
    return frozenset(
        (value.group, value.topic, value.partition)
        for table in tables
        for _, value in table.latest.values()
        if isinstance(value, OffsetCommit) and value.tombstone
    )


def commit_courses(tables: Iterable[CoordinatorTable]) -> Mapping[TopicPartition, Mapping[str, CommitCourse]]:
    """By partition and group, whether its committed offset fell."""
    found: dict[TopicPartition, dict[str, CommitCourse]] = defaultdict(dict)
    for table in tables:
        for key, course in table.courses.items():
            if isinstance(key, tuple):
                group, topic, partition = key
                found[TopicPartition(topic, partition)][group] = course
    return found


def from_offset(table: CoordinatorTable, offset: int) -> frozenset[Key]:
    """Keys of which the newest value came with a record, or a transaction's marker, at this offset or behind it."""
    return frozenset(key for key, (at, _) in table.latest.items() if table.settled_at.get(key, at) >= offset)


def transaction_states(tables: Iterable[CoordinatorTable]) -> dict[int, TransactionState]:
    """Transactional ids' states by producer id; a producer id handed on stays known under its old owner."""
    by_producer: dict[int, TransactionState] = {}
    for table in tables:
        for _, value in table.latest.values():
            if isinstance(value, TransactionState) and not value.tombstone:
                by_producer[value.producer_id] = value
                if value.previous_producer_id is not None and value.previous_producer_id >= 0:
                    by_producer.setdefault(value.previous_producer_id, value)
    return by_producer


def remote_segments(tables: Iterable[CoordinatorTable]) -> tuple[RemoteSegment, ...]:
    """Remote segments, those deleted for good too, by partition and start."""
    found = [value for table in tables for _, value in table.latest.values() if isinstance(value, RemoteSegment)]
    return tuple(sorted(found, key=lambda s: (s.topic, s.partition, s.start_offset or 0)))
