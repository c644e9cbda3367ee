"""The listing: a snapshot's files as replicas, segments and checkpoints.

In: a `Manifest`. Out: `SnapshotListing`, each broker's log dirs with their replicas, each replica with its segments in
offset order. The rule that must hold: every file of the manifest is either placed or named as unread with the reason.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.log_dir import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    is_of_a_log,
    log_name,
    parse_partition_dir,
    parse_segment_file,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.local_path import LARGEST_FILE_OF_KAFKA, too_large
from tidegauge.snapshots.manifest import BrokerCapture, FileEntry, LeftOut, Manifest

_NOT_PARTITIONS = frozenset({"remote-log-index-cache"})
_CHECKPOINT_SUFFIX = ".checkpoint"
_OFFSET_CHECKPOINT = "-offset-checkpoint"
_NO_LOG = "not in the copy: each replica that a broker serves has a segment, and each index its log"
_TIER_STATE = re.compile(r"[0-9]{20}\.tierstate(\..+)?")
"""What Confluent's brokers note of their own tiered storage, beside a partition's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """One segment: its base offset and the files of that base. `log` may be the log's headers file."""

    base_offset: int
    log: FileEntry
    index: FileEntry | None
    timeindex: FileEntry | None
    txnindex: FileEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFiles:
    """One partition directory of one log dir. `state` is live, future, deleted or stray (see `kafka_log.log_dir`)."""

    broker_id: int
    log_dir: str
    directory: str
    topic: str
    partition: int
    state: str
    segments: tuple[SegmentFiles, ...]
    snapshots: tuple[tuple[int, FileEntry], ...]
    orphans: tuple[FileEntry, ...]
    other: tuple[FileEntry, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """Of which partition it is."""
        return TopicPartition(self.topic, self.partition)

    def named(self, name: str) -> FileEntry | None:
        """A file of the directory by its name."""
        path = f"{self.directory}/{name}"
        return next((f for f in self.other if f.path == path), None)

    @property
    def confluent_tier(self) -> bool:
        """Confluent's tiered storage has a part of this log, or may have: one that only its own brokers read."""
        return any(_TIER_STATE.fullmatch(f.path.rsplit("/", 1)[-1]) for f in self.other)

    def metadata_checkpoints(self) -> tuple[FileEntry, ...]:
        """`<end offset>-<epoch>.checkpoint` files of the metadata log, newest last."""
        return tuple(
            sorted((f for f in self.other if f.path.endswith(_CHECKPOINT_SUFFIX)), key=lambda f: f.path.split("/")[-1])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirListing:
    """One log dir: its own files (checkpoints, meta.properties, …) by name, and its partition directories."""

    broker_id: int
    name: str
    directory: str
    files: dict[str, FileEntry]
    replicas: tuple[ReplicaFiles, ...]

    @property
    def clean_shutdown(self) -> bool:
        """The broker's marker of a clean stop is there; it is removed when the broker starts again."""
        return CLEAN_SHUTDOWN in self.files

    @property
    def has_epoch_checkpoints(self) -> bool:
        """Some replica here has its leader-epoch-checkpoint: where one has none, the copying did not leave it out."""
        return any(r.named(LEADER_EPOCH_CHECKPOINT) is not None for r in self.replicas if r.state == "live")

    @property
    def has_producer_snapshots(self) -> bool:
        """Some replica here has a producer snapshot: where one has none, the copying did not leave it out."""
        return any(r.snapshots for r in self.replicas if r.state == "live")

    @property
    def only_metadata(self) -> bool:
        """Nothing lies here but the metadata log: a metadata.log.dir of its own, or a controller's that is no broker.

        A broker writes its checkpoints into each of its log.dirs when it starts (LogManager, ReplicaManager), and its
        marker of a clean stop there and nowhere else; it registers the ids of log.dirs only (BrokerServer).
        """
        return {r.topic for r in self.replicas} == {CLUSTER_METADATA} and not self._has_files_of_a_broker

    @property
    def unused(self) -> bool:
        """Nothing lies here that a broker writes: a metadata.log.dir, too, whose metadata log was not copied."""
        return not self.replicas and not self._has_files_of_a_broker

    @property
    def _has_files_of_a_broker(self) -> bool:
        return CLEAN_SHUTDOWN in self.files or any(name.endswith(_OFFSET_CHECKPOINT) for name in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotListing:
    """All log dirs of all brokers, and what was not read."""

    log_dirs: tuple[LogDirListing, ...]
    unread: tuple[LeftOut, ...]
    _by_broker: dict[int, list[LogDirListing]] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Who asks for each broker's does not look at those of all: a manifest may name a million."""

    def __post_init__(self) -> None:
        """Sorts the log dirs by broker."""
        for log_dir in self.log_dirs:
            self._by_broker.setdefault(log_dir.broker_id, []).append(log_dir)

    def replicas(self) -> Iterable[ReplicaFiles]:
        """Every live or future replica, the metadata log included."""
        for log_dir in self.log_dirs:
            for replica in log_dir.replicas:
                if replica.state in ("live", "future"):
                    yield replica

    def unread_logs(self) -> dict[str, tuple[int, ...]]:
        """Partition directory -> base offsets of its segments whose log is not in the copy, or was not read."""
        found: dict[str, list[int]] = {}
        for left_out in self.unread:
            if (log := _unread_log(left_out)) is not None:
                found.setdefault(log[0], []).append(log[1])
        return {directory: tuple(bases) for directory, bases in found.items()}

    def of_broker(self, broker_id: int) -> tuple[LogDirListing, ...]:
        """One broker's log dirs."""
        return tuple(self._by_broker.get(broker_id, ()))


def listing(manifest: Manifest) -> SnapshotListing:
    """Places every file of a manifest."""
    log_dirs: list[LogDirListing] = []
    unread: list[LeftOut] = list(manifest.left_out)
    for broker in manifest.brokers:
        for log_dir, files in broker.by_log_dir().items():
            log_dirs.append(_log_dir(broker, log_dir, files, unread))
    named = {log for left_out in unread if (log := _unread_log(left_out)) is not None}
    for replica in (r for d in log_dirs for r in d.replicas if r.state in ("live", "future")):
        unread += [
            LeftOut(path=f"{replica.directory}/{base:020d}.log", reason=_NO_LOG)
            for base in _bases_without_log(replica)
            if (replica.directory, base) not in named
        ]
    return SnapshotListing(log_dirs=tuple(log_dirs), unread=tuple(unread))


def has_replicas(broker: BrokerCapture) -> bool:
    """Whether there is a file of a log anywhere in a node's log dirs."""
    return any(_is_in_a_log(path) for files in broker.by_log_dir().values() for path in files)


def _is_in_a_log(path: str) -> bool:
    directory, _, name = path.partition("/")
    return is_of_a_log(name) and parse_partition_dir(directory) is not None


def only_metadata(broker: BrokerCapture) -> bool:
    """A node whose log dirs hold the metadata log and nothing else: most likely a controller that is no broker."""
    log_dirs = broker.by_log_dir().items()
    return bool(broker.log_dirs) and all(_log_dir(broker, name, files, []).only_metadata for name, files in log_dirs)


def counted(manifest: Manifest) -> str:
    """How many brokers a snapshot has, and controllers that are none, in words."""
    controllers = sum(only_metadata(node) for node in manifest.brokers)
    words = f"{len(manifest.brokers) - controllers} brokers"
    return f"{words} and {controllers} controllers" if controllers else words


def _log_dir(broker: BrokerCapture, name: str, files: Mapping[str, FileEntry], unread: list[LeftOut]) -> LogDirListing:
    directory = broker.directory if name == "." else f"{broker.directory}/{name}"
    own: dict[str, FileEntry] = {}
    by_partition: dict[str, list[FileEntry]] = {}
    for path, file in files.items():
        parts = path.split("/")
        if (size := file.size_bytes + file.zeros_behind) > LARGEST_FILE_OF_KAFKA:
            unread.append(LeftOut(path=file.path, reason=f"cannot be read: {too_large(size)}"))
        elif len(parts) == 1:
            own[parts[0]] = file
        elif parts[0] in _NOT_PARTITIONS:
            continue
        elif len(parts) == 2:
            by_partition.setdefault(parts[0], []).append(file)
        else:
            unread.append(LeftOut(path=file.path, reason="deeper than a partition directory"))
    # A partition directory may hold no file at all; then only the log dir's own listing would know, and it has
    # nothing to read.
    replicas = []
    for partition_dir, of_partition in sorted(by_partition.items()):
        parsed = parse_partition_dir(partition_dir)
        if parsed is None:
            unread.extend(LeftOut(path=f.path, reason="not in a partition directory") for f in of_partition)
            continue
        replicas.append(
            _replica(
                of_partition,
                broker_id=broker.broker_id,
                log_dir=name,
                directory=f"{directory}/{partition_dir}",
                topic=parsed.topic,
                partition=parsed.partition,
                state=parsed.state,
                unread=unread,
            )
        )
    return LogDirListing(
        broker_id=broker.broker_id, name=name, directory=directory, files=own, replicas=tuple(replicas)
    )


def _replica(
    files: list[FileEntry],
    *,
    broker_id: int,
    log_dir: str,
    directory: str,
    topic: str,
    partition: int,
    state: str,
    unread: list[LeftOut],
) -> ReplicaFiles:
    by_base: dict[int, dict[str, FileEntry]] = {}
    snapshots: list[tuple[int, FileEntry]] = []
    other: list[FileEntry] = []
    for file in files:
        name = file.path.rsplit("/", 1)[-1]
        parsed = parse_segment_file(name)
        if parsed is None:
            other.append(file)
            if name.endswith((".log", ".headers", ".index", ".timeindex", ".txnindex", ".snapshot")):
                unread.append(LeftOut(path=file.path, reason="its name is not that of a Kafka segment file"))
        elif parsed.suffix:
            other.append(file)
        elif parsed.kind == "snapshot":
            snapshots.append((parsed.base_offset, file))
        else:
            kind = "log" if parsed.kind == "headers" else parsed.kind
            of_base = by_base.setdefault(parsed.base_offset, {})
            if kind in of_base:
                unread.append(LeftOut(path=file.path, reason="the snapshot holds both this log and its headers file"))
            else:
                of_base[kind] = file
    segments = tuple(
        SegmentFiles(
            base_offset=base,
            log=of_base["log"],
            index=of_base.get("index"),
            timeindex=of_base.get("timeindex"),
            txnindex=of_base.get("txnindex"),
        )
        for base, of_base in sorted(by_base.items())
        if "log" in of_base
    )
    orphans = tuple(f for of_base in by_base.values() if "log" not in of_base for f in of_base.values())
    return ReplicaFiles(
        broker_id=broker_id,
        log_dir=log_dir,
        directory=directory,
        topic=topic,
        partition=partition,
        state=state,
        segments=segments,
        snapshots=tuple(sorted(snapshots, key=lambda s: s[0])),
        orphans=orphans,
        other=tuple(other),
    )


def _bases_without_log(replica: ReplicaFiles) -> list[int]:
    """Segments that a broker has of which the copy has no log.

    It makes a segment's log before its indexes (LogSegment#open), and the first segment before anything else.
    """
    last = replica.segments[-1].base_offset if replica.segments else -1
    parsed = (parse_segment_file(log_name(file.path).rsplit("/", 1)[-1]) for file in replica.orphans)
    bases = sorted({segment.base_offset for segment in parsed if segment is not None and segment.base_offset > last})
    return bases or ([] if replica.segments else [0])


def _unread_log(left_out: LeftOut) -> tuple[str, int] | None:
    """The directory and the base offset of a segment in use whose log was left out."""
    directory, _, name = left_out.path.rpartition("/")
    parsed = parse_segment_file(log_name(name))
    if parsed is None or parsed.kind != "log" or parsed.suffix:
        return None
    return directory, parsed.base_offset
