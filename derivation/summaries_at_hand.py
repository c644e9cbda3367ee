"""The index step's rows, snapshot by snapshot, as the driver looks at them.

In: a run whose index step is done. Out: for each audited snapshot a dataset with its rows and its earlier snapshot's.
Many small snapshots cost one look at the files for some hundred of them, not one each; a large one is never brought
into memory, but read through its filters.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidegauge.derivation.index_columns import INDEX_SCHEMA
from tidegauge.derivation.located_parquet import dataset_at, sizes_of_parts
from tidegauge.runs.run import AuditedSnapshot, Run

_AT_HAND_BYTES: Final = 64 << 20
"""Bytes of the files, compressed, whose rows are in memory at once, about."""

_BATCH_ROWS: Final = 512


def by_snapshot(run: Run) -> Iterator[tuple[AuditedSnapshot, ds.Dataset]]:
    """Every audited snapshot with its rows."""
    summaries = dataset_at(run.summaries, INDEX_SCHEMA)
    size = sum(sizes_of_parts(run.summaries).values())
    together = min(len(run.snapshots), _AT_HAND_BYTES * len(run.snapshots) // max(size, 1))
    if together <= 1:
        yield from ((snapshot, summaries) for snapshot in run.snapshots)
        return
    for at in range(0, len(run.snapshots), together):
        chosen = run.snapshots[at : at + together]
        rows = summaries.to_table(filter=ds.field("snapshot").isin([key for s in chosen for key in keys_of(s)]))
        for snapshot in chosen:
            own = pc.is_in(rows.column("snapshot"), value_set=pa.array(keys_of(snapshot)))
            yield snapshot, ds.dataset(rows.filter(own))


def batches_of(run: Run, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of the snapshots of these keys, a batch after the other."""
    yield from dataset_at(run.summaries, INDEX_SCHEMA).to_batches(
        filter=ds.field("snapshot").isin(list(keys)), batch_size=_BATCH_ROWS
    )


def keys_of(snapshot: AuditedSnapshot) -> list[str]:
    """The snapshots that the audit of one needs: itself, and the one that it is compared with."""
    return [read.key for read in snapshot.reads]
