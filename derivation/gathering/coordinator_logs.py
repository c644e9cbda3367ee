"""The coordinators' logs of a snapshot: each partition read from one broker's copy, and what all of them tell.

In: the index step's rows of Kafka's internal topics, the metadata history. Out: `Coordinators`. One copy speaks for a
partition: its leader's, or where there is none the one that goes furthest in the newest leader epoch. That is the last
leader's, unless its disk was exchanged for an older one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidegauge.derivation.index_columns import values_of
from tidegauge.derivation.segment_pieces import whole_table
from tidegauge.facts.coordinators.commit_falls import CommitCourse
from tidegauge.facts.coordinators.rows import CoordinatorLog, Decided, decisions_by_partition, reached_by_partition
from tidegauge.facts.coordinators.share_history import PlacedShareState
from tidegauge.facts.coordinators.tables import CoordinatorTable, commit_courses, merge_tables, transaction_states
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.facts.metadata.settings import Settings
from tidegauge.facts.partitions.share_rows import LARGEST_DELIVERY_COUNT_LIMIT, share_row
from tidegauge.kafka_log.coordinator_records import TransactionState
from tidegauge.kafka_log.internal_topics import (
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import Rows, TransactionalIdRow
from tidegauge.runs.run import ReadSnapshot

TOPICS: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, REMOTE_LOG_METADATA)
_OF_SEGMENTS: Final = ["base_offset", "piece", "coordinator_records"]
_BATCH_ROWS: Final = 64
_NO_EPOCH: Final = -1
_DELIVERY_COUNT_LIMIT: Final = "group.share.max.delivery.count.limit"
_ISOLATION_LEVEL: Final = ("share.isolation.level", "read_uncommitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    """Every coordinator's log in one snapshot, and what they tell of each partition."""

    logs: Sequence[CoordinatorLog]
    transactions: Mapping[int, TransactionState]
    decisions: Mapping[TopicPartition, tuple[Decided, ...]]
    reached: Mapping[TopicPartition, Mapping[str, Mapping[int, int]]]
    courses: Mapping[TopicPartition, Mapping[str, CommitCourse]]
    share_states: Mapping[TopicPartition, tuple[PlacedShareState, ...]]
    unplaced_share_states: Sequence[PlacedShareState]
    """Of topics that the metadata log does not have."""

    def tables(self, topic: str) -> list[CoordinatorTable]:
        """The tables of a topic's partitions."""
        return [log.table for log in self.logs if log.topic == topic]

    def unreadable(self) -> set[str]:
        """Topics of which a batch could not be read."""
        return {log.topic for log in self.logs if log.table.unreadable}

    def rows(self, *, snapshot_quiet: bool) -> Rows:
        """The relations that no partition's task writes."""
        known = bool(self._of(TRANSACTION_STATE))
        groups = [r for log in self._of(CONSUMER_OFFSETS) for r in log.group_rows(self.transactions, known=known)]
        share_states = [share_row(s, snapshot_quiet=snapshot_quiet) for s in self.unplaced_share_states]
        return {"groups": groups, "share_states": share_states}

    def replaced_transaction_states(self) -> Mapping[str, TransactionState]:
        """By transactional id, the state that its last record replaced, where the log still has that."""
        histories = (log.table.history.transactional_ids for log in self._of(TRANSACTION_STATE))
        return {name: h.replaced for each in histories for name, h in each.items() if h.replaced is not None}

    def transactional_id_rows(self) -> tuple[TransactionalIdRow, ...]:
        """Of every transactional id; what only the partitions can tell of it is not there yet."""
        return tuple(r for log in self._of(TRANSACTION_STATE) for r in log.transactional_id_rows())

    def _of(self, topic: str) -> list[CoordinatorLog]:
        return [log for log in self.logs if log.topic == topic]


def read_coordinators(
    snapshot: ReadSnapshot,
    summaries: ds.Dataset,
    history: MetadataHistory,
    settings: Settings,
    *,
    epochs: Mapping[TopicPartition, Mapping[int, int]],
    quiet_brokers: frozenset[int],
    snapshot_quiet: bool,
) -> Coordinators:
    """Reads the coordinators' logs. `epochs`: the newest leader epoch of each copy that has one, by broker."""
    logs = list(
        _logs(snapshot, summaries, history, epochs=epochs, quiet_brokers=quiet_brokers, snapshot_quiet=snapshot_quiet)
    )
    states = [log for log in logs if log.topic == TRANSACTION_STATE]
    limit = settings.of_brokers(_DELIVERY_COUNT_LIMIT, LARGEST_DELIVERY_COUNT_LIMIT)
    names = {t.topic_id: t.name for t in history.topics.values() if not t.deleted}
    placed: dict[TopicPartition, list[PlacedShareState]] = defaultdict(list)
    unplaced: list[PlacedShareState] = []
    for share in _shares([log for log in logs if log.topic == SHARE_GROUP_STATE], limit, settings):
        topic = names.get(share.topic_id)
        (unplaced if topic is None else placed[TopicPartition(topic, share.partition)]).append(share)
    return Coordinators(
        logs=logs,
        transactions=transaction_states(log.table for log in states),
        decisions=decisions_by_partition(states),
        reached=reached_by_partition(log for log in logs if log.topic == CONSUMER_OFFSETS),
        courses=commit_courses(log.table for log in logs if log.topic == CONSUMER_OFFSETS),
        share_states={key: tuple(of_partition) for key, of_partition in placed.items()},
        unplaced_share_states=unplaced,
    )


def _shares(logs: Iterable[CoordinatorLog], limit: int, settings: Settings) -> Iterator[PlacedShareState]:
    for log in logs:
        for (group, topic_id, partition), history in sorted(log.table.history.share_states.items()):
            isolation = settings.of_group(group, *_ISOLATION_LEVEL)
            yield PlacedShareState(
                group=group,
                topic_id=topic_id,
                partition=partition,
                state_partition=log.partition,
                expected_state_partition=log.place_of(f"{group}:{topic_id}:{partition}"),
                names_hashed=log.names_hashed,
                delivery_count_limit=limit,
                read_committed=isolation.ever("read_committed") or (None if not isolation.reaches() else False),
                broker_quiet=log.broker_quiet,
                history=history,
            )


def _logs(
    snapshot: ReadSnapshot,
    summaries: ds.Dataset,
    history: MetadataHistory,
    *,
    epochs: Mapping[TopicPartition, Mapping[int, int]],
    quiet_brokers: frozenset[int],
    snapshot_quiet: bool,
) -> Iterator[CoordinatorLog]:
    decoded = (ds.field("snapshot") == snapshot.key) & ds.field("coordinator_records").is_valid()
    copies: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for row in summaries.to_table(
        columns=["topic", "partition", "broker_id", "valid_end_offset"],
        filter=decoded & ds.field("topic").isin(list(TOPICS)) & (ds.field("piece") == 0),
    ).to_pylist():
        ends = copies[TopicPartition(row["topic"], row["partition"])]
        ends[row["broker_id"]] = max(ends.get(row["broker_id"], 0), row["valid_end_offset"] or 0)
    speakers: dict[TopicPartition, int] = {}
    for key, by_broker in copies.items():
        topic = history.topic_named(key.topic)
        state = topic.partitions.get(key.partition) if topic is not None else None
        speakers[key] = speaker(
            by_broker,
            epochs=epochs.get(key, {}),
            leader_id=state.leader_id if state is not None else None,
            last_leader_id=state.last_leader_id if state is not None else None,
        )
    for key, rows in sorted(_rows_of(speakers, summaries, decoded).items()):
        topic, broker_id = history.topic_named(key.topic), speakers[key]
        yield CoordinatorLog(
            topic=key.topic,
            partition=key.partition,
            broker_id=broker_id,
            table=merge_tables(_tables(rows)),
            partition_count=len(topic.partitions) if topic is not None else None,
            names_hashed=snapshot.manifest.hashed_topics,
            broker_quiet=snapshot_quiet or broker_id in quiet_brokers,
            snapshot_quiet=snapshot_quiet,
            metadata_log_captured=history.captured,
        )


def _rows_of(
    speakers: Mapping[TopicPartition, int], summaries: ds.Dataset, decoded: ds.Expression
) -> Mapping[TopicPartition, list[pa.RecordBatch]]:
    """The rows of the copies that speak, in one pass over all."""
    found: dict[TopicPartition, list[pa.RecordBatch]] = {key: [] for key in speakers}
    batches = summaries.to_batches(
        columns=["topic", "partition", "broker_id", "base_offset", "piece", "coordinator_records"],
        filter=decoded & ds.field("topic").isin(list(TOPICS)),
        batch_size=_BATCH_ROWS,
    )
    for batch in batches:
        copies = zip(*(batch.column(name).to_pylist() for name in ("topic", "partition", "broker_id")), strict=True)
        ats: dict[TopicPartition, list[int]] = {}
        for at, (topic, partition, broker_id) in enumerate(copies):
            key = TopicPartition(topic, partition)
            if speakers[key] == broker_id:
                ats.setdefault(key, []).append(at)
        for key, of_log in ats.items():
            found[key].append(batch.select(_OF_SEGMENTS).take(pa.array(of_log)))
    return found


def _tables(batches: Sequence[pa.RecordBatch]) -> Iterator[CoordinatorTable]:
    """The tables of one log's segments, in its order."""
    rows = pa.Table.from_batches(batches)
    rows = rows.take(pc.sort_indices(rows, [("base_offset", "ascending"), ("piece", "ascending")]))
    for _, of_segment in groupby(enumerate(rows.column("base_offset").to_pylist()), key=itemgetter(1)):
        ats = [at for at, _ in of_segment]
        yield whole_table(_pieces(rows.slice(ats[0], len(ats))))


def _pieces(rows: pa.Table) -> Iterator[CoordinatorTable]:
    """The pieces of one segment's table, one after the other: each is larger as our values than in its column."""
    for at in range(rows.num_rows):
        yield from values_of("coordinator_records", rows.slice(at, 1).column("coordinator_records"))


def speaker(
    ends: Mapping[int, int], *, epochs: Mapping[int, int], leader_id: int | None, last_leader_id: int | None
) -> int:
    """The broker whose copy speaks for a partition. `ends`: where each copy ends; `epochs`: its newest leader epoch.

    Without a leader it is the copy that goes furthest in the newest epoch, and of equals the last leader's. A last
    leader whose log lacks the epoch that it led in has not the disk any more with which it was elected.
    """
    if leader_id is not None and leader_id in ends:
        return leader_id
    return max(sorted(ends), key=lambda b: (epochs.get(b, _NO_EPOCH), ends[b], b == last_leader_id))
