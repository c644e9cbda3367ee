"""The remote store's files beside a snapshot, as a tier that keeps them in a directory leaves them.

In: `<snapshot>/remote-storage/`, wherever in it the tier's own folders lie. Out: for each remote segment its files, and
what is wrong with them. A snapshot without that folder says nothing of the remote store, and a file that cannot be read
is damaged, not missing.

    <topic>-<partition>-<topic id>/<base offset, 20 digits>-<segment id>.<kind>          (LocalTieredStorage, KIP-405)

A segment has a log, an index, a timeindex, a snapshot and a leader_epoch_checkpoint; a txnindex only where a
transaction was aborted in it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tidegauge.facts.cleanup.remote_tier import COPY_FINISHED, DamagedFile, RemoteObject
from tidegauge.facts.replicas.derived_files import SegmentIndexCheck
from tidegauge.kafka_log.checkpoints import LeaderEpochCheckpoint, parse_leader_epoch_checkpoint
from tidegauge.kafka_log.coordinator_records import RemoteSegment
from tidegauge.kafka_log.indexes import parse_offset_index, parse_time_index
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshot, parse_producer_snapshot
from tidegauge.kafka_log.scan import scan_batches
from tidegauge.kafka_log.transaction_index import TransactionIndex, parse_transaction_index
from tidegauge.snapshots.holes import HoledFile
from tidegauge.snapshots.location import Location, open_bytes

STORE: Final = "remote-storage"
REQUIRED: Final = ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint")
_OBJECT: Final = re.compile(
    r"(?:.*/)?[^/]+-[0-9]+-[A-Za-z0-9_-]{22}/[0-9]{20}-([A-Za-z0-9_-]{22})"
    r"\.(log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)"
)

Stored = Mapping[str, Mapping[str, str]]
"""By segment id: kind of file -> path below the snapshot."""


def stored_files(root: Location) -> Stored | None:
    """What the remote store holds; None if the snapshot does not have it."""
    store = root / STORE
    if not store.is_dir():
        return None
    found: dict[str, dict[str, str]] = {}
    for path in _paths(store):
        match = _OBJECT.fullmatch(path)
        if match is not None:
            found.setdefault(match[1], {})[match[2]] = f"{STORE}/{path}"
    return found


def _paths(store: Location) -> Iterable[str]:
    if isinstance(store, Path):
        return (p.relative_to(store).as_posix() for p in sorted(store.rglob("*")) if p.is_file() and not p.is_symlink())
    return store.sizes_below()


def remote_objects(root: Location, segments: Iterable[RemoteSegment], stored: Stored) -> Mapping[str, RemoteObject]:
    """The objects of copied segments, each read once."""
    return {s.segment_id: _object(root, s, stored.get(s.segment_id, {})) for s in segments if s.state == COPY_FINISHED}


def _object(root: Location, segment: RemoteSegment, files: Mapping[str, str]) -> RemoteObject:
    return RemoteObject(
        missing_files=tuple(kind for kind in REQUIRED if kind not in files),
        damages=tuple(
            DamagedFile(kind=kind, path=path, detail=detail) for kind, path, detail in _damages(root, segment, files)
        ),
    )


def _damages(root: Location, segment: RemoteSegment, files: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    data: dict[str, bytes] = {}
    for kind, path in files.items():
        try:
            data[kind] = (root / path).read_bytes() if kind != "log" else b""
        except OSError as error:
            yield kind, path, f"cannot be read: {error.strerror or error}"
    base, size = segment.start_offset or 0, segment.size_bytes or 0
    offsets = times = None
    if "index" in data:
        offsets = parse_offset_index(data["index"], base_offset=base, log_size_bytes=size, active=False)
    if "timeindex" in data:
        times = parse_time_index(data["timeindex"], base_offset=base, active=False)
    if "log" in data:
        check = SegmentIndexCheck(offsets, times, tail_may_be_stale=False)
        yield from (("log", files["log"], detail) for detail in _log_damages(root, segment, files["log"], check))
        for facts in check.finish(sealed=True):
            if facts is not None and (facts.form_errors or facts.pointer_errors):
                yield facts.kind, files[facts.kind], str(facts.damages[0]["detail"])
    parsers: Mapping[str, Callable[[bytes], ProducerSnapshot | LeaderEpochCheckpoint | TransactionIndex]] = {
        "snapshot": parse_producer_snapshot,
        "leader_epoch_checkpoint": parse_leader_epoch_checkpoint,
        "txnindex": parse_transaction_index,
    }
    for kind, parse in parsers.items():
        if kind in data:
            corruptions = parse(data[kind]).corruptions
            if corruptions:
                yield kind, files[kind], corruptions[0].detail


def _log_damages(root: Location, segment: RemoteSegment, path: str, check: SegmentIndexCheck) -> Iterator[str]:
    """Reads the log through, past the check of its indexes."""
    first = last = None
    try:
        with open_bytes(root / path) as file:
            source = HoledFile(file)
            for block in scan_batches(source.readinto, pass_zeros=source.pass_zeros):
                check.add(block.headers)
                yield from (c.detail for c in block.corruptions)
                if len(block.headers):
                    first = int(block.headers[0]["base_offset"]) if first is None else first
                    last = int(block.headers[-1]["last_offset"])
    except OSError as error:
        yield f"cannot be read: {error.strerror or error}"
        return
    if segment.start_offset is None or segment.end_offset is None or first is None or last is None:
        return
    if first < segment.start_offset or last != segment.end_offset - 1:
        yield (
            f"it holds offsets {first} to {last}; its metadata say {segment.start_offset} to {segment.end_offset - 1}"
        )
