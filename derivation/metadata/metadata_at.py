"""The metadata image of an offset: what the cluster was then, by one node's copy of the metadata log.

In: a snapshot's listing, an offset, and a node or none. Out: `ImageAt`. An image is rebuilt from what the copy still
has (the log from its start, or one of its snapshots and the log behind it), and an offset that it no longer reaches, or
does not reach yet, is refused with what it can tell.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidegauge.derivation.metadata.metadata_log import (
    LogRead,
    furthest_copy,
    head_offset,
    log_records,
    metadata_copies,
    snapshot_contents,
    snapshot_files,
)
from tidegauge.facts.metadata.history import DamagedRecord, LoggedRecord, MetadataHistory
from tidegauge.facts.metadata.image import MetadataImage
from tidegauge.facts.metadata.replay import replay
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.listing import ReplicaFiles, SnapshotListing
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAt:
    """An image, whose copy it is of, and the snapshot file that it was begun with; None: from the log's start."""

    image: MetadataImage
    offset: int
    node_id: int
    begun_with: str | None
    damaged: bool
    """Records below the offset could not be read: what they said is missing."""


def image_at(
    root: Location, files: SnapshotListing, *, offset: int | None = None, node_id: int | None = None
) -> ImageAt:
    """Everything that is in force below an offset (by default the log's end), as a node or the furthest copy has it.

    A node has what its newest snapshot below the offset and the log behind that say; the furthest copy is replayed from
    its log's start where that is there. Raises `SnapshotError` where the offset cannot be reached.
    """
    copy = _copy(root, files, node_id)
    unread: list[LeftOut] = []
    first_offset = head_offset(root, copy)
    whole = first_offset == 0
    path, begun = None, list[LoggedRecord]()
    if not whole or node_id is not None:
        path, begun = _newest_below(root, copy, offset, unread)
    if begun:
        start = begun[0].offset
    elif whole:
        start = 0
    else:
        oldest = min((f.end_offset for f in snapshot_files(copy)), default=None)
        raise SnapshotError(
            f"Node {copy.broker_id}'s metadata log begins at offset {first_offset}, and it has no readable metadata "
            f"snapshot that ends at or below offset {offset}. "
            + (f"Ask for offset {oldest} or later." if oldest is not None else "Ask for another node.")
        )
    seen, log = _Seen(), LogRead()
    ends = [f.end_offset for each in metadata_copies(files) for f in snapshot_files(each)]
    records = _below(log_records(root, copy, unread, log, start=start), offset)
    history = replay(records, snapshot=begun, snapshot_ends=ends, observer=seen)
    end = max(log.end_offset, start)
    if offset is not None and offset > end:
        raise SnapshotError(
            f"Offset {offset} is beyond the metadata log of node {copy.broker_id}, which ends at {end}. Ask for {end} "
            "or less, or leave --at out."
        )
    return ImageAt(
        image=seen.image,
        offset=end if offset is None else offset,
        node_id=copy.broker_id,
        begun_with=path,
        damaged=bool(history.damaged_offsets),
    )


def _copy(root: Location, files: SnapshotListing, node_id: int | None) -> ReplicaFiles:
    copies = {int(copy.broker_id): copy for copy in metadata_copies(files)}
    if not copies:
        raise SnapshotError(
            "The snapshot holds no metadata log (__cluster_metadata-0). It lies in metadata.log.dir, by default the "
            "first of log.dirs: capture that, too."
        )
    if node_id is None:
        return furthest_copy(root, list(copies.values()))
    if node_id not in copies:
        raise SnapshotError(f"The snapshot holds no metadata log of node {node_id}, only of {sorted(copies)}.")
    return copies[node_id]


def _newest_below(
    root: Location, copy: ReplicaFiles, offset: int | None, unread: list[LeftOut]
) -> tuple[str | None, list[LoggedRecord]]:
    for file in reversed(snapshot_files(copy)):
        if offset is None or file.end_offset <= offset:
            contents = snapshot_contents(root, file.path, file.end_offset, unread)
            if contents is not None and contents.whole:
                return file.path, list(contents.records)
    return None, []


class _Seen:
    """Keeps the image of what has come into force."""

    def __init__(self) -> None:
        self.image = MetadataImage()

    def reached(self, history: MetadataHistory, offset: int) -> None:
        """Nothing is to be done between records."""

    def in_force(self, records: tuple[LoggedRecord, ...]) -> None:
        """These came into force, together."""
        self.image.apply(records)


def _below(log: Iterator[LoggedRecord | DamagedRecord], offset: int | None) -> Iterator[LoggedRecord | DamagedRecord]:
    """All of the log is read, so that its end is known, and what is below the offset is given on."""
    for logged in log:
        if offset is None or logged.offset < offset:
            yield logged
