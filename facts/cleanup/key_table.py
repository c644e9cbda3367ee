"""A compacted log's keys as digests: which record of each is the last, and what two logs disagree about.

In: the digests of a log's records (`kafka_log.record_kernel`), the transactions that were aborted. Out: `KeyTable`, and
`KeyDifference` between two. The rules that must hold: no key or value is kept, only 64-bit digests of them; and the
memory is bounded: beyond `MOST_RECORDS` only keys whose digest lies below a limit are kept, the same keys on every
replica and in every snapshot, each with all its records.

The cleaner keeps the last committed record of each key, and a tombstone until its batch's delete horizon
(Cleaner#shouldRetainRecord, KIP-534).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.producers.state import Transaction

MOST_RECORDS: Final = 4_000_000
"""About 160 MB; Kafka's cleaner has room for 5 million keys in its 128 MB of log.cleaner.dedupe.buffer.size."""
EVERY_KEY: Final = 1 << 64
NO_INSTANT: Final = -1

KEY_RECORD: Final = np.dtype(
    [
        ("key_digest", "<u8"),
        ("offset", "<i8"),
        ("value_digest", "<u8"),
        ("tombstone", "?"),
        ("delete_horizon_ms", "<i8"),
        ("producer_id", "<i8"),
    ]
)
"""One record with a key. `delete_horizon_ms` is its batch's, -1 for none; `producer_id` -1 outside of transactions."""

_UNKEYED: Final = np.dtype([("offset", "<i8"), ("producer_id", "<i8"), ("timestamp_ms", "<i8")])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyTable:
    """The committed records of one log that have keys, by key and offset; keys with a digest below `limit` only."""

    records: NDArray[Any]
    limit: int
    unkeyed_records: int
    first_unkeyed_offset: int | None
    first_unkeyed_at_ms: int | None

    @property
    def permille(self) -> int:
        """Of all keys, how many of a thousand were kept."""
        return max(1, round(1000 * self.limit / EVERY_KEY))

    def below(self, limit: int) -> NDArray[Any]:
        """The records of the keys that a smaller table has too."""
        return self.records if limit >= self.limit else self.records[: _at(self.records["key_digest"], limit)]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """What two logs disagree about; `only_on` is 0 or 1, the one that has the first record told of, None for both."""

    compared: int = 0
    differing: int = 0
    missing: int = 0
    revived: int = 0
    first_offset: int | None = None
    only_on: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """What became of the last records of a log's keys since an earlier snapshot.

    An early tombstone is gone before `due_at_ms`, the instant of the first one.
    """

    compared: int = 0
    lost: int = 0
    first_lost_offset: int | None = None
    changed: int = 0
    first_changed_offset: int | None = None
    early_tombstones: int = 0
    first_early_offset: int | None = None
    due_at_ms: int | None = None


class KeyTableBuilder:
    """Takes a log's records block by block, in log order."""

    def __init__(self, *, most_records: int = MOST_RECORDS) -> None:
        self._most = most_records
        self._limit = EVERY_KEY
        self._parts: list[NDArray[Any]] = []
        self._count = 0
        self._unkeyed: list[NDArray[Any]] = []
        self._unkeyed_count = 0

    def add(
        self,
        digests: NDArray[Any],
        *,
        delete_horizon_ms: NDArray[Any],
        producer_id: NDArray[Any],
        timestamp_ms: NDArray[Any],
    ) -> None:
        """Records (`RECORD_DIGEST`), each with what its batch says."""
        keyed = digests["has_key"] != 0
        # They are none in a sound log, and their transactions must be known to count them.
        unkeyed = np.nonzero(~keyed)[0][: self._most - self._unkeyed_count]
        if len(unkeyed):
            rows = np.zeros(len(unkeyed), dtype=_UNKEYED)
            rows["offset"], rows["producer_id"] = digests["offset"][unkeyed], producer_id[unkeyed]
            rows["timestamp_ms"] = timestamp_ms[unkeyed]
            self._unkeyed.append(rows)
            self._unkeyed_count += len(rows)
        if self._limit < EVERY_KEY:
            keyed &= digests["key_digest"] < np.uint64(self._limit)
        kept = digests[keyed]
        part = np.zeros(len(kept), dtype=KEY_RECORD)
        for name in ("key_digest", "offset", "value_digest"):
            part[name] = kept[name]
        part["tombstone"] = kept["has_value"] == 0
        part["delete_horizon_ms"] = delete_horizon_ms[keyed]
        part["producer_id"] = producer_id[keyed]
        self._parts.append(part)
        self._count += len(part)
        while self._count > self._most:
            self._limit //= 2
            self._parts = [p[p["key_digest"] < np.uint64(self._limit)] for p in self._parts]
            self._count = sum(len(p) for p in self._parts)

    def table(self, aborted: Iterable[Transaction]) -> KeyTable:
        """The table, without what `aborted` (or open) transactions wrote."""
        records = np.concatenate([np.zeros(0, dtype=KEY_RECORD), *self._parts])
        self._parts.clear()
        ranges: dict[int, list[tuple[int, int]]] = {}
        for t in aborted:
            end = t.marker_offset if t.marker_offset is not None else np.iinfo(np.int64).max
            ranges.setdefault(t.producer_id, []).append((t.first_offset, int(end)))
        if ranges:
            records = records[~_inside(records["producer_id"], records["offset"], ranges)]
        unkeyed = np.concatenate([np.zeros(0, dtype=_UNKEYED), *self._unkeyed])
        unkeyed = unkeyed[~_inside(unkeyed["producer_id"], unkeyed["offset"], ranges)]
        order = np.lexsort((records["offset"], records["key_digest"]))
        return KeyTable(
            records=records[order],
            limit=self._limit,
            unkeyed_records=len(unkeyed),
            first_unkeyed_offset=int(unkeyed["offset"][0]) if len(unkeyed) else None,
            first_unkeyed_at_ms=int(unkeyed["timestamp_ms"][0]) if len(unkeyed) else None,
        )


def _inside(
    producer_ids: NDArray[Any], offsets: NDArray[Any], ranges: dict[int, list[tuple[int, int]]]
) -> NDArray[np.bool_]:
    """Which records lie in their producer's ranges [first, end)."""
    found = np.zeros(len(offsets), dtype=bool)
    for producer_id, of_producer in ranges.items():
        own = np.nonzero(producer_ids == producer_id)[0]
        for first, end in of_producer:
            found[own[(offsets[own] >= first) & (offsets[own] < end)]] = True
    return found


def duplicates_between(table: KeyTable, start_offset: int, end_offset: int) -> tuple[int, int | None]:
    """Keys with more than one record in [start, end), and the first of the records that should be gone."""
    offsets = table.records["offset"]
    records = table.records[(offsets >= start_offset) & (offsets < end_offset)]
    again = records["key_digest"][1:] == records["key_digest"][:-1]
    if not again.any():
        return 0, None
    replaced = records[:-1][again]
    return len(np.unique(replaced["key_digest"])), int(replaced["offset"].min())


def key_count(table: KeyTable) -> int:
    """Different keys."""
    digests = table.records["key_digest"]
    return int(np.count_nonzero(digests[1:] != digests[:-1])) + 1 if len(digests) else 0


def _last(records: NDArray[Any]) -> NDArray[Any]:
    """The last record of each key; records are in the order of key and offset."""
    if not len(records):
        return records
    is_last = np.append(records["key_digest"][1:] != records["key_digest"][:-1], True)
    last: NDArray[Any] = records[is_last]
    return last


def _at(digests: NDArray[Any], limit: int) -> int:
    return int(np.searchsorted(digests, np.uint64(min(limit, EVERY_KEY - 1))))


def _found(records: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """For each wanted key the place of its row among the last records, and whether there is one."""
    if not len(records):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    places = np.searchsorted(records["key_digest"], wanted["key_digest"])
    inside = np.minimum(places, len(records) - 1)
    return inside, records["key_digest"][inside] == wanted["key_digest"]


def difference(
    one: KeyTable,
    other: KeyTable,
    *,
    start_offset: int,
    end_offset: int,
    outrun: tuple[bool, bool] = (False, False),
) -> KeyDifference:
    """Compares the last records below `end_offset`, of keys whose last record on either lies at or above the start.

    A record that only one log has is no difference if the other has a later one of its key anywhere, which is why its
    cleaner took it, or if it is a tombstone that the other let go, having no older record of that key either.
    `outrun`: the other log was cleaned beyond this one's end. A tombstone from behind that end may have taken the key's
    records, and have gone itself.
    """
    limit = min(one.limit, other.limit)
    whole = (one.below(limit), other.below(limit))
    below = tuple(_last(records[records["offset"] < end_offset]) for records in whole)
    newest = tuple(_last(records) for records in whole)
    compared = differing = missing = revived = 0
    first: list[tuple[int, int | None]] = []
    for own, theirs in ((0, 1), (1, 0)):
        mine = below[own][below[own]["offset"] >= start_offset]
        at, held = _found(below[theirs], mine)
        rows = below[theirs][at] if len(below[theirs]) else np.zeros(len(mine), dtype=KEY_RECORD)
        same = held & (rows["offset"] == mine["offset"])
        if own == 0:
            changed = same & (rows["value_digest"] != mine["value_digest"])
            compared += len(mine)
            differing += int(np.count_nonzero(changed))
            first += [(int(mine["offset"][changed].min()), None)] if changed.any() else []
        else:
            compared += int(np.count_nonzero(~held))
        late, replaced = _found(newest[theirs], mine)
        later = newest[theirs]["offset"][late] > mine["offset"] if len(newest[theirs]) else np.zeros(len(mine), bool)
        lacking = ~same & ~(replaced & later)
        gone = lacking & ~mine["tombstone"] & (replaced | (not outrun[own]))
        back = lacking & mine["tombstone"] & held
        missing += int(np.count_nonzero(gone))
        revived += int(np.count_nonzero(back))
        first += [(int(mine["offset"][gone | back].min()), own)] if (gone | back).any() else []
    told = min(first, key=lambda f: f[0], default=(None, None))
    return KeyDifference(
        compared=compared,
        differing=differing,
        missing=missing,
        revived=revived,
        first_offset=told[0],
        only_on=told[1],
    )


def change(
    then: KeyTable,
    now: KeyTable,
    *,
    start_offset: int,
    end_offset: int,
    now_ms: int | None,
    without_horizon_due_ms: int | None,
) -> KeyChange:
    """What became of each key's last record below `end_offset` then, at or above `start_offset`, the log start now.

    A tombstone may go from its batch's delete horizon on; one that no cleaner had passed yet, from
    `without_horizon_due_ms` on. `now_ms` None: nothing is said of tombstones.
    """
    limit = min(then.limit, now.limit)
    was = _last(then.below(limit)[then.below(limit)["offset"] < end_offset])
    was = was[was["offset"] >= start_offset]
    records = now.below(limit)
    last = _last(records)
    at, held = _found(last, was)
    found = last[at] if len(last) else np.zeros(len(was), dtype=KEY_RECORD)
    later = held & (found["offset"] > was["offset"])
    same = held & (found["offset"] == was["offset"])
    gone = ~same & ~later
    lost = gone & ~was["tombstone"]
    changed = same & (found["value_digest"] != was["value_digest"])
    early = np.zeros(len(was), dtype=bool)
    due = np.full(len(was), NO_INSTANT, dtype=np.int64)
    if now_ms is not None:
        without = without_horizon_due_ms if without_horizon_due_ms is not None else NO_INSTANT
        due = np.where(was["delete_horizon_ms"] >= 0, was["delete_horizon_ms"], without)
        early = gone & was["tombstone"] & (due > now_ms)
    first_early = int(np.argmin(np.where(early, was["offset"], np.iinfo(np.int64).max))) if early.any() else None
    return KeyChange(
        compared=len(was),
        lost=int(np.count_nonzero(lost)),
        first_lost_offset=_smallest(was["offset"][lost]),
        changed=int(np.count_nonzero(changed)),
        first_changed_offset=_smallest(was["offset"][changed]),
        early_tombstones=int(np.count_nonzero(early)),
        first_early_offset=int(was["offset"][first_early]) if first_early is not None else None,
        due_at_ms=int(due[first_early]) if first_early is not None else None,
    )


def _smallest(offsets: Sequence[int] | NDArray[Any]) -> int | None:
    return int(min(offsets)) if len(offsets) else None
