"""A replica's log as the files of its directory.

In: a `ReplicaLog`, its topic's id, and whether its broker stopped in good order. Out: names and `File`s. The files are
what a broker would have left at this moment; an active segment's indexes are preallocated and end in zeros, those of a
stopped broker are trimmed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidegauge.kafka_log.checkpoints import EpochEntry, write_leader_epoch_checkpoint
from tidegauge.kafka_log.indexes import write_offset_index, write_time_index
from tidegauge.kafka_log.log_dir import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from tidegauge.kafka_log.producer_snapshot import write_producer_snapshot
from tidegauge.kafka_log.properties import write_partition_metadata
from tidegauge.kafka_log.transaction_index import write_transaction_index
from tidegauge.sim_engine.log.replica_log import ReplicaLog, stopped_cleanly
from tidegauge.sim_engine.log.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file: its bytes, and its size where that is more (zeros, to be left as a hole)."""

    data: bytes
    size_bytes: int


def render_log(log: ReplicaLog, *, topic_id: str | None, clean: bool) -> Iterator[tuple[str, File]]:
    """The files of the partition's directory, by name."""
    if clean:
        log = stopped_cleanly(log)
    for segment in log.segments:
        preallocated = 0 if clean or segment is not log.active else log.config.segment_index_bytes
        for name, file in render_segment(segment, preallocated):
            damaged = segment.damaged_files.get(name[name.index(".") :], file.data)
            if damaged is not None:
                yield name, file if damaged is file.data else _file(damaged)
    for offset, entries in log.snapshots.items():
        yield f"{offset:020d}.snapshot", _file(write_producer_snapshot(entries))
    epochs = [EpochEntry(leader_epoch=e.leader_epoch, start_offset=e.start_offset) for e in log.epochs]
    yield LEADER_EPOCH_CHECKPOINT, _file(write_leader_epoch_checkpoint(epochs) if epochs else b"")
    if topic_id is not None:
        yield PARTITION_METADATA, _file(write_partition_metadata(topic_id))


def render_segment(segment: Segment, preallocated: int) -> Iterator[tuple[str, File]]:
    """A segment's own files; `preallocated` is what its indexes take while it is written, in bytes."""
    name = f"{segment.base_offset:020d}"
    base = segment.base_offset
    yield f"{name}.log", _file(b"".join(b.data for b in segment.batches) + segment.tail)
    offsets = list(segment.offset_index)
    data = write_offset_index([o for o, _ in offsets], [p for _, p in offsets], base_offset=base)
    yield f"{name}.index", File(data=data, size_bytes=max(len(data), preallocated // 8 * 8))
    times = list(segment.time_index)
    data = write_time_index([t for t, _ in times], [o for _, o in times], base_offset=base)
    yield f"{name}.timeindex", File(data=data, size_bytes=max(len(data), preallocated // 12 * 12))
    if segment.transaction_index:
        yield f"{name}.txnindex", _file(write_transaction_index(segment.transaction_index))


def _file(data: bytes) -> File:
    return File(data=data, size_bytes=len(data))
