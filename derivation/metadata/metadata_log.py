"""Reading the metadata logs of a snapshot: what they tell together, and what each node itself knew.

In: a snapshot's listing. Out: `MetadataRead`: the history, the image at its end, up to where each node's own copy
reaches, and what each node's snapshot files say. The copy that reaches furthest is read, by leader epoch first; what is
gone from its head is read from copies that still have it, as far back as they join without a hole. A copy that ends
before that is a history of its own (`islands`): over a hole nothing can be replayed.

A controller's last words that no other node has are harmless, because they only concern itself.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegauge.derivation.files.segment_files import BatchRecords, SegmentFile
from tidegauge.facts.metadata.history import DamagedRecord, LogFiles, LoggedRecord, MetadataHistory
from tidegauge.facts.metadata.image import MetadataImage
from tidegauge.facts.metadata.replay import replay
from tidegauge.facts.metadata.rows import QuorumLeader
from tidegauge.facts.metadata.snapshot_check import SnapshotCheck, SnapshotContents, SnapshotFile, SnapshotVerdict
from tidegauge.facts.metadata.transactions import TransactionMarks
from tidegauge.kafka_log.allowance import Allowance, of_internal_topic
from tidegauge.kafka_log.control import LeaderChange, SnapshotFooter, decode_control_record
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.log_dir import log_name, parse_metadata_checkpoint
from tidegauge.kafka_log.metadata_records import decode_metadata_record
from tidegauge.kafka_log.records import Record
from tidegauge.snapshots.listing import ReplicaFiles, SnapshotListing
from tidegauge.snapshots.location import Location, open_bytes
from tidegauge.snapshots.manifest import FileEntry, LeftOut


@dataclass(slots=True, kw_only=True)
class LogRead:
    """What a copy of the log told beside its records, up to where it was read."""

    leaders: list[QuorumLeader] = field(default_factory=list)
    transactions: TransactionMarks = field(default_factory=TransactionMarks)
    undecoded: int = 0
    end_offset: int = 0
    """Offset after the last batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRead:
    """The metadata by the furthest copy, and by others where its head is gone. `node_id` None: no copy can be read.

    `known_until`: node -> the offset up to which its own copy tells the same history. `islands`: node -> its own
    history, of nodes whose copies end before `history` begins.
    """

    history: MetadataHistory
    image: MetadataImage
    node_id: int | None
    log: LogRead
    snapshots: tuple[SnapshotVerdict, ...]
    known_until: Mapping[int, int] = field(default_factory=dict)
    islands: Mapping[int, MetadataHistory] = field(default_factory=dict)

    @property
    def own_copies(self) -> frozenset[int]:
        """Nodes whose own copies are at hand."""
        return frozenset((*self.known_until, *self.islands))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """From where a copy's log tells, how far, and the leader epoch there. Without a log: its newest snapshot's.

    `has_log`: a batch of it can be read; `start_offset` is that of the first that can.
    """

    start_offset: int
    leader_epoch: int
    end_offset: int
    has_log: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A stretch of the log, and the copy that it is read from. No end: to the copy's."""

    copy: ReplicaFiles
    start_offset: int
    end_offset: int | None


def metadata_copies(files: SnapshotListing) -> list[ReplicaFiles]:
    """Every node's copy of `__cluster_metadata-0`."""
    return [r for r in files.replicas() if r.topic == CLUSTER_METADATA and r.state == "live"]


def read_metadata(root: Location, files: SnapshotListing, unread: list[LeftOut]) -> MetadataRead:
    """The history by the furthest copy of `__cluster_metadata-0`; empty if no copy can be read."""
    copies = metadata_copies(files)
    if not copies:
        return MetadataRead(
            history=MetadataHistory(captured=False), image=MetadataImage(), node_id=None, log=LogRead(), snapshots=()
        )
    reaches = {id(copy): _reach(root, copy) for copy in copies}
    furthest = _furthest(copies, reaches)
    pieces = _pieces(copies, furthest, reaches)
    first = pieces[0].start_offset
    path, snapshot = _starting_snapshot(root, pieces[0].copy, reaches[id(pieces[0].copy)], unread)
    start = snapshot[0].offset if snapshot else first
    ends = [f.end_offset for copy in copies for f in snapshot_files(copy)]
    log = LogRead(transactions=TransactionMarks(snapshot_ends=ends))
    log.transactions.begins_with([logged.record for logged in snapshot])
    records = _read_pieces(root, pieces, unread, log, start=start)

    def read(file: SnapshotFile) -> SnapshotContents | None:
        return snapshot_contents(root, file.path, file.end_offset, unread)

    check = SnapshotCheck([f for copy in copies for f in snapshot_files(copy)], read, begins_with=path)
    history = replay(records, snapshot=snapshot, start_offset=start, snapshot_ends=ends, observer=check)
    # Without its head, and without a snapshot that stands for it, nothing in it has a place.
    history.captured = bool(snapshot) or (start == 0 and log.end_offset > 0)
    check.finish()
    lost = [c for c in copies if c is not furthest and reaches[id(c)].end_offset < first]
    history.files = LogFiles(
        node_id=furthest.broker_id,
        segments=tuple((s.base_offset, log_name(s.log.path)) for s in furthest.segments),
        begun_with=path,
    )
    return MetadataRead(
        history=history,
        image=check.image,
        node_id=furthest.broker_id,
        log=log,
        snapshots=tuple(check.verdicts),
        known_until={c.broker_id: _shared_end(reaches[id(c)], log.leaders) for c in copies if c not in lost},
        islands={c.broker_id: _island(root, c, reaches[id(c)], unread) for c in lost if reaches[id(c)].end_offset > 0},
    )


def _island(root: Location, copy: ReplicaFiles, reach: _Reach, unread: list[LeftOut]) -> MetadataHistory:
    """A copy's own history."""
    _, snapshot = _starting_snapshot(root, copy, reach, unread)
    start = snapshot[0].offset if snapshot else reach.start_offset
    return replay(
        log_records(root, copy, unread, LogRead(), start=start),
        snapshot=snapshot,
        start_offset=start,
        snapshot_ends=[f.end_offset for f in snapshot_files(copy)],
    )


def _pieces(
    copies: Sequence[ReplicaFiles], furthest: ReplicaFiles, reaches: Mapping[int, _Reach]
) -> tuple[_Piece, ...]:
    """The furthest copy's log, and before it what other copies still have of the head that it lacks."""
    pieces = [_Piece(copy=furthest, start_offset=reaches[id(furthest)].start_offset, end_offset=None)]
    while (start := pieces[0].start_offset) > 0:
        older = [c for c in copies if reaches[id(c)].start_offset < start <= reaches[id(c)].end_offset]
        if not older:
            break
        reaching = min(older, key=lambda c: reaches[id(c)].start_offset)
        pieces.insert(0, _Piece(copy=reaching, start_offset=reaches[id(reaching)].start_offset, end_offset=start))
    return tuple(pieces)


def _read_pieces(
    root: Location, pieces: Sequence[_Piece], unread: list[LeftOut], log: LogRead, *, start: int
) -> Iterator[LoggedRecord | DamagedRecord]:
    for piece in pieces:
        yield from log_records(root, piece.copy, unread, log, start=start, end=piece.end_offset)


def _shared_end(reach: _Reach, leaders: Sequence[QuorumLeader]) -> int:
    """Up to where a copy tells what the whole log does: a deposed controller's last words are not in it."""
    later = (leader.offset for leader in leaders if leader.leader_epoch > reach.leader_epoch)
    return min((reach.end_offset, *later))


def furthest_copy(root: Location, copies: Sequence[ReplicaFiles]) -> ReplicaFiles:
    """The copy that reaches furthest; of several the one whose log reaches back furthest."""
    return _furthest(copies, {id(copy): _reach(root, copy) for copy in copies})


def _furthest(copies: Sequence[ReplicaFiles], reaches: Mapping[int, _Reach]) -> ReplicaFiles:
    def rank(copy: ReplicaFiles) -> tuple[int, int, int]:
        reach = reaches[id(copy)]
        return reach.leader_epoch, reach.end_offset, -reach.start_offset

    return max(copies, key=rank)


def snapshot_files(copy: ReplicaFiles) -> list[SnapshotFile]:
    """A copy's snapshots, oldest first, but for the one that it was formatted with, which is no snapshot of a log."""
    named = [(parse_metadata_checkpoint(f.path.rsplit("/", 1)[-1]), f) for f in copy.metadata_checkpoints()]
    found = [(n, f) for n, f in named if n is not None and n.end_offset > 0]
    return [
        SnapshotFile(
            node_id=copy.broker_id,
            path=f.path,
            end_offset=n.end_offset,
            leader_epoch=n.leader_epoch,
            newest=at == len(found) - 1,
        )
        for at, (n, f) in enumerate(found)
    ]


def _starting_snapshot(
    root: Location, replica: ReplicaFiles, reach: _Reach, unread: list[LeftOut]
) -> tuple[str | None, list[LoggedRecord]]:
    """The snapshot that a replay begins with, and its path; none where the log is whole.

    With the head of the log gone, that is the oldest whole snapshot that reaches the log: it leaves most history to it.
    """
    if reach.start_offset == 0 and reach.has_log:
        return None, []
    candidates = [f for f in snapshot_files(replica) if f.end_offset >= reach.start_offset or not reach.has_log]
    # Without a log the newest snapshot is all there is.
    for file in candidates if reach.has_log else reversed(candidates):
        contents = snapshot_contents(root, file.path, file.end_offset, unread)
        if contents is not None and contents.whole and contents.records:
            return file.path, list(contents.records)
    return None, []


def snapshot_contents(root: Location, path: str, end_offset: int, unread: list[LeftOut]) -> SnapshotContents | None:
    """The records of a snapshot file, each at the snapshot's end offset; None if it cannot be opened."""
    contents = _Contents(end_offset)
    try:
        with open_bytes(root / path) as file:
            for row, records in SegmentFile(path, file).records(contents.allowance):
                contents.add(row, records)
    except OSError as error:
        unread.append(LeftOut(path=log_name(path), reason=f"cannot be read: {error.strerror or error}"))
        return None
    if contents.bad:
        _name_undecoded(unread, path, contents.bad)
    return SnapshotContents(
        records=tuple(contents.found),
        whole=contents.footer and not contents.bad,
        digest=contents.digest.digest(),
    )


class _Contents:
    """What a snapshot file holds, batch by batch."""

    def __init__(self, end_offset: int) -> None:
        self._end_offset = end_offset
        self.allowance = of_internal_topic()
        self.digest = hashlib.sha256()
        self.found: list[LoggedRecord] = []
        self.bad = 0
        self.footer = False

    def add(self, row: np.void, records: tuple[Record, ...] | Corruption) -> None:
        if isinstance(records, Corruption):
            self.bad += 1
            return
        for record in records:
            if row["control_type"] != -1:
                self.footer = isinstance(decode_control_record(record, allowance=self.allowance), SnapshotFooter)
                continue
            decoded = decode_metadata_record(record.value or b"", allowance=self.allowance)
            self.digest.update(hashlib.sha256(record.value or b"").digest())
            if isinstance(decoded, Corruption):
                self.bad += 1
            else:
                self.found.append(LoggedRecord(offset=self._end_offset, timestamp_ms=None, record=decoded))


def log_records(
    root: Location,
    replica: ReplicaFiles,
    unread: list[LeftOut],
    log: LogRead,
    *,
    start: int = 0,
    end: int | None = None,
) -> Iterator[LoggedRecord | DamagedRecord]:
    """A copy's records from an offset on, up to another one, and where some cannot be read; the rest of what it tells
    goes to `log`.
    """
    expected: int | None = None
    for segment in replica.segments:
        before, allowance = log.undecoded, of_internal_topic()
        for row, records in _batches(root, segment.log, unread, allowance):
            base, last = int(row["base_offset"]), int(row["last_offset"])
            if end is not None and base >= end:
                break
            if expected is not None and base > expected:
                log.transactions.damaged()
                if base > start:
                    yield DamagedRecord(offset=expected)
            expected = log.end_offset = last + 1
            if isinstance(records, Corruption):
                log.undecoded += 1
                log.transactions.damaged()
                yield DamagedRecord(offset=base)
                continue
            for record in records:
                if row["control_type"] != -1:
                    control = decode_control_record(record, allowance=allowance)
                    if isinstance(control, LeaderChange):
                        epoch = int(row["partition_leader_epoch"])
                        log.leaders.append(QuorumLeader(offset=record.offset, leader_epoch=epoch, change=control))
                        log.transactions.leader_changed()
                    continue
                decoded = decode_metadata_record(record.value or b"", allowance=allowance)
                if isinstance(decoded, Corruption):
                    log.undecoded += 1
                    yield DamagedRecord(offset=record.offset)
                elif record.offset >= start:
                    log.transactions.record(record.offset, decoded)
                    yield LoggedRecord(
                        offset=record.offset, timestamp_ms=record.timestamp, record=decoded, batch_offset=base
                    )
        if log.undecoded > before:
            _name_undecoded(unread, segment.log.path, log.undecoded - before)


def _batches(root: Location, log: FileEntry, unread: list[LeftOut], allowance: Allowance) -> Iterator[BatchRecords]:
    """A segment's batches; where it cannot be read on, the next segment's first one tells that some are missing."""
    try:
        with open_bytes(root / log.path) as file:
            yield from SegmentFile(log.path, file, log.size_bytes).records(allowance)
    except OSError as error:
        unread.append(LeftOut(path=log_name(log.path), reason=f"cannot be read: {error.strerror or error}"))


def _name_undecoded(unread: list[LeftOut], path: str, count: int) -> None:
    unread.append(LeftOut(path=log_name(path), reason=f"{count} metadata records could not be decoded"))


def _reach(root: Location, replica: ReplicaFiles) -> _Reach:
    for segment in reversed(replica.segments):
        last = None
        try:
            with open_bytes(root / segment.log.path) as file:
                for block in SegmentFile(segment.log.path, file).blocks():
                    last = block.headers[-1].copy() if len(block.headers) else last
        except OSError:
            continue  # Named as unread when its segments are indexed.
        if last is not None:
            epoch, end = int(last["partition_leader_epoch"]), int(last["last_offset"]) + 1
            return _Reach(
                start_offset=head_offset(root, replica) or 0, leader_epoch=epoch, end_offset=end, has_log=True
            )
    named = snapshot_files(replica)
    epoch, end = (named[-1].leader_epoch, named[-1].end_offset) if named else (-1, 0)
    return _Reach(start_offset=end, leader_epoch=epoch, end_offset=end, has_log=False)


def head_offset(root: Location, copy: ReplicaFiles) -> int | None:
    """Where the first batch of a copy that can be read begins; None without one."""
    for segment in copy.segments:
        try:
            with open_bytes(root / segment.log.path) as file:
                for block in SegmentFile(segment.log.path, file, segment.log.size_bytes).blocks():
                    if len(block.headers):
                        return int(block.headers[0]["base_offset"])
        except OSError:
            continue  # Named as unread when its segments are indexed.
    return None
