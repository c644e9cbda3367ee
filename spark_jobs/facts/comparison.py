"""Two copies of one log, compared: the first batches that differ.

In: two `ReplicaFacts` of one partition, of two brokers or of two moments, and a way to read batch headers of a stretch
on demand. Out: a `Difference`. The rule that must hold: digests only say where to look; a difference is claimed on the
batches themselves.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT
from spark_jobs.facts.replica import ReplicaFacts
from spark_jobs.facts.segment_summary import BUCKET_OFFSETS

ReadBatches = Callable[[ReplicaFacts, int, int], NDArray[Any]]
"""Headers of the batches of a replica that hold an offset in [start, end), in file order."""

IDENTITY: Final = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size_bytes")
"""What two copies of one batch have in common."""

_BUCKETS_LOOKED_AT: Final = 16
_BATCHES_QUOTED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where two logs hold different batches, and the first one within one leader epoch."""

    offset: int | None
    same_epoch_offset: int | None
    quoted: tuple[dict[str, Any], ...]


NO_DIFFERENCE: Final = Difference(offset=None, same_epoch_offset=None, quoted=())


def first_difference(
    one: ReplicaFacts,
    other: ReplicaFacts,
    start: int,
    end: int,
    *,
    read: tuple[ReadBatches, ReadBatches],
    names: tuple[str, str],
) -> Difference:
    """Where two logs first differ in [start, end), all of which both hold. `names`: how their batches are quoted."""
    read_one, read_other = read
    first: int | None = None
    same_epoch: int | None = None
    quoted: tuple[dict[str, Any], ...] = ()
    looked = 0
    for bucket in differing_buckets(one, [other], start, end):
        if looked == _BUCKETS_LOOKED_AT or (first is not None and same_epoch is not None):
            break
        low, high = max(start, bucket * BUCKET_OFFSETS), min(end, (bucket + 1) * BUCKET_OFFSETS)
        ours, theirs = read_one(one, low, high), read_other(other, low, high)
        cleaned = one.ever_compacted or other.ever_compacted
        found = _compare(ours, theirs, low, high, cleaned=cleaned, names=names)
        if found.offset is None:
            continue
        looked += 1
        if first is None:
            first, quoted = found.offset, found.quoted
        if same_epoch is None:
            same_epoch = found.same_epoch_offset
    return Difference(offset=first, same_epoch_offset=same_epoch, quoted=quoted)


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
    ours: NDArray[Any], theirs: NDArray[Any], low: int, high: int, *, cleaned: bool, names: tuple[str, str]
) -> Difference:
    """Batch by batch. A batch that reaches over an edge of the stretch is compared where both have it."""
    ours, theirs = _inside(ours, low, high), _inside(theirs, low, high)
    by_offset = {int(row["base_offset"]): row for row in theirs}
    own = {int(row["base_offset"]): row for row in ours}
    first: int | None = None
    same_epoch: int | None = None
    quoted: list[dict[str, Any]] = []
    for offset in sorted(own.keys() | by_offset.keys()):
        left, right = own.get(offset), by_offset.get(offset)
        if left is not None and right is not None and all(left[n] == right[n] for n in IDENTITY):
            continue
        if cleaned and (rewritten(left) or rewritten(right) or left is None or right is None):
            continue  # A cleaner rewrites batches and drops them, each broker by its own clock (KIP-534).
        if first is None:
            first = offset
        if len(quoted) < _BATCHES_QUOTED:
            quoted.append({"offset": offset, names[0]: _quote(left), names[1]: _quote(right)})
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


def rewritten(row: Any) -> bool:
    """Bears the traces of a cleaner: a delete horizon (KIP-534), or records taken out."""
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


def data_records(headers: NDArray[Any], start_offset: int) -> int:
    """Records of data batches from an offset on; of a batch that begins below it, those that can lie above."""
    data = headers[(headers["attributes"] & CONTROL_BIT) == 0]
    total = int(data["record_count"].sum())
    for row in data[data["base_offset"] < start_offset]:
        total -= min(int(row["record_count"]), start_offset - int(row["base_offset"]))
    return total
