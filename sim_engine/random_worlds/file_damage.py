"""Files beside the logs that say something wrong: indexes, producer snapshots, checkpoints.

In: the disks of a copy, a kind of fault, chance. Out: the disks with one file that was changed, and what must be found
on its account; None where there is no such file to change. The change is one that no broker makes, and the file is one
that brokers read when they start only, or not before it matters: so it is done to the copy.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from tidegauge.kafka_log.checkpoints import (
    CheckpointEntry,
    EpochEntry,
    write_leader_epoch_checkpoint,
    write_offset_checkpoint,
)
from tidegauge.kafka_log.log_dir import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from tidegauge.kafka_log.transaction_index import parse_transaction_index, write_transaction_index
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import BrokerDisk, partition_files
from tidegauge.sim_engine.log.render_log import File
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.expected import Expected, Injected
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.struck import checkpoints_are_its_own
from tidegauge.sim_engine.scenarios.scenario import Finding
from tidegauge.sim_engine.world import World

_INDEX_ENTRY: Final = struct.Struct(">iI")
_TIME_ENTRY: Final = struct.Struct(">qI")
_SNAPSHOT_BODY_AT: Final = 6
"""Behind version and checksum."""
_BY_CHECKPOINTS: Final = frozenset({"B16", "D02", "D03", "H03"})
"""Found only where a log start or a high watermark says that the offsets count."""

_HIDDEN: Final = "a checkpoint that was changed hides it"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A file, by its path below the log dir, and what it says instead."""

    disk: BrokerDisk
    path: str
    data: bytes
    finding: Finding
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HurtFile:
    """What was done, and what may follow from it."""

    disks: tuple[BrokerDisk, ...]
    injected: Injected
    allowed: tuple[Finding, ...]


def hurt_file(disks: Sequence[BrokerDisk], kind: WorldFault, chance: Chance, *, world: World) -> HurtFile | None:
    """One file of the copy says something wrong. `world`: at the copy's end."""
    changes = [
        change
        for disk in disks
        for partition in _plain(disk)
        # Else nobody can say that it is not of the topic that had the name before.
        if kind is not WorldFault.OFFSET_CHECKPOINT or checkpoints_are_its_own(world, partition, disk.broker_id)
        for change in CHANGES[kind](disk, partition)
    ]
    if not changes:
        return None
    change = chance.one_of(changes)
    hurt = replace(change.disk, other_files={**change.disk.other_files, change.path: change.data})
    where = f"broker-{hurt.broker_id}/{change.path}"
    injected = Injected(kind=kind, at_ms=world.now_ms, where=where, detail=change.detail, findings=(change.finding,))
    allowed = tuple(Finding(code=code, partition=change.finding.partition) for code in FOLLOWING[kind])
    return HurtFile(disks=tuple(hurt if d is change.disk else d for d in disks), injected=injected, allowed=allowed)


def told_with(told: Expected, hurt: HurtFile) -> Expected:
    """What is expected of a copy after one of its files was changed as well.

    Where a checkpoint says that a log begins, or is committed, nothing else on that disk does: what it hides of the
    replica's other faults may be told and need not be. A log that says to begin behind its end hides its losses, too.
    """
    [it] = hurt.injected.findings
    hides = {each for each in told.losses if it.code == "B18" and each.lost.partition == it.partition}
    hidden = {
        f
        for f in told.findings
        if hurt.injected.kind is WorldFault.OFFSET_CHECKPOINT
        and f.code in _BY_CHECKPOINTS
        and f.partition == it.partition
        and f.broker_id in (None, it.broker_id)
    }
    injected = []
    for each in told.injected:
        left = tuple(f for f in each.findings if f not in hidden)
        unseen = each.unseen if left or not each.findings else _HIDDEN
        injected.append(replace(each, findings=left, unseen=unseen))
    allowed = (*told.allowed, *hurt.allowed, *sorted(hidden, key=repr))
    return replace(
        told,
        injected=(*injected, hurt.injected),
        allowed=tuple(dict.fromkeys(allowed)),
        losses=tuple(each for each in told.losses if each not in hides),
        unseen_losses=(*told.unseen_losses, *((each.lost, _HIDDEN) for each in told.losses if each in hides)),
    )


def _plain(disk: BrokerDisk) -> list[TopicPartition]:
    """Users' partitions that no cleaner has been at: of those everything can be said."""
    return sorted(p for p, r in disk.replicas.items() if not p.topic.startswith("__") and not r.log.config.compact)


def _files(disk: BrokerDisk, partition: TopicPartition, suffix: str) -> Iterator[tuple[str, File]]:
    """Files that are not preallocated, and hold something."""
    for path, file in partition_files(disk, partition):
        if path.endswith(suffix) and 0 < len(file.data) == file.size_bytes:
            yield path, file


def _offset_indexes(disk: BrokerDisk, partition: TopicPartition) -> Iterator[_Change]:
    for path, file in _files(disk, partition, ".index"):
        offset, position = _INDEX_ENTRY.unpack(file.data[-_INDEX_ENTRY.size :])
        beside = file.data[: -_INDEX_ENTRY.size] + _INDEX_ENTRY.pack(offset, position + 1)
        yield _change(disk, partition, path, beside, "B02", "its last entry leads one byte too far")
        yield _change(disk, partition, path, file.data + b"\1\2\3", "B01", "three bytes too many")


def _time_indexes(disk: BrokerDisk, partition: TopicPartition) -> Iterator[_Change]:
    for path, file in _files(disk, partition, ".timeindex"):
        timestamp, offset = _TIME_ENTRY.unpack(file.data[-_TIME_ENTRY.size :])
        later = file.data[: -_TIME_ENTRY.size] + _TIME_ENTRY.pack(timestamp + 1_000_000, offset)
        yield _change(disk, partition, path, later, "B04", "its last entry's time is that of no batch")


def _transaction_indexes(disk: BrokerDisk, partition: TopicPartition) -> Iterator[_Change]:
    for path, file in _files(disk, partition, ".txnindex"):
        *entries, last = parse_transaction_index(file.data).entries
        # Of a transaction whose records are gone nobody can say whether it had any.
        if last.first_offset >= disk.replicas[partition].log.segments[0].base_offset:
            less = write_transaction_index(entries)
            yield _change(disk, partition, path, less, "B06", "its last entry is not there")
        yield _change(disk, partition, path, file.data[:-3], "B05", "its last entry is cut short")


def _producer_snapshots(disk: BrokerDisk, partition: TopicPartition) -> Iterator[_Change]:
    for path, file in _files(disk, partition, ".snapshot"):
        if len(file.data) > _SNAPSHOT_BODY_AT + 4:
            data = bytearray(file.data)
            data[len(data) // 2] ^= 1
            yield _change(disk, partition, path, bytes(data), "B08", "a bit of it turned over")


def _epoch_checkpoints(disk: BrokerDisk, partition: TopicPartition) -> Iterator[_Change]:
    log = disk.replicas[partition].log
    path = f"{partition}/{LEADER_EPOCH_CHECKPOINT}"
    entries = [EpochEntry(leader_epoch=e.leader_epoch, start_offset=e.start_offset) for e in log.epochs]
    if not entries:
        return
    data = write_leader_epoch_checkpoint(entries)
    yield _change(disk, partition, path, data.replace(b"0\n%d\n" % len(entries), b"0\n9\n", 1), "B12", "a wrong count")
    if len(entries) > 1:
        back = write_leader_epoch_checkpoint(entries[::-1])
        yield _change(disk, partition, path, back, "B13", "its entries are in the opposite order")
    last = entries[-1]
    if len(entries) > 1 and _has_batches(log, last.leader_epoch):
        less = write_leader_epoch_checkpoint(entries[:-1])
        yield _change(disk, partition, path, less, "B15", f"epoch {last.leader_epoch} is not in it")
        late = replace(last, start_offset=last.start_offset + 1)
        moved = write_leader_epoch_checkpoint([*entries[:-1], late])
        # Where an epoch begins below the local log, as in a remote tier, no batch tells.
        if _has_batches(log, last.leader_epoch, at_offset=last.start_offset):
            yield _change(disk, partition, path, moved, "B14", f"epoch {last.leader_epoch} starts one offset too late")


def _has_batches(log: ReplicaLog, leader_epoch: int, *, at_offset: int | None = None) -> bool:
    held = (b for s in log.segments for b in s.batches if b.leader_epoch == leader_epoch)
    return any(at_offset in (None, b.base_offset) for b in held)


def _offset_checkpoints(disk: BrokerDisk, partition: TopicPartition) -> Iterator[_Change]:
    end = disk.replicas[partition].log.log_end_offset
    for path, offsets, code in (
        (REPLICATION_OFFSET_CHECKPOINT, disk.high_watermarks, "B16"),
        (RECOVERY_POINT_OFFSET_CHECKPOINT, disk.recovery_points, "B17"),
        (LOG_START_OFFSET_CHECKPOINT, disk.log_starts, "B18"),
    ):
        entries = [
            CheckpointEntry(topic=p.topic, partition=p.partition, offset=o)
            for p, o in sorted({**offsets, partition: end + 7}.items())
        ]
        yield _change(disk, partition, path, write_offset_checkpoint(entries), code, f"{partition} {end + 7}")


def _change(disk: BrokerDisk, partition: TopicPartition, path: str, data: bytes, code: str, detail: str) -> _Change:
    finding = Finding(code=code, partition=partition, broker_id=disk.broker_id)
    return _Change(disk=disk, path=path, data=data, finding=finding, detail=detail)


CHANGES: Final[Mapping[WorldFault, Callable[[BrokerDisk, TopicPartition], Iterator[_Change]]]] = MappingProxyType(
    {
        WorldFault.OFFSET_INDEX: _offset_indexes,
        WorldFault.TIME_INDEX: _time_indexes,
        WorldFault.TRANSACTION_INDEX: _transaction_indexes,
        WorldFault.PRODUCER_SNAPSHOT: _producer_snapshots,
        WorldFault.EPOCH_CHECKPOINT: _epoch_checkpoints,
        WorldFault.OFFSET_CHECKPOINT: _offset_checkpoints,
    }
)
FOLLOWING: Final[Mapping[WorldFault, tuple[str, ...]]] = MappingProxyType(
    {
        WorldFault.OFFSET_INDEX: ("B01", "B02"),
        WorldFault.TIME_INDEX: ("B04",),
        WorldFault.TRANSACTION_INDEX: ("B05", "B06", "B07"),
        WorldFault.PRODUCER_SNAPSHOT: ("B08", "B09", "B11", "C03"),
        WorldFault.EPOCH_CHECKPOINT: ("B12", "B13", "B14", "B15", "D04", "D05", "D06", "D13", "D14", "D15"),
        WorldFault.OFFSET_CHECKPOINT: (
            "B16", "B17", "B18", "C01", "C07", "C08", "C10", "D02", "D05", "D06", "D09", "D10", "D11", "D20", "J01",
            "K10",
        ),
    }
)  # fmt: skip
"""What an audit may say besides of the same partition."""
