"""What happens to a broker's disk: bytes that never reached it, that rot, that come back, or that are gone.

In: a disk, a broker's or a rendered one, and where it is hurt. Out: the disk afterwards and what was done, for the
truth ledger; None where there is nothing of the kind to hurt. A fault changes what is on the disk and nothing that a
broker knows; `sim_engine.brokers.recovery` decides what a broker makes of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.records import RecordBatch
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.log.persistent import Trail
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.segment import Segment
from tidegauge.sim_engine.log.stored_batch import StoredBatch, as_stored
from tidegauge.sim_engine.log.tiering import without_first
from tidegauge.sim_engine.metadata.metadata_log import METADATA_TOPIC
from tidegauge.sim_engine.world import Disk

AnyDisk = TypeVar("AnyDisk", BrokerDisk, Disk)

INDEX_FILES: Final = (".index", ".timeindex", ".txnindex")


class FaultKind(StrEnum):
    """Kinds of damage; the words stand in the truth ledger."""

    TORN_WRITE = "torn-write"
    LOST_FLUSH = "lost-flush"
    BIT_FLIP = "bit-flip"
    STALE_CHECKPOINT = "stale-checkpoint"
    FULL_DISK = "full-disk"
    LOST_SEGMENT = "lost-segment"
    DAMAGED_INDEX = "damaged-index"
    SAME_EPOCH_REWRITE = "same-epoch-rewrite"
    STALE_DISK = "stale-disk"
    REMOTE_TIER_GAP = "remote-tier-gap"
    LOST_REMOTE_SEGMENT = "lost-remote-segment"
    WRONG_REMOTE_DELETION = "wrong-remote-deletion"


class CheckpointFile(StrEnum):
    """The checkpoint files of a log dir, by the names of `BrokerDisk`'s fields."""

    HIGH_WATERMARKS = "high_watermarks"
    RECOVERY_POINTS = "recovery_points"
    LOG_STARTS = "log_starts"
    CLEANER_OFFSETS = "cleaner_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFault:
    """What was done. Offsets are the records whose bytes were hurt; `on_disk`: these files alone tell of it.

    What is not `on_disk` may still show when brokers are compared; a broker that starts may also wipe the trace out.
    """

    kind: FaultKind
    broker_id: int
    partition: TopicPartition | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    on_disk: bool
    detail: str


Hurt: TypeAlias = tuple[AnyDisk, DiskFault] | None


def torn_write(disk: AnyDisk, partition: TopicPartition, *, kept_bytes: int) -> Hurt[AnyDisk]:
    """Of the last batch only its first bytes are there. The disk is one of a broker that stopped in no good order."""
    log = _log(disk, partition)
    last = log.active.batches[-1] if log.active.batches else None
    if last is None:
        return None
    assert 0 < kept_bytes < last.size_bytes, "a torn write is a part of the batch"
    torn = replace(log.active.truncated(last.base_offset), tail=last.data[:kept_bytes])
    hurt = _shortened(log, torn, last.base_offset)
    detail = f"{kept_bytes} of the {last.size_bytes} bytes of the batch at {last.base_offset}"
    fault = _fault(FaultKind.TORN_WRITE, disk, partition, last, detail=detail)
    return _unclean(_with(disk, partition, hurt)), fault


def full_disk(disk: AnyDisk, partition: TopicPartition, batch: StoredBatch, *, room_bytes: int) -> Hurt[AnyDisk]:
    """There is no room for a batch: what fits is written, the append fails, and the log dir goes offline with that."""
    log = _log(disk, partition)
    active = replace(log.active, tail=batch.data[: min(room_bytes, batch.size_bytes - 1)])
    hurt = _shortened(log, active, log.log_end_offset)
    detail = f"{len(active.tail)} bytes of the {batch.size_bytes} of the next batch, and then no more"
    fault = _fault(FaultKind.FULL_DISK, disk, partition, batch, detail=detail, on_disk=bool(active.tail))
    return _unclean(_with(disk, partition, hurt)), fault


def lost_flush(disk: AnyDisk, partition: TopicPartition, *, start_offset: int, end_offset: int) -> Hurt[AnyDisk]:
    """Batches that were written but not flushed are not there after a power cut.

    Up to the log's end, the file ends before them; in front of others that did reach the disk, zeros stand for them.
    """
    log = _log(disk, partition)
    lost = [
        b
        for s in log.segments
        for b in s.batches
        if b.base_offset >= max(start_offset, log.flushed_end_offset) and b.last_offset < end_offset
    ]
    if not lost:
        return None
    first, last = lost[0].base_offset, lost[-1].last_offset
    at_end = last + 1 == log.log_end_offset
    if at_end:
        kept = [s for s in log.segments if s.base_offset <= first]
        log = replace(log, segments=tuple(kept))
        hurt = _shortened(log, kept[-1].truncated(first), first)
    else:
        bases = {b.base_offset for b in lost}
        hurt = _each_batch(log, lambda b: _overwritten(b, bytes(b.size_bytes)) if b.base_offset in bases else b)
    detail = f"{len(lost)} batches that were never flushed are " + ("not there" if at_end else "zeros")
    fault = DiskFault(
        kind=FaultKind.LOST_FLUSH, broker_id=disk.broker_id, partition=partition, start_offset=first,
        end_offset=last + 1, on_disk=not at_end, detail=detail,
    )  # fmt: skip
    return _unclean(_with(disk, partition, hurt)), fault


def bit_flip(disk: AnyDisk, partition: TopicPartition, *, offset: int, byte: int, bit: int) -> Hurt[AnyDisk]:
    """One bit of the batch that holds `offset` is another; `byte` counts from the batch's first and wraps around."""
    log = _log(disk, partition)
    batch = _batch_at(log, offset)
    if batch is None:
        return None
    byte %= batch.size_bytes
    data = bytearray(batch.data)
    data[byte] ^= 1 << bit
    hurt = _each_batch(log, lambda b: _overwritten(b, bytes(data)) if b is batch else b)
    detail = f"bit {bit} of byte {byte} ({_place(byte)}) of the batch at {batch.base_offset}"
    return _with(disk, partition, hurt), _fault(FaultKind.BIT_FLIP, disk, partition, batch, detail=detail)


def same_epoch_rewrite(disk: AnyDisk, partition: TopicPartition, *, offset: int) -> Hurt[AnyDisk]:
    """A batch is another one, under the same offsets, epoch and producer: its checksum is right, its values are not."""
    log = _log(disk, partition)
    batch = _batch_at(log, offset)
    if batch is None or batch.is_control or batch.codec is not CompressionType.NONE:
        return None
    records = tuple(replace(r, value=bytes(x ^ 0x55 for x in r.value)) if r.value else r for r in batch.records)
    if records == batch.records:
        return None
    other = as_stored(
        RecordBatch(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            partition_leader_epoch=batch.leader_epoch,
            crc=0,
            attributes=batch.attributes,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            records=records,
        )
    )
    assert other.size_bytes == batch.size_bytes, "the positions of what follows stay"
    hurt = _each_batch(log, lambda b: other if b is batch else b)
    detail = f"the batch at {batch.base_offset} has other values"
    fault = _fault(FaultKind.SAME_EPOCH_REWRITE, disk, partition, batch, detail=detail, on_disk=False)
    return _with(disk, partition, hurt), fault


def lost_segment(disk: AnyDisk, partition: TopicPartition, *, base_offset: int) -> Hurt[AnyDisk]:
    """The files of a segment are gone."""
    log = _log(disk, partition)
    gone = next((s for s in log.segments if s.base_offset == base_offset), None)
    if gone is None or len(log.segments) == 1:
        return None
    hurt = replace(log, segments=tuple(s for s in log.segments if s is not gone))
    between = gone is not log.segments[0] and gone is not log.active
    fault = DiskFault(
        kind=FaultKind.LOST_SEGMENT, broker_id=disk.broker_id, partition=partition, start_offset=gone.base_offset,
        end_offset=gone.end_offset, on_disk=between, detail=f"segment {base_offset} of {len(log.segments)} segments",
    )  # fmt: skip
    return _with(disk, partition, hurt), fault


def early_local_deletion(disk: AnyDisk, partition: TopicPartition, *, count: int = 1) -> Hurt[AnyDisk]:
    """The first segments of a tiered log go, though no copy of them has been finished; its log start stays below them.

    What is lost is what the tier does not hold (`sim_engine.log.tiering.gaps`): ask before.
    """
    log = _log(disk, partition)
    count = min(count, len(log.segments) - 1)
    if count < 1 or not log.config.remote_storage:
        return None
    left = without_first(log, count)
    fault = DiskFault(
        kind=FaultKind.REMOTE_TIER_GAP, broker_id=disk.broker_id, partition=partition,
        start_offset=log.segments[0].base_offset, end_offset=left.segments[0].base_offset, on_disk=True,
        detail=f"{count} local segments deleted out of turn",
    )  # fmt: skip
    return _with(disk, partition, left), fault


def damaged_index(
    disk: AnyDisk, partition: TopicPartition, *, base_offset: int, suffix: str, data: bytes | None
) -> Hurt[AnyDisk]:
    """An index file has other bytes, or is not there (None)."""
    assert suffix in INDEX_FILES, suffix
    log = _log(disk, partition)
    if all(s.base_offset != base_offset for s in log.segments):
        return None
    segments = tuple(
        replace(s, damaged_files={**s.damaged_files, suffix: data}) if s.base_offset == base_offset else s
        for s in log.segments
    )
    what = "is not there" if data is None else f"has {len(data)} other bytes"
    fault = DiskFault(
        kind=FaultKind.DAMAGED_INDEX, broker_id=disk.broker_id, partition=partition, on_disk=True,
        detail=f"{base_offset:020d}{suffix} {what}",
    )  # fmt: skip
    return _with(disk, partition, replace(log, segments=segments)), fault


def stale_checkpoint(disk: AnyDisk, older: AnyDisk, file: CheckpointFile) -> Hurt[AnyDisk]:
    """A checkpoint file is one of an earlier moment. A checkpoint may always lag, so nothing tells of it."""
    before: Mapping[TopicPartition, int] = getattr(older, file)
    now: Mapping[TopicPartition, int] = getattr(disk, file)
    if before == now:
        return None
    changed = sum(before.get(p) != now.get(p) for p in {*before, *now})
    detail = f"{changed} entries of {file.value} are older"
    fault = DiskFault(kind=FaultKind.STALE_CHECKPOINT, broker_id=disk.broker_id, on_disk=False, detail=detail)
    match file:
        case CheckpointFile.HIGH_WATERMARKS:
            return replace(disk, high_watermarks=before), fault
        case CheckpointFile.RECOVERY_POINTS:
            return replace(disk, recovery_points=before), fault
        case CheckpointFile.LOG_STARTS:
            return replace(disk, log_starts=before), fault
        case CheckpointFile.CLEANER_OFFSETS:
            return replace(disk, cleaner_offsets=before), fault


def stale_disk(disk: AnyDisk, older: AnyDisk) -> tuple[AnyDisk, tuple[DiskFault, ...]]:
    """The whole disk is the one of an earlier moment (a restored image). In itself it is sound."""
    assert disk.broker_id == older.broker_id, "a broker's own disk returns"
    faults = []
    for partition, replica in sorted(disk.replicas.items()):
        behind = older.replicas[partition].log.log_end_offset if partition in older.replicas else 0
        if behind < replica.log.log_end_offset:
            fault = DiskFault(
                kind=FaultKind.STALE_DISK, broker_id=disk.broker_id, partition=partition, start_offset=behind,
                end_offset=replica.log.log_end_offset, on_disk=False, detail=f"{partition} ends at {behind} again",
            )  # fmt: skip
            faults.append(fault)
    return older, tuple(faults)


def _log(disk: BrokerDisk | Disk, partition: TopicPartition) -> ReplicaLog:
    return disk.metadata if partition.topic == METADATA_TOPIC else disk.replicas[partition].log


def _with(disk: AnyDisk, partition: TopicPartition, log: ReplicaLog) -> AnyDisk:
    if partition.topic == METADATA_TOPIC:
        return replace(disk, metadata=log)
    return replace(disk, replicas={**disk.replicas, partition: replace(disk.replicas[partition], log=log)})


def _unclean(disk: AnyDisk) -> AnyDisk:
    return replace(disk, clean_broker_epoch=None)


def _shortened(log: ReplicaLog, active: Segment, end_offset: int) -> ReplicaLog:
    """The files that are left. Epochs and snapshots are files of their own: they stay as they were written."""
    return replace(
        log,
        segments=(*log.segments[:-1], active),
        log_end_offset=end_offset,
        high_watermark=min(log.high_watermark, end_offset),
        flushed_end_offset=min(log.flushed_end_offset, end_offset),
    )


def _batch_at(log: ReplicaLog, offset: int) -> StoredBatch | None:
    found = log.batches_from(offset, max_bytes=1)[:1]
    return found[0] if found and found[0].base_offset <= offset else None


def _overwritten(batch: StoredBatch, data: bytes) -> StoredBatch:
    return replace(batch, data=data, damaged=True)


def _each_batch(log: ReplicaLog, change: Callable[[StoredBatch], StoredBatch]) -> ReplicaLog:
    """The log with batches of the same sizes."""
    segments = []
    for segment in log.segments:
        batches = [change(b) for b in segment.batches]
        same = all(a is b for a, b in zip(batches, segment.batches, strict=True))
        segments.append(segment if same else replace(segment, batches=Trail(batches)))
    return replace(log, segments=tuple(segments))


def _fault(
    kind: FaultKind,
    disk: BrokerDisk | Disk,
    partition: TopicPartition,
    batch: StoredBatch,
    *,
    detail: str,
    on_disk: bool = True,
) -> DiskFault:
    return DiskFault(
        kind=kind,
        broker_id=disk.broker_id,
        partition=partition,
        start_offset=batch.base_offset,
        end_offset=batch.last_offset + 1,
        on_disk=on_disk,
        detail=detail,
    )


def _place(byte: int) -> str:
    """What lies there, in words of `kafka_log.batch`."""
    starts = (
        (layout.BASE_OFFSET_AT, "base offset"),
        (layout.BATCH_LENGTH_AT, "length"),
        (layout.LEADER_EPOCH_AT, "leader epoch"),
        (layout.MAGIC_AT, "magic"),
        (layout.CRC_AT, "checksum"),
        (layout.ATTRIBUTES_AT, "header"),
        (layout.RECORDS_AT, "records"),
    )
    return [name for start, name in starts if start <= byte][-1]
