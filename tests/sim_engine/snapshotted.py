"""A node that has written its metadata log down, and may have dropped what is in the snapshot.

In: a disk. Out: the disk with one more `.checkpoint`. A snapshot ends below the high watermark and where a batch ends;
a node that drops old ones keeps the newest, and of the log whole segments only.

Source: Kafka SnapshotGenerator, KafkaRaftLog#maybeClean; metadata.log.max.record.bytes.between.snapshots, and one hour
at most between two snapshots.
"""

from dataclasses import replace

from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.metadata.metadata_snapshot import cut_behind, taken


def snapshotted(disk: BrokerDisk, *, now_ms: int, end_offset: int | None = None) -> BrokerDisk:
    """The disk after its node took a snapshot, below the high watermark or below a batch's end that is told."""
    before = disk.snapshots
    assert before, "a node that was never formatted"
    wanted = disk.metadata.high_watermark if end_offset is None else end_offset
    ends = [b.last_offset + 1 for b in disk.metadata.batches_from(before[-1].end_offset, up_to=wanted)]
    if not ends or ends[-1] <= before[-1].end_offset:
        return disk  # Nothing new is committed.
    made = taken(disk.metadata, before[-1], now_ms=now_ms, end_offset=ends[-1])
    return replace(disk, metadata_snapshots=(*before, made))


def forgotten(disk: BrokerDisk) -> BrokerDisk:
    """The disk after its node removed all snapshots but the newest, and the segments that this one covers."""
    (*older, newest) = disk.snapshots
    if not older:
        return disk
    return replace(disk, metadata_snapshots=(newest,), metadata=cut_behind(disk.metadata, newest))
