"""A copy of a cluster that goes on while it is copied: files of many moments, in the order of a capture.

In: every broker's disk at several moments. Out: a `LiveCopy`: each file with the instants at which it was read. The
order is that of `snapshots.capture`, because it decides what may look wrong and is not: the metadata log first and
again last, a broker's checkpoints and epochs before any log, Kafka's own topics before others, followers before
leaders, index files behind their logs, each partition's epochs again behind them.

What is read one after the other is spread evenly over the moments. A segment that was cut or cleaned while it was read
is read again; a partition that vanished, or was made anew, is named as left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.internal_topics import INTERNAL_TOPICS
from tidegauge.kafka_log.log_dir import (
    CLEAN_SHUTDOWN,
    LATER_EPOCH_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    parse_segment_file,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import (
    METADATA,
    BrokerDisk,
    metadata_files,
    partition_files,
    renamed_files,
    root_files,
)
from tidegauge.sim_engine.log.render_log import File
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.metadata.metadata_snapshot import image_of

_SMALL_FILES: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})
_VANISHED: Final = "vanished while the broker was read"
_MADE_ANEW: Final = "deleted and made anew while the broker was read"

DiskName = tuple[int, str]
"""A broker, and the folder of one of its log dirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """All disks at one instant of virtual time, those of brokers that are down as they were left."""

    at_ms: int
    disks: tuple[BrokerDisk, ...]

    def disk(self, name: DiskName) -> BrokerDisk:
        """One of them."""
        return next(d for d in self.disks if (d.broker_id, d.log_dir) == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFile:
    """A file as it was at `read_at_ms`; read once more at `read_again_at_ms`, when it had not changed.

    `modified_at_ms` is when its broker had last written it, as far as that is known.
    """

    broker_id: int
    log_dir: str
    name: str
    file: File
    read_at_ms: int
    read_again_at_ms: int | None = None
    modified_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCopy:
    """All files, in the order of their names, and what is not there, each with the reason."""

    files: tuple[TakenFile, ...]
    left_out: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Copying:
    """What has been read so far, by disk and path."""

    files: dict[tuple[DiskName, str], TakenFile] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def take(self, name: DiskName, files: Iterable[tuple[str, File]], at_ms: int) -> None:
        for path, file in files:
            self.files[name, path] = TakenFile(
                broker_id=name[0], log_dir=name[1], name=path, file=file, read_at_ms=at_ms
            )

    def drop(self, name: DiskName, directory: str) -> None:
        for key in [k for k in self.files if k[0] == name and k[1].startswith(f"{directory}/")]:
            del self.files[key]

    def leave(self, name: DiskName, path: str, reason: str) -> None:
        self.left_out[_shown(name, path)] = reason

    def has_not(self, name: DiskName, partition: TopicPartition) -> bool:
        """Whether a partition has come since the log dir was listed."""
        known = (name, f"{partition}/{PARTITION_METADATA}") in self.files
        return not known and _shown(name, str(partition)) not in self.left_out

    def take_epochs_again(self, name: DiskName, directory: str, epochs: File, at_ms: int) -> None:
        """Epochs that have changed are kept beside those that were read before."""
        path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        before = self.files.get((name, path))
        if before is None:
            self.take(name, [(path, epochs)], at_ms)
        elif before.file == epochs:
            self.files[name, path] = replace(before, read_again_at_ms=at_ms)
        else:
            self.files[name, path] = replace(before, read_again_at_ms=None)
            self.take(name, [(f"{directory}/{LATER_EPOCH_CHECKPOINT}", epochs)], at_ms)


_Step = Callable[[_Copying, Moment, Moment], None]
"""Something that is read; it may go on until the moment of the next step."""


def live_copy(moments: Sequence[Moment]) -> LiveCopy:
    """Copies brokers while time goes on. `moments` are ordered, at least two, all with the same disks."""
    assert len(moments) > 1, "a copy of one moment is no live one"
    first, last = moments[0], moments[-1]
    names = sorted((d.broker_id, d.log_dir) for d in first.disks)
    steps = [*_checkpoint_steps(first, names), *_partition_steps(first, names)]
    copying = _Copying()
    for name in names:
        copying.take(name, metadata_files(first.disk(name)), first.at_ms)
    for number, step in enumerate(steps):
        step(copying, _spread(moments, number, len(steps)), _spread(moments, number + 1, len(steps)))
    for name in names:
        _take_rest(copying, last, name)
        _take_metadata_again(copying, last, name)
        _check_clean_shutdown(copying, last, name)
    instants = {moment.at_ms: moment for moment in moments}
    taken = (_with_modified(file, instants[file.read_at_ms]) for file in copying.files.values())
    ordered = sorted(taken, key=lambda f: (f.broker_id, f.log_dir, f.name))
    return LiveCopy(files=tuple(ordered), left_out=tuple(sorted(copying.left_out.items())))


def _with_modified(taken: TakenFile, at: Moment) -> TakenFile:
    written = at.disk((taken.broker_id, taken.log_dir)).written_at_ms.get(taken.name)
    return taken if written is None else replace(taken, modified_at_ms=written)


def _spread(moments: Sequence[Moment], number: int, count: int) -> Moment:
    """The moment at which a step begins: the first step at the first, what follows the last step at the last."""
    return moments[number * (len(moments) - 1) // count]


def _checkpoint_steps(listed: Moment, names: Sequence[DiskName]) -> Iterator[_Step]:
    """Each log dir's checkpoints, then the epochs of each partition that there was at the beginning."""

    def checkpoints(name: DiskName) -> _Step:
        return lambda copying, now, _: copying.take(name, root_files(now.disk(name)), now.at_ms)

    def epochs(name: DiskName) -> _Step:
        def take(copying: _Copying, now: Moment, _: Moment) -> None:
            disk = now.disk(name)
            for partition in disk.replicas:
                if partition not in listed.disk(name).replicas:
                    continue  # It has come since; it is taken in the end.
                copying.take(name, _small(partition_files(disk, partition)), now.at_ms)

        return take

    for broker_id in sorted({broker_id for broker_id, _ in names}):
        own = [name for name in names if name[0] == broker_id]
        yield from map(checkpoints, own)
        yield from map(epochs, own)


def _partition_steps(first: Moment, names: Sequence[DiskName]) -> Iterator[_Step]:
    """Partition by partition over all brokers, Kafka's own topics first, the leader's copy last."""
    leaders = _leaders(first)
    places = [(partition, name) for name in names for partition in first.disk(name).replicas]
    places.sort(key=lambda p: (p[0].topic not in INTERNAL_TOPICS, p[0], leaders.get(p[0]) == p[1][0], p[1]))

    def partition_step(partition: TopicPartition, name: DiskName) -> _Step:
        return lambda copying, now, later: _take_partition(copying, name, partition, now, later)

    for partition, name in places:
        yield partition_step(partition, name)


def _take_partition(copying: _Copying, name: DiskName, partition: TopicPartition, now: Moment, later: Moment) -> None:
    """A partition's logs, then what is derived from them, then its epochs again."""
    directory = str(partition)
    metadata = copying.files.get((name, f"{directory}/{PARTITION_METADATA}"))
    there = [partition in moment.disk(name).replicas for moment in (now, later)]
    if metadata is None:
        return  # It has come since; it is taken in the end.
    if not all(there):
        copying.drop(name, directory)
        copying.leave(name, directory, _VANISHED)
        return
    files, later_files = (dict(partition_files(moment.disk(name), partition)) for moment in (now, later))
    if metadata.file != later_files[f"{directory}/{PARTITION_METADATA}"]:
        copying.drop(name, directory)
        copying.leave(name, directory, _MADE_ANEW)
        return
    before, after = (moment.disk(name).replicas[partition].log for moment in (now, later))
    if not _only_grew(before, after):
        files, now = later_files, later
    listed = {path for path in files if _is_log(path)}
    copying.take(name, ((path, file) for path, file in files.items() if path in listed), now.at_ms)
    derived = {
        path: file
        for path, file in later_files.items()
        if not _is_log(path) and path.rpartition("/")[2] not in _SMALL_FILES and _may_speak_of(path, listed, files)
    }
    copying.take(name, derived.items(), later.at_ms)
    epochs = later_files[f"{directory}/{LEADER_EPOCH_CHECKPOINT}"]
    copying.take_epochs_again(name, directory, epochs, later.at_ms)


def _may_speak_of(path: str, listed: set[str], files: Mapping[str, File]) -> bool:
    """Index files of logs that were copied; of others only what was there when the logs were listed."""
    segment = parse_segment_file(path.rpartition("/")[2])
    if segment is None or segment.suffix:
        return True
    log = f"{path.rpartition('/')[0]}/{segment.base_offset:020d}.log"
    return log in listed or path in files


def _only_grew(before: ReplicaLog, after: ReplicaLog) -> bool:
    """Whether every batch of before is where it was."""
    segments = {segment.base_offset: segment for segment in after.segments}
    for segment in before.segments:
        now = segments.get(segment.base_offset)
        if now is None or len(now.batches) < len(segment.batches):
            return False
        if segment.batches and now.batches[len(segment.batches) - 1] is not segment.batches[-1]:
            return False
    return True


def _take_rest(copying: _Copying, last: Moment, name: DiskName) -> None:
    """Directories under other names, and partitions that have come meanwhile."""
    disk = last.disk(name)
    copying.take(name, renamed_files(disk), last.at_ms)
    for partition in disk.replicas:
        if copying.has_not(name, partition):
            copying.take(name, partition_files(disk, partition), last.at_ms)


def _take_metadata_again(copying: _Copying, last: Moment, name: DiskName) -> None:
    """What has been added to the metadata log; what has gone from it."""
    files = dict(metadata_files(last.disk(name)))
    directory = str(METADATA)
    for key in [k for k in copying.files if k[0] == name and k[1].startswith(f"{directory}/")]:
        if key[1] not in files:
            del copying.files[key]
    for path, file in files.items():
        before = copying.files.get((name, path))
        if path == f"{directory}/{LEADER_EPOCH_CHECKPOINT}":
            copying.take_epochs_again(name, directory, file, last.at_ms)
        elif before is not None and before.file == file:
            copying.files[name, path] = replace(before, read_again_at_ms=last.at_ms)
        else:
            copying.take(name, [(path, file)], last.at_ms)


def _check_clean_shutdown(copying: _Copying, last: Moment, name: DiskName) -> None:
    """The marker of a clean stop is only kept if it was there all the time."""
    taken = copying.files.get((name, CLEAN_SHUTDOWN))
    if taken is not None and dict(root_files(last.disk(name))).get(CLEAN_SHUTDOWN) != taken.file:
        del copying.files[name, CLEAN_SHUTDOWN]
        copying.leave(name, CLEAN_SHUTDOWN, "the broker was started while it was read")


def _leaders(moment: Moment) -> Mapping[TopicPartition, int]:
    """Who leads, by the metadata log that reaches farthest."""
    disk = max((d for d in moment.disks if d.holds_metadata), key=lambda d: d.metadata.log_end_offset)
    topics = image_of(disk.metadata, disk.snapshots).cluster.topics.values()
    return {TopicPartition(t.name, number): p.leader for t in topics for number, p in t.partitions.items()}


def _shown(name: DiskName, path: str) -> str:
    """A path as the manifest names it."""
    folder = "" if name[1] == "." else f"{name[1]}/"
    return f"broker-{name[0]}/{folder}{path}"


def _small(files: Iterable[tuple[str, File]]) -> Iterator[tuple[str, File]]:
    return ((path, file) for path, file in files if path.rpartition("/")[2] in _SMALL_FILES)


def _is_log(path: str) -> bool:
    segment = parse_segment_file(path.rpartition("/")[2])
    return segment is not None and segment.kind == "log" and not segment.suffix
