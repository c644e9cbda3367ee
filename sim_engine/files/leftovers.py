"""Files of segments that are no longer part of a log, or not yet.

In: a segment, and what becomes of it. Out: its files under their other names. A file that a broker finds under such a
name when it starts is removed, or (`.swap`) takes the place of what it was made from.

    .deleted    for file.delete.delay.ms after retention, compaction or DeleteRecords took the segment; its producer
                snapshot has the same fate, unless compaction has written the segment anew
    .cleaned    what the cleaner is writing; its indexes are preallocated until it is through
    .swap       what the cleaner has written and a killed broker had not yet put in place

Source: Kafka LocalLog#deleteSegmentFiles, #replaceSegments, LogLoader, Cleaner.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry, write_producer_snapshot
from tidegauge.sim_engine.log.render_log import File, render_segment
from tidegauge.sim_engine.log.replica_log import LogConfig, ReplicaLog
from tidegauge.sim_engine.log.segment import Segment


class Leftover(StrEnum):
    """What its files' names end in."""

    DELETED = "deleted"
    CLEANED = "cleaned"
    SWAP = "swap"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftSegment:
    """A segment under other names. `producers`: what its producer snapshot says, if that is left with it."""

    segment: Segment
    leftover: Leftover
    producers: tuple[ProducerSnapshotEntry, ...] | None = None
    left_at_ms: int = 0


def taken_away(before: ReplicaLog, after: ReplicaLog, *, now_ms: int = 0) -> tuple[LeftSegment, ...]:
    """What retention, DeleteRecords or truncation left: segments that are no more."""
    kept = {segment.base_offset for segment in after.segments}
    return tuple(_deleted(s, before, after, now_ms) for s in before.segments if s.base_offset not in kept)


def cleaned_away(before: ReplicaLog, after: ReplicaLog, *, now_ms: int = 0) -> tuple[LeftSegment, ...]:
    """What the cleaner left: every segment that it wrote anew, even where one of the same name is there again."""
    kept = {id(segment) for segment in after.segments}
    return tuple(_deleted(s, before, after, now_ms) for s in before.segments if id(s) not in kept)


def together(older: tuple[LeftSegment, ...], newer: tuple[LeftSegment, ...]) -> tuple[LeftSegment, ...]:
    """Both; a file takes the place of one of the same name."""
    named = {(left.segment.base_offset, left.leftover): left for left in (*older, *newer)}
    return tuple(named.values())


def not_yet_removed(leftovers: tuple[LeftSegment, ...], *, now_ms: int, delay_ms: int) -> tuple[LeftSegment, ...]:
    """Those whose time has not come; nobody removes `.cleaned` and `.swap` but a broker that starts."""
    return tuple(
        left for left in leftovers if left.leftover is not Leftover.DELETED or now_ms - left.left_at_ms < delay_ms
    )


def render_left_segment(left: LeftSegment, config: LogConfig) -> Iterator[tuple[str, File]]:
    """Its files, by name."""
    preallocated = config.segment_index_bytes if left.leftover is Leftover.CLEANED else 0
    for name, file in render_segment(left.segment, preallocated):
        yield f"{name}.{left.leftover}", file
    if left.producers is not None:
        data = write_producer_snapshot(left.producers)
        yield f"{left.segment.base_offset:020d}.snapshot.{left.leftover}", File(data=data, size_bytes=len(data))


def _deleted(segment: Segment, before: ReplicaLog, after: ReplicaLog, now_ms: int) -> LeftSegment:
    gone = None if segment.base_offset in after.snapshots else before.snapshots.get(segment.base_offset)
    return LeftSegment(segment=segment, leftover=Leftover.DELETED, producers=gone, left_at_ms=now_ms)
