"""Rows of the index step that an earlier audit made: found by what they were made from, given as the task's own.

In: a file of rows (`kept_summaries`), tasks. Out: their rows, and the tasks that have to be read after all. The rule
that must hold: a manifest's digest is believed only of a file that nobody has written to since the manifest was, and
that lies where it lay; and what cannot be used is read.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.derivation.index_columns import INDEX_SCHEMA, array_of, rows_of, values_of
from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.segment_tasks import Digests, SegmentTask, identity
from tidegauge.facts.replicas.replica_input import IndexedFile
from tidegauge.facts.segments.summary import FINDING_KINDS, SegmentSummary
from tidegauge.snapshots.location import Location, changed_at_ns, location, open_bytes

_LOG: Final = logging.getLogger(__name__)
_ALWAYS_TOLD: Final = (
    "range_offsets",
    "summaries",
    "valid_bytes",
    "bytes_read",
    "corruptions",
    "indexes",
    "index_spacing",
)
"""What no row lacks that an index step keeps."""


def content(task: SegmentTask) -> bytes:
    """By what a segment's row is found: digests of the files that it is made from, and all else that goes into it."""
    told = (
        _digests(task).sha256, task.topic, task.base_offset, task.size_bytes, task.stored_bytes,
        task.path.rsplit(".", 1)[-1], task.stored_path.rsplit(".", 1)[-1], task.cuts, task.indexes_open,
        task.clean_shutdown, task.ignore_sequences, task.with_records, task.zeros_behind,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(told).encode("utf-8")).digest()


def kept_rows(file: str, tasks: Iterable[SegmentTask]) -> Generator[pa.RecordBatch, None, list[SegmentTask]]:
    """The rows of tasks whose rows are in a file. Returns the tasks that have to be read after all."""
    left: list[SegmentTask] = []
    moved_at_ns: dict[Path, int] = {}
    wanted: dict[bytes, list[SegmentTask]] = {}
    for task in tasks:
        if _is_untouched(task, moved_at_ns):
            wanted.setdefault(content(task), []).append(task)
        else:
            left.append(task)
    try:
        for rows in _segments(row_groups(file, wanted), wanted):
            found = []
            for key, ats in _usable(file, rows, wanted).items():
                found += [(at, task) for task in wanted.pop(key) for at in ats]
            if found:
                yield _as_read(rows.take([at for at, _ in found]), [task for _, task in found])
    except (OSError, pa.ArrowException) as error:
        _LOG.warning("the kept summaries in %s are not used: %s", file, error)
    return [*left, *(task for of_content in wanted.values() for task in of_content)]


def row_groups(file: str, wanted: Collection[bytes]) -> Iterator[tuple[pa.Table, list[bytes]]]:
    """Row groups that hold something wanted, and the contents of their rows. Raises `OSError` or `pa.ArrowException`
    for a file that is not whole.
    """
    with open_bytes(location(file)) as opened, pq.ParquetFile(opened, page_checksum_verification=True) as parquet:
        if not parquet.schema_arrow.equals(INDEX_SCHEMA):
            raise pa.ArrowInvalid("its columns are others")
        for group in range(parquet.num_row_groups):
            keys = parquet.read_row_group(group, columns=["content"]).column(0).to_pylist()
            if any(key in wanted for key in keys):
                yield parquet.read_row_group(group), keys


def _segments(groups: Iterable[tuple[pa.Table, list[bytes]]], wanted: Collection[bytes]) -> Iterator[pa.Table]:
    """The wanted rows of row groups, those of one segment, which follow each other, together."""
    rest: pa.Table | None = None
    for rows, keys in groups:
        chosen = rows.take([at for at, key in enumerate(keys) if key in wanted])
        if rest is not None:
            chosen = pa.concat_tables([rest, chosen])
        last = max((at for at, piece in enumerate(chosen.column("piece").to_pylist()) if piece == 0), default=0)
        yield chosen.slice(0, last)
        rest = chosen.slice(last)
    if rest is not None:
        yield rest


def _usable(file: str, rows: pa.Table, wanted: Mapping[bytes, Sequence[SegmentTask]]) -> Mapping[bytes, list[int]]:
    """By content, where those rows are that can be what an index step made of its tasks; a warning for the others."""
    ats: dict[bytes, list[int]] = {}
    for at, key in enumerate(rows.column("content").to_pylist()):
        if key in wanted:
            ats.setdefault(key, []).append(at)
    try:
        told: Sequence[IndexRow] | None = rows_of(rows)  # All at once, since one row costs as much as many.
    except (TypeError, ValueError):
        told = None

    def row_at(at: int) -> IndexRow:
        return told[at] if told is not None else rows_of(rows.slice(at, 1))[0]

    for key in tuple(ats):
        why = _unusable(row_at, ats[key], wanted[key][0])
        if why is not None:
            _LOG.warning("a kept summary in %s is not used: %s", file, why)
            del ats[key]
    return ats


def _unusable(row_at: Callable[[int], IndexRow], ats: Sequence[int], task: SegmentTask) -> str | None:
    """Why the rows at these places cannot be what an index step made of this task; None if they can."""
    try:
        first, *others = (row_at(at) for at in ats)
        if [row["piece"] for row in (first, *others)] != list(range(first["pieces"] or 0)):
            return "some of its rows are not there"
        for row in (first, *others):
            if len(row["range_offsets"] or ()) != len(row["summaries"] or ()):
                return "a summary without its first offset"
            if any(start is None for start in row["range_offsets"] or ()) or any(map(_lacks, row["summaries"] or ())):
                return "a number of a summary is none"
        if len(first["indexes"]) != sum(path is not None for path in task.files[1:]):
            return "it tells of other indexes"
        if missing := [name for name in _ALWAYS_TOLD if first[name] is None or None in _items(first[name])]:
            return f"it lacks {', '.join(missing)}"
        if (first["coordinator_records"] is not None) is not task.with_records:
            return "its records are not those of its topic"
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _lacks(summary: SegmentSummary | None) -> bool:
    if summary is None or len(summary.counts) != len(FINDING_KINDS) or None in summary.counts:
        return True
    return any(getattr(summary, each.name) is None for each in fields(summary))


def _items(value: object) -> Collection[object]:
    return value if isinstance(value, list | tuple) else ()


def _as_read(rows: pa.Table, tasks: Sequence[SegmentTask]) -> pa.RecordBatch:
    """Rows of the same content as these tasks have, as theirs."""
    own = pa.RecordBatch.from_pylist(
        [identity(task) for task in tasks], schema=pa.schema([INDEX_SCHEMA.field(name) for name in identity(tasks[0])])
    )
    columns: dict[str, pa.Array] = {name: own.column(name) for name in own.schema.names}
    told = values_of("indexes", rows.column("indexes"))
    columns["indexes"] = array_of("indexes", [_named(task, found) for task, found in zip(tasks, told, strict=True)])
    columns["reused"] = pa.repeat(pa.scalar(True), len(tasks))
    taken = rows.combine_chunks()
    arrays = [columns.get(name, taken.column(name)) for name in INDEX_SCHEMA.names]
    return pa.Table.from_arrays(arrays, schema=INDEX_SCHEMA).combine_chunks().to_batches()[0]


def _named(task: SegmentTask, told: Sequence[IndexedFile] | None) -> list[IndexedFile] | None:
    """What is told of a segment's indexes, by the names that they have here; only its first row does."""
    if told is None:
        return None
    paths = [path for path in task.files[1:] if path is not None]
    return [replace(file, path=path) for path, file in zip(paths, told, strict=True)]


def _is_untouched(task: SegmentTask, moved_at_ns: dict[Path, int]) -> bool:
    """Whether the manifest's digests are still of the files: nobody has written to them since, nor exchanged a
    directory on the way to them, which moves no time of the files in it. `moved_at_ns` keeps what directories said.
    """
    root, at_ns = location(task.root), _digests(task).at_ns
    files = [root / path for path in task.files if path is not None]
    try:
        return all(changed_at_ns(file) <= at_ns for file in files) and (
            not isinstance(root, Path)
            or all(_moved_at_ns(folder, moved_at_ns) <= at_ns for file in files for folder in _between(root, file))
        )
    except OSError:
        return False  # The reading tells what is the matter.


def _between(root: Path, file: Location) -> Iterator[Path]:
    """The directories on the way, without the snapshot's own: the manifest lies in that, and moves with it."""
    assert isinstance(file, Path), "it is below a directory"
    yield from (folder for folder in file.parents if root in folder.parents)


def _moved_at_ns(folder: Path, known: dict[Path, int]) -> int:
    """When a directory was last renamed (its ctime), or anything put into it or out of it (both)."""
    if folder not in known:
        status = folder.stat()
        known[folder] = max(status.st_ctime_ns, status.st_mtime_ns)
    return known[folder]


def _digests(task: SegmentTask) -> Digests:
    assert task.digests is not None, "nothing is kept of a task without digests"
    return task.digests
