"""Where a broker's disk is plugged into the engine: its cleaner, and what happens to it.

In: the cleaner's timer, actions of `disk_actions`. Out: logs and checkpoints as they are from then on, notes in the
ledger. A broker that runs keeps what it has in memory, whatever becomes of its files.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tidegauge.kafka_log.log_dir import CLEANER_OFFSET_CHECKPOINT
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.disks import disk_actions
from tidegauge.sim_engine.disks.disk_faults import (
    DiskFault,
    FaultKind,
    bit_flip,
    damaged_index,
    early_local_deletion,
    lost_flush,
    lost_segment,
    same_epoch_rewrite,
    stale_checkpoint,
    stale_disk,
    torn_write,
)
from tidegauge.sim_engine.files.leftovers import cleaned_away, together
from tidegauge.sim_engine.log.cleaner import cleaned_if_due
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.truth import Fault
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Disk

_WHILE_IT_RUNS: Final = frozenset({FaultKind.BIT_FLIP, FaultKind.SAME_EPOCH_REWRITE, FaultKind.REMOTE_TIER_GAP})


def clean(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    """A cleaner comes by a compacted partition."""
    disk = turn.broker(broker_id).disk
    done = cleaned_if_due(disk.replicas[partition].log, disk.cleaner_offsets.get(partition), now_ms=turn.now_ms)
    if done is not None:
        log, checkpoint = done
        before = disk.replicas[partition]
        left = together(before.leftovers, cleaned_away(before.log, log, now_ms=turn.now_ms))
        replicas = {**disk.replicas, partition: replace(before, log=log, leftovers=left)}
        offsets = {**disk.cleaner_offsets, partition: checkpoint}
        written = {**disk.written_at_ms, CLEANER_OFFSET_CHECKPOINT: turn.now_ms}
        turn.put_disk(broker_id, replace(disk, replicas=replicas, cleaner_offsets=offsets, written_at_ms=written))


def hurt(turn: Turn, action: disk_actions.HurtDisk) -> None:
    """A log is damaged; nothing happens if there is nothing of the kind to damage."""
    broker = turn.broker(action.broker_id)
    replica = broker.disk.replicas.get(action.partition)
    if replica is None or (broker.running is not None and action.kind not in _WHILE_IT_RUNS):
        return
    made = _hurt(turn, broker.disk, replica.log, action)
    if made is not None:
        disk, fault = made
        turn.put_disk(action.broker_id, disk)
        note(turn, fault)
        if action.kind == FaultKind.SAME_EPOCH_REWRITE:
            # Other damage is noted when it is seen: what a dead broker lacks, once it has loaded the log.
            ledger.log_lost(turn, action.broker_id, action.partition, fault.kind.value)
        ledger.tier_checked(turn, action.partition, fault.kind.value)


def restore(turn: Turn, action: disk_actions.RestoreDisk) -> None:
    """A dead broker's whole disk goes back."""
    broker = turn.broker(action.broker_id)
    if broker.running is not None:
        return
    disk, faults = stale_disk(broker.disk, action.older)
    turn.put_disk(action.broker_id, disk)
    for fault in faults:
        note(turn, fault)


def restore_checkpoint(turn: Turn, action: disk_actions.RestoreCheckpoint) -> None:
    """A dead broker's checkpoint file goes back."""
    broker = turn.broker(action.broker_id)
    made = stale_checkpoint(broker.disk, action.older, action.file) if broker.running is None else None
    if made is not None:
        turn.put_disk(action.broker_id, made[0])
        note(turn, made[1])


def fill(turn: Turn, action: disk_actions.FillDisk) -> None:
    """A disk fills up; the fault is noted when a broker meets it."""
    disk = turn.broker(action.broker_id).disk
    turn.put_disk(action.broker_id, replace(disk, room_bytes=action.room_bytes))


def free(turn: Turn, action: disk_actions.FreeDisk) -> None:
    """A disk is cleared of what filled it."""
    turn.put_disk(action.broker_id, replace(turn.broker(action.broker_id).disk, room_bytes=None))


ACTIONS: Final[dict[type, Callable[[Turn, Any], None]]] = {
    disk_actions.FillDisk: fill,
    disk_actions.FreeDisk: free,
    disk_actions.HurtDisk: hurt,
    disk_actions.RestoreDisk: restore,
    disk_actions.RestoreCheckpoint: restore_checkpoint,
}


def _hurt(turn: Turn, disk: Disk, log: ReplicaLog, action: disk_actions.HurtDisk) -> tuple[Disk, DiskFault] | None:
    partition = action.partition

    def drawn(said: int | None, limit: int, purpose: str) -> int:
        return said if said is not None else turn.below(max(limit, 1), f"{action.kind} {partition} {purpose}")

    start = log.segments[0].base_offset
    offset = drawn(action.offset, log.log_end_offset - start, "offset") + (start if action.offset is None else 0)
    segment = next((s for s in reversed(log.segments) if s.base_offset <= offset), log.segments[0])
    match action.kind:
        case FaultKind.TORN_WRITE:
            size = log.active.batches[-1].size_bytes if log.active.batches else 2
            return torn_write(disk, partition, kept_bytes=1 + drawn(action.byte, size - 1, "byte") % (size - 1))
        case FaultKind.LOST_FLUSH:
            return lost_flush(disk, partition, start_offset=offset, end_offset=log.log_end_offset)
        case FaultKind.BIT_FLIP:
            held = log.batches_from(offset, max_bytes=1)
            # Behind the base offset, which no checksum covers and of which a broker makes what its index says.
            byte = drawn(action.byte, held[0].size_bytes - 8 if held else 1, "byte") + (8 if action.byte is None else 0)
            return bit_flip(disk, partition, offset=offset, byte=byte, bit=drawn(None, 8, "bit"))
        case FaultKind.SAME_EPOCH_REWRITE:
            return same_epoch_rewrite(disk, partition, offset=offset)
        case FaultKind.LOST_SEGMENT:
            return lost_segment(disk, partition, base_offset=segment.base_offset)
        case FaultKind.DAMAGED_INDEX:
            return damaged_index(disk, partition, base_offset=segment.base_offset, suffix=".index", data=None)
        case FaultKind.REMOTE_TIER_GAP:
            return early_local_deletion(disk, partition)
        case _:
            raise ValueError(f"{action.kind} has an action of its own")


def note(turn: Turn, fault: DiskFault) -> None:
    """The ledger gets what was done to a disk."""
    where = broker_node(fault.broker_id)
    detail = fault.detail
    if fault.start_offset is not None:
        detail = f"[{fault.start_offset}, {fault.end_offset}): {detail}"
    noted = Fault(
        at_ms=turn.now_ms,
        kind=fault.kind.value,
        where=where,
        detail=detail,
        partition=fault.partition,
        on_disk=fault.on_disk,
    )
    turn.truth = replace(turn.truth, faults=turn.truth.faults.appended(noted))
