"""What the index step reads: `SegmentTask`s, in groups of about equal bytes.

Nothing here is heavy to import: Spark's planner starts a Python process of its own to list the partitions.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidegauge.derivation.index_row import IndexRow

TARGET_PARTITION_BYTES: Final = 128 << 20
"""Bytes that one Spark task reads, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """What a manifest tells of a task's files, where summaries are kept.

    `sha256` of `SegmentTask.files`, "" for one that is not there. `at_ns`: when the manifest was written; of a file
    that was written to since, it tells nothing. `kept_in`: the file of kept summaries that has the row.
    """

    sha256: tuple[str, ...]
    at_ns: int
    kept_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    """One segment to read. Paths are below `root`; `cuts` are the producer snapshots' offsets inside it.

    `path` and `size_bytes` are the log's; what is at hand is `stored_path` with its `stored_bytes`. `indexes_open`: the
    broker was still appending to the indexes, and `clean_shutdown`: until it was stopped cleanly. `zeros_behind`: how
    many zeros followed each of the two indexes on its broker that are not in the file at hand.
    """

    snapshot: str
    root: str
    broker_id: int
    directory: str
    topic: str
    partition: int
    path: str
    stored_path: str
    base_offset: int
    size_bytes: int
    stored_bytes: int
    index_path: str | None
    time_index_path: str | None
    cuts: tuple[int, ...]
    indexes_open: bool
    clean_shutdown: bool
    ignore_sequences: bool
    with_records: bool
    zeros_behind: tuple[int, int] = (0, 0)
    digests: Digests | None = None

    @property
    def files(self) -> tuple[str, str | None, str | None]:
        """What is read: the segment and its indexes."""
        return (self.stored_path, self.index_path, self.time_index_path)

    @property
    def kept_in(self) -> str | None:
        """The file of kept summaries that has its row."""
        return self.digests.kept_in if self.digests is not None else None


def identity(task: SegmentTask) -> "IndexRow":
    """What a row says of which segment it is of, by column."""
    return {
        "snapshot": task.snapshot,
        "broker_id": task.broker_id,
        "directory": task.directory,
        "topic": task.topic,
        "partition": task.partition,
        "path": task.path,
        "stored_path": task.stored_path,
        "base_offset": task.base_offset,
        "size_bytes": task.size_bytes,
    }


def by_bytes(tasks: Iterable[SegmentTask], *, at_least: int) -> list[list[SegmentTask]]:
    """Tasks in groups of about equal bytes: the largest first, each to the lightest group. Those whose rows are kept in
    one file are a group, too.
    """
    anew, kept = by_kept_file(tasks)
    return [*_to_read(anew, at_least=at_least), *kept.values()]


def by_kept_file(tasks: Iterable[SegmentTask]) -> tuple[list[SegmentTask], dict[str, list[SegmentTask]]]:
    """Those to read, and those whose rows are kept, by the file that has them."""
    anew: list[SegmentTask] = []
    kept: dict[str, list[SegmentTask]] = {}
    for task in tasks:
        (anew if task.kept_in is None else kept.setdefault(task.kept_in, [])).append(task)
    return anew, kept


def _to_read(tasks: list[SegmentTask], *, at_least: int) -> list[list[SegmentTask]]:
    if not tasks:
        return []
    ordered = sorted(tasks, key=lambda t: (-t.stored_bytes, t.snapshot, t.path))
    total = sum(t.stored_bytes for t in ordered)
    count = max(1, min(len(ordered), max(at_least, -(-total // TARGET_PARTITION_BYTES))))
    groups: list[list[SegmentTask]] = [[] for _ in range(count)]
    by_weight = [(0, at) for at in range(count)]
    for task in ordered:
        weight, lightest = by_weight[0]
        groups[lightest].append(task)
        # An empty segment costs about as much as a few pages: opening it and its indexes.
        heapq.heapreplace(by_weight, (weight + task.stored_bytes + 65536, lightest))
    return groups
