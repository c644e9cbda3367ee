"""A partition whose older segments lie in a remote tier: what its leader copies, what goes from its own disk.

In: a `ReplicaLog`, a `RemoteView`, the time. Out: segments to copy, the log without local segments that are copied, and
what is missing on both sides. A local segment goes only when the tier holds it, so every offset from the log start on
is in the log or in the tier.

A copy takes three steps, each of which a broker may die before: the record that it started, the object, the record that
it finished. A deletion likewise.

Source: KIP-405, RemoteLogManager (RLMCopyTask), UnifiedLog#deletableSegments, LocalTieredStorage.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.checkpoints import EpochEntry, write_leader_epoch_checkpoint
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry, write_producer_snapshot
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.producers import restored
from tidegauge.sim_engine.log.remote_metadata import RemoteSegment, RemoteState, RemoteView, moved
from tidegauge.sim_engine.log.render_log import File, render_segment
from tidegauge.sim_engine.log.replica_log import EpochStart, LogConfig, ReplicaLog, epochs_from, roll, start_anew
from tidegauge.sim_engine.log.segment import Segment

_STORE_DIRECTORY: Final = "remote-storage/kafka-tiered-storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteObject:
    """What a copy puts into the store: the segment, the epochs up to its end, the producers behind it."""

    about: RemoteSegment
    segment: Segment
    epochs: tuple[EpochStart, ...]
    producers: tuple[ProducerSnapshotEntry, ...]


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """The objects by segment id. What it holds and what the metadata tell are two things."""

    objects: Mapping[str, RemoteObject] = field(default_factory=dict)

    def with_object(self, stored: RemoteObject) -> "RemoteStore":
        """The store with one object more."""
        return RemoteStore({**self.objects, stored.about.segment_id: stored})

    def without(self, segment_id: str) -> "RemoteStore":
        """The store without an object."""
        return RemoteStore({k: v for k, v in self.objects.items() if k != segment_id})


def to_copy(log: ReplicaLog, view: RemoteView, partition: TopicPartition) -> tuple[Segment, ...]:
    """Segments that a leader copies next, oldest first: closed ones that lie below the last stable offset."""
    if not log.config.remote_storage:
        return ()
    copied = view.end_offset(partition, log.epochs)
    ends = [s.base_offset for s in log.segments[1:]]
    return tuple(
        segment
        for segment, end in zip(log.segments[:-1], ends, strict=True)
        if end > max(copied, log.log_start_offset) and end <= log.last_stable_offset
    )


def copied(
    log: ReplicaLog,
    segment: Segment,
    *,
    partition: TopicPartition,
    topic_id: str,
    segment_id: str,
    broker_id: int,
    now_ms: int,
) -> RemoteObject:
    """The copy of a segment as it starts: what its first record says, and what goes into the store."""
    end = next(s.base_offset for s in log.segments if s.base_offset > segment.base_offset)
    epochs = tuple(e for e in log.epochs if e.start_offset < end)
    about = RemoteSegment(
        segment_id=segment_id,
        partition=partition,
        topic_id=topic_id,
        start_offset=segment.base_offset,
        end_offset=end,
        broker_id=broker_id,
        max_timestamp_ms=segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_at_ms,
        event_timestamp_ms=now_ms,
        epochs=epochs_from(epochs, segment.base_offset),
        size_bytes=segment.size_bytes,
        state=RemoteState.COPY_SEGMENT_STARTED,
        transaction_index_empty=not segment.transaction_index,
    )
    return RemoteObject(about=about, segment=segment, epochs=epochs, producers=log.snapshots.get(end, ()))


def delete_local(log: ReplicaLog, remote_end_offset: int, *, now_ms: int) -> ReplicaLog:
    """Deletes local segments that local retention no longer keeps and the tier holds; the log start stays.

    If retention reaches the active segment, it is closed, so that it can be copied and go next time.
    """
    size = sum(s.size_bytes for s in log.segments)
    doomed = 0
    for at, segment in enumerate(log.segments):
        is_active = at + 1 == len(log.segments)
        end = log.log_end_offset if is_active else log.segments[at + 1].base_offset
        below_start = not is_active and end <= log.log_start_offset
        if end > log.high_watermark:
            break
        if not below_start and not _local_retention_breached(log.config, segment, size, now_ms):
            break
        if is_active:
            log = roll(log, now_ms=now_ms) if segment.size_bytes else log
            break
        if not (below_start or end <= remote_end_offset):
            break
        size -= segment.size_bytes
        doomed = at + 1
    return without_first(log, doomed)


def without_first(log: ReplicaLog, count: int) -> ReplicaLog:
    """The log without its first local segments; the log start and the epochs stay."""
    if not count:
        return log
    first = log.segments[count].base_offset
    snapshots = {at: entries for at, entries in log.snapshots.items() if at >= first}
    return replace(log, segments=log.segments[count:], snapshots=snapshots)


def gaps(log: ReplicaLog, view: RemoteView, partition: TopicPartition) -> list[tuple[int, int]]:
    """Ranges from the log start on that neither the tier's metadata nor the local log holds: [start, end)."""
    found = []
    at = log.log_start_offset
    local = log.segments[0].base_offset
    for segment in view.of(partition, RemoteState.COPY_SEGMENT_FINISHED):
        if segment.start_offset > at:
            found.append((at, min(segment.start_offset, local)))
        at = max(at, segment.end_offset)
    if at < local:
        found.append((at, local))
    return [(start, end) for start, end in found if start < end]


def nowhere(log: ReplicaLog, store: RemoteStore, partition: TopicPartition, topic_id: str) -> list[tuple[int, int]]:
    """Ranges from the log start to the local log that no object of the log's lineage holds: [start, end)."""
    start, local = log.log_start_offset, log.segments[0].base_offset
    held = []
    for at, epoch in enumerate(log.epochs):
        end = log.epochs[at + 1].start_offset if at + 1 < len(log.epochs) else log.log_end_offset
        for stored in store.objects.values():
            about = stored.about
            if about.partition != partition or about.topic_id != topic_id:
                continue
            for number, own in enumerate(about.epochs):
                if own.leader_epoch == epoch.leader_epoch:
                    later = about.epochs[number + 1 :]
                    own_end = later[0].start_offset if later else about.end_offset
                    held.append((max(own.start_offset, epoch.start_offset), min(own_end, end)))
    found = []
    for first, end in sorted(held):
        if first > start and start < local:
            found.append((start, min(first, local)))
        start = max(start, end)
    if start < local:
        found.append((start, local))
    return found


def with_auxiliary_state(log: ReplicaLog, stored: RemoteObject, *, log_start_offset: int, now_ms: int) -> ReplicaLog:
    """A follower's log that begins behind a remote segment, with the epochs and producers that lie beside it there."""
    end = stored.about.end_offset
    return replace(
        start_anew(log, end, now_ms=now_ms),
        log_start_offset=min(log_start_offset, end),
        epochs=stored.epochs,
        producers=restored(stored.producers),
        snapshots={end: stored.producers},
    )


def wrong_remote_deletion(
    log: ReplicaLog, view: RemoteView, partition: TopicPartition, *, broker_id: int, now_ms: int
) -> tuple[RemoteSegment, RemoteSegment] | None:
    """A fault (remote-tier-gap): a segment in the middle of the tier is deleted while the log start lies below it.

    Its two states, whose records are to be written; None if there is no segment that the log does not hold as well.
    """
    local = log.segments[0].base_offset
    only_remote = [
        s
        for s in view.of(partition, RemoteState.COPY_SEGMENT_FINISHED)
        if s.start_offset >= log.log_start_offset and s.end_offset <= local
    ]
    if not only_remote:
        return None
    chosen = only_remote[len(only_remote) // 2]
    started = moved(chosen, RemoteState.DELETE_SEGMENT_STARTED, broker_id=broker_id, now_ms=now_ms)
    return started, moved(started, RemoteState.DELETE_SEGMENT_FINISHED, broker_id=broker_id, now_ms=now_ms)


def render_object(stored: RemoteObject) -> Iterator[tuple[str, File]]:
    """The files of one object, as LocalTieredStorage lays them out."""
    about = stored.about
    prefix = f"{about.partition}-{about.topic_id}/{about.start_offset:020d}-{about.segment_id}"
    for name, file in render_segment(stored.segment, 0):
        yield prefix + name[name.index(".") :], file
    entries = [EpochEntry(leader_epoch=e.leader_epoch, start_offset=e.start_offset) for e in stored.epochs]
    for suffix, data in (
        (".leader_epoch_checkpoint", write_leader_epoch_checkpoint(entries)),
        (".snapshot", write_producer_snapshot(stored.producers)),
    ):
        yield prefix + suffix, File(data=data, size_bytes=len(data))


def render_store(store: RemoteStore) -> Iterator[tuple[str, File]]:
    """The files of the store, below a snapshot's root: where copies of a LocalTieredStorage have them."""
    for stored in store.objects.values():
        for name, file in render_object(stored):
            yield f"{_STORE_DIRECTORY}/{name}", file


def _local_retention_breached(config: LogConfig, segment: Segment, size_bytes: int, now_ms: int) -> bool:
    """None of the local settings is the topic's own (-2)."""
    retention_ms = config.local_retention_ms if config.local_retention_ms is not None else config.retention_ms
    newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_at_ms
    if retention_ms is not None and now_ms - newest > retention_ms:
        return True
    limit = config.local_retention_bytes if config.local_retention_bytes is not None else config.retention_bytes
    return limit is not None and size_bytes - segment.size_bytes >= limit
