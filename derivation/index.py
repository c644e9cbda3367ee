"""The index step: every segment of the snapshots read once, where Spark puts the task, into one row of summaries.

In: `SegmentTask`s. Out: rows of `INDEX_SCHEMA`. A segment that cannot be read gives a row that says so; nothing is
skipped silently; where the whole snapshot is not to be seen, no row is right. The bytes are read in one pass with
bounded memory, but for Kafka's internal topics, whose records are decoded on the way.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.derivation.index_columns import batch_of
from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.kept_rows import content, kept_rows
from tidegauge.derivation.segment_pieces import in_pieces
from tidegauge.derivation.segment_tasks import SegmentTask, by_kept_file, identity
from tidegauge.facts.coordinators.tables import CoordinatorTable, latest_records
from tidegauge.facts.replicas.derived_files import SegmentIndexCheck
from tidegauge.facts.replicas.replica import CHAIN_DAMAGE
from tidegauge.facts.replicas.replica_input import IndexedFile
from tidegauge.facts.segments.fold import SummaryFold
from tidegauge.facts.segments.record_check import RecordChecker
from tidegauge.facts.segments.summary import SegmentSummary
from tidegauge.kafka_log.allowance import of_internal_topic
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.indexes import parse_offset_index, parse_time_index
from tidegauge.kafka_log.scan import ScanBlock
from tidegauge.runs.failures import Failures
from tidegauge.runs.mounts import must_see
from tidegauge.snapshots.holes import read_written, sha256_with_zeros
from tidegauge.snapshots.local_path import must_be_readable
from tidegauge.snapshots.location import Location, location, open_bytes

_LOG: Final = logging.getLogger(__name__)
_BATCH_ROWS: Final = 64
_BATCH_BYTES: Final = 4 << 20
"""Rows of a batch at most, and bytes that it is made from, about."""
_LARGEST_ENTRY: Final = 12
"""Bytes of an entry of .timeindex, which are more than one of .index has."""


def index_rows(tasks: Iterable[SegmentTask], *, failures: Failures | None = None) -> Iterator[pa.RecordBatch]:
    """Reads segments, a record batch for some of them together; rows that are kept of an earlier audit come first.
    `failures`: where to note which segment made us fail; it counts as unread. Without it, what is raised is
    the caller's.
    """
    anew, kept = by_kept_file(tasks)
    for file, of_file in kept.items():
        anew += yield from kept_rows(file, of_file)
    for together in _together(anew):
        rows = (piece for task in together for piece in in_pieces(_row(task, failures)))
        while some := list(islice(rows, _BATCH_ROWS)):
            yield batch_of(some)


def _together(tasks: Iterable[SegmentTask]) -> Iterator[list[SegmentTask]]:
    """Tasks whose rows become a batch: a batch of one row costs as much as one of fifty, and rows wait in memory."""
    waiting: list[SegmentTask] = []
    size = 0
    for task in tasks:
        waiting.append(task)
        size += task.stored_bytes
        if len(waiting) == _BATCH_ROWS or size >= _BATCH_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _row(task: SegmentTask, failures: Failures | None) -> IndexRow:
    try:
        return _index_segment(task)
    except OSError as error:
        must_see(task.root)
        return _unreadable(task, error)
    except Exception as error:
        if failures is None:
            raise
        error.add_note(f"in {task.path}")
        reason = failures.take_part("index", task.snapshot, task.path, (task.path,), error)
        return {**identity(task), "error": reason, "bytes_read": 0, "reused": False}


def _unreadable(task: SegmentTask, error: OSError) -> IndexRow:
    _LOG.info("segment %s cannot be read: %s", task.path, error)
    reason = f"cannot be read: {error.strerror or error}"
    return {**identity(task), "error": reason, "bytes_read": 0, "reused": False}


def _index_segment(task: SegmentTask) -> IndexRow:
    root = location(task.root)
    found = [
        _index_file(root, path, zeros_behind=zeros, may_have_room=task.indexes_open)
        for path, zeros in zip(task.files[1:], task.zeros_behind, strict=True)
    ]
    check, preallocated = _index_check(task, found)
    records = RecordChecker(log_size_bytes=task.size_bytes)
    folds = _Folds(task)
    with open_bytes(root / task.stored_path) as file:
        source = SegmentFile(task.stored_path, file, task.stored_bytes, digested=task.digests is not None)
        for block in source.blocks(records.take):
            if len(block.headers):
                check.add(block.headers)
            folds.add(block)
    if source.broken is not None:
        return {**identity(task), "error": source.broken, "bytes_read": 0, "reused": False}
    folds.finish()
    indexes = check.finish(sealed=not preallocated)
    coordinator_records, of_file = _coordinator_records(task) if task.with_records else (None, source.sha256())
    as_told = task.digests is not None and task.digests.sha256 == (
        source.sha256(),
        *("" if file is None else file.sha256() for file in found),
    )
    # Who wrote the snapshot may exchange the file between the two readings.
    is_kept = as_told and of_file == source.sha256()
    return {
        **identity(task),
        "valid_bytes": folds.break_position if folds.break_position is not None else source.log_bytes,
        "valid_end_offset": folds.valid_end_offset,
        "bytes_read": source.log_bytes,
        "max_timestamp_ms": folds.max_timestamp_ms,
        "range_offsets": folds.starts,
        "summaries": folds.summaries,
        "corruptions": folds.corruptions,
        "indexes": [
            IndexedFile(path=path, size_bytes=file.size_bytes, facts=facts)
            for path, file, facts in zip(task.files[1:], found, indexes, strict=True)
            if path is not None and file is not None and facts is not None
        ],
        "records": records.found if source.has_records else None,
        "index_spacing": check.spacing(),
        "coordinator_records": coordinator_records,
        "content": content(task) if is_kept else None,
        "reused": False,
        "error": None,
    }


class _Folds:
    """A segment's blocks into summaries, a summary from each of a task's cuts to the next."""

    def __init__(self, task: SegmentTask) -> None:
        self._new_fold = partial(SummaryFold, ignore_sequences=task.ignore_sequences)
        self._fold = self._new_fold()
        self._cuts = sorted(c for c in task.cuts if c > task.base_offset)
        self.starts = [task.base_offset]
        self.summaries: list[SegmentSummary] = []
        self.corruptions: list[Corruption] = []
        self.break_position: int | None = None
        """Where the chain of batches breaks; None while it has not."""
        self.valid_end_offset: int | None = None
        self.max_timestamp_ms: int | None = None

    def add(self, block: ScanBlock) -> None:
        """The next block of the file."""
        self.corruptions.extend(block.corruptions)
        if self.break_position is None:
            self.break_position = next((c.position for c in block.corruptions if c.kind in CHAIN_DAMAGE), None)
        headers = block.headers
        if not len(headers):
            return
        self.max_timestamp_ms = max(self.max_timestamp_ms or 0, int(headers["max_timestamp"].max()))
        sound = headers if self.break_position is None else headers[headers["position"] < self.break_position]
        if len(sound):
            self.valid_end_offset = int(sound[-1]["last_offset"]) + 1
        while len(headers) and self._cuts and int(headers[-1]["last_offset"]) >= self._cuts[0]:
            split = int((headers["base_offset"] < self._cuts[0]).sum())
            self._fold.add(headers[:split])
            self.finish()
            self.starts.append(self._cuts.pop(0))
            headers = headers[split:]
        self._fold.add(headers)

    def finish(self) -> None:
        """Puts the summary under way to the others, and begins the next one."""
        self.summaries.append(self._fold.summary())
        self._fold = self._new_fold()


@dataclass(frozen=True, slots=True, kw_only=True)
class _IndexFile:
    """An index file as it was read: its bytes, the hole behind them, and how many zeros more the manifest tells of."""

    data: bytes
    hole: int
    zeros_behind: int

    @property
    def zeros(self) -> int:
        """How many follow the bytes."""
        return self.hole + self.zeros_behind

    @property
    def size_bytes(self) -> int:
        """As large as its broker had it."""
        return len(self.data) + self.zeros

    def sha256(self) -> str:
        """Of the file at hand."""
        return sha256_with_zeros(self.data, self.hole)


def _index_check(task: SegmentTask, found: Sequence[_IndexFile | None]) -> tuple[SegmentIndexCheck, bool]:
    """What the segment's indexes are held against its batches by, and whether they are preallocated."""
    preallocated = _preallocated(task, found)
    trimmed = task.indexes_open and not preallocated
    offsets = times = None
    if found[0] is not None:
        offsets = parse_offset_index(
            found[0].data,
            base_offset=task.base_offset,
            log_size_bytes=None if trimmed else task.size_bytes,
            active=preallocated,
            zeros_behind=found[0].zeros,
        )
    if found[1] is not None:
        times = parse_time_index(
            found[1].data, base_offset=task.base_offset, active=preallocated, zeros_behind=found[1].zeros
        )
    check = SegmentIndexCheck(offsets, times, tail_may_be_stale=preallocated, log_may_be_cut=trimmed)
    return check, preallocated


def _preallocated(task: SegmentTask, found: Iterable[_IndexFile | None]) -> bool:
    """Whether the indexes are as a broker has them in memory: with room at the end, in which stale entries may stand.

    A clean stop trims them to their entries (LogSegment#close, AbstractIndex#trimToValidSize); since 4.4 it leaves out
    the metadata log's. So what has no room at its end after one was closed.
    """
    if not task.indexes_open or not task.clean_shutdown:
        return task.indexes_open
    return any(
        file.zeros or not any(file.data[-_LARGEST_ENTRY:]) for file in found if file is not None and file.size_bytes
    )


def _index_file(root: Location, path: str | None, *, zeros_behind: int, may_have_room: bool) -> _IndexFile | None:
    """An index file: one that was not closed ends in preallocated room.

    None if it is not there or cannot be read, which the gathering of small files has told of.
    """
    if path is None:
        return None
    file = root / path
    try:
        data, hole = read_written(file) if isinstance(file, Path) else (file.read_bytes(), 0)
        found = _IndexFile(data=data, hole=hole, zeros_behind=zeros_behind)
        if not may_have_room:
            must_be_readable(found.size_bytes)
        return found
    except OSError as error:
        _LOG.info("index %s cannot be read: %s", path, error)
        return None


def _coordinator_records(task: SegmentTask) -> tuple[CoordinatorTable, str | None]:
    """Newest value per key in this segment of a coordinator's topic, and the digest of the file that they were read
    from.
    """
    with open_bytes(location(task.root) / task.stored_path) as file:
        allowance = of_internal_topic()
        source = SegmentFile(task.stored_path, file, task.stored_bytes, digested=task.digests is not None)
        table = latest_records(task.topic, source.records(allowance), allowance)
        return table, source.sha256()
