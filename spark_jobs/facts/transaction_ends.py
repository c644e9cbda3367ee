"""A coordinator's decisions against the end markers in a partition: which marker belongs to which decision.

In: the decisions that list a partition, in the order of their log, and the markers in its reference replica. Out: rows
of `transaction_ends`. The rule that must hold: where producer id and epoch name one transaction (version 2, or a fenced
producer) they decide; where many transactions share them (version 1), their order and the clocks do (shared_epochs).

    decided      PrepareCommit or PrepareAbort is in the log
    completed    the coordinator took the marker of every partition as written (all in-sync replicas have it)
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from spark_jobs.facts.context import PartitionContext, Row
from spark_jobs.facts.producers import Transaction
from spark_jobs.facts.replica import ReplicaFacts
from spark_jobs.facts.segment_summary import COMMIT, EVENT, MARKER
from spark_jobs.facts.shared_epochs import CLOCK_MARGIN_MS, Found, Marker, share_out
from spark_jobs.facts.transactional_ids import Decision
from spark_jobs.facts.watermarks import HighWatermarkBounds


def transaction_end_rows(
    context: PartitionContext, reference: ReplicaFacts | None, bounds: HighWatermarkBounds
) -> list[Row]:
    """A row for each decision that lists the partition."""
    if not context.decisions:
        return []
    created = context.changes[0].at_ms if context.changes and not context.changes[0].from_snapshot else None
    markers = _markers(reference) if reference is not None else {}
    # What was completed before the topic was created has its markers in the topic that had its name before.
    found = _matched([None if _is_older(d, created) else d for _, d in context.decisions], markers)
    opened: dict[int, Transaction] = {}
    if reference is not None:
        _ended_by_another([d for _, d in context.decisions], found, reference)
        opened = {t.producer_id: t for t in reference.replay.open_transactions}
    rows = []
    for (record_partition, decision), end in zip(context.decisions, found, strict=True):
        rows.append(
            {
                "topic": context.topic,
                "partition": context.partition,
                "broker_id": reference.broker_id if reference is not None else None,
                "transactional_id": decision.transactional_id,
                "producer_id": decision.producer_id,
                "marker_epoch": decision.marker_epoch,
                "client_transaction_version": decision.client_transaction_version,
                "decided_outcome": decision.outcome,
                "record_partition": record_partition,
                "record_offset": decision.record_offset,
                "decided_at_ms": decision.decided_at_ms,
                "completed": decision.completed_offset is not None,
                "completed_at_ms": decision.completed_at_ms,
                "marker_offset": end.marker.offset if end.marker is not None else None,
                "marker_outcome": end.marker.outcome if end.marker is not None else None,
                "marker_count": end.count,
                "open_first_offset": (
                    _left_open(decision, opened.get(decision.producer_id), end, _first_held(reference))
                    if reference is not None
                    else None
                ),
                "first_held_offset": _first_held(reference) if reference is not None else None,
                "log_end_offset": reference.log_end_offset if reference is not None else None,
                "high_watermark_upper": bounds.upper,
                "created_at_ms": created,
                "unclean_election_at_ms": max(
                    (c.at_ms for c in context.changes if c.election == "unclean" and c.at_ms is not None), default=None
                ),
                "log_damaged": reference is not None
                and bool(reference.damaged_batches or reference.given.unread_bases),
                "ever_compacted": context.topic_compacted or (reference is not None and reference.ever_compacted),
                "captured_at_ms": context.captured_at_ms,
                "broker_quiet": reference.given.broker_quiet if reference is not None else context.snapshot_quiet,
                "snapshot_quiet": context.snapshot_quiet,
            }
        )
    return rows


def _left_open(decision: Decision, opened: Transaction | None, end: Found, first_held: int) -> int | None:
    """Where the transaction begins that a decision without a marker left open; not one that began after it.

    Where the head of the log is gone, with the marker perhaps, the next transaction is not taken for it by its clock.
    """
    if end.marker is not None or opened is None:
        return None
    margin_ms = 0 if first_held > 0 else CLOCK_MARGIN_MS
    if decision.decided_at_ms is not None and opened.first_timestamp > decision.decided_at_ms + margin_ms:
        return None
    return opened.first_offset


def _first_held(reference: ReplicaFacts) -> int:
    """Below it markers may be gone, or in the remote tier."""
    return max(reference.log_start_offset, reference.local_log_start_offset)


def _markers(reference: ReplicaFacts) -> Mapping[tuple[int, int], list[Marker]]:
    """By producer id and epoch, in log order."""
    parts = [part.events for segment in reference.given.segments for _, part in segment.ranges]
    events = np.concatenate(parts) if parts else np.zeros(0, dtype=EVENT)
    found: dict[tuple[int, int], list[Marker]] = defaultdict(list)
    for event in events[events["kind"] == MARKER]:
        found[int(event["producer_id"]), int(event["producer_epoch"])].append(
            Marker(
                offset=int(event["first_offset"]),
                outcome="committed" if event["marker_type"] == COMMIT else "aborted",
                at_ms=int(event["last_timestamp"]),
            )
        )
    return found


def _is_older(decision: Decision, created_at_ms: int | None) -> bool:
    completed = decision.completed_at_ms
    return created_at_ms is not None and completed is not None and completed < created_at_ms


def _matched(decisions: Sequence[Decision | None], markers: Mapping[tuple[int, int], list[Marker]]) -> list[Found]:
    found = [Found() for _ in decisions]
    shared: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, decision in enumerate(decisions):
        if decision is None:
            continue
        key = (decision.producer_id, decision.marker_epoch)
        if (decision.client_transaction_version or 0) >= 2:
            found[at] = _of_one(decision, markers.get(key, ()))
        else:
            shared[key].append(at)
    for key, places in shared.items():
        wanting = [d for at in places if (d := decisions[at]) is not None]
        for at, end in zip(places, share_out(wanting, markers.get(key, ())), strict=True):
            found[at] = end
    return found


def _of_one(decision: Decision, own: Sequence[Marker]) -> Found:
    """Producer id and epoch name the transaction: a marker of the other outcome is a contradiction."""
    contradicting = [m for m in own if m.outcome != decision.outcome]
    return Found(marker=next(iter(contradicting or own), None), count=len(own))


def _ended_by_another(decisions: Sequence[Decision], found: Sequence[Found], reference: ReplicaFacts) -> None:
    """A transaction that a marker of another epoch ended has its end; that the epoch is wrong is told of the marker."""
    wrong = {
        (t.producer_id, t.producer_epoch): t
        for t in reference.replay.completed
        if t.marker_producer_epoch not in (t.producer_epoch, t.producer_epoch + 1)
    }
    for decision, end in zip(decisions, found, strict=True):
        version_2 = (decision.client_transaction_version or 0) >= 2
        ended = wrong.get((decision.producer_id, decision.marker_epoch - version_2))
        if end.marker is None and ended is not None and ended.marker_offset is not None:
            end.marker = Marker(offset=ended.marker_offset, outcome=ended.outcome, at_ms=ended.last_timestamp)
            end.count = 1
