"""Visibility: what consumers of one replica see of each batch, out of a snapshot.

In: a snapshot, a partition, a range of offsets, and the broker whose copy is wanted (by default the leader's). Out: a
`ReplicaVisibility`, as lines of text or as JSON. The whole log is replayed, whatever range is asked for, since a
transaction may have begun long before it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.derivation.metadata.metadata_log import read_metadata
from tidegauge.facts.producers.replay import ProducerReplay
from tidegauge.facts.producers.visibility import ReplicaLog, Visibility, visibility
from tidegauge.facts.replicas.comparison import rows_between
from tidegauge.facts.replicas.watermarks import last_stable_offset
from tidegauge.facts.segments.fold import SummaryFold
from tidegauge.kafka_log.checkpoints import parse_offset_checkpoint
from tidegauge.kafka_log.log_dir import LOG_START_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT
from tidegauge.kafka_log.transaction_index import parse_transaction_index
from tidegauge.snapshots.adopt import Snapshot, open_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.listing import ReplicaFiles, SnapshotListing, listing
from tidegauge.snapshots.location import Location, open_bytes
from tidegauge.snapshots.manifest import LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaVisibility:
    """One replica's bounds, and its batches."""

    cluster: str
    snapshot_id: str
    topic: str
    partition: int
    broker_id: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    batches: Sequence[Visibility]

    def as_json(self) -> dict[str, Any]:
        """The same in values that JSON has."""
        return {**asdict(self), "batches": [asdict(b) for b in self.batches]}

    def lines(self) -> Iterator[str]:
        """The same for people: batches next to each other of which the same is to be said are one line."""
        yield (
            f"{self.topic}-{self.partition} on broker {self.broker_id}: log start {self.log_start_offset}, last stable "
            f"offset {self.last_stable_offset}, high watermark {self.high_watermark}, log end {self.log_end_offset}"
        )
        yield f"{'offsets':>23}  {'records':>8}  {'producer':>14}  {'uncommitted':11}  {'committed':9}  why"
        for group in _alike(self.batches):
            first, last = group[0], group[-1]
            producer = "-" if first.producer_id is None else f"{first.producer_id} epoch {first.producer_epoch}"
            offsets = f"[{first.start_offset}, {last.end_offset})"
            yield (
                f"{offsets:>23}  {sum(b.records for b in group):>8}  {producer:>14}  "
                f"{_yes(first.read_uncommitted):11}  {_yes(first.read_committed):9}  {first.reason}"
                + (f"  WRONG: {first.wrong}" if first.wrong is not None else "")
            )
        yield self._total()

    def _total(self) -> str:
        counts: Counter[str] = Counter()
        for batch in self.batches:
            if batch.kind == "data":
                counts[batch.transaction or "plain"] += batch.records
        told = ", ".join(f"{counts[name]} {name}" for name in ("plain", "committed", "aborted", "open") if counts[name])
        wrong = sum(b.records for b in self.batches if b.wrong is not None)
        return f"records: {told or 'none'}" + (f"; {wrong} of them are seen otherwise than they ended" if wrong else "")


def _alike(batches: Sequence[Visibility]) -> Iterator[list[Visibility]]:
    group: list[Visibility] = []
    for batch in batches:
        if group and _told(batch) != _told(group[-1]):
            yield group
            group = []
        group.append(batch)
    if group:
        yield group


def _told(batch: Visibility) -> tuple[Any, ...]:
    return (
        batch.producer_id,
        batch.producer_epoch,
        batch.kind,
        batch.transaction_first_offset,
        batch.reason,
        batch.wrong,
    )


def _yes(seen: bool) -> str:
    return "yes" if seen else "no"


def _log_of(
    snapshot: Snapshot, files: SnapshotListing, replica: ReplicaFiles, brokers: set[int]
) -> tuple[ReplicaLog, int]:
    """One replica's log, and where it ends. `brokers`: who has a copy of the partition."""
    replay = ProducerReplay()
    first = log_end = replica.segments[0].base_offset if replica.segments else 0
    for block_end, summary in _summaries(snapshot, replica):
        replay.add(summary.events, summary.gaps)
        log_end = max(log_end, block_end)
    place = (replica.topic, replica.partition)
    log_start = max(_checkpointed(snapshot, files, LOG_START_OFFSET_CHECKPOINT, *place, {replica.broker_id}), first)
    known = _checkpointed(snapshot, files, REPLICATION_OFFSET_CHECKPOINT, *place, brokers)
    high_watermark = min(known, log_end)
    stable = last_stable_offset(
        high_watermark=high_watermark,
        first_unstable_offset=replay.first_unstable_offset(high_watermark),
        log_start_offset=log_start,
    )
    assert stable is not None, "a high watermark gives a last stable offset"
    log = ReplicaLog(
        log_start_offset=log_start,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        transactions=replay.transactions,
        aborted={
            s.base_offset: parse_transaction_index((snapshot.root / s.txnindex.path).read_bytes()).entries
            if s.txnindex is not None
            else ()
            for s in replica.segments
        },
    )
    return log, log_end


def replica_visibility(
    directory: Location,
    *,
    topic: str,
    partition: int,
    start: int = 0,
    end: int | None = None,
    broker: int | None = None,
) -> ReplicaVisibility:
    """What consumers see of [start, end). Raises `SnapshotError` if the snapshot does not have the replica."""
    snapshot = open_snapshot(directory)
    files = listing(snapshot.manifest)
    copies = {r.broker_id: r for r in files.replicas() if (r.topic, r.partition, r.state) == (topic, partition, "live")}
    if not copies:
        raise SnapshotError(f"{directory} holds no replica of {topic}-{partition}. Check the name and the partition.")
    chosen = broker if broker is not None else _leader(snapshot, files, copies, topic, partition)
    replica = next((r for b, r in copies.items() if b == chosen), None)
    if replica is None:
        raise SnapshotError(
            f"{directory} holds no replica of {topic}-{partition} of broker {chosen}; brokers "
            f"{', '.join(map(str, sorted(copies)))} have one."
        )
    log, log_end = _log_of(snapshot, files, replica, set(copies))
    last = end if end is not None else max(log_end, start)
    return ReplicaVisibility(
        cluster=snapshot.manifest.cluster,
        snapshot_id=snapshot.manifest.snapshot_id,
        topic=topic,
        partition=partition,
        broker_id=replica.broker_id,
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log_end,
        batches=tuple(visibility(log, _batches(snapshot, replica, start, last))),
    )


def _leader(
    snapshot: Snapshot, files: SnapshotListing, copies: dict[Any, ReplicaFiles], topic: str, partition: int
) -> int:
    """The leader, or the last one there was; without a metadata log the copy that goes furthest."""
    unread: list[LeftOut] = []
    named = read_metadata(snapshot.root, files, unread).history.topic_named(topic)
    state = named.partitions.get(partition) if named is not None else None
    for wanted in (state.leader_id, state.last_leader_id) if state is not None else ():
        if wanted is not None and wanted in copies:
            return wanted
    return int(max(copies, key=lambda b: (sum(s.log.log_size_bytes for s in copies[b].segments), -b)))


def _summaries(snapshot: Snapshot, replica: ReplicaFiles) -> Iterator[tuple[int, Any]]:
    """The offset after each segment, and its summary."""
    for segment in replica.segments:
        fold = SummaryFold()
        for block in _blocks(snapshot, segment.log.path):
            fold.add(block)
        summary = fold.summary()
        yield max(summary.last_offset + 1, segment.base_offset), summary


def _batches(snapshot: Snapshot, replica: ReplicaFiles, start: int, end: int) -> Iterator[NDArray[Any]]:
    bases = [s.base_offset for s in replica.segments]
    for segment, next_base in zip(replica.segments, [*bases[1:], None], strict=True):
        if segment.base_offset < end and (next_base is None or next_base > start):
            for block in _blocks(snapshot, segment.log.path):
                yield rows_between(block, start, end)


def _blocks(snapshot: Snapshot, path: str) -> Iterator[NDArray[Any]]:
    with open_bytes(snapshot.root / path) as file:
        for block in SegmentFile(path, file).blocks():
            yield block.headers


def _checkpointed(
    snapshot: Snapshot, files: SnapshotListing, name: str, topic: str, partition: int, brokers: set[Any]
) -> int:
    """The largest offset that a checkpoint of these brokers lists for the partition; 0 if none does."""
    found = [0]
    for log_dir in files.log_dirs:
        file = log_dir.files.get(name)
        if log_dir.broker_id not in brokers or file is None:
            continue
        entries = parse_offset_checkpoint((snapshot.root / file.path).read_bytes()).entries
        found += [e.offset for e in entries if (e.topic, e.partition) == (topic, partition)]
    return max(found)
