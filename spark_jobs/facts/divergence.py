"""Follower against reference: where Kafka would truncate, where their batches first differ, and what is at stake.

In: two `ReplicaFacts`, their partition's history, and a way to read batch headers of a stretch on demand. Out: one
`Divergence`. The rule that must hold: digests only say where to look; a difference is claimed on the batches
themselves.

Sources: Partition#readRecords, AbstractFetcherThread#getOffsetTruncationState (KIP-101, KIP-279, KIP-320).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT
from spark_jobs.facts.epochs import truncation
from spark_jobs.facts.replica import ReplicaFacts
from spark_jobs.facts.segment_summary import BUCKET_OFFSETS

ReadBatches = Callable[[ReplicaFacts, int, int], NDArray[Any]]
"""Headers of the batches of a replica that hold an offset in [start, end), in file order."""

_BUCKETS_LOOKED_AT: Final = 16
_BATCHES_QUOTED: Final = 3
_IDENTITY: Final = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where two replicas hold different batches, and the first one within one leader epoch."""

    offset: int | None
    same_epoch_offset: int | None
    quoted: tuple[dict[str, Any], ...]


NO_DIFFERENCE: Final = Difference(offset=None, same_epoch_offset=None, quoted=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One follower against the reference. Offsets are None where there is nothing to say."""

    leader: ReplicaFacts
    follower: ReplicaFacts
    divergence_offset: int
    rounds: int
    compared_from_offset: int
    compared_to_end_offset: int
    incomparable_reason: str | None
    difference: Difference
    records_at_stake: int
    records_below_own_high_watermark: int
    truncated_leader_epoch: int | None
    newer_epoch: int | None
    newer_epoch_start_offset: int | None


def diverge(leader: ReplicaFacts, follower: ReplicaFacts, *, read: ReadBatches) -> Divergence:
    """Compares one follower with the reference replica."""
    cut = truncation(
        leader=leader.vector, follower=follower.vector, follower_high_watermark=follower.given.high_watermark
    )
    divergence_offset = int(cut.offset)
    start, end, reason = _comparable_range(leader, follower)
    difference = NO_DIFFERENCE if reason else _first_difference(leader, follower, start, end, read)
    records = committed = 0
    truncated_epoch: int | None = None
    if divergence_offset < follower.log_end_offset:
        suffix = read(follower, divergence_offset, follower.log_end_offset)
        records = data_records(suffix, divergence_offset)
        high_watermark = follower.given.high_watermark
        if high_watermark is not None and high_watermark > divergence_offset:
            committed = data_records(suffix[suffix["base_offset"] < high_watermark], divergence_offset)
        if len(suffix):
            truncated_epoch = int(suffix[-1]["partition_leader_epoch"])
    newer = next(
        (
            e
            for e in leader.vector.entries
            if truncated_epoch is not None and e.leader_epoch > truncated_epoch and e.start_offset <= divergence_offset
        ),
        None,
    ) or next(
        (e for e in leader.vector.entries if truncated_epoch is not None and e.leader_epoch > truncated_epoch), None
    )
    return Divergence(
        leader=leader,
        follower=follower,
        divergence_offset=divergence_offset,
        rounds=cut.rounds,
        compared_from_offset=start,
        compared_to_end_offset=end,
        incomparable_reason=reason,
        difference=difference,
        records_at_stake=records,
        records_below_own_high_watermark=committed,
        truncated_leader_epoch=truncated_epoch,
        newer_epoch=newer.leader_epoch if newer is not None else None,
        newer_epoch_start_offset=newer.start_offset if newer is not None else None,
    )


def data_records(headers: NDArray[Any], start_offset: int) -> int:
    """Records of data batches from an offset on; of a batch that begins below it, those that can lie above."""
    data = headers[(headers["attributes"] & CONTROL_BIT) == 0]
    total = int(data["record_count"].sum())
    for row in data[data["base_offset"] < start_offset]:
        total -= min(int(row["record_count"]), start_offset - int(row["base_offset"]))
    return total


def _comparable_range(leader: ReplicaFacts, follower: ReplicaFacts) -> tuple[int, int, str | None]:
    """The offsets that both hold as they were written: above both log heads and above what a cleaner has rewritten."""
    if leader.summary.batch_count == 0 or follower.summary.batch_count == 0:
        return 0, 0, "no batches"
    if leader.given.unread_bases or follower.given.unread_bases:
        return 0, 0, "a segment could not be read"
    start = max(leader.summary.first_offset, follower.summary.first_offset)
    end = min(leader.readable_end_offset, follower.readable_end_offset)
    for replica in (leader, follower):
        if replica.ever_compacted and replica.given.cleaner_offset is not None:
            start = max(start, replica.given.cleaner_offset)
    if start >= end:
        cleaned = leader.ever_compacted or follower.ever_compacted
        return start, max(start, end), "compacted" if cleaned else "no common range"
    return start, end, None


def _first_difference(
    leader: ReplicaFacts, follower: ReplicaFacts, start: int, end: int, read: ReadBatches
) -> Difference:
    first: int | None = None
    same_epoch: int | None = None
    quoted: tuple[dict[str, Any], ...] = ()
    looked = 0
    for bucket in _suspicious(leader, follower, start, end):
        if looked == _BUCKETS_LOOKED_AT or (first is not None and same_epoch is not None):
            break
        low, high = max(start, bucket * BUCKET_OFFSETS), min(end, (bucket + 1) * BUCKET_OFFSETS)
        ours, theirs = read(leader, low, high), read(follower, low, high)
        cleaned = leader.ever_compacted or follower.ever_compacted
        found = _compare(ours, theirs, low, high, cleaned=cleaned)
        if found.offset is None:
            continue
        looked += 1
        if first is None:
            first, quoted = found.offset, found.quoted
        if same_epoch is None:
            same_epoch = found.same_epoch_offset
    return Difference(offset=first, same_epoch_offset=same_epoch, quoted=quoted)


def _suspicious(leader: ReplicaFacts, follower: ReplicaFacts, start: int, end: int) -> Iterable[int]:
    """Buckets of the common range whose digests differ, ascending; one at an edge may differ for no reason."""
    ours = {int(b["bucket"]): b for b in leader.summary.buckets}
    theirs = {int(b["bucket"]): b for b in follower.summary.buckets}
    for bucket in sorted(ours.keys() | theirs.keys()):
        if (bucket + 1) * BUCKET_OFFSETS <= start or bucket * BUCKET_OFFSETS >= end:
            continue
        left, right = ours.get(bucket), theirs.get(bucket)
        if left is None or right is None or left["digest"] != right["digest"] or left["batches"] != right["batches"]:
            yield bucket


def _compare(ours: NDArray[Any], theirs: NDArray[Any], low: int, high: int, *, cleaned: bool) -> Difference:
    """Batch by batch. A batch that reaches over an edge of the stretch is compared where both have it."""
    ours, theirs = _inside(ours, low, high), _inside(theirs, low, high)
    by_offset = {int(row["base_offset"]): row for row in theirs}
    own = {int(row["base_offset"]): row for row in ours}
    first: int | None = None
    same_epoch: int | None = None
    quoted: list[dict[str, Any]] = []
    for offset in sorted(own.keys() | by_offset.keys()):
        left, right = own.get(offset), by_offset.get(offset)
        if left is not None and right is not None and all(left[n] == right[n] for n in _IDENTITY):
            continue
        if cleaned and (_rewritten(left) or _rewritten(right) or left is None or right is None):
            continue  # A cleaner rewrites batches and drops them, each broker by its own clock (KIP-534).
        if first is None:
            first = offset
        if len(quoted) < _BATCHES_QUOTED:
            quoted.append({"offset": offset, "leader_batch": _quote(left), "follower_batch": _quote(right)})
        if same_epoch is None:
            one = left if left is not None else _covering(ours, offset)
            other = right if right is not None else _covering(theirs, offset)
            if (
                one is not None
                and other is not None
                and int(one["partition_leader_epoch"]) == int(other["partition_leader_epoch"])
            ):
                same_epoch = offset
    return Difference(offset=first, same_epoch_offset=same_epoch, quoted=tuple(quoted))


def _inside(headers: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    return headers[(headers["base_offset"] >= low) & (headers["base_offset"] < high)]


def _covering(headers: NDArray[Any], offset: int) -> Any:
    found = headers[(headers["base_offset"] <= offset) & (headers["last_offset"] >= offset)]
    return found[0] if len(found) else None


def _rewritten(row: Any) -> bool:
    return row is not None and (
        bool(int(row["attributes"]) & DELETE_HORIZON_BIT)
        or int(row["record_count"]) != int(row["last_offset"]) - int(row["base_offset"]) + 1
    )


def _quote(row: Any) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        "base_offset": int(row["base_offset"]),
        "last_offset": int(row["last_offset"]),
        "leader_epoch": int(row["partition_leader_epoch"]),
        "crc": f"{int(row['crc']):08x}",
        "size_bytes": int(row["size_bytes"]),
    }


def rows_between(headers: NDArray[Any], start: int, end: int) -> NDArray[Any]:
    """Headers whose offsets touch [start, end)."""
    touched: NDArray[Any] = headers[(headers["last_offset"] >= start) & (headers["base_offset"] < end)]
    return np.ascontiguousarray(touched)
