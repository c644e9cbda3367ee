"""What a node does with its copy of the metadata log: it follows the leader, writes snapshots, drops what they cover.

In: the quorum leader's log, a snapshot that it sends to those who are too far behind, the time. Out: the node's log,
its `.checkpoint` files, and files that wait to be removed. Of what a node has dropped it has a snapshot; the newest
snapshot is never dropped.

Source: Kafka SnapshotGenerator (metadata.log.max.record.bytes.between.snapshots, .max.snapshot.interval.ms),
KafkaRaftLog#maybeClean, #deleteBeforeSnapshot (metadata.max.retention.bytes, .ms), KafkaRaftClient's fetch of
snapshots; KIP-630.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tidegauge.sim_engine.files.leftovers import render_left_segment, taken_away
from tidegauge.sim_engine.log.replica_log import ReplicaLog, append, new_log, with_high_watermark
from tidegauge.sim_engine.metadata.metadata_log import METADATA_TOPIC
from tidegauge.sim_engine.metadata.metadata_snapshot import MetadataSnapshot, cut_behind, formatted_with, taken
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.world import Disk, Running, WaitingFile

_DIRECTORY: Final = f"{METADATA_TOPIC}-0"


def followed(disk: Disk, leaders: ReplicaLog, snapshot: MetadataSnapshot | None, *, now_ms: int) -> Disk:
    """The disk after an answer of the quorum's leader."""
    if snapshot is not None:
        # What comes next is no longer in the leader's log: the node begins anew behind the snapshot.
        log = new_log(leaders.config, now_ms=now_ms, start_offset=snapshot.end_offset)
        return replace(disk, metadata=_appended(log, leaders, now_ms), metadata_snapshots=(snapshot,))
    snapshots = disk.metadata_snapshots
    if snapshots is None or not snapshots[0].end_offset:
        known = snapshots if snapshots is not None else formatted_with(leaders) or None
        return replace(disk, metadata=leaders, metadata_snapshots=known)
    if disk.metadata.segments[0].base_offset in {s.base_offset for s in leaders.segments}:
        return replace(disk, metadata=cut_behind(leaders, snapshots[0]))
    return replace(disk, metadata=_appended(disk.metadata, leaders, now_ms))


def wanted_snapshot(leader: Disk, end_offset: int) -> MetadataSnapshot | None:
    """What the leader sends to a node whose log ends there: its newest snapshot, if its log begins behind that."""
    snapshots = leader.metadata_snapshots
    return snapshots[-1] if snapshots and end_offset < snapshots[0].end_offset else None


def with_snapshot_if_due(
    disk: Disk, running: Running, read_from: int, settings: Settings, *, now_ms: int
) -> tuple[Disk, Running]:
    """The node after it has applied what it read: perhaps with one snapshot more."""
    new = sum(b.size_bytes for b in disk.metadata.batches_from(read_from) if b.last_offset >= read_from)
    size_bytes = running.metadata_bytes + new
    waited_ms = now_ms - (running.snapshot_at_ms or running.started_at_ms)
    running = replace(running, metadata_bytes=size_bytes)
    before = disk.metadata_snapshots
    if not before or before[-1].end_offset >= disk.metadata.high_watermark:
        return disk, running
    if (
        size_bytes < settings.metadata_bytes_between_snapshots
        and waited_ms < settings.metadata_snapshot_max_interval_ms
    ):
        return disk, running
    made = taken(disk.metadata, before[-1], now_ms=now_ms)
    return (
        replace(disk, metadata_snapshots=(*before, made)),
        replace(running, metadata_bytes=0, snapshot_at_ms=now_ms),
    )


def cleaned(disk: Disk, settings: Settings, *, now_ms: int) -> Disk:
    """The disk without snapshots that are too old or too many, and without the segments before the oldest one left."""
    snapshots = disk.metadata_snapshots or ()
    size_bytes = sum(s.size_bytes for s in disk.metadata.segments) + sum(len(s.data) for s in snapshots)
    gone: list[MetadataSnapshot] = []
    for snapshot in snapshots[:-1]:
        too_old = now_ms - snapshot.last_contained_ms > settings.metadata_retention_ms
        if size_bytes <= settings.metadata_retention_bytes and not too_old:
            break
        size_bytes -= len(snapshot.data)
        gone.append(snapshot)
    if not gone:
        return disk
    kept = snapshots[len(gone) :]
    log = cut_behind(disk.metadata, kept[0])
    waiting = (
        *disk.waiting_files,
        *(WaitingFile(f"{_DIRECTORY}/{s.name}.deleted", s.data, now_ms) for s in gone),
        *_left_segments(disk.metadata, log, now_ms),
    )
    return replace(disk, metadata=log, metadata_snapshots=kept, waiting_files=waiting)


def _left_segments(before: ReplicaLog, after: ReplicaLog, now_ms: int) -> Iterator[WaitingFile]:
    for left in taken_away(before, after, now_ms=now_ms):
        for name, file in render_left_segment(left, before.config):
            yield WaitingFile(f"{_DIRECTORY}/{name}", file.data, now_ms)


def _appended(log: ReplicaLog, leaders: ReplicaLog, now_ms: int) -> ReplicaLog:
    for batch in leaders.batches_from(log.log_end_offset):
        if batch.base_offset >= log.log_end_offset:
            log = append(log, batch, now_ms=now_ms)
    return with_high_watermark(log, log.log_end_offset)
