"""Rows of `share_states`: how far a share group is with a partition, against that partition's log.

In: the histories of `__share_group_state`, and what is known of the partition that is consumed. Out: dictionaries
column -> value. A count of what was delivered is only said where a snapshot record is there to count from.
"""

from collections.abc import Iterable
from typing import Final

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.coordinators.share_history import PlacedShareState
from tidegauge.facts.replicas.readers import NOTHING_TOLD, reading_columns
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.succession import lineage_captured
from tidegauge.facts.replicas.watermarks import HighWatermarkBounds
from tidegauge.facts.rows import json_list
from tidegauge.relations import ShareStateRow

LARGEST_DELIVERY_COUNT_LIMIT: Final = 25
"""What group.share.max.delivery.count.limit may be set to at most (ShareGroupConfig)."""


def share_rows(
    context: PartitionContext, reference: ReplicaFacts | None, bounds: HighWatermarkBounds
) -> Iterable[ShareStateRow]:
    """A row for each share group that consumes the partition."""
    for placed in context.coordinators.share_states:
        yield {
            **share_row(placed, snapshot_quiet=context.cluster.snapshot_quiet),
            "topic": context.topic,
            "metadata_leader_epoch": context.assignment.leader_epoch,
            "log_start_offset": reference.log_start_offset if reference is not None else None,
            "high_watermark_upper": None if bounds.upper is None else max(bounds.upper, bounds.lower or 0),
            "log_end_offset": reference.log_end_offset if reference is not None else None,
            **reading_columns(placed.history.reached, reference, None),
            "lineage_captured": lineage_captured(context, reference),
            "metadata_log_captured": context.metadata.captured,
            "log_starts_copied": reference.copied.log_starts if reference is not None else None,
            "aborted_offsets": _aborted_from(reference, placed.history.start_offset) if reference is not None else None,
        }


def _aborted_from(reference: ReplicaFacts, start_offset: int | None) -> int:
    """At most how many offsets from the start on are of aborted transactions.

    The leader of a partition archives them for a group that reads committed records only, and counts them as complete;
    it does not have them written (SharePartition#filterAbortedTransactionalAcquiredRecords).
    """
    start, total = start_offset or 0, 0
    for transaction in reference.replay.completed:
        if transaction.outcome == "aborted" and transaction.last_offset >= start:
            span = transaction.last_offset - max(transaction.first_offset, start) + 1
            total += span if reference.ever_compacted else min(span, transaction.records)
    return total


def share_row(placed: PlacedShareState, *, snapshot_quiet: bool) -> ShareStateRow:
    """What the history alone tells."""
    history = placed.history
    epochs = history.last_epochs or (None, None, None)
    return {
        "group": placed.group,
        "topic": None,
        "topic_id": placed.topic_id,
        "partition": placed.partition,
        "state_partition": placed.state_partition,
        "expected_state_partition": placed.expected_state_partition,
        "names_hashed": placed.names_hashed,
        "first_record_offset": history.first_offset,
        "last_record_offset": history.last_offset,
        "record_count": history.records,
        "deleted": history.tombstone,
        "snapshot_epoch": epochs[0],
        "state_epoch": epochs[1],
        "leader_epoch": epochs[2] if epochs[2] is not None and epochs[2] >= 0 else None,
        "start_offset": history.start_offset,
        "delivery_complete_count": history.delivery_complete_count,
        "completed_offsets": history.completed_offsets,
        "largest_delivery_count": history.largest_delivery_count,
        "delivery_count_limit": placed.delivery_count_limit,
        "range_faults": history.range_faults,
        "epoch_faults": history.epoch_faults,
        "read_committed": placed.read_committed,
        "aborted_offsets": None,
        "metadata_leader_epoch": None,
        "log_start_offset": None,
        "high_watermark_upper": None,
        "log_end_offset": None,
        "lineage_captured": None,
        "metadata_log_captured": None,
        "log_starts_copied": None,
        **NOTHING_TOLD,
        "anomalies": json_list({"kind": f.kind, "offset": f.offset, "detail": f.detail} for f in history.faults),
        "broker_quiet": placed.broker_quiet,
        "snapshot_quiet": snapshot_quiet,
    }
