"""A replica's small files and segment summaries, read where the derive step runs.

In: a `ReplicaWork` (paths and checkpointed offsets, from the listing) and its rows of the index step. Out: the
`ReplicaInput` that the facts are folded from; and headers of any stretch on demand. A file that is missing or cannot be
read is None there, and its reason is among the unread files of the report.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.derivation.index_row import IndexRow, IndexRows
from tidegauge.facts.replicas.comparison import ReadBatches, rows_between
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_input import (
    CheckpointedOffsets,
    CopiedKinds,
    CopyMoment,
    IndexedSegment,
    ReplicaInput,
    ReplicaPlace,
    SnapshotFile,
    TransactionIndexFile,
)
from tidegauge.kafka_log.checkpoints import parse_leader_epoch_checkpoint
from tidegauge.kafka_log.producer_snapshot import parse_producer_snapshot
from tidegauge.kafka_log.properties import parse_partition_metadata
from tidegauge.kafka_log.scan import BATCH_HEADER
from tidegauge.kafka_log.transaction_index import parse_transaction_index
from tidegauge.snapshots.location import Location, open_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWork:
    """One replica to derive: where its files lie and what the log dir's checkpoints say of it."""

    place: ReplicaPlace
    checkpointed: CheckpointedOffsets
    moment: CopyMoment
    copied: CopiedKinds
    segment_paths: tuple[str, ...]
    snapshot_files: tuple[tuple[int, str, int], ...]
    transaction_index_files: Mapping[int, tuple[str, int]]
    epoch_checkpoint_path: str | None
    later_epoch_checkpoint_path: str | None
    partition_metadata_path: str | None
    unread_bases: tuple[int, ...] = ()


def replica_input(root: Location, work: ReplicaWork, rows: IndexRows) -> ReplicaInput:
    """Puts together one replica. `rows`: rows of the index step by path."""
    epochs = _bytes(root, work.epoch_checkpoint_path)
    later_epochs = _bytes(root, work.later_epoch_checkpoint_path)
    metadata = _bytes(root, work.partition_metadata_path)
    snapshots = []
    for offset, path, size in work.snapshot_files:
        data = _bytes(root, path)
        if data is not None:
            content = parse_producer_snapshot(data)
            snapshots.append(SnapshotFile(path=path, size_bytes=size, offset=offset, content=content))
    transaction_indexes = {}
    for base, (path, size) in work.transaction_index_files.items():
        data = _bytes(root, path)
        if data is not None:
            transaction_indexes[base] = TransactionIndexFile(
                path=path, size_bytes=size, content=parse_transaction_index(data)
            )
    return ReplicaInput(
        place=work.place,
        checkpointed=work.checkpointed,
        moment=work.moment,
        copied=work.copied,
        segments=tuple(_segment(rows[p]) for p in work.segment_paths if p in rows and rows[p]["error"] is None),
        snapshots=tuple(snapshots),
        transaction_indexes=transaction_indexes,
        epoch_checkpoint=parse_leader_epoch_checkpoint(epochs) if epochs is not None else None,
        later_epoch_checkpoint=parse_leader_epoch_checkpoint(later_epochs) if later_epochs is not None else None,
        partition_metadata=parse_partition_metadata(metadata) if metadata is not None else None,
        unread_bases=(
            *work.unread_bases,
            *(rows[p]["base_offset"] for p in work.segment_paths if p in rows and rows[p]["error"] is not None),
        ),
    )


def _bytes(root: Location, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return (root / path).read_bytes()
    except OSError:
        return None  # The gathering of small files has named it as unread.


def _segment(row: IndexRow) -> IndexedSegment:
    return IndexedSegment(
        path=row["path"],
        stored_path=row["stored_path"],
        base_offset=row["base_offset"],
        size_bytes=row["size_bytes"],
        valid_bytes=row["valid_bytes"],
        valid_end_offset=row["valid_end_offset"],
        corruptions=tuple(row["corruptions"]),
        ranges=tuple(zip(row["range_offsets"], row["summaries"], strict=True)),
        indexes=tuple(row["indexes"]),
        bytes_read=row["bytes_read"],
        records=row["records"],
        index_spacing=row["index_spacing"],
    )


def batch_reader(root: Location) -> ReadBatches:
    """Headers of a stretch of a replica, read from its segments on demand."""

    def read(replica: ReplicaFacts, start: int, end: int) -> NDArray[Any]:
        found: list[NDArray[Any]] = []
        segments: Sequence[IndexedSegment] = replica.given.segments
        for at, segment in enumerate(segments):
            if segment.base_offset >= end or (at + 1 < len(segments) and segments[at + 1].base_offset <= start):
                continue
            found.extend(_stretch(root, segment.stored_path, start, end))
        return np.concatenate(found) if found else np.zeros(0, dtype=BATCH_HEADER)

    return read


def _stretch(root: Location, path: str, start: int, end: int) -> Iterable[NDArray[Any]]:
    with open_bytes(root / path) as file:
        for block in SegmentFile(path, file).blocks():
            rows = rows_between(block.headers, start, end)
            if len(rows):
                yield rows.copy()
            if len(block.headers) and int(block.headers[-1]["base_offset"]) >= end:
                return
