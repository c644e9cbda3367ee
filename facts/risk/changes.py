"""What became of each replica since an earlier snapshot, and the records that are gone for good.

In: the replicas of one partition in both snapshots (`ReplicaSet`), and a way to read batch headers of either. Out: rows
of `changes`, one per replica of either snapshot, and rows of `losses` with state `lost`. Bytes are compared only where
both logs hold them as they were written (above both log starts, above what a cleaner may have rewritten, outside of
damage), and only if both are the same incarnation of the same replica.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.replicas.comparison import (
    NO_DIFFERENCE,
    Difference,
    ReadBatches,
    blind_stretches,
    first_difference,
    segments_missing,
)
from tidegauge.facts.replicas.readers import readers_of
from tidegauge.facts.replicas.replica import CLEANED_END_UNKNOWN, ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.replicas.succession import GIVES_RECORDS_UP, Succession, succession
from tidegauge.facts.risk.losses import election_cause, loss_row
from tidegauge.facts.risk.lost_records import (
    ANOTHER_MAY_HOLD,
    CommittedEnd,
    LostRange,
    committed_ends,
    lost_of,
    newest_epoch,
    undecided,
)
from tidegauge.facts.rows import json_list, known
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.relations import ChangeRow, LossRow

SAME: Final = "same"
_FAR: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """What holds for the two snapshots as a whole. Directory ids are by broker and log dir, and by broker."""

    previous_snapshot_id: str
    previous_captured: frozenset[int]
    captured: frozenset[int]
    metadata_known: bool
    previous_directory_ids: Mapping[tuple[int, str], str]
    directory_ids: Mapping[int, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One replica then and now. `changed_offset`: the first one whose batch is not there as it was."""

    start_offset: int | None
    end_offset: int | None
    incomparable_reason: str | None
    difference: Difference
    changed_offset: int | None
    kind: str | None


def changes_of(
    present: ReplicaSet, earlier: ReplicaSet, pairing: Pairing, *, read: ReadBatches, read_earlier: ReadBatches
) -> tuple[list[ChangeRow], list[LossRow]]:
    """Rows of `changes`, and rows of `losses` with state `lost`, or `possible` where that is not proven."""
    before = {f.broker_id: f for f in earlier.live}
    now = {f.broker_id: f for f in present.live}
    ends = committed_ends(earlier, present)
    continuity = {
        b: _continuity(present, earlier, pairing, b, before.get(b), now.get(b))
        for b in sorted(before.keys() | now.keys())
    }
    gone: tuple[LostRange, ...] = ()
    reason = _not_the_partition(present, earlier, pairing)
    if reason is None:
        reason = undecided(present, earlier, pairing.captured)
        # What no replica at hand has may be on one that is not: it is told of as possible.
        if reason is None or reason in ANOTHER_MAY_HOLD:
            gone = lost_of(present, earlier, ends, read=read, read_earlier=read_earlier)
    lost = [x for x in gone if reason is None and x.declared_committed > 0]
    rows = []
    for broker_id, kind in continuity.items():
        then, today = before.get(broker_id), now.get(broker_id)
        compared = _compared(then, today, kind, read=read, read_earlier=read_earlier)
        row = _change_row(present, earlier, pairing, kind, compared, then, today, ends.get(broker_id))
        own = [x for x in lost if then is not None and _held(x, then, earlier)]
        row |= {
            "broker_id": broker_id,
            "records_lost": sum(x.records_below(_held_end(x, then, earlier)) for x in own if then is not None)
            if reason is None
            else None,
            "first_lost_offset": min((x.start_offset for x in own), default=None),
            "lost_end_offset": max((x.end_offset for x in own), default=None),
            "loss_undecided_reason": reason,
            "groups_affected": sorted({g for x in own for g in _groups(present.context, earlier, x)})
            if reason is None
            else None,
        }
        rows.append(row)
    return rows, [_loss_row(present, earlier, x, None if x in lost else reason or "commitment") for x in gone]


def _held(lost: LostRange, replica: ReplicaFacts, earlier: ReplicaSet) -> bool:
    """Whether a replica held the first of a lost range's batches in the earlier snapshot."""
    return lost.start_offset < _held_end(lost, replica, earlier)


def _held_end(lost: LostRange, replica: ReplicaFacts, earlier: ReplicaSet) -> int:
    """Up to where a replica had the log of which a range was lost."""
    if replica.broker_id == lost.broker_id:
        return replica.log_end_offset
    reference = earlier.reference
    if reference is not None and lost.broker_id == reference.broker_id:
        return earlier.shared_end_of(replica)
    return 0


# ---------------------------------------------------------------------------------------------------------- continuity


def _topic_id(replicas: ReplicaSet, replica: ReplicaFacts | None) -> str | None:
    if replica is not None and replica.given.topic_id is not None:
        return replica.given.topic_id
    return replicas.context.topic_id if replicas.context.assignment.known else None


def _continuity(
    present: ReplicaSet,
    earlier: ReplicaSet,
    pairing: Pairing,
    broker_id: int,
    then: ReplicaFacts | None,
    now: ReplicaFacts | None,
) -> str:
    """Whether what a broker has now continues what it had, and if not, why."""
    context = present.context
    if broker_id not in pairing.captured:
        return "not captured"
    if then is None:
        if _unread(earlier, broker_id):
            return "unread before"
        return _absent_before(present.context, earlier.context, pairing, broker_id)
    was, is_now = _topic_id(earlier, then), _topic_id(present, now)
    if now is None:
        if _unread(present, broker_id):
            return "unread"
        if _deleted(present, pairing, was):
            return "deleted"
        return "removed" if context.assignment.known and broker_id not in context.assignment.replicas else "missing"
    if was is not None and is_now is not None and was != is_now:
        return "recreated"
    since = [c for c in context.history.changes if c.partition_epoch > _epoch_of(earlier.context)]
    if any(broker_id not in c.replicas or broker_id in c.adding_replicas for c in since):
        return "reassigned"
    return SAME


def _absent_before(context: PartitionContext, earlier: PartitionContext, pairing: Pairing, broker_id: int) -> str:
    """Why the earlier snapshot has no replica of this broker."""
    then = earlier.assignment
    if then.known:
        settled = set(then.replicas) - set(then.adding_replicas)
        if broker_id not in settled or then.topic_deleted or earlier.topic_id != context.topic_id:
            return "created"
        return "missing before" if broker_id in pairing.previous_captured else "not captured before"
    if earlier.metadata.captured:
        return "created"
    return "missing before" if broker_id in pairing.previous_captured else "not captured before"


def _unread(replicas: ReplicaSet, broker_id: int) -> bool:
    """The broker's replica is there, and the end of its log could not be read."""
    return any(f.broker_id == broker_id and not f.end_known and not f.given.place.is_future for f in replicas.facts)


def _epoch_of(context: PartitionContext) -> int:
    return context.assignment.partition_epoch if context.assignment.partition_epoch is not None else -1


def _deleted(present: ReplicaSet, pairing: Pairing, topic_id: str | None) -> bool:
    """The topic that the earlier replica was of is no more, by the metadata log."""
    context = present.context
    if not context.assignment.known:
        return pairing.metadata_known and context.topic != CLUSTER_METADATA
    if topic_id is None or context.topic_id == topic_id:
        return context.assignment.topic_deleted
    return True


def _not_the_partition(present: ReplicaSet, earlier: ReplicaSet, pairing: Pairing) -> str | None:
    """Why the earlier partition's records are nobody's business any more."""
    was = next((i for f in earlier.live if (i := _topic_id(earlier, f)) is not None), None)
    if present.context.topic == CLUSTER_METADATA:
        return "the metadata log's high watermark is on no disk"
    if not earlier.live:
        return "no earlier replica"
    if _deleted(present, pairing, was):
        return "the topic was deleted"
    return None


# ---------------------------------------------------------------------------------------------------------- comparison


def _compared(
    then: ReplicaFacts | None,
    now: ReplicaFacts | None,
    continuity: str,
    *,
    read: ReadBatches,
    read_earlier: ReadBatches,
) -> Comparison:
    if then is None or now is None or continuity != SAME:
        return _nothing(f"replica: {continuity}")
    if then.given.unread_bases or now.given.unread_bases:
        return _nothing("a segment could not be read")
    if then.summary.batch_count == 0:
        return _nothing("no batches")
    if not (then.cleaned_end_known and now.cleaned_end_known):
        return _nothing(CLEANED_END_UNKNOWN)
    cleaned = then.ever_compacted or now.ever_compacted
    start = max(then.log_start_offset, now.log_start_offset, now.local_log_start_offset, then.summary.first_offset)
    if cleaned:
        cleaners = [f.checkpointed.cleaner_offset for f in (then, now) if f.checkpointed.cleaner_offset is not None]
        start = max(start, now.summary.first_offset, *cleaners)
    blind = min((s.start_offset for f in (then, now) for s in blind_stretches(f)), default=_FAR)
    # As Kafka's recovery would end it: a tail that it cuts was never acknowledged.
    then_end = min(then.readable_end_offset, then.log_end_offset, blind)
    end = min(then_end, now.readable_end_offset)
    if start >= then_end:
        return _nothing("compacted" if cleaned else "no common range")
    difference = (
        first_difference(then, now, start, end, read=(read_earlier, read), not_held=segments_missing(then))
        if start < end
        else NO_DIFFERENCE
    )
    changed, kind = difference.offset, _kind(difference)
    if changed is None and end < then_end:
        changed, kind = max(start, end), "truncated"
    return Comparison(
        start_offset=start,
        end_offset=max(start, end),
        incomparable_reason=None,
        difference=difference,
        changed_offset=changed,
        kind=kind,
    )


def _nothing(reason: str) -> Comparison:
    return Comparison(
        start_offset=None,
        end_offset=None,
        incomparable_reason=reason,
        difference=NO_DIFFERENCE,
        changed_offset=None,
        kind=None,
    )


def _kind(difference: Difference) -> str | None:
    """What happened at the first offset that differs."""
    if difference.offset is None:
        return None
    was, now = difference.quoted[0].one, difference.quoted[0].other
    if was is None or now is None:
        return "missing" if now is None else "inserted"
    return "rewritten" if was["leader_epoch"] == now["leader_epoch"] else "replaced"


# ---------------------------------------------------------------------------------------------------------------- rows


def _change_row(
    present: ReplicaSet,
    earlier: ReplicaSet,
    pairing: Pairing,
    continuity: str,
    compared: Comparison,
    then: ReplicaFacts | None,
    now: ReplicaFacts | None,
    end: CommittedEnd | None,
) -> ChangeRow:
    context, committed = present.context, end.offset if end is not None else None
    changed = compared.changed_offset if compared.kind != "truncated" else None
    unclean = _unclean_since(context, then)
    return {
        "topic": context.topic,
        "partition": context.partition,
        "previous_snapshot_id": pairing.previous_snapshot_id,
        "continuity": continuity,
        "previous_topic_id": _topic_id(earlier, then) if then is not None else None,
        "topic_id": _topic_id(present, now) if now is not None else None,
        **_before_and_after(then, now),
        "previous_committed_end_offset": committed,
        "committed_proof": end.proof if end is not None else None,
        "comparable": compared.incomparable_reason is None,
        "incomparable_reason": compared.incomparable_reason,
        "compared_from_offset": compared.start_offset,
        "compared_to_end_offset": compared.end_offset,
        "first_changed_offset": compared.changed_offset,
        "change_kind": compared.kind,
        "first_changed_committed_offset": (
            changed if changed is not None and committed is not None and changed < committed else None
        ),
        "identity_violation_offset": compared.difference.same_epoch_offset,
        "changed_without_epochs": compared.difference.offset is not None and compared.difference.without_epochs,
        "changed_batches": json_list(q.named("previous_batch", "batch") for q in compared.difference.quoted),
        "elections_on_record": then is not None
        and succession(
            context, after_epoch=then.summary.last_leader_epoch, until_epoch=newest_epoch(present)
        ).on_record,
        "unclean_election_offset": unclean.metadata_offset if unclean is not None else None,
        "unclean_election_at_ms": unclean.at_ms if unclean is not None else None,
        "isr_before_election": list(unclean.previous_isr) if unclean is not None else None,
        "directory_replaced": _directory_replaced(pairing, then),
        # A segment that is missing now is a loss or told by another; one that was missing then is nothing to hold to.
        "damaged": any(blind_stretches(f) or f.given.unread_bases for f in (then, now) if f is not None)
        or (then is not None and (bool(segments_missing(then)) or _holds_none_of_its_offsets(then))),
        "clean_shutdown": now.moment.clean_shutdown if now is not None else None,
        "ever_compacted": any(f.ever_compacted for f in (then, now) if f is not None),
        "remote_storage_enable": context.settings.remote_storage_enable,
        "checkpointed_log_start": now is not None and now.checkpointed.log_start_offset is not None,
        "is_leader": now is not None and context.assignment.leader_id == now.broker_id,
        "broker_quiet": now.moment.broker_quiet if now is not None else context.cluster.snapshot_quiet,
        "snapshot_quiet": context.cluster.snapshot_quiet,
    }


def _holds_none_of_its_offsets(replica: ReplicaFacts) -> bool:
    """A log without one batch that had some, which no cleaner took: its files were cut to nothing."""
    starts, ends = replica.log_start_offset, replica.log_end_offset
    had_some = starts < ends and not replica.ever_compacted
    return replica.summary.batch_count == 0 and (had_some or (replica.checkpointed.high_watermark or 0) > ends)


def _before_and_after(then: ReplicaFacts | None, now: ReplicaFacts | None) -> ChangeRow:
    """Where the replica's log began and ended, and what was checkpointed of it, in each snapshot that has it."""
    entries = now.vector.entries if now is not None else ()
    return {
        "previous_log_start_offset": then.log_start_offset if then is not None else None,
        "log_start_offset": now.log_start_offset if now is not None else None,
        "previous_log_end_offset": then.log_end_offset if then is not None else None,
        "log_end_offset": now.log_end_offset if now is not None else None,
        "previous_high_watermark": then.checkpointed.high_watermark if then is not None else None,
        "high_watermark": now.checkpointed.high_watermark if now is not None else None,
        "previous_last_leader_epoch": known(then.summary.last_leader_epoch) if then is not None else None,
        "last_leader_epoch": known(now.summary.last_leader_epoch) if now is not None else None,
        "last_epoch_start_offset": entries[-1].start_offset if entries else None,
    }


def _directory_replaced(pairing: Pairing, then: ReplicaFacts | None) -> bool | None:
    """The log dir that held the replica is no longer among its broker's; None where no directory.id tells."""
    if then is None:
        return None
    was = pairing.previous_directory_ids.get((then.broker_id, then.given.place.log_dir))
    own = pairing.directory_ids.get(then.broker_id)
    return None if was is None or not own else was not in own


def _unclean_since(context: PartitionContext, then: ReplicaFacts | None) -> PartitionChange | None:
    """The first unclean election behind the last epoch that the earlier log had."""
    if then is None:
        return None
    epoch = then.summary.last_leader_epoch
    return succession(context, after_epoch=epoch, until_epoch=None).unclean


def _loss_row(present: ReplicaSet, earlier: ReplicaSet, lost: LostRange, open_for: str | None) -> LossRow:
    """As `losses.losses_of` had told of it while the records were at risk.

    `open_for`: why it is not known whether they are lost; None where it is.
    """
    context = present.context
    since = succession(context, after_epoch=lost.leader_epoch, until_epoch=newest_epoch(present))
    return loss_row(
        context,
        lost.start_offset,
        lost.end_offset,
        records=lost.records,
        markers=lost.markers,
        leader_epoch=known(lost.leader_epoch),
        held_by=(),
        state="lost" if open_for is None else "possible",
        declared_committed=lost.declared_committed,
        cause=_cause(lost, since, open_for),
        groups=_groups(context, earlier, lost),
    )


def _groups(context: PartitionContext, earlier: ReplicaSet, lost: LostRange) -> set[str]:
    """Consumer groups that had committed past the first of the records, by either snapshot."""
    return {
        group
        for snapshot in (earlier.context, context)
        for group in readers_of(snapshot, lost.start_offset, lost.leader_epoch)
    }


def _cause(lost: LostRange, since: Succession, open_for: str | None) -> str:
    held = f"broker {lost.broker_id} held them in the earlier snapshot"
    unclean = [c for c in since.changes if c.election in GIVES_RECORDS_UP]
    if unclean:
        more = f", and {len(unclean) - 1} more after it" if len(unclean) > 1 else ""
        cause = f"{election_cause(unclean[0])}{more}; {held}"
    elif since.on_record:
        cause = (
            f"no unclean election is on record; {held}, and no replica has them now: a log lost its tail (power, a "
            "disk put in place of another), or its bytes were changed"
        )
    else:
        cause = (
            f"{held}, and no replica has them now; not every election since is on record, so it may have been an "
            "unclean election, a log that lost its tail, a disk put in place of another, or changed bytes"
        )
    if open_for == "commitment":
        cause += ". Whether they were committed is not known"
    elif open_for is not None:
        cause += f". Whether they are lost is not known: {open_for}"
    return cause
