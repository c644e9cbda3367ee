"""Rows about producers: `producers`, `sequence_gaps` and `transactions`.

In: a replica's replayed producers, and what the transaction coordinators know. Out: dictionaries column -> value. A
transaction's version is only said where the coordinator says it, or the producer's commits show it.
"""

from typing import Final

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.producers.state import UNKNOWN, ProducerEpoch, Transaction
from tidegauge.facts.replicas.comparison import ReadBatches
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_columns import capture, of_replica
from tidegauge.facts.rows import json_list, known
from tidegauge.facts.transactions.repeats import NOTHING_REPEATED, Repeated, repeated_batches
from tidegauge.facts.transactions.transaction_versions import Telling, tellings
from tidegauge.relations import ProducerRow, ReplicaRow, SequenceGapRow, TransactionRow

_HOUR_MS: Final = 3_600_000


def producer_rows(
    context: PartitionContext, replica: ReplicaFacts, *, compacted: bool, read: ReadBatches
) -> tuple[list[ProducerRow], list[SequenceGapRow]]:
    """Rows of `producers` and `sequence_gaps`."""
    producers: list[ProducerRow] = []
    gaps: list[SequenceGapRow] = []
    repeated = repeated_batches(replica, read=read)
    open_first = {(t.producer_id, t.producer_epoch): t.first_offset for t in replica.replay.open_transactions}
    for (producer_id, producer_epoch), entry in sorted(replica.replay.epochs.items()):
        producers.append(
            {
                **of_replica(replica),
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "current_transaction_first_offset": open_first.get((producer_id, producer_epoch)),
                "next_producer_id": context.cluster.next_producer_id,
                "metadata_log_captured": context.metadata.captured,
                "ever_compacted": compacted,
                **_epoch_columns(entry),
                **_repeats(repeated.get((producer_id, producer_epoch), NOTHING_REPEATED)),
                **capture(context, replica),
            }
        )
        gaps += [
            {
                **of_replica(replica),
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "expected_sequence": b.expected_sequence,
                "found_sequence": b.found_sequence,
                "offset": b.offset,
                "previous_offset": known(b.previous_offset),
                "cause": b.cause,
            }
            for b in entry.breaks
        ]
    return producers, gaps


def _epoch_columns(entry: ProducerEpoch) -> ProducerRow:
    """What the replay says of a producer's epoch."""
    anomalies = sorted((b for b in entry.breaks if not b.explained), key=lambda b: b.offset)
    return {
        "first_sequence": entry.first_sequence,
        "last_sequence": entry.last_sequence,
        "first_offset": entry.first_offset,
        "last_offset": entry.last_offset,
        "last_timestamp_ms": known(entry.last_timestamp),
        "lost_gaps": entry.lost_gaps,
        "missing_sequences": entry.missing_sequences,
        "explained_gaps": entry.explained_gaps,
        "nonzero_starts": entry.nonzero_starts,
        "epoch_regressions": entry.epoch_regressions,
        "duplicate_batches": entry.duplicate_batches,
        "overlapping_batches": entry.overlapping_batches,
        "unsettled_batches": entry.unsettled_batches,
        "nontransactional_batches": entry.nontransactional_batches,
        "nontransactional_offset": entry.nontransactional_offset,
        "anomalies": json_list(
            {
                "kind": b.cause,
                "cause": b.cause,
                "expected_sequence": b.expected_sequence,
                "found_sequence": b.found_sequence,
                "offset": b.offset,
                "start_offset": b.offset,
                "end_offset": b.end_offset,
                "detail": f"sequence {b.found_sequence} at offset {b.offset}, {b.expected_sequence} was due",
            }
            for b in anomalies
        ),
    }


def _repeats(repeated: Repeated) -> ProducerRow:
    return {
        "repeated_batches": repeated.batches,
        "repeated_offset": repeated.offset,
        "repeats_offset": repeated.repeats_offset,
        "repeats_unverified": repeated.unverified,
    }


def live_producer_columns(context: PartitionContext, replica: ReplicaFacts) -> ReplicaRow:
    """How many producers a broker remembers of a replica at the moment of the capture, and how many came lately."""
    now, replay = context.cluster.captured_at_ms, replica.replay
    if now is None:
        return {"live_producer_ids": None, "producer_ids_unless_expired": None, "new_producer_ids": None}
    expiration = context.settings.producer_expiration
    over = [
        expiration.may_be_over(written_at_ms=s.timestamp, idle_ms=now - s.timestamp)
        if s.current_transaction_first_offset is None
        else False
        for s in replay.states.values()
    ]
    return {
        "live_producer_ids": over.count(False) if None not in over else None,
        "producer_ids_unless_expired": len(over) - over.count(True),
        "new_producer_ids": sum(1 for p in replay.states if now - replay.first_seen.get(p, 0) < _HOUR_MS),
    }


def transaction_rows(context: PartitionContext, replica: ReplicaFacts) -> list[TransactionRow]:
    """Rows of `transactions`, from the reference replica."""
    told = zip(replica.replay.transactions, tellings(context, replica), strict=True)
    return [_transaction_row(context, replica, transaction, telling) for transaction, telling in told]


def _transaction_row(
    context: PartitionContext, replica: ReplicaFacts, transaction: Transaction, telling: Telling
) -> TransactionRow:
    state = context.coordinators.transactions_by_producer.get(transaction.producer_id)
    lists = (
        None
        if state is None
        else any(p.topic == context.topic and p.partition == context.partition for p in state.partitions)
    )
    ongoing = state is not None and state.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    is_open = transaction.is_open
    hanging = is_open and context.coordinators.transaction_states_known and not (ongoing and lists)
    return {
        "topic": context.topic,
        "partition": context.partition,
        "broker_id": replica.broker_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "transactional_id": state.transactional_id if state is not None else None,
        "first_offset": transaction.first_offset,
        "last_offset": transaction.last_offset,
        "record_count": transaction.records,
        "outcome": transaction.outcome if transaction.outcome != UNKNOWN else None,
        "marker_offset": transaction.marker_offset,
        "marker_producer_epoch": transaction.marker_producer_epoch,
        "coordinator_epoch": transaction.coordinator_epoch,
        "previous_coordinator_epoch": transaction.previous_coordinator_epoch,
        "repeated_markers": transaction.repeated_markers,
        "contradicting_markers": transaction.contradicting_markers,
        "first_timestamp_ms": known(transaction.first_timestamp),
        "last_timestamp_ms": known(transaction.last_timestamp),
        "hanging": hanging,
        "client_transaction_version": telling.version,
        "coordinator_state": state.state if state is not None else None,
        "coordinator_producer_epoch": state.producer_epoch if state is not None else None,
        "coordinator_lists_partition": lists,
        "coordinator_known": context.coordinators.transaction_states_known,
        "transaction_timeout_ms": state.timeout_ms if state is not None else None,
        "max_transaction_timeout_ms": context.settings.max_transaction_timeout_ms,
        "captured_at_ms": context.cluster.captured_at_ms,
        "log_start_offset": replica.log_start_offset,
        **_start(transaction, compacted=replica.ever_compacted),
        **capture(context, replica),
        "aborted_by_hand": telling.by_hand,
    }


def _start(transaction: Transaction, *, compacted: bool) -> TransactionRow:
    """How it begins, and after what. A cleaner may have taken its first batch."""
    before, first = transaction.previous_marker, transaction.first_sequence
    return {
        "first_sequence": first if first is not None and first >= 0 and not (compacted and first > 0) else None,
        "previous_marker_offset": before.offset if before is not None else None,
        "previous_marker_producer_epoch": before.producer_epoch if before is not None else None,
        "previous_marker_bumped": before.bumped if before is not None else None,
    }
