"""Snapshots of a run as rows, for tasks that each take some of them whole.

In: `AuditedSnapshot`s. Out: record batches, and the snapshots again: where they lie, their manifests, where results go.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidegauge.derivation.value_columns import column_of
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.location import location
from tidegauge.snapshots.manifest import Manifest
from tidegauge.snapshots.places import absolute


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    root: str
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Audited:
    read: _Read
    target: str
    previous: _Read | None


_COLUMN: Final = column_of(_Audited)
SNAPSHOT_SCHEMA: Final = pa.schema([("snapshot", _COLUMN.type)])


def snapshot_batch(snapshots: Iterable[AuditedSnapshot]) -> pa.RecordBatch:
    """A row a snapshot."""
    rows = [
        _Audited(
            read=_kept(s), target=absolute(s.target), previous=_kept(s.previous) if s.previous is not None else None
        )
        for s in snapshots
    ]
    return pa.RecordBatch.from_arrays([_COLUMN.array(rows)], schema=SNAPSHOT_SCHEMA)


def snapshots_of(batch: pa.RecordBatch) -> list[AuditedSnapshot]:
    """The snapshots again."""
    return [
        AuditedSnapshot(
            root=location(row.read.root),
            manifest=row.read.manifest,
            target=location(row.target),
            previous=_read(row.previous) if row.previous is not None else None,
        )
        for row in _COLUMN.values(batch.column(0))
    ]


def _kept(snapshot: ReadSnapshot) -> _Read:
    return _Read(root=str(snapshot.root), manifest=snapshot.manifest)


def _read(kept: _Read) -> ReadSnapshot:
    return ReadSnapshot(root=location(kept.root), manifest=kept.manifest)
