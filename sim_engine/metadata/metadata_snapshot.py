"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`, and what a quorum was formatted with.

In: the metadata log, or what was given to the format tool. Out: a `MetadataSnapshot`: the file's bytes and the image in
it. Image and file say the same, and whoever has the newest snapshot and the log behind it has everything.

    header batch    SnapshotHeader, and in a quorum of kraft.version 1 KRaftVersion and KRaftVoters, too
    data batches    the image's records, a thousand at a time, up to 8 MiB a batch
    footer batch    SnapshotFooter

Offsets in the file begin at 0; every batch has the leader epoch of the file's name. A node whose snapshot covers whole
segments drops them: its log begins at the end offset of its oldest snapshot then.

Source: Kafka RecordsSnapshotWriter, RaftSnapshotWriter, BatchAccumulator, Formatter, KafkaRaftLog; KIP-630, KIP-853.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.kafka_log.batch import CONTROL_BIT
from tidegauge.kafka_log.control import (
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    decode_control_record,
    encode_control_record,
)
from tidegauge.kafka_log.metadata_records import MetadataRecord, decode_metadata_record, encode_metadata_record
from tidegauge.sim_engine.log.replica_log import ReplicaLog, with_log_start
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch, stored_batch
from tidegauge.sim_engine.metadata.metadata_image import MetadataImage, image_records, replayed
from tidegauge.sim_engine.metadata.metadata_log import METADATA_VERSION, record

LEVELS: Final[Mapping[str, int]] = {
    "metadata.version": METADATA_VERSION,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""What a quorum of 4.4.0 is formatted with; metadata.version first, the others by name."""

_RECORDS_AT_ONCE: Final = 1024
_BATCH_BYTES: Final = 8 << 20
_KRAFT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """A snapshot of everything below `end_offset`, the last of it written in `leader_epoch`."""

    end_offset: int
    leader_epoch: int
    data: bytes
    image: MetadataImage
    voters: tuple[Voter, ...]
    last_contained_ms: int = 0
    """When the last record that it covers was written."""

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.end_offset:020d}-{self.leader_epoch:010d}.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """When a snapshot's three kinds of batches were begun, and when the last record in it was written."""

    last_contained_ms: int
    header_ms: int
    records_ms: int
    footer_ms: int


def at_once(now_ms: int, *, last_contained_ms: int | None = None) -> Clock:
    """All in one instant."""
    last = now_ms if last_contained_ms is None else last_contained_ms
    return Clock(last_contained_ms=last, header_ms=now_ms, records_ms=now_ms, footer_ms=now_ms)


def bootstrap_records(levels: Mapping[str, int] = LEVELS) -> list[MetadataRecord]:
    """The levels that a quorum begins with, as the format tool writes them down."""
    return [record("FeatureLevelRecord", 0, name=name, feature_level=level) for name, level in levels.items()]


def first_snapshot(
    voters: Sequence[Voter], *, formatted_at_ms: int, levels: Mapping[str, int] = LEVELS
) -> MetadataSnapshot:
    """`00000000000000000000-0000000000.checkpoint`, which a node has from the moment it was formatted.

    Its records are what the first leader writes into the log; the image at offset 0 is empty all the same.
    """
    return MetadataSnapshot(
        end_offset=0,
        leader_epoch=0,
        data=snapshot_data(bootstrap_records(levels), leader_epoch=0, voters=voters, clock=at_once(formatted_at_ms)),
        image=MetadataImage(),
        voters=tuple(voters),
        last_contained_ms=formatted_at_ms,
    )


def formatted_with(log: ReplicaLog) -> tuple[MetadataSnapshot, ...]:
    """The snapshot that a node had before this log was begun, by the voters in its first batch; none without them."""
    first = log.batches_from(0, max_bytes=1)[:1] if log.log_start_offset == 0 else []
    for batch in first:
        for each in batch.records if batch.is_control else ():
            control = decode_control_record(each)
            if isinstance(control, KRaftVoters):
                return (first_snapshot(control.voters, formatted_at_ms=batch.base_timestamp),)
    return ()


def bootstrap_checkpoint(*, formatted_at_ms: int, levels: Mapping[str, int] = LEVELS) -> bytes:
    """`bootstrap.checkpoint` at a log dir's root, which nodes of 4.3 and before have, and keep when upgraded."""
    clock = at_once(formatted_at_ms, last_contained_ms=0)
    return snapshot_data(bootstrap_records(levels), leader_epoch=0, voters=(), clock=clock)


def taken(log: ReplicaLog, before: MetadataSnapshot, *, now_ms: int, end_offset: int | None = None) -> MetadataSnapshot:
    """A snapshot of the log below `end_offset` (the high watermark), made by going on from an earlier one."""
    end = log.high_watermark if end_offset is None else end_offset
    assert before.end_offset <= end <= log.log_end_offset, "a snapshot of what the log does not have"
    batches = [b for b in log.batches_from(before.end_offset, up_to=end) if b.last_offset >= before.end_offset]
    assert batches, "a snapshot of nothing new"
    assert batches[-1].last_offset + 1 == end, "a snapshot ends where a batch ends"
    image = replayed(before.image, _decoded(batches))
    clock = at_once(now_ms, last_contained_ms=batches[-1].max_timestamp)
    epoch = batches[-1].leader_epoch
    return MetadataSnapshot(
        end_offset=end,
        leader_epoch=epoch,
        data=snapshot_data(image_records(image), leader_epoch=epoch, voters=before.voters, clock=clock),
        image=image,
        voters=before.voters,
        last_contained_ms=clock.last_contained_ms,
    )


def cut_behind(log: ReplicaLog, oldest: MetadataSnapshot) -> ReplicaLog:
    """The log of a node whose oldest snapshot is this one: whole segments below its end are gone.

    The epochs and the log start move to the snapshot's end, even if it is inside a segment (KafkaRaftLog#deleteBefore).
    """
    moved = with_log_start(log, oldest.end_offset)
    first = max(i for i, s in enumerate(moved.segments) if i == 0 or s.base_offset <= oldest.end_offset)
    base = moved.segments[first].base_offset
    kept = {at: entries for at, entries in moved.snapshots.items() if at >= base}
    return replace(moved, segments=moved.segments[first:], snapshots=kept)


def image_of(log: ReplicaLog, snapshots: Sequence[MetadataSnapshot]) -> MetadataImage:
    """What a node knows that has this log and these snapshots."""
    newest = max(snapshots, key=lambda s: s.end_offset, default=None)
    start = newest.end_offset if newest is not None else log.log_start_offset
    image = newest.image if newest is not None else MetadataImage()
    return replayed(image, _decoded(b for b in log.batches_from(start) if b.last_offset >= start))


def snapshot_data(
    records: Iterable[MetadataRecord], *, leader_epoch: int, voters: Sequence[Voter], clock: Clock
) -> bytes:
    """A snapshot file's bytes. Without voters it is one of a quorum of kraft.version 0, or of a bootstrap file."""
    header: list[ControlRecord] = [SnapshotHeader(last_contained_log_timestamp=clock.last_contained_ms)]
    if voters:
        header += [KRaftVersion(kraft_version=_KRAFT_VERSION), KRaftVoters(voters=tuple(voters))]
    parts = [_control(header, 0, leader_epoch, clock.header_ms)]
    offset = len(header)
    for values in _batches([encode_metadata_record(each) for each in records]):
        timed = [NewRecord(timestamp=clock.records_ms, key=None, value=value) for value in values]
        parts.append(stored_batch(timed, base_offset=offset, leader_epoch=leader_epoch))
        offset += len(values)
    parts.append(_control([SnapshotFooter()], offset, leader_epoch, clock.footer_ms))
    return b"".join(part.data for part in parts)


def _control(records: Sequence[ControlRecord], base_offset: int, leader_epoch: int, now_ms: int) -> StoredBatch:
    pairs = [encode_control_record(value) for value in records]
    return stored_batch(
        [NewRecord(timestamp=now_ms, key=key, value=value) for key, value in pairs],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=CONTROL_BIT,
    )


def _batches(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Values come a thousand at a time, and a batch takes all of them or none."""
    batch: list[bytes] = []
    size = 0
    for start in range(0, len(values), _RECORDS_AT_ONCE):
        some = values[start : start + _RECORDS_AT_ONCE]
        more = sum(map(len, some)) + len(some) * _RECORD_OVERHEAD
        if batch and size + more > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch = [*batch, *some]
        size += more
    if batch:
        yield batch


_RECORD_OVERHEAD: Final = 8
"""Length, attributes, the two deltas, an absent key, the value's length, no headers: about so many bytes a record."""


def _decoded(batches: Iterable[StoredBatch]) -> Iterator[MetadataRecord]:
    for batch in batches:
        if batch.is_control:
            continue
        for each in batch.records:
            decoded = decode_metadata_record(each.value or b"")
            assert isinstance(decoded, MetadataRecord), "a simulated quorum wrote a record that is none"
            yield decoded
