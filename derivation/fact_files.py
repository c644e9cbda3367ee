"""Fact rows as Parquet files, one folder a relation.

In: rows of a partition, from many Spark tasks and the driver. Out: `facts/<relation>/part-<name>.parquet`, in a folder
or below a URL. A part appears whole. What tasks write waits beside (`staged_parts`) until all of them are done, so a
task that is repeated leaves nothing twice.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidegauge.derivation.located_parquet import dataset_at, parts_in
from tidegauge.facts.bounds import within
from tidegauge.facts.rows import AnyRow
from tidegauge.relations import LOSSES, RELATIONS, Relation
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.places import made, sizes_below
from tidegauge.snapshots.whole_files import appearing, write_whole

_ALL: Mapping[str, Relation] = {**RELATIONS, LOSSES.name: LOSSES}

ROW_GROUP_ROWS: Final = 16_384
"""Rows of one relation that are written together. A partition has a few of each, and a row group costs as much as
hundreds of them: its columns' headers, and its own in the file's footer."""


def relation_table(name: str, rows: Iterable[AnyRow], *, cluster: str, snapshot_id: str) -> pa.Table:
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


def _with_room(relation: Relation, rows: Iterable[dict[str, object]]) -> list[AnyRow]:
    bits = {c.name: 32 if c.type == "int32" else 64 for c in relation.columns if c.type in ("int32", "int64")}
    return [
        {
            name: within(value, bits=bits[name]) if name in bits and isinstance(value, int) else value
            for name, value in row.items()
        }
        for row in rows
    ]


class PartWriter:
    """Writes one part per relation, as rows come; `close` makes them appear."""

    def __init__(self, facts: Location, part: str) -> None:
        self._facts = facts
        self._part = part
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.Table]] = {}
        self._rows: Counter[str] = Counter()
        self._files = ExitStack()

    def write(self, relation: str, table: pa.Table) -> None:
        """Adds rows of one relation. They are in memory until `ROW_GROUP_ROWS` of them are together."""
        self._waiting.setdefault(relation, []).append(table)
        self._rows[relation] += table.num_rows
        if self._rows[relation] >= ROW_GROUP_ROWS:
            self._write_waiting(relation)

    def close(self) -> list[str]:
        """Finishes the parts; the relations of which there is one."""
        with self._files:
            for relation in tuple(self._waiting):
                self._write_waiting(relation)
            for writer in self._writers.values():
                writer.close()
        return list(self._writers)

    def _write_waiting(self, relation: str) -> None:
        tables = self._waiting.pop(relation)
        del self._rows[relation]
        if relation not in self._writers:
            part = appearing(made(self._facts / relation) / f"part-{self._part}.parquet", by=str(os.getpid()))
            file = self._files.enter_context(part)
            self._writers[relation] = pq.ParquetWriter(file, tables[0].schema, compression="zstd")
        self._writers[relation].write_table(pa.concat_tables(tables), row_group_size=ROW_GROUP_ROWS)


def write_part(facts: Location, part: str, tables: Iterable[tuple[str, pa.Table]]) -> None:
    """A part of every relation that has rows."""
    writer = PartWriter(facts, part)
    for name, table in tables:
        if table.num_rows:
            writer.write(name, table)
    writer.close()


def write_empty_relations(facts: Location) -> None:
    """A relation without a row still has its folder and its schema."""
    for name in _ALL:
        if not parts_in(facts / name):
            write_whole(made(facts / name) / "part-none.parquet", _empty_part(name))


@cache
def _empty_part(name: str) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_ALL[name].arrow_schema.empty_table(), sink)
    return bytes(sink.getvalue())


def digest_of_parts(facts: Location) -> str:
    """Tells whether the parts of all relations are those that they were: of their names and sizes, SHA-256 in hex.
    Of a relation of many parts, one that is gone would count as nothing found in it.
    """
    return sha256(repr(sorted(sizes_below(facts).items())).encode()).hexdigest()


def relation_at(facts: Location, name: str) -> ds.Dataset:
    """The rows of one relation, of which those are read that are asked for.

    Raises `SnapshotError` where it has no file: each relation has one, without rows too, and what is not there would
    count as nothing found.
    """
    found = dataset_at(facts / name, _ALL[name].arrow_schema)
    if not found.files:
        raise SnapshotError(
            f"{facts / name} holds no facts: somebody has removed them since they were derived. Audit the snapshot "
            "again."
        )
    return found


def read_relation(facts: Location, name: str) -> pa.Table:
    """All rows of one relation."""
    return relation_at(facts, name).to_table()


def batches_of(facts: Location, name: str) -> Iterable[pa.RecordBatch]:
    """The same in batches, for what is larger than memory."""
    yield from relation_at(facts, name).to_batches(batch_size=16384)


def rows_in(facts: Location, name: str) -> int:
    """How many rows a relation has, by its files' footers."""
    return int(relation_at(facts, name).count_rows())
