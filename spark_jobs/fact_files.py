"""Fact rows as Parquet files, one folder a relation.

In: rows of a partition, from many Spark tasks and the driver. Out: `facts/<relation>/part-<task>.parquet`. The rule
that must hold: a part has the name of its Spark partition and appears whole, so a task that is repeated replaces its
own part and nothing is there twice.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from snapshots.whole_files import appearing, write_whole
from spark_jobs.facts.bounds import within
from spark_jobs.facts.rows import Row
from spark_jobs.relations import LOSSES, RELATIONS, Relation

_ALL: Mapping[str, Relation] = {**RELATIONS, LOSSES.name: LOSSES}


def relation_table(name: str, rows: Iterable[Mapping[str, Any]], *, cluster: str, snapshot_id: str) -> pa.Table:
    """Rows of one relation with the common columns, in the relation's own schema; a column no row names is null, and a
    number that its column has no room for is the nearest one (`facts.bounds`).
    """
    relation = _ALL[name]
    common = {"cluster": cluster, "snapshot_id": snapshot_id}
    known = set(relation.column_names)
    values = []
    for row in rows:
        unknown = row.keys() - known
        assert not unknown, f"{name} has no column {sorted(unknown)}"
        values.append({**common, **row})
    try:
        return pa.Table.from_pylist(values, schema=relation.arrow_schema)
    except (OverflowError, pa.ArrowInvalid):  # only damage makes such a number: whoever is sound does not wait for it
        return pa.Table.from_pylist(_with_room(relation, values), schema=relation.arrow_schema)


def _with_room(relation: Relation, rows: Iterable[Row]) -> list[Row]:
    bits = {c.name: 32 if c.type == "int32" else 64 for c in relation.columns if c.type in ("int32", "int64")}
    return [
        {
            name: within(value, bits=bits[name]) if name in bits and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]


def packed(table: pa.Table) -> bytes:
    """A table as an Arrow stream, to travel in one binary column."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.Table:
    """The table back."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


class PartWriter:
    """Writes one part per relation, as rows come; `close` makes them appear."""

    def __init__(self, facts: Path, part: str) -> None:
        self._facts = facts
        self._part = part
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._files = ExitStack()

    def write(self, relation: str, table: pa.Table) -> None:
        """Adds rows of one relation."""
        if relation not in self._writers:
            folder = self._facts / relation
            folder.mkdir(parents=True, exist_ok=True)
            part = appearing(folder / f"part-{self._part}.parquet", by=str(os.getpid()))
            file = self._files.enter_context(part)
            self._writers[relation] = pq.ParquetWriter(file, table.schema, compression="zstd")
        self._writers[relation].write_table(table)

    def close(self) -> None:
        """Finishes the parts."""
        with self._files:
            for writer in self._writers.values():
                writer.close()
        self._writers.clear()


def write_part(facts: Path, part: str, tables: Iterable[tuple[str, pa.Table]]) -> None:
    """A part of every relation that has rows."""
    writer = PartWriter(facts, part)
    for name, table in tables:
        if table.num_rows:
            writer.write(name, table)
    writer.close()


def write_empty_relations(facts: Path) -> None:
    """A relation without a row still has its folder and its schema."""
    for name in _ALL:
        folder = facts / name
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("*.parquet")):
            write_whole(folder / "part-none.parquet", _empty_part(name))


@cache
def _empty_part(name: str) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_ALL[name].arrow_schema.empty_table(), sink)
    return bytes(sink.getvalue())


def read_relation(facts: Path, name: str) -> pa.Table:
    """All rows of one relation."""
    return pq.read_table(facts / name, schema=_ALL[name].arrow_schema)


def batches_of(facts: Path, name: str) -> Iterable[pa.RecordBatch]:
    """The same in batches, for what is larger than memory."""
    for path in sorted((facts / name).glob("*.parquet")):
        yield from pq.ParquetFile(path).iter_batches(batch_size=16384)
