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
_PERHAPS_IN_ORDER: Final = 2
"""Zero entries at the end of a sealed file that may be right: the first of all, or behind a time before 1970."""
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetIndex:
    """Entries in use: absolute offsets and positions in the log. Stale entries and padding are counted, not kept; so
    are `blank_entries`, zeros at the end of a sealed file that are each out of order: they may be none of its bytes.
    """

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]
    stale_entries: int
    padding_bytes: int
    corruptions: tuple[Corruption, ...]
    blank_entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeIndex:
    """Entries in use: timestamps (ms) and absolute offsets. `blank_entries`: as of an offset index."""

    timestamps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    stale_entries: int
    padding_bytes: int
    corruptions: tuple[Corruption, ...]
    blank_entries: int = 0


def parse_offset_index(
    data: bytes, *, base_offset: int, log_size_bytes: int | None, active: bool, zeros_behind: int = 0
) -> OffsetIndex:
    """Reads an offset index of a log of `log_size_bytes`; None: where the log ends says nothing of its entries.

    `active`: nobody has trimmed the file. `zeros_behind`: how many follow `data` in the file.
    """
    entries, padding, blank, corruptions = _entries(data, _OFFSET_ENTRY, active=active, zeros_behind=zeros_behind)
    offsets = entries["offset"].astype(np.int64)
    positions = entries["position"].astype(np.int64)
    good = (offsets >= 0) & (positions >= 0)
    if log_size_bytes is not None:
        good &= positions < max(log_size_bytes, 1)
    good[1:] &= (offsets[1:] > offsets[:-1]) & (positions[1:] > positions[:-1])
    used, stale = _used(good, active=active)
    if not active:
        corruptions += _disordered(good, blank, _OFFSET_ENTRY.itemsize, "does not rise, or leads beyond the log")
    return OffsetIndex(
        offsets=offsets[:used] + base_offset,
        positions=positions[:used],
        stale_entries=stale,
        padding_bytes=padding,
        corruptions=tuple(corruptions),
        blank_entries=blank,
    )


def parse_time_index(data: bytes, *, base_offset: int, active: bool, zeros_behind: int = 0) -> TimeIndex:
    """Reads a time index. `active`, `zeros_behind`: as of an offset index."""
    entries, padding, blank, corruptions = _entries(data, _TIME_ENTRY, active=active, zeros_behind=zeros_behind)
    timestamps = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64)
    good = offsets >= 0
    good[1:] &= (timestamps[1:] > timestamps[:-1]) & (offsets[1:] >= offsets[:-1])
    used, stale = _used(good, active=active)
    if not active:
        corruptions += _disordered(good, blank, _TIME_ENTRY.itemsize, "does not rise")
    return TimeIndex(
        timestamps=timestamps[:used],
        offsets=offsets[:used] + base_offset,
        stale_entries=stale,
        padding_bytes=padding,
        corruptions=tuple(corruptions),
        blank_entries=blank,
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
) -> tuple[NDArray[Any], int, int, list[Corruption]]:
    """All whole entries but the zero ones at the end, of which a sealed file's first two are given: they may be in
    order. Of an active file's the bytes, of a sealed one's the number. What it takes goes by `data` alone.
    """
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
    filled = np.flatnonzero(np.frombuffer(data, dtype=np.uint8, count=min(len(data), whole * size)))
    used = int(filled[-1]) // size + 1 if len(filled) else 0
    if not active:
        used = min(whole, used + _PERHAPS_IN_ORDER)
    data = data.ljust(used * size, b"\0")  # the last entry may reach into the zeros
    entries = np.frombuffer(data, dtype=dtype, count=used)
    return entries, (whole - used) * size if active else 0, 0 if active else whole - used, corruptions


def _used(good: NDArray[np.bool_], *, active: bool) -> tuple[int, int]:
    """In an active file everything from the first bad entry on is stale; a sealed one is read whole."""
    if not active or bool(good.all()):
        return len(good), 0
    first_bad = int(np.argmin(good))
    return first_bad, len(good) - first_bad


def _disordered(good: NDArray[np.bool_], blank: int, size: int, what: str) -> list[Corruption]:
    """A place for each wrong entry, the blank ones behind them, and beyond `PLACES_KEPT` one for all others: a page of
    zeros is wrong all over.
    """
    wrong = np.flatnonzero(~good)
    told = [*map(int, wrong[: PLACES_KEPT + 1]), *range(len(good), len(good) + min(blank, PLACES_KEPT + 1))]
    found = [
        Corruption(kind=Damage.ORDER, position=at * size, end_position=(at + 1) * size, detail=f"entry {at} {what}")
        for at in told[:PLACES_KEPT]
    ]
    if (rest := len(wrong) + blank - PLACES_KEPT) > 0:
        first, last = told[PLACES_KEPT], len(good) + blank - 1 if blank else int(wrong[-1])
        detail = f"{rest} more entries from entry {first} on: each {what}"
        found.append(
            Corruption(kind=Damage.ORDER, position=first * size, end_position=(last + 1) * size, detail=detail)
        )
    return found
