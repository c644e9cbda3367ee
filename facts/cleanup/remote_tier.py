"""The remote tier of a partition: which segments its metadata tell of, whose history they are, what they leave open.

In: the records of `__remote_log_metadata` (newest state per segment, and the states before), the reference replica's
leader epochs, what the remote store holds. Out: rows of `remote_segments`, and the holes between log start and local
log. A segment counts for a log only if its leader epochs are that log's.

Source: KIP-405; RemoteLogSegmentState#isValidTransition, RemoteLogManager#isRemoteSegmentWithinLeaderEpochs,
RemoteLogManager#buildFilteredLeaderEpochMap.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypedDict

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.metadata.upkeep_context import UpkeepContext
from tidegauge.facts.replicas.epochs import EpochVector
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.rows import json_list
from tidegauge.kafka_log.coordinator_records import REMOTE_SEGMENT_STATES, RemoteSegment
from tidegauge.relations import RemoteSegmentRow

COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = REMOTE_SEGMENT_STATES
_NEXT: Final[Mapping[str | None, tuple[str, ...]]] = {
    None: (COPY_STARTED,),
    COPY_STARTED: (COPY_FINISHED, DELETE_STARTED),
    COPY_FINISHED: (DELETE_STARTED,),
    DELETE_STARTED: (DELETE_FINISHED,),
    DELETE_FINISHED: (),
}
Hole = tuple[int, int]


class DamagedFile(TypedDict):
    """A file of the remote store, and what is wrong with it."""

    kind: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteObject:
    """A segment's files in the remote store: which kinds are missing, and what is wrong with the others."""

    missing_files: tuple[str, ...] = ()
    damages: tuple[DamagedFile, ...] = ()


RemoteObjects = Mapping[str, RemoteObject]
"""By segment id."""


def invalid_transitions(states: Sequence[str], *, from_the_start: bool) -> int:
    """Changes of state that Kafka's rules do not know; the same state again is a retry."""
    before: Iterable[str | None] = (None, *states) if from_the_start else states
    after = states if from_the_start else states[1:]
    return sum(1 for a, b in zip(before, after, strict=False) if a != b and b not in _NEXT[a])


def lineage_break(segment: RemoteSegment, vector: EpochVector) -> str | None:
    """Why a segment is not of a log's history; None if it is."""
    own = _with_records(segment.leader_epochs)
    theirs = _with_records([(e.leader_epoch, e.start_offset) for e in vector.entries])
    if not own or segment.end_offset is None:
        return "it names no leader epoch"
    if not theirs:
        return "the replica knows no leader epoch"
    epochs = dict(theirs)
    first, last, ending = theirs[0][0], theirs[-1][0], own[-1][0]
    if not first <= ending <= last:
        return f"its last leader epoch is {ending}, the replica's are {first} to {last}"
    for at, (epoch, _) in enumerate(own):
        if epoch < first:
            continue
        if epoch not in epochs:
            return f"leader epoch {epoch} is not in the replica's history"
        following = next(((e, o) for e, o in theirs if e > epoch), None)
        if epoch == ending:
            if following is not None and segment.end_offset > following[1]:
                return f"it reaches to {segment.end_offset}, leader epoch {following[0]} starts at {following[1]}"
        elif following != own[at + 1]:
            return f"leader epoch {own[at + 1][0]} follows {epoch} in it, and {following} in the replica's history"
    if segment.end_offset > vector.log_end_offset:
        return f"it reaches to {segment.end_offset}, the log ends at {vector.log_end_offset}"
    return None


def _with_records(epochs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leader epochs without those that have no record: the next one starts where they do."""
    ordered = sorted(epochs)
    return [e for e, following in pairwise(ordered) if e[1] != following[1]] + ordered[-1:]


def remote_end(segments: Iterable[RemoteSegment], vector: EpochVector) -> int | None:
    """Where the last segment ends that was copied of this history."""
    return max(
        (s.end_offset for s in _copied(segments, vector) if s.end_offset is not None),
        default=None,
    )


def first_hole(
    segments: Sequence[RemoteSegment], vector: EpochVector, *, log_start_offset: int, local_start_offset: int
) -> Hole | None:
    """The first of `holes`."""
    found = holes(segments, vector, log_start_offset=log_start_offset, local_start_offset=local_start_offset)
    return next(iter(found), None)


def holes(
    segments: Sequence[RemoteSegment], vector: EpochVector, *, log_start_offset: int, local_start_offset: int
) -> Iterator[Hole]:
    """The stretches between log start and local log that the tier does not hold.

    A replica writes its log start down once a minute: what the tier has deleted from the head on is below it by now.
    """
    copied = sorted((s.start_offset or 0, s.end_offset or 0) for s in _copied(segments, vector))
    at = log_start_offset
    for start, end in sorted((s.start_offset or 0, s.end_offset or 0) for s in segments if _deleted(s)):
        if start <= at < end and not any(a <= at < b for a, b in copied):
            at = end
    for start, end in copied:
        if at >= local_start_offset:
            return
        if start > at:
            yield at, min(start, local_start_offset)
        at = max(at, end)
    if at < local_start_offset:
        yield at, local_start_offset


def _copied(segments: Iterable[RemoteSegment], vector: EpochVector) -> Iterable[RemoteSegment]:
    return (s for s in segments if s.state == COPY_FINISHED and lineage_break(s, vector) is None)


def _deleted(segment: RemoteSegment) -> bool:
    return segment.state in (DELETE_STARTED, DELETE_FINISHED)


def remote_segment_rows(present: ReplicaSet, objects: RemoteObjects | None) -> list[RemoteSegmentRow]:
    """Rows of `remote_segments` of one partition. `objects` None: the snapshot does not hold the remote store."""
    context = present.context
    known = context.upkeep or UpkeepContext()
    return [_row(context, known, present, segment, objects) for segment in known.remote]


def _row(
    context: PartitionContext,
    known: UpkeepContext,
    present: ReplicaSet,
    segment: RemoteSegment,
    objects: RemoteObjects | None,
) -> RemoteSegmentRow:
    reference = present.reference
    why = lineage_break(segment, reference.vector) if reference is not None else None
    last = max((e for e, _ in segment.leader_epochs), default=-1)
    unstable = None
    if reference is not None:
        unstable = min(
            (
                replay.first_unstable_offset(None)
                for replay in (reference.replay, reference.snapshot_replay)
                if replay is not None and replay.first_unstable_offset(None) is not None
            ),
            default=None,
            key=lambda offset: offset if offset is not None else 0,
        )
    stored = objects.get(segment.segment_id) if objects is not None else None
    upper = present.bounds.upper
    return {
        "topic": segment.topic,
        "topic_id": segment.topic_id,
        "partition": segment.partition,
        "segment_id": segment.segment_id,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "state": segment.state,
        "size_bytes": segment.size_bytes,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "broker_id": segment.broker_id,
        "leader_epochs": [f"{epoch}@{offset}" for epoch, offset in segment.leader_epochs],
        "invalid_transitions": invalid_transitions(segment.states, from_the_start=known.remote_records_whole),
        "states": list(segment.states),
        "history_whole": known.remote_records_whole,
        # Below the local log only the replica's checkpoint tells its epochs.
        "within_lineage": None if reference is None or (why and reference.given.epoch_checkpoint is None) else not why,
        "lineage_reason": why,
        "lineage_cut": (
            any(c.election == "unclean" and c.leader_epoch > last for c in context.history.changes)
            if context.assignment.known
            else None
        ),
        "log_start_offset": _log_start(context, known, present),
        "log_end_offset": reference.log_end_offset if reference is not None else None,
        "high_watermark_upper": None if upper is None else max(upper, present.bounds.lower or 0),
        "first_unstable_offset": unstable,
        "store_captured": objects is not None,
        "missing_files": list(stored.missing_files) if stored is not None else None,
        "damaged_files": len({d["path"] for d in stored.damages}) if stored is not None else None,
        "damages": json_list(stored.damages) if stored is not None else None,
        "broker_quiet": reference.moment.broker_quiet if reference is not None else context.cluster.snapshot_quiet,
        "snapshot_quiet": context.cluster.snapshot_quiet,
    }


def _log_start(context: PartitionContext, known: UpkeepContext, present: ReplicaSet) -> int | None:
    listed = [f.checkpointed.log_start_offset for f in present.live]
    starts = [s for s in (*listed, context.remote_log_start_offset) if s is not None]
    return max(starts, default=present.reference.log_start_offset if present.reference is not None else None)
