"""Which groups had read what: commits against the leader epochs of the log (KIP-320).

In: how far each group had committed in a partition, under each leader epoch that its commits name. Out: columns of
`committed_offsets`, and the groups that a loss affects. A commit of offset o with leader epoch e proves that its group
had read the record before o, written under e; where the log's epoch e ends below o, that record was cut off afterwards.

A commit may also name an epoch without having read a record of it (a position that was just reset has the leader's
epoch), and such an epoch disappears from the log when the next one starts at the same offset. So only an end below the
committed offset proves anything.

Sources: SubscriptionState.FetchPosition#offsetEpoch, LeaderEpochFileCache#endOffsetFor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.coordinators.commit_falls import CommitCourse
from tidegauge.facts.coordinators.history import NO_EPOCH
from tidegauge.facts.replicas.epochs import EpochVector
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.kafka_log.coordinator_records import OffsetCommit
from tidegauge.relations import CommittedOffsetRow


class ReadingColumns(TypedDict):
    """What a group had read, against the leader epochs of the log."""

    read_leader_epoch: int | None
    read_end_offset: int | None
    epoch_end_offset: int | None
    epoch_end_settled: bool | None


NOTHING_TOLD: Final[ReadingColumns] = {
    "read_leader_epoch": None,
    "read_end_offset": None,
    "epoch_end_offset": None,
    "epoch_end_settled": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Where a leader epoch ends in a log; `settled`: a newer one begins there, so it will not move."""

    offset: int
    settled: bool


def reading_columns(
    reached: Mapping[int, int], reference: ReplicaFacts | None, leader_epoch: int | None
) -> ReadingColumns:
    """What a group's commits tell against the reference's epochs: of the one that was read furthest beyond its end.

    Where none was, of the newest commit's own epoch.
    """
    if reference is None:
        return NOTHING_TOLD
    vector = reference.vector
    furthest: tuple[int, int, _End] | None = None
    for read_epoch, offset in sorted(reached.items()):
        if read_epoch == NO_EPOCH or offset <= vector.log_start_offset or offset <= _held_of(reference, read_epoch):
            continue
        end = _end_of(vector, read_epoch, offset)
        if (
            end is not None
            and offset > end.offset
            and (furthest is None or offset - end.offset > furthest[1] - furthest[2].offset)
        ):
            furthest = (read_epoch, offset, end)
    if furthest is not None:
        read_epoch, offset, end = furthest
        return {
            "read_leader_epoch": read_epoch,
            "read_end_offset": offset,
            "epoch_end_offset": end.offset,
            "epoch_end_settled": end.settled,
        }
    own = _end_of(vector, leader_epoch, reached.get(leader_epoch, 0)) if leader_epoch is not None else None
    return NOTHING_TOLD | {
        "epoch_end_offset": own.offset if own is not None else None,
        "epoch_end_settled": own.settled if own is not None else None,
    }


def _held_of(replica: ReplicaFacts, leader_epoch: int) -> int:
    """Up to where a log has batches of an epoch, whatever its checkpoint makes of it; 0 where it has none.

    A checkpoint whose entries stand in disorder loses epochs when it is loaded (B14), and the log loses nothing.
    """
    runs = replica.summary.epoch_runs
    return int(runs["end_offset"][runs["leader_epoch"] == leader_epoch].max(initial=0))


def epoch_columns(context: PartitionContext, commit: OffsetCommit) -> CommittedOffsetRow:
    """The highest leader epoch that a group's commits name, the newest one's among them, beside the partition's."""
    reached = context.coordinators.reached.get(commit.group, {})
    named = [
        leader_epoch
        for leader_epoch in (*reached, commit.leader_epoch)
        if leader_epoch is not None and leader_epoch != NO_EPOCH
    ]
    highest, given_out = max(named, default=None), context.assignment.leader_epoch
    return {
        "highest_leader_epoch": highest,
        "epoch_never_given_out": None if highest is None or given_out is None else highest > given_out,
    }


def course_columns(course: CommitCourse | None) -> CommittedOffsetRow:
    """Of a group's commits in its coordinator's log: how often one is below the one before, and the lowest step."""
    lowest = course.lowest if course is not None else None
    before, after = (lowest.before, lowest.after) if lowest is not None else (None, None)
    return {
        "commit_steps": course.steps if course is not None else 0,
        "falls": course.falls if course is not None else 0,
        "step_from_offset": before.commit.offset if before is not None else None,
        "step_from_at_ms": before.commit.commit_timestamp_ms if before is not None else None,
        "step_to_offset": after.commit.offset if after is not None else None,
        "step_to_at_ms": after.commit.commit_timestamp_ms if after is not None else None,
        "step_record_offset": after.record_offset if after is not None else None,
    }


def _end_of(vector: EpochVector, leader_epoch: int, offset: int) -> _End | None:
    """`endOffsetFor`; an epoch above all that the log has ends, for what lies inside the log, where that began."""
    latest = vector.latest_epoch
    if latest is None:
        return None
    if leader_epoch <= latest:
        found = vector.end_offset_for(leader_epoch)
        return (
            _End(offset=int(found.end_offset), settled=leader_epoch < latest) if found.end_offset is not None else None
        )
    if offset >= vector.log_end_offset:
        # The log ends at or before it: it may have been copied before the epoch began.
        return _End(offset=int(vector.log_end_offset), settled=False)
    return _End(offset=int(vector.entries[-1].start_offset), settled=False)


def readers_of(context: PartitionContext, start_offset: int, leader_epoch: int | None) -> frozenset[str]:
    """Groups that had committed past `start_offset`, before an epoch newer than the lost records' began for them."""
    commits = context.coordinators.commits
    standing = {c.group for c in commits if _had_read(c.leader_epoch, c.offset, start_offset, leader_epoch)}
    return frozenset(standing) | {
        group
        for group, reached in context.coordinators.reached.items()
        if any(
            read_epoch != NO_EPOCH and _had_read(read_epoch, offset, start_offset, leader_epoch)
            for read_epoch, offset in reached.items()
        )
    }


def read_to(context: PartitionContext) -> dict[int, int]:
    """Leader epoch -> up to where some group had read records of it, so that they were committed.

    Nothing where an earlier topic had the name: its commits name epochs of its own.
    """
    if any(context.history.topic_ids_deleted.values()):
        return {}
    commits = context.coordinators.commits
    other_topic = {c.group for c in commits if c.topic_id is not None and c.topic_id != context.topic_id}
    furthest: dict[int, int] = {}
    for group, reached in context.coordinators.reached.items():
        for leader_epoch, offset in reached.items():
            if leader_epoch != NO_EPOCH and not (group in other_topic and context.assignment.known):
                furthest[leader_epoch] = max(furthest.get(leader_epoch, 0), offset)
    return furthest


def _had_read(read_epoch: int | None, offset: int, start_offset: int, lost_epoch: int | None) -> bool:
    return offset > start_offset and (read_epoch is None or lost_epoch is None or read_epoch <= lost_epoch)
