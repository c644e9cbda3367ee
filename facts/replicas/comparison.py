"""Two copies of one log, compared: the first batches that differ.

In: two `ReplicaFacts` of one partition, of two brokers or of two moments, and a way to read batch headers of a stretch
on demand. Out: a `Difference`. Digests only say where to look; a difference is claimed on the batches themselves.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.replicas.replica import CHAIN_DAMAGE, ReplicaFacts
from tidegauge.facts.segments.summary import BUCKET_OFFSETS
from tidegauge.kafka_log.batch import COMPRESSION_MASK, CONTROL_BIT, CURRENT_MAGIC, DELETE_HORIZON_BIT

ReadBatches = Callable[[ReplicaFacts, int, int], NDArray[Any]]
"""Headers of the batches of a replica that hold an offset in [start, end), in file order."""

IDENTITY: Final = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size_bytes")
"""What two copies of one batch have in common."""

_BUCKETS_LOOKED_AT: Final = 16
_BATCHES_QUOTED: Final = 3


class BatchQuote(TypedDict):
    """A batch as an explanation quotes it."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedBatches:
    """What two logs have at an offset; None where one has no batch there."""

    offset: int
    one: BatchQuote | None
    other: BatchQuote | None

    def named(self, one: str, other: str) -> Mapping[str, object]:
        """As a column tells it, which names the two logs."""
        return {"offset": self.offset, one: self.one, other: self.other}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where two logs hold different batches, and the first one within one leader epoch."""

    offset: int | None
    same_epoch_offset: int | None
    quoted: tuple[QuotedBatches, ...]
    without_epochs: bool = False
    """What differs there first bears no leader epoch, on either side."""


NO_DIFFERENCE: Final = Difference(offset=None, same_epoch_offset=None, quoted=())


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindStretch:
    """Offsets of a log that could not be read, and the leader epoch below which nothing can be hidden there."""

    start_offset: int
    end_offset: int
    from_leader_epoch: int


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


def segments_missing(replica: ReplicaFacts) -> tuple[BlindStretch, ...]:
    """Offsets between two segments of a log that no cleaner touched: a file is gone, or nobody copied it."""
    if replica.ever_compacted:
        return ()
    return tuple(
        BlindStretch(start_offset=place["start_offset"], end_offset=place["end_offset"], from_leader_epoch=-1)
        for row in replica.segments
        for place in row.boundary_damages
        if place["kind"] == "offset_gap"
    )


def first_difference(
    one: ReplicaFacts,
    other: ReplicaFacts,
    start: int,
    end: int,
    *,
    read: tuple[ReadBatches, ReadBatches],
    not_held: Sequence[BlindStretch] = (),
) -> Difference:
    """Where two logs first differ in [start, end), all of which both hold.

    `not_held`: stretches of the first log whose batches nobody copied: what the other has there is no difference.
    """
    read_one, read_other = read
    first: int | None = None
    same_epoch: int | None = None
    quoted: tuple[QuotedBatches, ...] = ()
    without_epochs = False
    looked = 0
    blind = (*blind_stretches(one), *not_held), blind_stretches(other)
    for bucket in differing_buckets(one, [other], start, end):
        if looked == _BUCKETS_LOOKED_AT or (first is not None and same_epoch is not None):
            break
        low, high = max(start, bucket * BUCKET_OFFSETS), min(end, (bucket + 1) * BUCKET_OFFSETS)
        ours, theirs = read_one(one, low, high), read_other(other, low, high)
        cleaned = one.ever_compacted or other.ever_compacted
        found = _compare(ours, theirs, low, high, cleaned=cleaned, blind=blind)
        if found.offset is None:
            continue
        looked += 1
        if first is None:
            first, quoted, without_epochs = found.offset, found.quoted, found.without_epochs
        if same_epoch is None:
            same_epoch = found.same_epoch_offset
    return Difference(offset=first, same_epoch_offset=same_epoch, quoted=quoted, without_epochs=without_epochs)


def differing_buckets(one: ReplicaFacts, others: Sequence[ReplicaFacts], start: int, end: int) -> Iterable[int]:
    """Buckets of [start, end) whose digest no other has, ascending; one at an edge may differ for no reason."""
    ours = {int(b["bucket"]): b for b in one.summary.buckets}
    theirs = [{int(b["bucket"]): b for b in other.summary.buckets} for other in others]
    for bucket in sorted(ours.keys() | {b for of_other in theirs for b in of_other}):
        if (bucket + 1) * BUCKET_OFFSETS <= start or bucket * BUCKET_OFFSETS >= end:
            continue
        left = ours.get(bucket)
        if not any(_same_bucket(left, of_other.get(bucket)) for of_other in theirs):
            yield bucket


def _same_bucket(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    return bool(left["digest"] == right["digest"] and left["batches"] == right["batches"])


def _compare(
    ours: NDArray[Any],
    theirs: NDArray[Any],
    low: int,
    high: int,
    *,
    cleaned: bool,
    blind: tuple[Sequence[BlindStretch], Sequence[BlindStretch]],
) -> Difference:
    """Batch by batch. A batch that reaches over an edge of the stretch is compared where both have it.

    `blind`: where damage hides batches of either: one that is not found there is not known to differ.
    """
    ours, theirs = _inside(ours, low, high), _inside(theirs, low, high)
    by_offset = {int(row["base_offset"]): row for row in theirs}
    own = {int(row["base_offset"]): row for row in ours}
    first: int | None = None
    same_epoch: int | None = None
    quoted: list[QuotedBatches] = []
    without_epochs = False
    for offset in sorted(own.keys() | by_offset.keys()):
        left, right = own.get(offset), by_offset.get(offset)
        if left is not None and right is not None and all(left[n] == right[n] for n in IDENTITY):
            continue
        if (left is None and _hidden(offset, blind[0])) or (right is None and _hidden(offset, blind[1])):
            continue
        if cleaned and (rewritten(left) or rewritten(right) or left is None or right is None):
            continue  # A cleaner rewrites batches and drops them, each broker by its own clock (KIP-534).
        if first is None:
            first = offset
            without_epochs = all(row is None or int(row["partition_leader_epoch"]) < 0 for row in (left, right))
        if len(quoted) < _BATCHES_QUOTED:
            quoted.append(QuotedBatches(offset=offset, one=_quote(left), other=_quote(right)))
        if same_epoch is None:
            one = left if left is not None else _covering(ours, offset)
            other = right if right is not None else _covering(theirs, offset)
            # A batch that fails its checksum is not another one: it is damaged, which is told of it.
            if (
                one is not None
                and other is not None
                and int(one["partition_leader_epoch"]) == int(other["partition_leader_epoch"])
                # Without one there is no one who alone may have written it (message formats 0 and 1).
                and int(one["partition_leader_epoch"]) >= 0
                and one["crc_valid"]
                and other["crc_valid"]
            ):
                same_epoch = offset
    return Difference(offset=first, same_epoch_offset=same_epoch, quoted=tuple(quoted), without_epochs=without_epochs)


def _hidden(offset: int, blind: Sequence[BlindStretch]) -> bool:
    return any(stretch.start_offset <= offset < stretch.end_offset for stretch in blind)


def _inside(headers: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    return headers[(headers["base_offset"] >= low) & (headers["base_offset"] < high)]


def _covering(headers: NDArray[Any], offset: int) -> Any:
    found = headers[(headers["base_offset"] <= offset) & (headers["last_offset"] >= offset)]
    return found[0] if len(found) else None


def rewritten(row: Any) -> bool:
    """Bears the traces of a cleaner, or would not: a delete horizon (KIP-534), records taken out; a batch without a
    leader epoch that Kafka 4 wrote of an older one, or a wrapper, which says nothing of what it held before.
    """
    return row is not None and (
        bool(int(row["attributes"]) & DELETE_HORIZON_BIT)
        or (
            int(row["partition_leader_epoch"]) < 0
            and (int(row["magic"]) == CURRENT_MAGIC or bool(int(row["attributes"]) & COMPRESSION_MASK))
        )
        or int(row["record_count"]) != int(row["last_offset"]) - int(row["base_offset"]) + 1
    )


def _quote(row: Any) -> BatchQuote | None:
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


def records_between(headers: NDArray[Any], start_offset: int, end_offset: int | None = None) -> int:
    """Producers' records at offsets in [start, end); where there is none, the end markers: committed records, too."""
    data = (headers["attributes"] & CONTROL_BIT) == 0
    return _count(headers[data], start_offset, end_offset) or _count(headers[~data], start_offset, end_offset)


def markers_between(headers: NDArray[Any], start_offset: int, end_offset: int | None = None) -> int:
    """End markers of transactions at offsets in [start, end)."""
    return _count(headers[(headers["attributes"] & CONTROL_BIT) != 0], start_offset, end_offset)


def _count(headers: NDArray[Any], start_offset: int, end_offset: int | None) -> int:
    """Records at offsets in [start, end); of a batch over an edge, those that can lie inside."""
    rows = headers if end_offset is None else headers[headers["base_offset"] < end_offset]
    rows = rows[rows["last_offset"] >= start_offset]
    # A header may lie: there are no more records in a batch than it has offsets.
    counts = np.clip(rows["record_count"], 0, rows["last_offset"] - rows["base_offset"] + 1)
    total = int(counts.sum())
    below = rows["base_offset"] < start_offset
    total -= int(np.minimum(counts[below], start_offset - rows["base_offset"][below]).sum())
    if end_offset is not None:
        above = rows["last_offset"] >= end_offset
        total -= int(np.minimum(counts[above], rows["last_offset"][above] + 1 - end_offset).sum())
    return max(total, 0)
