"""Records that were committed in an earlier snapshot and are on no replica now.

In: the replicas of a partition in an earlier snapshot and in the present one. Out: how far each earlier log was
committed (`committed_ends`), and the batches below that which nobody holds any more (`lost_of`). The rule that must
hold: a record is called lost only where every replica that could hold it was read, and where nothing that Kafka may
soundly do (retention, DeleteRecords, cleaning, deletion of the topic) explains its absence.

A batch is the same one if its offsets, leader epoch, checksum and size are. Three things prove that it was committed: a
checkpointed high watermark of the earlier snapshot above it; a proof that `commitment` had found there; and the
metadata log of the present snapshot, where it tells that the broker was the whole ISR when an unclean election ended
its epoch, and the broker knew that it was. Where an election since was unclean, or is not on record, what lies above
may have been committed, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.replicas.comparison import (
    IDENTITY,
    ReadBatches,
    blind_stretches,
    differing_buckets,
    markers_between,
    records_between,
)
from tidegauge.facts.replicas.epochs import truncation
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.replicas.succession import succession
from tidegauge.facts.segments.summary import BUCKET_OFFSETS
from tidegauge.kafka_log.batch import CONTROL_BIT

_BUCKETS_AT_ONCE: Final = 64
"""Buckets whose headers are held in memory together: at most a quarter of a million batches of a replica."""

_PLACE: Final = ("base_offset", "last_offset", "partition_leader_epoch")
_NOT_CAPTURED: Final = "a broker that may hold them was not captured"
_NOT_IN_THE_COPY: Final = "an assigned replica is not in the copy"
ANOTHER_MAY_HOLD: Final = frozenset({_NOT_CAPTURED, _NOT_IN_THE_COPY})
"""Of the reasons of `undecided`: those for which the replicas at hand can be searched all the same."""

_KEPT: Final = (*IDENTITY, "record_count", "attributes")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEnd:
    """Up to where an earlier log is proven to have been committed, and by what: `checkpoint`, `sole_isr` or `read`.

    `at_risk_end_offset`: the end of what the earlier snapshot had called at risk on this replica, if anything.
    `open_end_offset`: up to where it may have been committed, by the elections since; None where nothing beyond may.
    """

    offset: int | None
    proof: str | None
    at_risk_end_offset: int | None
    open_end_offset: int | None

    @property
    def told_end_offset(self) -> int:
        """The end of what is lost if it is gone: proven to be committed, or told of as at risk together with that."""
        return max(self.offset or 0, self.at_risk_end_offset or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Adjacent batches of one earlier log that are on no replica now."""

    start_offset: int
    end_offset: int
    records: int
    declared_committed: int
    leader_epoch: int
    broker_id: int
    batches: NDArray[Any]

    @property
    def markers(self) -> int:
        """End markers of transactions in it."""
        return markers_between(self.batches, self.start_offset, self.end_offset)

    def records_below(self, end_offset: int) -> int:
        """How many of the records lie below an offset."""
        return records_between(self.batches, self.start_offset, min(end_offset, self.end_offset))


# ----------------------------------------------------------------------------------------------------------- committed


def committed_ends(earlier: ReplicaSet, present: ReplicaSet) -> Mapping[int, CommittedEnd]:
    """By broker, of every replica of the earlier snapshot."""
    shared = _shared_committed_end(earlier)
    return {replica.broker_id: _committed_end(earlier, replica, shared, present) for replica in earlier.live}


def _shared_committed_end(earlier: ReplicaSet) -> int | None:
    """Of the reference's log. A checkpoint that may be younger than the logs counts where all of the ISR bears it out.

    A log that was copied, then truncated, and whose checkpoint was copied after that, would else be called committed
    where it never was.
    """
    if earlier.reference is None or earlier.bounds.lower is None:
        return None
    end = min(earlier.bounds.lower, earlier.reference.log_end_offset)
    if all(_checkpoint_is_older(f) for f in earlier.live if f.checkpointed.high_watermark is not None):
        return end
    by_broker = {f.broker_id: f for f in earlier.live}
    members = frozenset(earlier.context.assignment.isr)
    if not members or not members <= by_broker.keys():
        return None
    return min(end, *(earlier.shared_end_of(by_broker[m]) for m in members))


def _checkpoint_is_older(replica: ReplicaFacts) -> bool:
    return replica.moment.broker_quiet or bool(replica.moment.checkpoint_older_than_log)


def _committed_end(earlier: ReplicaSet, replica: ReplicaFacts, shared: int | None, present: ReplicaSet) -> CommittedEnd:
    shared_end = earlier.shared_end_of(replica)
    offset = min(shared, shared_end) if shared is not None else None
    proof = "checkpoint" if offset is not None else None
    at_risk: int | None = None
    told = earlier.commitments.get(replica.broker_id)
    if told is not None and told.records > 0:
        own = replica.checkpointed.high_watermark
        if told.by in ("sole_isr", "read") or (
            own is not None
            and (
                _checkpoint_is_older(replica)
                or told.unclean is not None
                or replica.broker_id not in earlier.context.cluster.alive_brokers
            )
        ):
            offset, proof, at_risk = told.proven_end_offset, told.by, told.open_end_offset
    if election_over_a_lone_leader(earlier.context, present.context, replica) is not None:
        offset, proof = replica.log_end_offset, "sole_isr"
    epoch, newest = replica.summary.last_leader_epoch, newest_epoch(present)
    since = succession(present.context, after_epoch=epoch, until_epoch=newest)
    open_end: int | None = None
    if since.unclean is not None or (not since.on_record and newest is not None and newest > epoch):
        open_end = told.open_end_offset if told is not None and told.open else replica.log_end_offset
    return CommittedEnd(offset=offset, proof=proof, at_risk_end_offset=at_risk, open_end_offset=open_end)


def newest_epoch(replicas: ReplicaSet) -> int | None:
    """The newest leader epoch that the metadata log or the reference's log knows."""
    logged = replicas.reference.vector.latest_epoch if replicas.reference is not None else None
    return max((e for e in (logged, replicas.context.assignment.leader_epoch) if e is not None), default=None)


def election_over_a_lone_leader(
    earlier: PartitionContext, present: PartitionContext, replica: ReplicaFacts
) -> PartitionChange | None:
    """The unclean election that took leadership from a replica while it was all of the ISR, by the history known now,
    and knew it, by its own copy of the metadata log then.

    Each of its appends was committed at once (Partition#maybeIncrementLeaderHW), unless the topic asks for more than
    one in-sync replica.
    """
    epoch, broker_id = replica.summary.last_leader_epoch, replica.broker_id
    asked = present.min_insync_replicas_in(epoch)
    if epoch < 0 or asked is None or asked > 1 or present.history.epoch_leaders.get(epoch) != broker_id:
        return None
    view = earlier.history.own_views.get(broker_id)
    if view is None or (view.leader_id, view.leader_epoch, view.isr) != (broker_id, epoch, (broker_id,)):
        return None
    successor = next(
        (c for c in present.history.changes if c.leader_epoch > epoch and c.leader_id not in (None, broker_id)), None
    )
    if successor is None or successor.election != "unclean" or tuple(successor.previous_isr) != (broker_id,):
        return None
    return successor


# ---------------------------------------------------------------------------------------------------------------- lost


def undecided(present: ReplicaSet, earlier: ReplicaSet, captured: frozenset[int]) -> str | None:
    """Why it cannot be told whether a record is on no replica now; None if it can."""
    context = present.context
    held = {f.broker_id for f in present.live}
    assigned = set(context.assignment.replicas) - set(context.assignment.adding_replicas)
    if any(f.given.unread_bases for f in present.facts):
        return "a segment could not be read"
    if not held:
        return "no replica of the partition is in the copy"
    if (assigned | {f.broker_id for f in earlier.live}) - captured:
        return _NOT_CAPTURED
    if assigned - held:
        return _NOT_IN_THE_COPY
    return None


def lost_of(
    present: ReplicaSet,
    earlier: ReplicaSet,
    ends: Mapping[int, CommittedEnd],
    *,
    read: ReadBatches,
    read_earlier: ReadBatches,
) -> tuple[LostRange, ...]:
    """What was committed and is on no replica now, by offset. Ask `undecided` before."""
    found: dict[tuple[int, int], LostRange] = {}
    for replica in earlier.live:
        lowest = _lowest_told(present, earlier, replica)
        end = ends[replica.broker_id]
        # What a follower shares with the reference is looked for once, in the reference's log.
        own_start = replica.log_start_offset if replica is earlier.reference else earlier.shared_end_of(replica)
        start = max(lowest, own_start)
        told = end.told_end_offset
        for first, stop in ((start, told), (max(start, told), end.open_end_offset or 0)):
            if first >= stop:
                continue
            pieces = _lost_batches(present, replica, first, stop, read, read_earlier)
            for lost in _ranges(pieces, replica, first, stop, end):
                key = (lost.start_offset, lost.leader_epoch)
                if key not in found or lost.end_offset > found[key].end_offset:
                    found[key] = lost
    return tuple(_joined(found[key] for key in sorted(found)))


def _joined(ranges: Iterable[LostRange]) -> Iterator[LostRange]:
    """Neighbours of one epoch of which nothing is proven are told as one, whoever held most of them."""
    held: LostRange | None = None
    for each in ranges:
        if (
            held is not None
            and held.end_offset == each.start_offset
            and held.leader_epoch == each.leader_epoch
            and not held.declared_committed
            and not each.declared_committed
        ):
            held = replace(
                held,
                end_offset=each.end_offset,
                records=held.records + each.records,
                batches=np.concatenate([held.batches, each.batches]),
            )
            continue
        if held is not None:
            yield held
        held = each
    if held is not None:
        yield held


def _lowest_told(present: ReplicaSet, earlier: ReplicaSet, replica: ReplicaFacts) -> int:
    """Below it records of an earlier log may soundly be gone: under the log start, in the remote tier, or where
    cleaners work.

    A cleaner never touches the active segment; and it takes no leader epoch away, so what an earlier log holds beyond
    the end that its epochs have now was cut off, cleaned or not.
    """
    reference = present.reference
    assert reference is not None, "a partition without a replica is undecided"
    lowest = max(reference.log_start_offset, reference.local_log_start_offset)
    if any(f.ever_compacted for f in (*present.facts, *earlier.facts)):
        uncleaned = max((f.given.segments[-1].base_offset for f in present.facts if f.given.segments), default=0)
        cut = truncation(leader=reference.vector, follower=replica.vector, follower_high_watermark=None)
        lowest = max(lowest, min(uncleaned, int(cut.offset)))
    return lowest


def _lost_batches(
    present: ReplicaSet, replica: ReplicaFacts, start: int, end: int, read: ReadBatches, read_earlier: ReadBatches
) -> Iterator[NDArray[Any]]:
    """Sound batches of an earlier log that no present replica has, or may have where it could not be read."""
    blind = [stretch for f in present.facts for stretch in blind_stretches(f)]
    for low, high in _stretches(replica, present.facts, start, end):
        ours = read_earlier(replica, low, high)
        ours = ours[(ours["base_offset"] < high) & (ours["crc_valid"] == 1)]
        if low > start:
            ours = ours[ours["base_offset"] >= low]
        keys = _keys(ours)
        for holder in present.facts:
            if len(ours) and holder.summary.first_offset < high and holder.summary.last_offset >= low:
                kept = ~np.isin(keys, _keys(read(holder, low, high)))
                ours, keys = ours[kept], keys[kept]
        ours = _without_kept_records(ours, present, low, high, read)
        for stretch in blind:
            hidden = (
                (ours["last_offset"] >= stretch.start_offset)
                & (ours["base_offset"] < stretch.end_offset)
                & (ours["partition_leader_epoch"] >= stretch.from_leader_epoch)
            )
            ours = ours[~hidden]
        if len(ours):
            yield ours[list(_KEPT)].copy()


def _without_kept_records(
    ours: NDArray[Any], present: ReplicaSet, low: int, high: int, read: ReadBatches
) -> NDArray[Any]:
    """Batches of which a replica has fewer records now, at the same offsets and epoch: with what is gone of them."""
    kept: dict[tuple[int, ...], int] = {}
    if len(ours):
        for holder in present.facts:
            for row in read(holder, low, high):
                place = tuple(int(row[name]) for name in _PLACE)
                kept[place] = max(kept.get(place, 0), int(row["record_count"]))
    if not kept:
        return ours
    left = ours.copy()
    for row in left:
        still = kept.get(tuple(int(row[name]) for name in _PLACE), 0)
        if still < int(row["record_count"]):
            row["record_count"] -= still
    return left


def _stretches(
    replica: ReplicaFacts, holders: Sequence[ReplicaFacts], start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Where no present replica has the digest of the earlier log: neighbouring buckets together, a bounded number."""
    own = {int(b["bucket"]) for b in replica.summary.buckets}
    first: int | None = None
    last = -1
    for bucket in (b for b in differing_buckets(replica, holders, start, end) if b in own):
        if first is not None and (bucket != last + 1 or bucket - first >= _BUCKETS_AT_ONCE):
            yield max(start, first * BUCKET_OFFSETS), min(end, (last + 1) * BUCKET_OFFSETS)
            first = None
        first, last = bucket if first is None else first, bucket
    if first is not None:
        yield max(start, first * BUCKET_OFFSETS), min(end, (last + 1) * BUCKET_OFFSETS)


def _keys(rows: NDArray[Any]) -> NDArray[Any]:
    """A batch's identity as one value that compares."""
    packed = np.zeros(len(rows), dtype=[(name, "<i8") for name in IDENTITY])
    for name in IDENTITY:
        packed[name] = rows[name]
    return packed.view(f"S{packed.dtype.itemsize}").reshape(-1)


def _ranges(
    pieces: Iterator[NDArray[Any]], replica: ReplicaFacts, start: int, stop: int, end: CommittedEnd
) -> Iterator[LostRange]:
    batches = list(pieces)
    if not batches:
        return
    lost = np.concatenate(batches)
    breaks = np.nonzero(lost["base_offset"][1:] != lost["last_offset"][:-1] + 1)[0] + 1
    for part in np.split(lost, breaks):
        if replica.ever_compacted:
            # The markers of transactions whose records a cleaner has taken go soundly, too.
            data = np.nonzero((part["attributes"] & CONTROL_BIT) == 0)[0]
            if not len(data):
                continue
            part = part[data[0] :]
        first, last = max(int(part[0]["base_offset"]), start), min(int(part[-1]["last_offset"]) + 1, stop)
        records = records_between(part, first, last)
        if records:
            yield LostRange(
                start_offset=first,
                end_offset=last,
                records=records,
                declared_committed=records_between(part, first, min(last, end.offset or 0)),
                leader_epoch=int(part[-1]["partition_leader_epoch"]),
                broker_id=replica.broker_id,
                batches=part,
            )
