"""One broker's share of a capture: what is read when.

In: a broker's log dirs. Out: its `BrokerCapture`. The rules that must hold, for they decide which alarms would be
false: the metadata log first, and again last; checkpoints and epochs before any log of the broker; a marker of a
clean stop is kept only if it was there all the time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidegauge.kafka_log.log_dir import CLEAN_SHUTDOWN, parse_partition_dir
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.copying import Meter
from tidegauge.snapshots.file_taking import GONE, NONE_HELD, Taker, Way
from tidegauge.snapshots.leaders import Leaders
from tidegauge.snapshots.local_path import really
from tidegauge.snapshots.manifest import BrokerCapture, FileEntry, LeftOut, LogDir
from tidegauge.snapshots.metadata_copies import leaders_of
from tidegauge.snapshots.other_directories import METADATA_DIR
from tidegauge.snapshots.partition_taking import Partition, take_partition, take_small_files
from tidegauge.snapshots.reuse import Earlier, Journal, same_topic
from tidegauge.snapshots.source_files import Seen, SourceDirectory, gone, log_directory
from tidegauge.snapshots.sources import BrokerSource, LogDirSource
from tidegauge.snapshots.target import Target

_LOCK = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory:
    """A partition directory of the broker that is to be taken."""

    topic: str
    partition: int
    state: str
    name: str
    at: "_LogDirCopy"


@dataclass(slots=True, kw_only=True)
class _LogDirCopy:
    source: LogDirSource
    taker: Taker
    partitions: dict[str, Partition] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)
    clean_shutdown: Seen | None = None


class BrokerCopy:
    """Takes a broker, step by step, in the order of the methods."""

    def __init__(
        self,
        source: BrokerSource,
        *,
        target: Target,
        way: Way,
        meter: Meter,
        earlier: Earlier | None,
        journal: Journal,
        note: Callable[[FileEntry], None],
        reread: bool,
    ) -> None:
        self.source = source
        self._meter = meter
        self._started_at_ms = meter.now_ms()
        self._dirs = []
        for log_dir in source.log_dirs:
            folder = "" if log_dir.name == "." else f"{log_dir.name}/"
            taker = Taker(
                prefix=f"{source.directory}/{folder}",
                way=way,
                target=target,
                meter=meter,
                held_root=earlier.root if earlier is not None else None,
                own=journal.files,
                reread=reread,
                journal=note,
            )
            self._dirs.append(_LogDirCopy(source=log_dir, taker=taker))
        self._earlier = earlier
        self._target = target
        # A metadata.log.dir may have the log dirs below it, which are taken for themselves.
        own = [really(log_dir.path) for log_dir in source.log_dirs]
        self._around = {around for path in own for around in (path, *path.parents)}

    def metadata(self) -> None:
        """The metadata log. Called again at the end, it takes what has been added."""
        for at in self._dirs:
            for directory in _metadata_directory(at):
                partition = at.partitions.get(METADATA_DIR)
                if partition is None:
                    partition = at.partitions[METADATA_DIR] = Partition(path=METADATA_DIR, inode=directory.inode)
                    take_small_files(at.taker, directory, partition)
                    self._meter.taken()
                take_partition(at.taker, directory, partition)

    def leaders(self) -> Leaders:
        """What this broker's metadata log says of leaders."""
        found = [leaders_of(directory, self._meter) for at in self._dirs for directory in _metadata_directory(at)]
        return max(found, key=lambda leaders: leaders.reach, default=Leaders())

    def before(self) -> None:
        """All checkpoints of the broker, then every partition's epochs."""
        for at in self._dirs:
            with log_directory(at.source.path) as log_dir:
                names = log_dir.names()
                for name in sorted(names, key=lambda n: (not n.endswith("-offset-checkpoint"), n)):
                    if really(at.source.path) / name not in self._around:
                        self._before(at, log_dir, name)
        for at in self._dirs:
            with log_directory(at.source.path) as log_dir:
                for name, partition in at.partitions.items():
                    if name != METADATA_DIR:
                        self._small_files(at, log_dir, partition)

    def partition_directories(self) -> list[PartitionDirectory]:
        """The partitions to take next: live ones and those that are being moved to another log dir."""
        return [
            PartitionDirectory(topic=parsed.topic, partition=parsed.partition, state=parsed.state, name=name, at=at)
            for at in self._dirs
            for name in at.partitions
            if name != METADATA_DIR and (parsed := parse_partition_dir(name)) is not None
        ]

    def take(self, place: PartitionDirectory) -> None:
        """One partition."""
        taker, partition = place.at.taker, place.at.partitions[place.name]
        with log_directory(place.at.source.path) as log_dir:
            try:
                directory = log_dir.directory(place.name)
            except OSError as error:
                taker.leave_directory(place.name, GONE if gone(error) else f"cannot be read: {error.strerror or error}")
                taker.drop_directory(place.name)
                return
        with directory:
            if directory.inode != partition.inode:
                # The checkpoints that have been read are the old one's.
                taker.leave_directory(place.name, "deleted and made anew while the broker was read")
                taker.drop_directory(place.name)
                return
            held = self._earlier.of(place.at.source) if self._earlier is not None else {}
            shown = taker.way.shown(place.name)
            metadata = taker.entry(f"{place.name}/partition.metadata")
            same = same_topic(held, shown, metadata)
            take_partition(taker, directory, partition, held=held if same else NONE_HELD)
            self._meter.taken()

    def rest(self) -> None:
        """All else: directories that wait to be removed, caches; and partitions that have come meanwhile."""
        for at in self._dirs:
            with log_directory(at.source.path) as log_dir:
                for name in at.rest:
                    _take_tree(at.taker, log_dir, name, name)
        for place in self._new_partition_directories():
            with log_directory(place.at.source.path) as log_dir:
                self._small_files(place.at, log_dir, place.at.partitions[place.name])
            self.take(place)

    def finish(self, *, rack: str | None) -> tuple[BrokerCapture, tuple[LeftOut, ...]]:
        """The broker's share of the manifest; what lies in its folder and is not in it is removed."""
        for at in self._dirs:
            with log_directory(at.source.path) as log_dir:
                if at.clean_shutdown is not None and log_dir.seen(CLEAN_SHUTDOWN) != at.clean_shutdown:
                    at.taker.drop(CLEAN_SHUTDOWN)
                    at.taker.leave(CLEAN_SHUTDOWN, "the broker was started while it was read")
        entries = [e for at in self._dirs for e in at.taker.entries.values()]
        named = {e.path for e in entries}
        for path in self._target.files(self.source.directory):
            if path not in named:
                self._target.remove(path)
        safe = {path for at in self._dirs for path in at.taker.safe}
        self._target.sync(sorted(named - safe))
        self._target.sync_names(named)
        capture = BrokerCapture(
            broker_id=self.source.broker_id,
            directory=self.source.directory,
            rack=rack,
            log_dirs=tuple(LogDir(name=d.name, directory_id=d.directory_id) for d in self.source.log_dirs),
            read_started_at_ms=self._started_at_ms,
            read_finished_at_ms=self._meter.now_ms(),
            files=tuple(sorted(entries, key=lambda e: e.path)),
        )
        left_out = (x for at in self._dirs for x in at.taker.left_out)
        return capture, tuple(sorted(left_out, key=lambda x: (x.path, x.reason)))

    @property
    def linked(self) -> tuple[int, int]:
        """Files and bytes that an earlier snapshot held."""
        sizes = [size for at in self._dirs for size in at.taker.linked_bytes]
        return len(sizes), sum(sizes)

    @property
    def rotten(self) -> list[str]:
        """Files whose bytes are others than an earlier snapshot's, though nobody has written to them."""
        return [path for at in self._dirs for path in at.taker.rotten]

    def _before(self, at: _LogDirCopy, log_dir: SourceDirectory, name: str) -> None:
        try:
            kind = log_dir.kind(name)
        except OSError as error:
            at.taker.leave(name, f"cannot be read: {error.strerror or error}")
            return
        parsed = parse_partition_dir(name)
        if name == _LOCK and kind == "file":
            at.taker.take_empty(name)
        elif kind != "directory":
            seen = at.taker.take_noted(log_dir, name, name)
            if name == CLEAN_SHUTDOWN:
                at.clean_shutdown = seen
        elif name == METADATA_DIR:
            return
        elif parsed is None or parsed.state not in ("live", "future"):
            at.rest.append(name)
        else:
            seen_directory = log_dir.seen(name)
            if seen_directory is not None:
                at.partitions[name] = Partition(path=name, inode=seen_directory.inode)

    def _small_files(self, at: _LogDirCopy, log_dir: SourceDirectory, partition: Partition) -> None:
        try:
            directory = log_dir.directory(partition.path)
        except OSError:
            return  # Noted when its turn comes.
        with directory:
            take_small_files(at.taker, directory, partition)

    def _new_partition_directories(self) -> Iterator[PartitionDirectory]:
        """Partitions created, or moved here from another log dir, since the log dirs were listed."""
        taken: set[TopicPartition] = set()
        for at in self._dirs:
            for name, partition in at.partitions.items():
                parsed = parse_partition_dir(name)
                if parsed is not None and parsed.state == "live" and partition.taken:
                    taken.add(TopicPartition(parsed.topic, parsed.partition))
        for at in self._dirs:
            with log_directory(at.source.path) as log_dir:
                for name in log_dir.names():
                    parsed = parse_partition_dir(name)
                    if name in at.partitions or parsed is None or parsed.state != "live":
                        continue
                    seen = log_dir.seen(name) if log_dir.kind(name) == "directory" else None
                    if seen is not None and (parsed.topic, parsed.partition) not in taken:
                        at.partitions[name] = Partition(path=name, inode=seen.inode)
                        yield PartitionDirectory(
                            topic=parsed.topic, partition=parsed.partition, state="live", name=name, at=at
                        )


def _metadata_directory(at: _LogDirCopy) -> Iterator[SourceDirectory]:
    """The metadata log's directory, open, if it lies in this log dir."""
    with log_directory(at.source.path) as log_dir:
        if log_dir.kind(METADATA_DIR) == "directory":
            try:
                opened = log_dir.directory(METADATA_DIR)
            except OSError as error:
                at.taker.leave_directory(METADATA_DIR, f"cannot be read: {error.strerror or error}")
                return
            with opened as directory:
                yield directory


def _take_tree(taker: Taker, parent: SourceDirectory, name: str, path: str) -> None:
    """A directory that the audit does not judge, with all below it."""
    try:
        opened = parent.directory(name)
    except OSError as error:
        taker.leave_directory(path, GONE if gone(error) else f"cannot be read: {error.strerror or error}")
        return
    with opened as directory:
        for inner in directory.names():
            if _is_directory(directory, inner):
                _take_tree(taker, directory, inner, f"{path}/{inner}")
            else:
                taker.take_noted(directory, inner, f"{path}/{inner}")


def _is_directory(directory: SourceDirectory, name: str) -> bool:
    try:
        return directory.kind(name) == "directory"
    except OSError:
        return False  # What may not even be looked at is noted where it is taken.
