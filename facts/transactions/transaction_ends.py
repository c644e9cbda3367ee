"""A coordinator's decisions against the end markers in a partition: which marker belongs to which decision.

In: the decisions that list a partition, in the order of their log, and the markers in its reference replica. Out: rows
of `transaction_ends`. Where producer id and epoch name one transaction (version 2, or a fenced producer) they decide;
where many transactions share them (version 1), their order does (shared_epochs). What two nodes' clocks say decides
nothing within the time that they may be apart.

    decided      PrepareCommit or PrepareAbort is in the log
    completed    the coordinator took the marker of every partition as written (all in-sync replicas have it)
"""

from collections import defaultdict
from collections.abc import Sequence

from tidegauge.facts.clocks import CLOCKS_APART_MS
from tidegauge.facts.context import PartitionContext
from tidegauge.facts.coordinators.transactional_ids import Decision
from tidegauge.facts.producers.state import UNKNOWN, Transaction
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.watermarks import HighWatermarkBounds
from tidegauge.facts.transactions.end_markers import Marker, MarkersByEpoch, end_markers
from tidegauge.facts.transactions.shared_epochs import Found, share_out
from tidegauge.facts.transactions.transaction_versions import aborted_by_hand
from tidegauge.relations import TransactionEndRow


def transaction_end_rows(
    context: PartitionContext, reference: ReplicaFacts | None, bounds: HighWatermarkBounds
) -> list[TransactionEndRow]:
    """A row for each decision that lists the partition."""
    if not context.coordinators.decisions:
        return []
    decisions = [decision for _, decision in context.coordinators.decisions]
    changes, cluster = context.history.changes, context.cluster
    created = changes[0].at_ms if changes and not changes[0].from_snapshot else None
    reused = _name_reused(context)
    # What was completed before the topic was created has its markers in the topic that had its name before.
    own = [None if reused and _is_older(d, created) else d for d in decisions]
    found = [Found() for _ in decisions]
    opened: dict[int, Transaction] = {}
    if reference is not None:
        by_hand = aborted_by_hand(context, reference)
        found = _matched(own, end_markers(reference), reference, by_hand)
        _ended_by_another(decisions, found, reference, by_hand)
        opened = {t.producer_id: t for t in reference.replay.open_transactions}
    last_ended = {d.producer_id: at for at, (d, f) in enumerate(zip(decisions, found, strict=True)) if f.marker}
    rows: list[TransactionEndRow] = []
    for at, ((record_partition, decision), end) in enumerate(zip(context.coordinators.decisions, found, strict=True)):
        left_open = None
        if reference is not None and last_ended.get(decision.producer_id, -1) < at:
            left_open = _left_open(context, decision, opened.get(decision.producer_id), reference)
        rows.append(
            {
                "topic": context.topic,
                "partition": context.partition,
                "broker_id": reference.broker_id if reference is not None else None,
                **_decision_columns(record_partition, decision, end),
                "open_first_offset": left_open,
                "first_held_offset": _first_held(reference) if reference is not None else None,
                "log_end_offset": reference.log_end_offset if reference is not None else None,
                "high_watermark_upper": bounds.upper,
                "created_at_ms": created,
                "unclean_election_at_ms": max(
                    (c.at_ms for c in changes if c.election == "unclean" and c.at_ms is not None), default=None
                ),
                "log_damaged": reference is not None
                and bool(
                    reference.damaged_batches or reference.given.unread_bases or reference.replay.unreadable_markers
                ),
                "ever_compacted": _ever_compacted(context, reference),
                "captured_at_ms": cluster.captured_at_ms,
                "broker_quiet": reference.moment.broker_quiet if reference is not None else cluster.snapshot_quiet,
                "snapshot_quiet": cluster.snapshot_quiet,
                "name_reused": False if reference is not None and _wrote_here(decision, reference) else reused,
            }
        )
    return rows


def _decision_columns(record_partition: int, decision: Decision, end: Found) -> TransactionEndRow:
    """What a coordinator decided, and the end markers that there are of it."""
    return {
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
        "by_clocks": end.by_clocks,
    }


def _left_open(
    context: PartitionContext, decision: Decision, opened: Transaction | None, reference: ReplicaFacts
) -> int | None:
    """Where the transaction begins that a decision without a marker left open; not one that began after it.

    Under version 2 the epoch tells. Under version 1, where the head of the log is gone, or a cleaner has been, with the
    marker perhaps, nothing does: what is open may be the next one.
    """
    if opened is None:
        return None
    if (decision.client_transaction_version or 0) >= 2:
        return opened.first_offset if opened.producer_epoch < decision.marker_epoch else None
    if opened.producer_epoch > decision.marker_epoch:
        return None
    whole = _first_held(reference) == 0 and not _ever_compacted(context, reference)
    return opened.first_offset if whole or opened.producer_epoch < decision.marker_epoch else None


def _ever_compacted(context: PartitionContext, reference: ReplicaFacts | None) -> bool:
    return context.settings.ever_compacted or (reference is not None and reference.ever_compacted)


def _wrote_here(decision: Decision, reference: ReplicaFacts) -> bool:
    """Whether the log holds data of the very transaction, as only version 2 can tell."""
    epoch = reference.replay.epochs.get((decision.producer_id, decision.marker_epoch - 1))
    return (decision.client_transaction_version or 0) >= 2 and epoch is not None and epoch.first_sequence is not None


def _name_reused(context: PartitionContext) -> bool | None:
    """Whether another topic had the name before; None where the metadata log does not reach back to that."""
    if len(context.history.topic_ids_deleted) > 1:
        return True
    return False if context.history.names_whole and context.metadata.captured else None


def _first_held(reference: ReplicaFacts) -> int:
    """Below it markers may be gone, or in the remote tier."""
    return max(reference.log_start_offset, reference.local_log_start_offset)


def _is_older(decision: Decision, created_at_ms: int | None) -> bool:
    completed = decision.completed_at_ms
    return created_at_ms is not None and completed is not None and completed < created_at_ms - CLOCKS_APART_MS


def _matched(
    decisions: Sequence[Decision | None], markers: MarkersByEpoch, reference: ReplicaFacts, by_hand: list[Transaction]
) -> list[Found]:
    found = [Found() for _ in decisions]
    of_version_1: dict[tuple[int, int], list[int]] = defaultdict(list)
    in_own_epoch = {t.marker_offset for t in reference.replay.completed if t.marker_producer_epoch == t.producer_epoch}
    hands = {t.marker_offset for t in by_hand}
    named: dict[tuple[int, int], set[int]] = defaultdict(set)
    for at, decision in enumerate(decisions):
        if decision is None:
            continue
        key = (decision.producer_id, decision.marker_epoch)
        if (decision.client_transaction_version or 0) >= 2:
            own = [m for m in markers.get(key, ()) if m.offset not in hands]
            # What ends data of its own epoch came late, or its client is back at version 1: the decision's was before.
            before = [m for m in own if m.offset not in in_own_epoch]
            found[at] = _of_one(decision, before or own)
            named[key] |= {m.offset for m in before}
        else:
            of_version_1[key].append(at)
    for key, places in of_version_1.items():
        wanting = [d for at in places if (d := decisions[at]) is not None]
        own = [m for m in markers.get(key, ()) if m.offset not in named[key]]
        for at, end in zip(places, share_out(wanting, own), strict=True):
            found[at] = end
    return found


def _of_one(decision: Decision, own: Sequence[Marker]) -> Found:
    """Producer id and epoch name the transaction: a marker of the other outcome is a contradiction."""
    contradicting = [m for m in own if m.outcome != decision.outcome]
    return Found(marker=next(iter(contradicting or own), None), count=len(own))


def _ended_by_another(
    decisions: Sequence[Decision], found: Sequence[Found], reference: ReplicaFacts, by_hand: list[Transaction]
) -> None:
    """A transaction that a marker of another epoch ended has its end; that the epoch is wrong is told of the marker."""
    wrong = {
        (t.producer_id, t.producer_epoch): t
        for t in reference.replay.completed
        if t.marker_producer_epoch not in (None, t.producer_epoch, t.producer_epoch + 1) and t.outcome != UNKNOWN
    }
    wrong |= {(t.producer_id, t.producer_epoch): t for t in by_hand}
    for decision, end in zip(decisions, found, strict=True):
        version_2 = (decision.client_transaction_version or 0) >= 2
        ended = wrong.get((decision.producer_id, decision.marker_epoch - version_2))
        if end.marker is None and not end.by_clocks and ended is not None and ended.marker_offset is not None:
            end.marker = Marker(offset=ended.marker_offset, outcome=ended.outcome, at_ms=ended.last_timestamp)
            end.count = 1
