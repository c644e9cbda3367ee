"""Records that were committed in an earlier snapshot and are on no replica now.

In: the replicas of a partition in an earlier snapshot and in the present one. Out: how far each earlier log was
committed (`committed_ends`), and the batches below that which nobody holds any more (`lost_of`). The rule that must
hold: a record is called lost only where every replica that could hold it was read, and where nothing that Kafka may
soundly do (retention, DeleteRecords, cleaning, deletion of the topic) explains its absence.

A batch is the same one if its offsets, leader epoch, checksum and size are. Three things prove that it was committed:
a checkpointed high watermark of the earlier snapshot above it; a proof that `losses` had found there; and the metadata
log of the present snapshot, where it tells that the broker was the whole ISR when an unclean election ended its epoch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kafka_log.batch import CONTROL_BIT
from spark_jobs.facts.comparison import IDENTITY, ReadBatches, data_records, differing_buckets
from spark_jobs.facts.context import PartitionChange, PartitionContext
from spark_jobs.facts.replica import CHAIN_DAMAGE, ReplicaFacts
from spark_jobs.facts.replica_set import ReplicaSet
from spark_jobs.facts.segment_summary import BUCKET_OFFSETS

_BUCKETS_AT_ONCE: Final = 64
"""Buckets whose headers are held in memory together: at most a quarter of a million batches of a replica."""

_KEPT: Final = (*IDENTITY, "record_count", "attributes")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEnd:
    """Up to where an earlier log is proven to have been committed, and by what: `checkpoint` or `sole_isr`.

    `at_risk_end_offset`: the end of what the earlier snapshot had called at risk on this replica, if anything.
    """

    offset: int | None
    proof: str | None
    at_risk_end_offset: int | None


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

    def records_below(self, end_offset: int) -> int:
        """How many of the records lie below an offset."""
        return _records(self.batches, self.start_offset, min(end_offset, self.end_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindStretch:
    """Offsets of a log that could not be read, and the leader epoch below which nothing can be hidden there."""

    start_offset: int
    end_offset: int
    from_leader_epoch: int


# ----------------------------------------------------------------------------------------------------------- committed


def committed_ends(earlier: ReplicaSet, present: PartitionContext) -> Mapping[int, CommittedEnd]:
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
    if all(_checkpoint_is_older(f) for f in earlier.live if f.given.high_watermark is not None):
        return end
    by_broker = {f.broker_id: f for f in earlier.live}
    members = frozenset(earlier.context.isr)
    if not members or not members <= by_broker.keys():
        return None
    return min(end, *(earlier.shared_end_of(by_broker[m]) for m in members))


def _checkpoint_is_older(replica: ReplicaFacts) -> bool:
    return replica.given.broker_quiet or bool(replica.given.checkpoint_older_than_log)


def _committed_end(
    earlier: ReplicaSet, replica: ReplicaFacts, shared: int | None, present: PartitionContext
) -> CommittedEnd:
    shared_end = earlier.shared_end_of(replica)
    offset = min(shared, shared_end) if shared is not None else None
    proof = "checkpoint" if offset is not None else None
    at_risk: int | None = None
    told = earlier.proofs.get(replica.broker_id)
    if told is not None and told.records > 0:
        own = replica.given.high_watermark
        if told.by == "sole_isr":
            offset, proof, at_risk = replica.log_end_offset, told.by, replica.log_end_offset
        elif own is not None and (
            _checkpoint_is_older(replica)
            or told.unclean is not None
            or replica.broker_id not in earlier.context.alive_brokers
        ):
            offset, proof, at_risk = min(own, replica.log_end_offset), told.by, replica.log_end_offset
    if election_over_a_lone_leader(earlier.context, present, replica) is not None:
        offset, proof = replica.log_end_offset, "sole_isr"
    return CommittedEnd(offset=offset, proof=proof, at_risk_end_offset=at_risk)


def election_over_a_lone_leader(
    earlier: PartitionContext, present: PartitionContext, replica: ReplicaFacts
) -> PartitionChange | None:
    """The unclean election that took leadership from a replica while it was all of the ISR, by the history known now.

    Each of its appends was committed at once (Partition#maybeIncrementLeaderHW), unless the topic asks for more than
    one in-sync replica.
    """
    epoch, broker_id = replica.summary.last_leader_epoch, replica.broker_id
    asked = (earlier.min_insync_replicas, present.min_insync_replicas)
    if epoch < 0 or any(n is None or n > 1 for n in asked) or present.epoch_leaders.get(epoch) != broker_id:
        return None
    successor = next(
        (c for c in present.changes if c.leader_epoch > epoch and c.leader_id not in (None, broker_id)), None
    )
    if successor is None or successor.election != "unclean" or tuple(successor.previous_isr) != (broker_id,):
        return None
    return successor


# ---------------------------------------------------------------------------------------------------------------- lost


def undecided(present: ReplicaSet, earlier: ReplicaSet, captured: frozenset[int]) -> str | None:
    """Why it cannot be told whether a record is on no replica now; None if it can."""
    context = present.context
    held = {f.broker_id for f in present.live}
    assigned = set(context.replicas) - set(context.adding_replicas)
    if not held:
        return "no replica of the partition is in the copy"
    if (assigned | {f.broker_id for f in earlier.live}) - captured:
        return "a broker that may hold them was not captured"
    if assigned - held:
        return "an assigned replica is not in the copy"
    if any(f.given.unread_bases for f in present.facts):
        return "a segment could not be read"
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
    lowest = _lowest_told(present, earlier)
    for replica in earlier.live:
        end = ends[replica.broker_id]
        # What a follower shares with the reference is looked for once, in the reference's log.
        own_start = replica.log_start_offset if replica is earlier.reference else earlier.shared_end_of(replica)
        start = max(lowest, own_start)
        stop = max(end.offset or 0, end.at_risk_end_offset or 0)
        if start >= stop:
            continue
        for lost in _ranges(
            _lost_batches(present, replica, start, stop, read, read_earlier), replica, start, stop, end
        ):
            key = (lost.start_offset, lost.leader_epoch)
            if key not in found or lost.end_offset > found[key].end_offset:
                found[key] = lost
    return tuple(found[key] for key in sorted(found))


def _lowest_told(present: ReplicaSet, earlier: ReplicaSet) -> int:
    """Below it records may soundly be gone: under the log start, in the remote tier, or where cleaners work.

    A cleaner never touches the active segment.
    """
    reference = present.reference
    assert reference is not None, "a partition without a replica is undecided"
    lowest = max(reference.log_start_offset, reference.local_log_start_offset)
    if any(f.ever_compacted for f in (*present.facts, *earlier.facts)):
        lowest = max(lowest, *(f.given.segments[-1].base_offset for f in present.facts if f.given.segments), 0)
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
        for stretch in blind:
            hidden = (
                (ours["last_offset"] >= stretch.start_offset)
                & (ours["base_offset"] < stretch.end_offset)
                & (ours["partition_leader_epoch"] >= stretch.from_leader_epoch)
            )
            ours = ours[~hidden]
        if len(ours):
            yield ours[list(_KEPT)].copy()


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


def blind_stretches(replica: ReplicaFacts) -> tuple[BlindStretch, ...]:
    """Where a log breaks off inside, up to the next segment: batches may stand there that a reader cannot find."""
    found = []
    for row in replica.segments:
        segment = row.segment
        if any(c.kind in CHAIN_DAMAGE for c in segment.corruptions):
            begin = segment.valid_end_offset if segment.valid_end_offset is not None else segment.base_offset
            end = row.next_base_offset if row.next_base_offset is not None else np.iinfo(np.int64).max
            before = [r for r in replica.summary.epoch_runs if int(r["start_offset"]) < begin]
            epoch = int(before[-1]["leader_epoch"]) if before else -1
            found.append(BlindStretch(start_offset=begin, end_offset=int(end), from_leader_epoch=epoch))
    return tuple(found)


def _ranges(
    pieces: Iterator[NDArray[Any]], replica: ReplicaFacts, start: int, stop: int, end: CommittedEnd
) -> Iterator[LostRange]:
    batches = list(pieces)
    if not batches:
        return
    lost = np.concatenate(batches)
    breaks = np.nonzero(lost["base_offset"][1:] != lost["last_offset"][:-1] + 1)[0] + 1
    for part in np.split(lost, breaks):
        first, last = max(int(part[0]["base_offset"]), start), min(int(part[-1]["last_offset"]) + 1, stop)
        records = _records(part, first, last)
        if records:
            yield LostRange(
                start_offset=first,
                end_offset=last,
                records=records,
                declared_committed=_records(part, first, min(last, end.offset or 0)),
                leader_epoch=int(part[-1]["partition_leader_epoch"]),
                broker_id=replica.broker_id,
                batches=part,
            )


def _records(batches: NDArray[Any], start: int, end: int) -> int:
    """Data records of [start, end); of a batch that reaches over the end, those that lie below."""
    inside = batches[(batches["base_offset"] < end) & (batches["last_offset"] >= start)]
    total = data_records(inside, start)
    over = inside[(inside["last_offset"] >= end) & ((inside["attributes"] & CONTROL_BIT) == 0)]
    for row in over:
        total -= min(int(row["record_count"]), int(row["last_offset"]) + 1 - end)
    return max(total, 0)
