"""Checkpoint and property files of a snapshot: their values, and a row of `checkpoint_files` for each.

In: a log dir's or a replica's listing. Out: `Checkpoints`, rows, and the files that could not be read. An untouched
file (0 bytes) is empty, a missing one is missing, and neither is an error by itself.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from tidegauge.kafka_log.checkpoints import (
    LeaderEpochCheckpoint,
    OffsetCheckpoint,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
)
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.log_dir import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from tidegauge.kafka_log.properties import (
    MetaProperties,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import CheckpointFileRow
from tidegauge.snapshots.listing import LogDirListing, ReplicaFiles
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import FileEntry, LeftOut

Offsets = dict[TopicPartition, int]
OFFSET_FILES: Final = (
    REPLICATION_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """One log dir's checkpointed offsets by (topic, partition), and the rows about its files."""

    high_watermarks: Offsets
    recovery_points: Offsets
    log_starts: Offsets
    cleaner_offsets: Offsets
    meta: MetaProperties | None
    meta_path: str | None
    """Where meta.properties lies in the snapshot; None if it does not."""
    clean_shutdown_broker_epoch: int | None
    rows: list[CheckpointFileRow]


def log_dir_checkpoints(root: Location, log_dir: LogDirListing, unread: list[LeftOut]) -> Checkpoints:
    """Reads a log dir's own files."""
    offsets: dict[str, Offsets] = {}
    rows: list[CheckpointFileRow] = []
    for name in OFFSET_FILES:
        if log_dir.only_metadata:  # Nobody writes checkpoints there, so none is missing.
            offsets[name] = {}
            continue
        file = log_dir.files.get(name)
        data = _read(root, file, unread)
        parsed = parse_offset_checkpoint(data) if data is not None else None
        offsets[name] = (
            {TopicPartition(e.topic, e.partition): e.offset for e in parsed.entries} if parsed is not None else {}
        )
        rows.append(_row(log_dir, name, file, data, parsed))
        if parsed is not None:
            homes = {r.topic_partition for r in log_dir.replicas}
            rows[-1]["entries_without_directory"] = len(offsets[name].keys() - homes)
    parsers: dict[str, Callable[[bytes], Any]] = {
        META_PROPERTIES: parse_meta_properties,
        CLEAN_SHUTDOWN: parse_clean_shutdown,
    }
    said: dict[str, Any] = {}
    for name, parse in parsers.items():
        file = log_dir.files.get(name)
        if file is not None:
            data = _read(root, file, unread)
            said[name] = parse(data) if data is not None else None
            rows.append(_row(log_dir, name, file, data, said[name]))
    return Checkpoints(
        high_watermarks=offsets[REPLICATION_OFFSET_CHECKPOINT],
        recovery_points=offsets[RECOVERY_POINT_OFFSET_CHECKPOINT],
        log_starts=offsets[LOG_START_OFFSET_CHECKPOINT],
        cleaner_offsets=offsets[CLEANER_OFFSET_CHECKPOINT],
        meta=said.get(META_PROPERTIES),
        meta_path=file.path if (file := log_dir.files.get(META_PROPERTIES)) is not None else None,
        clean_shutdown_broker_epoch=getattr(said.get(CLEAN_SHUTDOWN), "broker_epoch", None),
        rows=rows,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCheckpoints:
    """What a replica's own small files say. None: the file is not there, cannot be read, or says nothing of it."""

    newest_epoch: int | None
    """In its leader-epoch-checkpoint."""
    first_epoch_offset: int | None
    """Where the first of these begins."""
    topic_id: str | None
    rows: list[CheckpointFileRow]


def replica_checkpoints(root: Location, replica: ReplicaFiles, unread: list[LeftOut]) -> ReplicaCheckpoints:
    """Reads a replica's own files."""
    parsers: dict[str, Callable[[bytes], Any]] = {
        LEADER_EPOCH_CHECKPOINT: parse_leader_epoch_checkpoint,
        PARTITION_METADATA: parse_partition_metadata,
    }
    if replica.topic == CLUSTER_METADATA:
        parsers[QUORUM_STATE] = parse_quorum_state
    said: dict[str, Any] = {}
    rows: list[CheckpointFileRow] = []
    for name, parse in parsers.items():
        file = replica.named(name)
        data = _read(root, file, unread)
        said[name] = parse(data) if data is not None else None
        row = _row(replica, name, file, data, said[name])
        row |= {"topic": replica.topic, "partition": replica.partition}
        rows.append(row)
    epochs, metadata = said[LEADER_EPOCH_CHECKPOINT], said[PARTITION_METADATA]
    return ReplicaCheckpoints(
        newest_epoch=max((e.leader_epoch for e in epochs.entries), default=None) if epochs is not None else None,
        first_epoch_offset=(
            min((e.start_offset for e in epochs.entries if e.start_offset >= 0), default=None)
            if epochs is not None and not epochs.corruptions
            else None
        ),
        topic_id=metadata.topic_id if metadata is not None else None,
        rows=rows,
    )


def newest_epochs(
    checkpoints: Iterable[tuple[ReplicaFiles, ReplicaCheckpoints]], topics: Collection[str]
) -> dict[TopicPartition, dict[int, int]]:
    """The newest leader epoch in the checkpoint of each live replica of some topics, by broker."""
    found: dict[TopicPartition, dict[int, int]] = {}
    for replica, said in checkpoints:
        if replica.topic in topics and replica.state == "live" and said.newest_epoch is not None:
            found.setdefault(replica.topic_partition, {})[replica.broker_id] = said.newest_epoch
    return found


def _read(root: Location, file: FileEntry | None, unread: list[LeftOut]) -> bytes | None:
    if file is None:
        return None
    try:
        return (root / file.path).read_bytes()
    except OSError as error:
        unread.append(LeftOut(path=file.path, reason=f"cannot be read: {error.strerror or error}"))
        return None


def _row(
    owner: LogDirListing | ReplicaFiles, name: str, file: FileEntry | None, data: bytes | None, parsed: Any
) -> CheckpointFileRow:
    corruptions: tuple[Corruption, ...] = parsed.corruptions if parsed is not None else ()
    row: CheckpointFileRow = {
        "broker_id": owner.broker_id,
        "log_dir": owner.log_dir if isinstance(owner, ReplicaFiles) else owner.name,
        "path": file.path if file is not None else f"{owner.directory}/{name}",
        "kind": name,
        "present": file is not None,
        "empty": (data is not None and not data) or bool(getattr(parsed, "empty", False)),
        "readable": None if file is None else data is not None and not corruptions,
        "error": "; ".join(c.detail for c in corruptions[:3]) or None,
    }
    if isinstance(parsed, OffsetCheckpoint):
        counted = Counter((e.topic, e.partition) for e in parsed.entries)
        row |= {
            "declared_entries": parsed.declared_entries,
            "entries": len(parsed.entries),
            "duplicate_entries": sum(n - 1 for n in counted.values()),
        }
    elif isinstance(parsed, LeaderEpochCheckpoint):
        pairs = zip(parsed.entries, parsed.entries[1:], strict=False)
        row |= {
            "declared_entries": parsed.declared_entries,
            "entries": len(parsed.entries),
            "disordered_entries": sum(
                1 for a, b in pairs if b.leader_epoch <= a.leader_epoch or b.start_offset <= a.start_offset
            ),
        }
    return row
