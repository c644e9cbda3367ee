"""What a broker makes of a log directory when it starts.

In: a `ReplicaLog` as it lies on a disk, the broker's checkpoints, whether it had stopped in good order. Out: the
`ReplicaLog` that the broker works with. After a stop in good order files are believed; after any other, segments from
the recovery point on are read, the log ends before the first batch that does not hold, and what was derived from
batches is derived again.

Source: Kafka LogLoader, LogSegment#recover, FileLogInputStream, DefaultRecordBatch#ensureValid.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.transaction_index import AbortedTransaction
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.log.producer_replay import ProducerReplay, without_strays
from tidegauge.sim_engine.log.producers import Producers
from tidegauge.sim_engine.log.replica_log import EpochStart, ReplicaLog, epochs_from, new_log, with_epoch
from tidegauge.sim_engine.log.segment import Segment
from tidegauge.sim_engine.log.stored_batch import StoredBatch, read_stored
from tidegauge.sim_engine.world import Disk

_LEGACY_RECORD_BYTES: Final = 14
_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """What a broker's checkpoint files say of one log; 0 where they do not list it."""

    log_start_offset: int = 0
    recovery_point: int = 0
    high_watermark: int = 0


def loaded_replica(disk: BrokerDisk | Disk, partition: TopicPartition, *, now_ms: int) -> ReplicaLog:
    """One log of a broker that starts on this disk."""
    checkpoints = Checkpoints(
        log_start_offset=disk.log_starts.get(partition, 0),
        recovery_point=disk.recovery_points.get(partition, 0),
        high_watermark=disk.high_watermarks.get(partition, 0),
    )
    clean = disk.clean_broker_epoch is not None
    return loaded(disk.replicas[partition].log, checkpoints, clean=clean, now_ms=now_ms)


def loaded(log: ReplicaLog, checkpoints: Checkpoints, *, clean: bool, now_ms: int) -> ReplicaLog:
    """The log as its broker works with it after it has started."""
    loading = _Loading(log, checkpoints, now_ms)
    for at, segment in enumerate(log.segments):
        if ".index" in segment.damaged_files and segment.damaged_files[".index"] is None:
            # An index that is not there is the one damage that a broker looks for in every segment.
            loading.recover(at, log.segments[:at])
    if not clean:
        loading.recover_from(checkpoints.recovery_point)
    return loading.finished(clean=clean)


def first_valid_batches(data: bytes) -> Iterator[StoredBatch]:
    """The batches at the beginning of these bytes, up to the first that a broker would not take."""
    at = 0
    while at + layout.CRC_AT < len(data):
        (length,) = _LENGTH.unpack_from(data, at + layout.BATCH_LENGTH_AT)
        end = at + layout.LOG_OVERHEAD + length
        if length < _LEGACY_RECORD_BYTES or end > len(data) or length < layout.MIN_BATCH_LENGTH:
            return
        batch = data[at:end]
        magic = batch[layout.MAGIC_AT]
        # A legacy entry would need a checksum of its own, elsewhere. A newer magic is believed: nothing covers it.
        if magic < layout.CURRENT_MAGIC or _CRC.unpack_from(batch, layout.CRC_AT)[0] != crc32c(
            batch[layout.ATTRIBUTES_AT :]
        ):
            return
        plain = batch[: layout.MAGIC_AT] + bytes([layout.CURRENT_MAGIC]) + batch[layout.CRC_AT :]
        read = read_stored(plain)
        if not isinstance(read, StoredBatch):
            return
        yield read if magic == layout.CURRENT_MAGIC else replace(read, data=batch, damaged=True)
        at = end


class _Loading:
    """One log while it is loaded."""

    def __init__(self, log: ReplicaLog, checkpoints: Checkpoints, now_ms: int) -> None:
        self.log = replace(log, producers=Producers(), epochs=_in_order(log.epochs))
        self.checkpoints = checkpoints
        self.now_ms = now_ms
        self.snapshots = dict(log.snapshots)

    def replay(self) -> ProducerReplay:
        return ProducerReplay(
            snapshots=self.snapshots,
            now_ms=self.now_ms,
            expiration_ms=self.log.config.producer_expiration_ms,
            producers=Producers(),
        )

    def recover_from(self, recovery_point: int) -> None:
        """Reads the segments from the recovery point on; deletes what lies behind the first that is cut."""
        bases = [s.base_offset for s in self.log.segments]
        for at in range(max((i for i, base in enumerate(bases) if base <= recovery_point), default=0), len(bases)):
            if self.recover(at, self.log.segments):
                for base in bases[at + 1 :]:
                    self.snapshots.pop(base, None)
                self.log = replace(self.log, segments=self.log.segments[: at + 1])
                return

    def recover(self, at: int, known: tuple[Segment, ...]) -> bool:
        """Reads one segment and makes its indexes anew; tells whether it had to be cut."""
        segment = self.log.segments[at]
        replay = self.replay()
        replay.rebuild(
            known,
            log_start_offset=self.checkpoints.log_start_offset,
            up_to=segment.base_offset,
            clean=False,
        )
        made = Segment(base_offset=segment.base_offset, created_at_ms=segment.created_at_ms)
        aborted = []
        for batch in _read_back(segment):
            made = made.appended(batch, index_interval_bytes=self.log.config.index_interval_bytes)
            if batch.leader_epoch > self.log.latest_epoch:
                self.log = with_epoch(self.log, batch.leader_epoch, batch.base_offset)
            ended = replay.take(batch)
            if ended is not None and not ended.committed:
                aborted.append(
                    AbortedTransaction(
                        producer_id=ended.producer_id,
                        first_offset=ended.first_offset,
                        last_offset=ended.last_offset,
                        last_stable_offset=replay.producers.stable_before(ended),
                    )
                )
            replay.end_offset = batch.last_offset + 1
        replay.snapshot()
        made = replace(made.closed(), transaction_index=tuple(aborted))
        self.log = replace(self.log, segments=(*self.log.segments[:at], made, *self.log.segments[at + 1 :]))
        return made.size_bytes < segment.size_bytes + len(segment.tail)

    def finished(self, *, clean: bool) -> ReplicaLog:
        """What does not hang on how the broker had stopped: log start, end, epochs, producers, high watermark."""
        log, start = self.log, self.checkpoints.log_start_offset
        if log.segments and log.segments[-1].end_offset < start:
            # The log ends below its start: files are gone. A broker begins anew at the start.
            self.snapshots = {}
            log = replace(log, segments=(), epochs=())
        if not log.segments:
            log = replace(log, segments=new_log(log.config, now_ms=self.now_ms, start_offset=start).segments)
        end = log.segments[-1].end_offset
        log_start = start if log.config.remote_storage else max(start, log.segments[0].base_offset)
        epochs = epochs_from(tuple(e for e in log.epochs if e.start_offset < end), start)
        self.snapshots = without_strays(self.snapshots, [s.base_offset for s in log.segments])
        replay = self.replay()
        replay.rebuild(log.segments, log_start_offset=log_start, up_to=end, clean=clean)
        high_watermark = min(max(self.checkpoints.high_watermark, log_start), end)
        active = replace(log.segments[-1], bytes_since_index_entry=0)
        return replace(
            log,
            segments=(*log.segments[:-1], active),
            log_start_offset=log_start,
            log_end_offset=end,
            high_watermark=high_watermark,
            flushed_end_offset=end if clean else min(log.flushed_end_offset, end),
            epochs=epochs,
            producers=replay.producers.replicated_to(high_watermark),
            snapshots=dict(sorted(self.snapshots.items())),
        )


def _read_back(segment: Segment) -> Iterator[StoredBatch]:
    """The segment's batches as they can be read; those whose bytes are as they were need not be looked at."""
    sound = next((i for i, b in enumerate(segment.batches) if b.damaged), len(segment.batches))
    yield from segment.batches[:sound]
    if sound < len(segment.batches) or segment.tail:
        yield from first_valid_batches(b"".join(b.data for b in segment.batches[sound:]) + segment.tail)


def _in_order(epochs: tuple[EpochStart, ...]) -> tuple[EpochStart, ...]:
    """The checkpoint file's entries as a broker takes them in, each one dropping those that it makes impossible."""
    kept: tuple[EpochStart, ...] = ()
    for entry in epochs:
        if not kept or entry.leader_epoch != kept[-1].leader_epoch:
            kept = (
                *(e for e in kept if e.leader_epoch < entry.leader_epoch and e.start_offset < entry.start_offset),
                entry,
            )
    return kept
