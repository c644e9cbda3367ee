"""Committed records that nobody at hand holds, told by somebody else: by groups that had read them, by the remote tier.

In: a partition's replicas, what is known of its groups and its remote segments. Out: rows of `losses`. What a group had
read was committed, for nobody reads above the high watermark; it is lost where every replica that may hold it was read,
and possibly lost where one is missing. No row where what is missing may only be copied later.

Sources: KIP-320 (a commit bears the leader epoch of the last record read), KIP-405.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tidegauge.facts.cleanup.remote_tier import Hole, RemoteObject, RemoteObjects, holes
from tidegauge.facts.metadata.upkeep_context import UpkeepContext
from tidegauge.facts.replicas.epochs import EpochVector
from tidegauge.facts.replicas.readers import read_to, readers_of
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.risk.losses import loss_row
from tidegauge.relations import LossRow

_LOG: Final = "log"
_FILES: Final = 5
"""Kinds of file that a copied segment has in the store (RemoteLogManager.RLMCopyTask#copyLogSegment)."""


def unheld_losses(present: ReplicaSet, told: Sequence[LossRow], objects: RemoteObjects | None) -> list[LossRow]:
    """Losses beside those that the replicas themselves tell of (`told`). `objects` None: the snapshot holds no remote
    store.
    """
    if present.reference is None or present.context.assignment.topic_deleted:
        return []
    return [
        *_read_and_gone(present, present.reference, told),
        *_read_without_epochs(present),
        *_holes_in_the_tier(present, present.reference, objects or {}),
    ]


def _missing(present: ReplicaSet) -> tuple[int, ...]:
    """Brokers whose replicas may hold what nobody at hand does: they are not in the copy, or as they were before."""
    return tuple(sorted(set(present.context.assignment.replicas) - present.brokers_at_hand))


def _state(present: ReplicaSet) -> str:
    """Lost, where every assigned replica was read to its end; else possible. Who is assigned must be on record."""
    known = present.context.assignment.told
    return "lost" if known and not _missing(present) else "possible"


def _read_and_gone(present: ReplicaSet, reference: ReplicaFacts, told: Sequence[LossRow]) -> Iterable[LossRow]:
    """What groups had read under a leader epoch beyond where that ends in every log at hand."""
    context = present.context
    for leader_epoch, end in sorted(read_to(context).items()):
        own = reference.vector.end_offset_for(leader_epoch)
        if own.leader_epoch is None or own.end_offset is None or own.end_offset >= end:
            continue
        settled = leader_epoch != reference.vector.latest_epoch
        if not settled and not context.cluster.snapshot_quiet:
            continue  # In a log that was copied before the commit it proves nothing.
        start = max(
            int(own.end_offset), reference.log_start_offset, *(_end_of(f.vector, leader_epoch) for f in present.live)
        )
        cause = (
            f"groups had committed offsets up to {end} that they read under leader epoch {leader_epoch}; in every log "
            f"at hand that epoch ends at {start} or before"
        )
        for low, high in _not_told(start, end, leader_epoch, told):
            yield _row(present, low, high, leader_epoch, cause)


def _read_without_epochs(present: ReplicaSet) -> Iterable[LossRow]:
    """What groups had read beyond every log at hand, of message formats without leader epochs.

    A log that was copied before the commit proves nothing, so it must hold records that were written after it. That is
    what clients' clocks say: the loss is possible, and only where another replica may be.
    """
    if _state(present) == "lost" or any(f.vector.entries for f in present.live):
        return
    start = max(f.log_end_offset for f in present.live)
    written_at_ms = max(f.summary.max_timestamp_ms for f in present.live)
    gone = [
        c.offset
        for c in present.context.coordinators.commits
        if c.offset > start
        and (c.topic_id is None or c.topic_id == present.context.topic_id)
        and (present.context.cluster.snapshot_quiet or (c.commit_timestamp_ms or written_at_ms) < written_at_ms)
    ]
    if gone:
        cause = (
            f"groups had committed offsets up to {max(gone)}; every log at hand ends at {start} or before, though it "
            "holds records that were written after that"
        )
        yield _row(present, start, max(gone), None, cause)


def _not_told(start: int, end: int, leader_epoch: int, told: Sequence[LossRow]) -> Iterable[tuple[int, int]]:
    """What is left of a range of records that nobody holds, without those of which an earlier copy told already.

    What some replica holds at these offsets is of another leader epoch: other records.
    """
    same = [r for r in told if not r["held_by"] and (r["leader_epoch"] is None or r["leader_epoch"] >= leader_epoch)]
    for row in sorted(same, key=lambda r: int(r["start_offset"])):
        if start < min(row["start_offset"], end):
            yield start, min(row["start_offset"], end)
        start = max(start, row["end_offset"])
    if start < end:
        yield start, end


def _end_of(vector: EpochVector, leader_epoch: int) -> int:
    """Where an epoch ends in a log that has it; 0 in one that has not."""
    if vector.start_of(leader_epoch) is None:
        return 0
    end = vector.end_offset_for(leader_epoch).end_offset
    return int(end) if end is not None else 0


def _holes_in_the_tier(present: ReplicaSet, reference: ReplicaFacts, objects: RemoteObjects) -> Iterable[LossRow]:
    """What the remote tier does not hold, and no replica's local log either: no segment is listed there, or the log
    file of the one that is listed is not in the store.
    """
    context, known = present.context, present.context.upkeep or UpkeepContext()
    logs = [f for f in present.live if f.segments]
    if not context.settings.remote_storage_enable or not known.remote_known or not logs:
        return
    if reference.checkpointed.log_start_offset is None:
        return  # Where the log starts is written once a minute, and not at all before the first.
    local_start = min(f.segments[0].segment.base_offset for f in logs)
    unlisted, gone = (
        list(holes(s, reference.vector, log_start_offset=reference.log_start_offset, local_start_offset=local_start))
        for s in (known.remote, [s for s in known.remote if not _has_lost_its_log(present, objects.get(s.segment_id))])
    )
    neither = "neither the remote tier nor the local log of any replica has these offsets above the log start"
    listed = f"{neither}: the tier's metadata list a segment of them, and its log file is not in the remote store"
    found = [(start, end, neither) for start, end in unlisted]
    found += [(start, end, listed) for start, end in _beyond(gone, unlisted)]
    for start, end, cause in sorted(found):
        if end == local_start and not context.cluster.snapshot_quiet:
            continue  # The tier's metadata may have been read before the segment was copied there.
        leader_epoch = reference.vector.epoch_at(start)
        yield _row(present, start, end, int(leader_epoch) if leader_epoch is not None else None, cause)


def _has_lost_its_log(present: ReplicaSet, stored: RemoteObject | None) -> bool:
    """A segment of which nothing is left may have been deleted while the rest was copied."""
    if stored is None or _LOG not in stored.missing_files:
        return False
    return present.context.cluster.snapshot_quiet or len(stored.missing_files) < _FILES


def _beyond(holes_found: Iterable[Hole], told: Sequence[Hole]) -> Iterable[Hole]:
    """What of some stretches, in order, is not in others."""
    for start, end in holes_found:
        for low, high in (*told, (end, end)):
            if start < min(low, end):
                yield start, min(low, end)
            start = max(start, high)


def _row(present: ReplicaSet, start: int, end: int, leader_epoch: int | None, cause: str) -> LossRow:
    state, missing = _state(present), _missing(present)
    if missing:
        cause += (
            f". Whether they are lost is not known: the replicas of brokers {list(missing)} are not in the copy, or "
            "are of an earlier moment in it"
        )
    elif state == "possible":
        cause += ". Whether they are lost is not known: who else has a replica is not on record"
    return loss_row(
        present.context,
        start,
        end,
        records=end - start,
        markers=None,
        leader_epoch=leader_epoch,
        held_by=(),
        state=state,
        declared_committed=end - start,
        cause=cause,
        groups=readers_of(present.context, start, leader_epoch),
    )
