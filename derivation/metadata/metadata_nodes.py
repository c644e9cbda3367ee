"""Every node's copy of the metadata log: what its segments' summaries, its quorum-state and its snapshots tell.

In: a snapshot's listing, the summaries of the index step, what `metadata_log` has read. Out: the relations about the
metadata log. One copy is read whole, the others are told of by their summaries, and are opened only where an epoch
begins otherwise than in that one.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow.dataset as ds

from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.derivation.index_columns import rows_of
from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.metadata.metadata_log import MetadataRead, metadata_copies
from tidegauge.facts.metadata.rows import (
    EpochRun,
    NodeLog,
    broker_registration_rows,
    epochs_to_announce,
    metadata_entry_rows,
    metadata_log_rows,
    metadata_snapshot_rows,
)
from tidegauge.kafka_log.control import ControlType
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.log_dir import QUORUM_STATE, log_name
from tidegauge.kafka_log.properties import QuorumState, parse_quorum_state
from tidegauge.relations import Rows
from tidegauge.snapshots.listing import ReplicaFiles, SnapshotListing
from tidegauge.snapshots.location import Location, open_bytes


def metadata_rows(
    root: Location,
    files: SnapshotListing,
    read: MetadataRead,
    segments: Mapping[str, list[IndexRow]],
    *,
    quiet: Collection[int],
    snapshot_quiet: bool,
) -> Rows:
    """The relations about the metadata log. `segments`: directory -> rows of the index step, in offset order."""
    announced = {(leader.leader_epoch, leader.offset) for leader in read.log.leaders}
    nodes = [
        _node(root, copy, segments.get(copy.directory, []), announced, quiet=snapshot_quiet or copy.broker_id in quiet)
        for copy in metadata_copies(files)
    ]
    return {
        "metadata_logs": metadata_log_rows(
            nodes, read.log.leaders, read.log.transactions, replayed=read.node_id, snapshot_quiet=snapshot_quiet
        ),
        "metadata_snapshots": metadata_snapshot_rows(read.snapshots),
        "metadata_entries": metadata_entry_rows(read.history, read.image, read.snapshots),
        "broker_registrations": broker_registration_rows(read.history),
    }


def metadata_segments(summaries: ds.Dataset, snapshot_key: str) -> dict[str, list[IndexRow]]:
    """The rows of the index step about the metadata log: directory -> its segments in offset order."""
    table = summaries.to_table(
        columns=["directory", "base_offset", "piece", "max_timestamp_ms", "summaries", "corruptions", "error"],
        filter=(ds.field("snapshot") == snapshot_key) & (ds.field("topic") == CLUSTER_METADATA),
    )
    found: dict[str, list[IndexRow]] = {}
    for row in sorted(rows_of(table), key=lambda r: (r["base_offset"], r["piece"])):
        found.setdefault(row["directory"], []).append(row)
    return found


def last_seen(files: SnapshotListing, segments: Mapping[str, list[IndexRow]]) -> dict[int, int]:
    """Node -> the newest record's timestamp in its own copy."""
    found: dict[int, int] = {}
    for copy in metadata_copies(files):
        known = [s["max_timestamp_ms"] for s in segments.get(copy.directory, []) if s["max_timestamp_ms"] is not None]
        if known:
            found[copy.broker_id] = max(known)
    return found


def _node(
    root: Location,
    copy: ReplicaFiles,
    segments: list[IndexRow],
    announced: Collection[tuple[int, int]],
    *,
    quiet: bool,
) -> NodeLog:
    runs = [
        EpochRun(
            leader_epoch=int(run["leader_epoch"]),
            start_offset=int(run["start_offset"]),
            end_offset=int(run["end_offset"]),
        )
        for segment in segments
        for summary in segment["summaries"] or ()
        for run in summary.epoch_runs
    ]
    node = NodeLog(
        node_id=copy.broker_id,
        runs=tuple(runs),
        unannounced=(),
        damaged=any(s["error"] or s["corruptions"] for s in segments),
        quorum_state=_quorum_state(root, copy),
        broker_quiet=quiet,
        segments=tuple((s.base_offset, log_name(s.log.path)) for s in copy.segments),
    )
    doubtful = [r.start_offset for r in epochs_to_announce(node) if (r.leader_epoch, r.start_offset) not in announced]
    return (
        replace(node, unannounced=tuple(at for at in doubtful if not _announces(root, copy, at))) if doubtful else node
    )


def _announces(root: Location, copy: ReplicaFiles, offset: int) -> bool:
    """Whether the batch that begins at an offset tells of a new leader; where it cannot be read, that is believed."""
    segment = max((s for s in copy.segments if s.base_offset <= offset), key=lambda s: s.base_offset, default=None)
    if segment is None:
        return True
    try:
        with open_bytes(root / segment.log.path) as file:
            for block in SegmentFile(segment.log.path, file, segment.log.size_bytes).blocks():
                for row in block.headers[block.headers["base_offset"] == offset]:
                    return int(row["control_type"]) == ControlType.LEADER_CHANGE
    except OSError:
        return True
    return True


def _quorum_state(root: Location, copy: ReplicaFiles) -> QuorumState | None:
    file = copy.named(QUORUM_STATE)
    if file is None:
        return None
    try:
        state = parse_quorum_state((root / file.path).read_bytes())
    except OSError:
        return None  # Named as unread where its row of `checkpoint_files` is made.
    return None if state.corruptions else state
