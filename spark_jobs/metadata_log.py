"""Reading the metadata log of a snapshot: which node's copy, and from where.

In: a snapshot's listing. Out: its `MetadataHistory`. The rule that must hold: the copy that reaches furthest is read,
by leader epoch first; a controller's last words that no other node has are harmless, because they only concern
itself.
"""

from collections.abc import Iterator

from kafka_log.corruption import Corruption
from kafka_log.internal_topics import CLUSTER_METADATA
from kafka_log.log_dir import log_name, parse_metadata_checkpoint
from kafka_log.metadata_records import decode_metadata_record
from snapshots.listing import ReplicaFiles, SnapshotListing
from snapshots.location import Location, open_bytes
from snapshots.manifest import LeftOut
from spark_jobs.facts.metadata import LoggedRecord, MetadataHistory, replay
from spark_jobs.segment_files import SegmentFile


def read_metadata(root: Location, files: SnapshotListing, unread: list[LeftOut]) -> MetadataHistory:
    """The history by the furthest copy of `__cluster_metadata-0`; empty if no copy can be read."""
    copies = [r for r in files.replicas() if r.topic == CLUSTER_METADATA and r.state == "live"]
    if not copies:
        return MetadataHistory()
    furthest = max(copies, key=lambda r: _reach(root, r))
    first_base = furthest.segments[0].base_offset if furthest.segments else 0
    start, snapshot = _start(root, furthest, first_base, unread)
    log = (
        logged
        for segment in furthest.segments
        for logged in _records(root, segment.log.path, unread)
        if logged.offset >= start
    )
    return replay(log, snapshot=snapshot)


def _start(
    root: Location, replica: ReplicaFiles, first_base: int, unread: list[LeftOut]
) -> tuple[int, list[LoggedRecord]]:
    """Where the replay begins, and the snapshot it begins with.

    With the head of the log gone, that is the oldest whole snapshot that reaches the log: it leaves most history to it.
    """
    if first_base == 0 and replica.segments:
        return 0, []
    candidates = []
    for file in replica.metadata_checkpoints():
        named = parse_metadata_checkpoint(file.path.rsplit("/", 1)[-1])
        if named is not None and (named.end_offset >= first_base or not replica.segments):
            candidates.append((named.end_offset, file))
    # Without a log the newest snapshot is all there is.
    for end_offset, file in candidates if replica.segments else reversed(candidates):
        before = len(unread)
        records = [
            LoggedRecord(offset=end_offset, timestamp_ms=None, record=logged.record)
            for logged in _records(root, file.path, unread)
        ]
        if len(unread) == before and records:
            return end_offset, records
    return first_base, []


def _reach(root: Location, replica: ReplicaFiles) -> tuple[int, int]:
    """(last leader epoch, log end offset) of a copy; of one without a log, those of its newest snapshot."""
    for segment in reversed(replica.segments):
        last = None
        try:
            with open_bytes(root / segment.log.path) as file:
                for block in SegmentFile(segment.log.path, file).blocks():
                    last = block.headers[-1].copy() if len(block.headers) else last
        except OSError:
            continue  # Named as unread when its segments are indexed.
        if last is not None:
            return int(last["partition_leader_epoch"]), int(last["last_offset"]) + 1
    named = [parse_metadata_checkpoint(f.path.rsplit("/", 1)[-1]) for f in replica.metadata_checkpoints()]
    return max(((n.leader_epoch, n.end_offset) for n in named if n is not None), default=(-1, 0))


def _records(root: Location, path: str, unread: list[LeftOut]) -> Iterator[LoggedRecord]:
    try:
        with open_bytes(root / path) as file:
            batches = [b for b in SegmentFile(path, file).records() if b[0]["control_type"] == -1]
    except OSError as error:
        unread.append(LeftOut(path=log_name(path), reason=f"cannot be read: {error.strerror or error}"))
        return
    bad = 0
    for _, records in batches:
        if isinstance(records, Corruption):
            bad += 1
            continue
        for record in records:
            decoded = decode_metadata_record(record.value or b"")
            if isinstance(decoded, Corruption):
                bad += 1
            else:
                yield LoggedRecord(offset=record.offset, timestamp_ms=record.timestamp, record=decoded)
    if bad:
        unread.append(LeftOut(path=log_name(path), reason=f"{bad} metadata records could not be decoded"))
