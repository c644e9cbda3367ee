"""Metadata snapshots beside the replay of the log: `<end offset>-<epoch>.checkpoint` must say what the log says.

In: each node's snapshot files, read when the replay has come to their end offset. Out: `SnapshotVerdict` for each, the
image at the log's end, and what the snapshots say of partitions' epochs, kept with the changes that left them. A
snapshot is compared with the replay of what is below its end and with nothing else; one that the replay does not pass
is not compared, and says why.

Source: SnapshotGenerator, MetadataLoader, RecordsSnapshotWriter; KIP-630.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.facts.metadata.history import LoggedRecord, MetadataHistory
from tidegauge.facts.metadata.image import PRINCIPAL_KINDS, Difference, Key, MetadataImage, differences
from tidegauge.facts.metadata.partition_change import PartitionChange

HEAD_GONE: Final = "the log that it stands for is gone"
BEGINS_WITH_IT: Final = "the replay begins with it"
BEYOND: Final = "the log in the copy ends before it"
UNREADABLE: Final = "it cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """A node's metadata snapshot, by its name."""

    node_id: int
    path: str
    end_offset: int
    leader_epoch: int
    newest: bool
    """The node has none of a larger end: it is what the node begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContents:
    """What is in the file. `whole` False: its footer is missing, or a place cannot be read."""

    records: tuple[LoggedRecord, ...]
    whole: bool
    digest: bytes
    """The same for files that hold the same records in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotVerdict:
    """A snapshot compared with the log; `reason` says why it was not. In a difference `theirs` is the snapshot's."""

    file: SnapshotFile
    whole: bool | None
    entries: int | None
    found: tuple[Difference, ...]
    reason: str | None
    after_damage: bool


class SnapshotCheck:
    """Follows a replay, keeps its image, and compares every snapshot that it passes."""

    def __init__(
        self,
        files: Iterable[SnapshotFile],
        read: Callable[[SnapshotFile], SnapshotContents | None],
        *,
        begins_with: str | None,
    ) -> None:
        self.image = MetadataImage()
        self.verdicts: list[SnapshotVerdict] = []
        self._read = read
        self._begins_with = begins_with
        self._waiting = sorted(files, key=lambda f: (-f.end_offset, -f.node_id))
        self._compared: dict[tuple[int, bytes], SnapshotVerdict] = {}

    def reached(self, history: MetadataHistory, offset: int) -> None:
        """All that is below the offset is in force."""
        while self._waiting and self._waiting[-1].end_offset <= offset:
            self.verdicts.append(self._compare(self._waiting.pop(), history))

    def in_force(self, records: tuple[LoggedRecord, ...]) -> None:
        """These came into force, together."""
        self.image.apply(records)

    def finish(self) -> None:
        """The log ends; whatever still waits is beyond it."""
        self.verdicts += [_not_compared(file, BEYOND) for file in self._waiting]
        self._waiting.clear()

    def _compare(self, file: SnapshotFile, history: MetadataHistory) -> SnapshotVerdict:
        if file.end_offset < history.start_offset or (history.start_offset > 0 and self._begins_with is None):
            return _not_compared(file, HEAD_GONE)
        if file.path == self._begins_with:
            return _not_compared(file, BEGINS_WITH_IT)
        contents = self._read(file)
        if contents is None:
            return _not_compared(file, UNREADABLE)
        known = self._compared.get((file.end_offset, contents.digest))
        if known is None or any(d.kind == "partition" for d in known.found):
            _tell_epochs(history, file, contents.records)
        if known is None:
            theirs = MetadataImage()
            theirs.apply(contents.records)
            known = SnapshotVerdict(
                file=file,
                whole=contents.whole,
                entries=len(theirs.entries),
                found=tuple(differences(self.image, theirs)),
                reason=None,
                after_damage=bool(history.damaged_offsets),
            )
            self._compared[file.end_offset, contents.digest] = known
        return replace(known, file=file, whole=contents.whole)


def _not_compared(file: SnapshotFile, reason: str) -> SnapshotVerdict:
    return SnapshotVerdict(file=file, whole=None, entries=None, found=(), reason=reason, after_damage=False)


def _tell_epochs(history: MetadataHistory, file: SnapshotFile, records: Sequence[LoggedRecord]) -> None:
    """Keeps what a snapshot says of each partition's epochs; of several that agree the newest, else who contradicts.

    Of those that contradict in the same words each is named.
    """
    for logged in records:
        if logged.record.name != "PartitionRecord":
            continue
        said = logged.record.fields
        topic = history.topics.get(str(said["topic_id"]))
        state = topic.partitions.get(int(str(said["partition_id"]))) if topic is not None else None
        if state is None:
            continue
        change, own = state.changes[-1], (file.node_id, file.path)
        partition_epoch, leader_epoch = int(str(said["partition_epoch"])), int(str(said["leader_epoch"]))
        if _contradicted(change):
            same = (change.snapshot_end_offset, change.snapshot_partition_epoch, change.snapshot_leader_epoch)
            if same == (file.end_offset, partition_epoch, leader_epoch):
                state.changes[-1] = replace(change, snapshot_files=(*change.snapshot_files, own))
            continue
        state.changes[-1] = replace(
            change,
            snapshot_end_offset=file.end_offset,
            snapshot_partition_epoch=partition_epoch,
            snapshot_leader_epoch=leader_epoch,
            snapshot_files=(own,),
        )


def _contradicted(change: PartitionChange) -> bool:
    return change.snapshot_end_offset is not None and (
        change.snapshot_partition_epoch,
        change.snapshot_leader_epoch,
    ) != (change.partition_epoch, change.leader_epoch)


def nodes_otherwise(verdicts: Iterable[SnapshotVerdict], image: MetadataImage) -> dict[Key, set[int]]:
    """Principals' and quotas' entries that nodes have otherwise, by their newest snapshot and the log behind it."""
    found: dict[Key, set[int]] = {}
    for verdict in verdicts:
        for difference in verdict.found if verdict.file.newest else ():
            key = (difference.kind, difference.name)
            # Where the log has written or removed the entry since, the node has what everybody has.
            if difference.kind in PRINCIPAL_KINDS and image.entries.get(key) is difference.ours:
                found.setdefault(key, set()).add(verdict.file.node_id)
    return found
