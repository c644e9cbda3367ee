"""Batches of one replica, out of a snapshot's segments: headers first, bytes and records on demand.

In: a replica's files, a range of offsets. Out: header rows with where they lie, whole batches, and how each producer's
transactions ended. A batch is taken whole or not at all, and only under a right checksum.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tidegauge.kafka_log.scan import scan_batches
from tidegauge.snapshots.holes import HoledFile
from tidegauge.snapshots.listing import ReplicaFiles, SegmentFiles
from tidegauge.snapshots.location import Location, open_bytes

_IDENTITY: Final = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size_bytes")
_ABORT, _COMMIT = 0, 1

Identity = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBatches:
    """One replica's batches."""

    root: Location
    replica: ReplicaFiles

    def headers(self, start: int, end: int | None) -> Iterator[tuple[SegmentFiles, NDArray[Any]]]:
        """Batches that touch [start, end), segment by segment, those with a wrong checksum included."""
        segments = self.replica.segments
        next_bases = [*(s.base_offset for s in segments[1:]), None]
        for segment, next_base in zip(segments, next_bases, strict=False):  # None too where there is no segment
            if (end is not None and segment.base_offset >= end) or (next_base is not None and next_base <= start):
                continue
            with open_bytes(self.root / segment.log.path) as file:
                source = HoledFile(file)
                for block in scan_batches(source.readinto, pass_zeros=source.pass_zeros):
                    touched = block.headers["last_offset"] >= start
                    if end is not None:
                        touched &= block.headers["base_offset"] < end
                    rows = block.headers[touched]
                    if len(rows):
                        yield segment, rows.copy()

    def identities(self, start: int, end: int | None) -> set[Identity]:
        """What tells the sound batches of a range from any others."""
        return {identity(row) for _, rows in self.headers(start, end) for row in rows[rows["crc_valid"] == 1]}

    def batches(self, start: int, end: int | None) -> Iterator[tuple[np.void, bytes]]:
        """The sound batches of a range, byte for byte."""
        for segment, rows in self.headers(start, end):
            with open_bytes(self.root / segment.log.path) as source:
                for row in rows[rows["crc_valid"] == 1]:
                    source.seek(int(row["position"]))
                    yield row, source.read(int(row["size_bytes"]))

    def damaged(self, start: int, end: int | None) -> Iterator[str]:
        """The other ones, in words."""
        for _, rows in self.headers(start, end):
            for row in rows[rows["crc_valid"] == 0]:
                yield f"offsets {row['base_offset']}..{row['last_offset']}: the checksum is wrong"

    def outcomes(self, start: int) -> "Outcomes":
        """How transactions with records from an offset on ended."""
        markers: dict[int, list[tuple[int, int]]] = {}
        for _, rows in self.headers(start, None):
            for row in rows[(rows["attributes"] & CONTROL_BIT) != 0]:
                markers.setdefault(int(row["producer_id"]), []).append(
                    (int(row["base_offset"]), int(row["control_type"]))
                )
        return Outcomes(markers=markers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Markers by producer id, (offset, control type) in the order of the log."""

    markers: Mapping[int, list[tuple[int, int]]]

    def of(self, row: np.void) -> str | None:
        """committed, aborted or open; None for a batch outside of any transaction."""
        if not int(row["attributes"]) & TRANSACTIONAL_BIT:
            return None
        markers = self.markers.get(int(row["producer_id"]), [])
        at = bisect_right(markers, (int(row["last_offset"]), _COMMIT + 1))
        return {_ABORT: "aborted", _COMMIT: "committed"}.get(markers[at][1], "open") if at < len(markers) else "open"


def identity(row: np.void) -> Identity:
    """What tells a batch from any other: where it lies, its epoch, its checksum and size."""
    return tuple(int(row[name]) for name in _IDENTITY)


def is_control(row: np.void) -> bool:
    """Whether a batch is a marker, no user's record."""
    return bool(int(row["attributes"]) & CONTROL_BIT)
