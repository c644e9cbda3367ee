"""Rows of the index step that an earlier audit made: found by what they were made from, given as the task's own.

In: a file of rows (`kept_summaries`), tasks. Out: their rows, and the tasks that have to be read after all. The rule
that must hold: a manifest's digest is believed only of a file that nobody has written to since the manifest was; and
what cannot be used is read.
"""

import hashlib
import json
import logging
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.derivation.index_columns import INDEX_SCHEMA, array_of, values_of
from tidegauge.derivation.segment_tasks import Digests, SegmentTask, identity
from tidegauge.facts.replicas.replica_input import IndexedFile
from tidegauge.snapshots.location import changed_at_ns, location, open_bytes

_LOG: Final = logging.getLogger(__name__)


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
    wanted: dict[bytes, list[SegmentTask]] = {}
    for task in tasks:
        if _is_untouched(task):
            wanted.setdefault(content(task), []).append(task)
        else:
            left.append(task)
    try:
        for rows, keys in row_groups(file, wanted):
            found = [(at, task) for at, key in enumerate(keys) for task in wanted.pop(key, ())]
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


def _named(task: SegmentTask, told: Sequence[IndexedFile]) -> list[IndexedFile]:
    """What is told of a segment's indexes, by the names that they have here."""
    paths = [path for path in task.files[1:] if path is not None]
    return [replace(file, path=path) for path, file in zip(paths, told, strict=True)]


def _is_untouched(task: SegmentTask) -> bool:
    """Whether the manifest's digests are still of the files: nobody has written to them since."""
    root, at_ns = location(task.root), _digests(task).at_ns
    try:
        return all(changed_at_ns(root / path) <= at_ns for path in task.files if path is not None)
    except OSError:
        return False  # The reading tells what is the matter.


def _digests(task: SegmentTask) -> Digests:
    assert task.digests is not None, "nothing is kept of a task without digests"
    return task.digests
