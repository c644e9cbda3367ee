"""Offset and time indexes: `<base>.index` and `<base>.timeindex`.

In: a file's bytes. Out: its entries as arrays, and its damage. The active segment's file is preallocated and
memory-mapped, so zeros behind the entries are padding, and entries that a live truncation left behind them are stale,
not damage (OffsetIndex#truncateTo only shrinks the count in memory). A sealed segment's file is trimmed, and so is the
active one's by a clean stop.

    .index       8 bytes each: offset relative to the base i32, position of its batch i32
    .timeindex  12 bytes each: largest timestamp so far i64, offset relative to the base i32
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegauge.kafka_log.corruption import PLACES_KEPT, Corruption, Damage

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetIndex:
    """Entries in use: absolute offsets and positions in the log. Stale entries and padding are counted, not kept."""

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]
    stale_entries: int
    padding_bytes: int
    corruptions: tuple[Corruption, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeIndex:
    """Entries in use: timestamps (ms) and absolute offsets."""

    timestamps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    stale_entries: int
    padding_bytes: int
    corruptions: tuple[Corruption, ...]


def parse_offset_index(
    data: bytes, *, base_offset: int, log_size_bytes: int | None, active: bool, zeros_behind: int = 0
) -> OffsetIndex:
    """Reads an offset index of a log of `log_size_bytes`; None: where the log ends says nothing of its entries.

    `active`: nobody has trimmed the file. `zeros_behind`: how many follow `data` in such a file.
    """
    entries, padding, corruptions = _entries(data, _OFFSET_ENTRY, active=active, zeros_behind=zeros_behind)
    offsets = entries["offset"].astype(np.int64)
    positions = entries["position"].astype(np.int64)
    good = (offsets >= 0) & (positions >= 0)
    if log_size_bytes is not None:
        good &= positions < max(log_size_bytes, 1)
    good[1:] &= (offsets[1:] > offsets[:-1]) & (positions[1:] > positions[:-1])
    used, stale = _used(good, active=active)
    if not active:
        corruptions += _disordered(good, _OFFSET_ENTRY.itemsize, "does not rise, or leads beyond the log")
    return OffsetIndex(
        offsets=offsets[:used] + base_offset,
        positions=positions[:used],
        stale_entries=stale,
        padding_bytes=padding,
        corruptions=tuple(corruptions),
    )


def parse_time_index(data: bytes, *, base_offset: int, active: bool, zeros_behind: int = 0) -> TimeIndex:
    """Reads a time index. `active`, `zeros_behind`: as of an offset index."""
    entries, padding, corruptions = _entries(data, _TIME_ENTRY, active=active, zeros_behind=zeros_behind)
    timestamps = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64)
    good = offsets >= 0
    good[1:] &= (timestamps[1:] > timestamps[:-1]) & (offsets[1:] >= offsets[:-1])
    used, stale = _used(good, active=active)
    if not active:
        corruptions += _disordered(good, _TIME_ENTRY.itemsize, "does not rise")
    return TimeIndex(
        timestamps=timestamps[:used],
        offsets=offsets[:used] + base_offset,
        stale_entries=stale,
        padding_bytes=padding,
        corruptions=tuple(corruptions),
    )


def write_offset_index(offsets: ArrayLike, positions: ArrayLike, *, base_offset: int, size_bytes: int = 0) -> bytes:
    """The bytes of an offset index with these entries, filled with zeros up to `size_bytes` (an active segment's)."""
    entries = np.empty(len(np.asarray(offsets)), _OFFSET_ENTRY)
    entries["offset"] = np.asarray(offsets, np.int64) - base_offset
    entries["position"] = positions
    return entries.tobytes().ljust(size_bytes, b"\0")


def write_time_index(timestamps: ArrayLike, offsets: ArrayLike, *, base_offset: int, size_bytes: int = 0) -> bytes:
    """The bytes of a time index with these entries, filled with zeros up to `size_bytes` (an active segment's)."""
    entries = np.empty(len(np.asarray(timestamps)), _TIME_ENTRY)
    entries["timestamp"] = timestamps
    entries["offset"] = np.asarray(offsets, np.int64) - base_offset
    return entries.tobytes().ljust(size_bytes, b"\0")


def _entries(
    data: bytes, dtype: np.dtype[Any], *, active: bool, zeros_behind: int
) -> tuple[NDArray[Any], int, list[Corruption]]:
    """All whole entries but the zero ones at the end of an active file; and the bytes of those."""
    assert active or not zeros_behind, "a sealed index is read whole: its zeros are entries"
    size = dtype.itemsize
    total = len(data) + zeros_behind
    whole = total // size
    corruptions = []
    if whole * size != total:
        corruptions.append(
            Corruption(
                kind=Damage.FORM,
                position=whole * size,
                end_position=total,
                detail=f"{total - whole * size} bytes behind the last whole entry",
            )
        )
    used = whole
    if active:
        filled = np.flatnonzero(np.frombuffer(data, dtype=np.uint8, count=min(len(data), whole * size)))
        used = int(filled[-1]) // size + 1 if len(filled) else 0
        data = data.ljust(used * size, b"\0")  # the last entry may reach into the zeros
    return np.frombuffer(data, dtype=dtype, count=used), (whole - used) * size, corruptions


def _used(good: NDArray[np.bool_], *, active: bool) -> tuple[int, int]:
    """In an active file everything from the first bad entry on is stale; a sealed one is read whole."""
    if not active or bool(good.all()):
        return len(good), 0
    first_bad = int(np.argmin(good))
    return first_bad, len(good) - first_bad


def _disordered(good: NDArray[np.bool_], size: int, what: str) -> list[Corruption]:
    """A place for each wrong entry, and beyond `PLACES_KEPT` one for all others: a page of zeros is wrong all over."""
    wrong = np.flatnonzero(~good)
    found = [
        Corruption(
            kind=Damage.ORDER, position=int(at) * size, end_position=(int(at) + 1) * size, detail=f"entry {at} {what}"
        )
        for at in wrong[:PLACES_KEPT]
    ]
    if len(rest := wrong[PLACES_KEPT:]):
        detail = f"{len(rest)} more entries from entry {rest[0]} on: each {what}"
        end = (int(rest[-1]) + 1) * size
        found.append(Corruption(kind=Damage.ORDER, position=int(rest[0]) * size, end_position=end, detail=detail))
    return found
