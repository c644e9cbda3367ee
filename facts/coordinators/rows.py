"""Rows of `transactional_ids` and `groups`: what the coordinators' logs say of each, and where it should say so.

In: the coordinators' logs, each with its table and history, and how many partitions their topics have. Out:
dictionaries column -> value. A key whose hash cannot be known (names were replaced, the partition count is not known)
is not said to be in the wrong place.

Sources: TransactionStateManager#partitionFor, GroupCoordinatorService#partitionFor, SharePartitionKey#asCoordinatorKey.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidegauge.facts.coordinators.group_history import GroupHistory
from tidegauge.facts.coordinators.tables import CoordinatorTable
from tidegauge.facts.coordinators.transactional_ids import COMPLETE_OF, Decision, Seen, TransactionalIdHistory
from tidegauge.facts.rows import json_list
from tidegauge.kafka_log.coordinator_records import OffsetCommit, TransactionState
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import GroupRow, TransactionalIdRow
from tidegauge.relations.coordinators import KeyedColumns

_OPEN: Final = ("Ongoing", *COMPLETE_OF)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLog:
    """One partition of a coordinator's topic, as one broker's copy tells it."""

    topic: str
    partition: int
    broker_id: int
    table: CoordinatorTable
    partition_count: int | None
    names_hashed: bool
    broker_quiet: bool
    snapshot_quiet: bool
    metadata_log_captured: bool = True

    def place_of(self, key: str) -> int | None:
        """The partition that a key belongs to; None if that cannot be told."""
        if self.names_hashed or not self.partition_count:
            return None
        return coordinator_partition(key, self.partition_count)

    def _columns(self, key: str) -> KeyedColumns:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "broker_id": self.broker_id,
            "expected_partition": self.place_of(key),
            "partition_count": self.partition_count,
            "names_hashed": self.names_hashed,
        }

    def transactional_id_rows(self) -> Iterable[TransactionalIdRow]:
        """Of a partition of `__transaction_state`."""
        for transactional_id, history in sorted(self.table.history.transactional_ids.items()):
            yield {
                "transactional_id": transactional_id,
                **self._columns(transactional_id),
                **_of_id(history),
                "broker_quiet": self.broker_quiet,
                "snapshot_quiet": self.snapshot_quiet,
                "metadata_log_captured": self.metadata_log_captured,
            }

    def group_rows(self, transactions: Mapping[int, TransactionState], *, known: bool) -> Iterable[GroupRow]:
        """Of a partition of `__consumer_offsets`; `transactions` by producer id, `known`: there was such a log."""
        pending = self._pending(transactions)
        committed: dict[str, int] = defaultdict(int)
        for _, value in self.table.latest.values():
            if isinstance(value, OffsetCommit) and not value.tombstone:
                committed[value.group] += 1
        for group, history in sorted(self.table.history.groups.items()):
            of_group = pending.get(group, ())
            orphaned = [p for p in of_group if p.orphaned] if known else []
            yield {
                "group": group,
                **self._columns(group),
                **_of_group(history),
                "committed_partitions": committed[group],
                "pending_commits": len(of_group),
                "orphaned_commits": len(orphaned),
                "orphaned_producer_id": orphaned[0].producer_id if orphaned else None,
                "orphaned_first_offset": orphaned[0].offset if orphaned else None,
                "transactions_known": known,
                "broker_quiet": self.broker_quiet,
                "snapshot_quiet": self.snapshot_quiet,
                "metadata_log_captured": self.metadata_log_captured,
            }

    def _pending(self, transactions: Mapping[int, TransactionState]) -> Mapping[str, Sequence["_Pending"]]:
        """By group, what was committed in transactions without an end marker, in log order."""
        found: dict[str, list[_Pending]] = defaultdict(list)
        here = TopicPartition(topic=CONSUMER_OFFSETS, partition=self.partition)
        for producer_id, values in self.table.pending.items():
            state = transactions.get(producer_id)
            open_here = state is not None and state.state in _OPEN and here in state.partitions
            written = self.table.pending_epochs.get(producer_id)
            # An ongoing transaction has the epoch of its data; one that is being ended may have the next.
            if open_here and state is not None and state.state == "Ongoing" and written is not None:
                open_here = written == state.producer_epoch
            for offset, value in values.values():
                if isinstance(value, OffsetCommit):
                    found[value.group].append(_Pending(offset=offset, producer_id=producer_id, orphaned=not open_here))
        return {group: sorted(of_group, key=lambda p: p.offset) for group, of_group in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    offset: int
    producer_id: int
    orphaned: bool


def _of_id(history: TransactionalIdHistory) -> TransactionalIdRow:
    value = history.last.value
    live = not value.tombstone
    decisions = history.decisions
    return {
        "first_record_offset": history.first.offset,
        "last_record_offset": history.last.offset,
        "record_count": history.records,
        "producer_id": value.producer_id if live else None,
        "producer_epoch": value.producer_epoch if live else None,
        "previous_producer_id": value.previous_producer_id,
        "next_producer_id": value.next_producer_id,
        "state": value.state,
        "partitions": [str(p) for p in value.partitions],
        "timeout_ms": value.timeout_ms if live else None,
        "started_at_ms": value.start_ms,
        "updated_at_ms": value.last_update_ms,
        "client_transaction_version": value.client_transaction_version,
        "judged_steps": history.judged_steps,
        "unjudged_steps": history.unjudged_steps,
        "broken_steps": history.broken,
        "decided_transactions": len(decisions),
        "undelivered_transactions": sum(1 for d in decisions[:-1] if d.completed_offset is None),
        "anomalies": json_list(
            {"kind": s.kind, "offset": s.offset, "previous_offset": s.previous_offset, "detail": s.detail}
            for s in history.broken_steps
        ),
        "history": json_list(_step(seen) for seen in history.newest),
    }


def _step(seen: Seen) -> Mapping[str, object]:
    value = seen.value
    if value.tombstone:
        return {"offset": seen.offset, "state": value.state}
    return {
        "offset": seen.offset,
        "state": value.state,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "at_ms": value.last_update_ms,
        "partitions": [str(p) for p in value.partitions],
    }


def _of_group(history: GroupHistory) -> GroupRow:
    return {
        "first_record_offset": history.first_offset,
        "last_record_offset": history.last_offset,
        "record_count": history.records,
        "kind": history.kind,
        "generation": history.epoch("generation"),
        "group_epoch": history.epoch("group epoch"),
        "assignment_epoch": history.epoch("assignment epoch"),
        "largest_member_epoch": history.largest_member_epoch,
        "member_count": history.member_count,
        "epoch_regressions": history.regressions,
        "anomalies": json_list(
            {
                "kind": r.kind,
                "member_id": r.member_id,
                "offset": r.offset,
                "previous_offset": r.previous_offset,
                "detail": f"{r.kind} {r.before} became {r.found}" + (f" (member {r.member_id})" if r.member_id else ""),
            }
            for r in history.regressions_kept
        ),
    }


Decided = tuple[int, Decision]
"""The partition of `__transaction_state` that has a decision, and the decision."""


def decisions_by_partition(logs: Iterable[CoordinatorLog]) -> Mapping[TopicPartition, tuple[Decided, ...]]:
    """What coordinators decided, by each partition that took part, in the order of each log."""
    found: dict[TopicPartition, list[Decided]] = defaultdict(list)
    for log in logs:
        decided = [d for history in log.table.history.transactional_ids.values() for d in history.decisions]
        for decision in sorted(decided, key=lambda d: d.record_offset):
            for place in decision.partitions:
                found[place].append((log.partition, decision))
    return {key: tuple(of_partition) for key, of_partition in found.items()}


def reached_by_partition(logs: Iterable[CoordinatorLog]) -> Mapping[TopicPartition, Mapping[str, Mapping[int, int]]]:
    """By partition and group, how far it had committed under each leader epoch that its commits name."""
    found: dict[TopicPartition, dict[str, Mapping[int, int]]] = defaultdict(dict)
    for log in logs:
        for (group, topic, partition), reached in log.table.history.reached.items():
            if reached.offsets:
                found[TopicPartition(topic, partition)][group] = reached.offsets
    return found
