"""The ends of brokers' logs as a small snapshot: what a broker that starts can cut, and nothing below it.

In: brokers' log dirs. Out: a snapshot of headers: of each log what lies behind the last place in which all its copies
are known to agree; checkpoints, the metadata log and, where they are small, Kafka's own topics as they are. Where
copies agree is told by what takes milliseconds to read: leader-epoch-checkpoints, and how far indexes reach. So what
is read of a log grows with what its copies may disagree on, and not with the log.

The rule that must hold: the place is never above the one where Kafka would cut (`facts.replicas.epochs.truncation`). A
log is taken to end where its last index does, and that of a broker that did not stop cleanly at its recovery point at
most: a log that is shorter never parts from another one later. From its recovery point's segment on such a log is read
as a whole, as a broker does that starts (LogLoader#recoverLog).
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Final

from tidegauge.derivation.in_process import HERE_DECODED_BYTES
from tidegauge.facts.replicas.epochs import EpochVector, epoch_vector, truncation
from tidegauge.kafka_log.checkpoints import (
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
    write_leader_epoch_checkpoint,
)
from tidegauge.kafka_log.headers_file import write_headers
from tidegauge.kafka_log.indexes import parse_offset_index
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA, INTERNAL_TOPICS
from tidegauge.kafka_log.log_dir import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    headers_name,
    is_live_log,
    parse_metadata_checkpoint,
    parse_partition_dir,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.copying import Meter, UnreadableError, copy_file, reading
from tidegauge.snapshots.holes import written_bytes
from tidegauge.snapshots.local_path import must_be_of_kafka, must_be_readable
from tidegauge.snapshots.manifest import LeftOut, as_text
from tidegauge.snapshots.source_files import SourceDirectory, SourceFile, log_directory
from tidegauge.snapshots.sources import BrokerSource
from tidegauge.snapshots.target import LocalTarget
from tidegauge.snapshots.throttle import Throttle

_OF_LOG_DIR: Final = (
    META_PROPERTIES, REPLICATION_OFFSET_CHECKPOINT, RECOVERY_POINT_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT,
    CLEAN_SHUTDOWN,
)  # fmt: skip
_OF_PARTITION: Final = (PARTITION_METADATA, QUORUM_STATE)
_TO_MAGIC: Final = 17
"""Bytes of a batch up to its magic, which lies in the same place in every format."""
_LARGEST_OFFSET: Final = 2**63 - 1
_WITH_EPOCHS: Final = 2
"""The first message format whose first field is the offset of the first record."""


Begins = Mapping[tuple[int, TopicPartition], int]
"""By broker and partition: the offset from which on a log was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """What was written, and what could not be read, and why."""

    begins: Begins
    left_out: Sequence[LeftOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """One replica. `to`: its folder in the snapshot; `sizes`: bytes of its segments by base offset; `vector`: its
    epochs as far as it surely reaches, None where they do not cover the log; `recovered_from`: the recovery point of
    a broker that did not stop cleanly.
    """

    broker_id: int
    topic_partition: TopicPartition
    directory: Path
    to: str
    sizes: Mapping[int, int]
    vector: EpochVector | None
    recovered_from: int | None


def write_log_ends(sources: Sequence[BrokerSource], out: Path, *, whole: Collection[TopicPartition] = ()) -> LogEnds:
    """Writes the snapshot into the directory `out`. `whole`: partitions whose logs are read from their beginning, since
    their copies were found to part below where their checkpoints say.
    """
    writing = _Writing(target=LocalTarget(out))
    logs: dict[TopicPartition, list[_Log]] = {}
    for source in sources:
        for log in writing.small_files(source):
            logs.setdefault(log.topic_partition, []).append(log)
    of_kafka = [log for key, of_key in logs.items() if key.topic in INTERNAL_TOPICS for log in of_key]
    few = sum(size for log in of_kafka for size in log.sizes.values()) <= HERE_DECODED_BYTES
    for key, of_key in logs.items():
        agreed = 0 if key in whole else _agreed(of_key)
        for log in of_key:
            if key.topic in INTERNAL_TOPICS and few:
                writing.as_it_is(log)
            else:
                writing.end(log, agreed)
    return LogEnds(begins=writing.begins, left_out=writing.left_out)


def _agreed(logs: Sequence[_Log]) -> int:
    """Up to where all copies surely hold the same; 0 where one of them has records without a leader epoch, of an old
    format, since nothing but the records tells then.
    """
    vectors = [log.vector for log in logs if log.vector is not None]
    if len(vectors) < len(logs):
        return 0
    ends = [vector.log_end_offset for vector in vectors]
    for leader, follower in permutations(vectors, 2):
        ends.append(int(truncation(leader=leader, follower=follower, follower_high_watermark=None).offset))
    return min(ends)


@dataclass(slots=True, kw_only=True)
class _Writing:
    target: LocalTarget
    meter: Meter = field(default_factory=lambda: Meter(throttle=Throttle(None)))
    begins: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def small_files(self, source: BrokerSource) -> Iterator[_Log]:
        """Copies a broker's checkpoints, its partitions' epochs and its metadata log; gives the other logs."""
        for log_dir in source.log_dirs:
            to = source.directory if log_dir.name == "." else f"{source.directory}/{log_dir.name}"
            with log_directory(log_dir.path) as top:
                names = set(top.names())
                for known in _OF_LOG_DIR:
                    if known in names:
                        self._copy(top, known, f"{to}/{known}")
                starts = self._offsets(top, LOG_START_OFFSET_CHECKPOINT, names)
                flushed = self._offsets(top, RECOVERY_POINT_OFFSET_CHECKPOINT, names)
                for name in sorted(names):
                    parsed = parse_partition_dir(name)
                    if parsed is None or parsed.state != "live":
                        continue
                    key = TopicPartition(parsed.topic, parsed.partition)
                    try:
                        directory = top.directory(name)
                    except OSError as error:
                        self._leave(f"{to}/{name}", error)
                        continue
                    with directory:
                        is_metadata = key.topic == CLUSTER_METADATA
                        sizes = self._small_files_of_log(directory, f"{to}/{name}", is_metadata=is_metadata)
                        if is_metadata:
                            continue
                        recovered_from = None if CLEAN_SHUTDOWN in names else flushed.get(key, 0)
                        yield _Log(
                            broker_id=source.broker_id,
                            topic_partition=key,
                            directory=log_dir.path / name,
                            to=f"{to}/{name}",
                            sizes=sizes,
                            vector=self._vector(directory, sizes, starts.get(key, 0), recovered_from),
                            recovered_from=recovered_from,
                        )

    def as_it_is(self, log: _Log) -> None:
        """A log, not only the headers of its end."""
        with log_directory(log.directory.parent) as top, top.directory(log.directory.name) as directory:
            for base in log.sizes:
                self._copy(directory, _log(base), f"{log.to}/{_log(base)}")
            self._epochs(directory, log, min(log.sizes, default=0))
        self.begins[log.broker_id, log.topic_partition] = min(log.sizes, default=0)

    def end(self, log: _Log, agreed: int) -> None:
        """The headers of a log's batches, from before the place on up to which all copies agree."""
        bound = agreed if log.recovered_from is None else min(agreed, log.recovered_from)
        first = max((base for base in log.sizes if base <= bound), default=min(log.sizes, default=0))
        begins = first
        with log_directory(log.directory.parent) as top, top.directory(log.directory.name) as directory:
            for base in sorted(base for base in log.sizes if base >= first):
                try:
                    with directory.open(_log(base)) as file:
                        must_be_of_kafka(file.seen.size_bytes)
                        position, named = 0, base
                        if base == first and log.recovered_from is None:
                            position, named = self._place(directory, file, base, bound)
                            begins = named
                        readinto, pass_zeros = reading(file, self.meter, start=position)
                        with self.target.create(f"{log.to}/{headers_name(_log(named))}") as sink:
                            write_headers(readinto, sink.write, pass_zeros=pass_zeros)
                except (OSError, UnreadableError) as error:
                    self._leave(f"{log.to}/{_log(base)}", error)
            self._epochs(directory, log, begins)
        self.begins[log.broker_id, log.topic_partition] = begins

    def _small_files_of_log(self, directory: SourceDirectory, to: str, *, is_metadata: bool) -> Mapping[int, int]:
        """Copies what a log has beside its segments, of the metadata log these, too; bytes of the segments."""
        sizes = {}
        for name in directory.names():
            kept = name in _OF_PARTITION or (
                is_metadata and (name == LEADER_EPOCH_CHECKPOINT or parse_metadata_checkpoint(name) is not None)
            )
            if is_live_log(name):
                seen = directory.seen(name)
                sizes[int(name.removesuffix(".log"))] = seen.size_bytes if seen is not None else 0
                kept = is_metadata
            if kept:
                self._copy(directory, name, f"{to}/{name}")
        return sizes

    def _epochs(self, directory: SourceDirectory, log: _Log, begins: int) -> None:
        """The log's epochs, as they are once what lies below an offset was deleted (LeaderEpochFileCache)."""
        to, data = f"{log.to}/{LEADER_EPOCH_CHECKPOINT}", self._bytes(directory, LEADER_EPOCH_CHECKPOINT)
        if begins == min(log.sizes, default=0) or data is None:
            if directory.seen(LEADER_EPOCH_CHECKPOINT) is not None:
                self._copy(directory, LEADER_EPOCH_CHECKPOINT, to)
            return
        left = epoch_vector(
            checkpoint=parse_leader_epoch_checkpoint(data).entries,
            batch_epochs=(),
            log_start_offset=begins,
            log_end_offset=_LARGEST_OFFSET,
        )
        with self.target.create(to) as sink:
            sink.write(write_leader_epoch_checkpoint(left.entries))

    def _vector(
        self, directory: SourceDirectory, sizes: Mapping[int, int], log_start: int, recovered_from: int | None
    ) -> EpochVector | None:
        """The epochs of a log, as far as it surely reaches."""
        data = self._bytes(directory, LEADER_EPOCH_CHECKPOINT)
        entries = parse_leader_epoch_checkpoint(data).entries if data is not None else ()
        start = max(log_start, min(sizes, default=0))
        if any(sizes.values()) and (not entries or entries[0].start_offset > start):
            return None
        last = max(sizes, default=0)
        index = self._bytes(directory, _index(last))
        reached = last
        if index is not None and sizes:
            offsets = parse_offset_index(index, base_offset=last, log_size_bytes=sizes[last], active=True).offsets
            reached = int(offsets[-1]) + 1 if len(offsets) else last
        end = reached if recovered_from is None else min(reached, recovered_from)
        return epoch_vector(checkpoint=entries, batch_epochs=(), log_start_offset=min(start, end), log_end_offset=end)

    def _place(self, directory: SourceDirectory, log: SourceFile, base: int, bound: int) -> tuple[int, int]:
        """Where to begin with a segment: the position of a batch that ends below `bound`, and its first offset; the
        segment's beginning where its index tells of none, or leads to what is none.
        """
        data = self._bytes(directory, _index(base))
        if data is None:
            return 0, base
        index = parse_offset_index(data, base_offset=base, log_size_bytes=log.seen.size_bytes, active=True)
        below = int((index.offsets < bound).sum())
        if below == 0:
            return 0, base
        position = int(index.positions[below - 1])
        header = os.pread(log.fd, _TO_MAGIC, position)
        offset, size = int.from_bytes(header[:8], "big", signed=True), int.from_bytes(header[8:12], "big", signed=True)
        is_batch = len(header) == _TO_MAGIC and header[16] == _WITH_EPOCHS
        fits = base <= offset < bound and 0 < size <= log.seen.size_bytes - position
        return (position, offset) if is_batch and fits else (0, base)

    def _offsets(self, directory: SourceDirectory, name: str, names: set[str]) -> Mapping[TopicPartition, int]:
        data = self._bytes(directory, name) if name in names else None
        entries = parse_offset_checkpoint(data).entries if data is not None else ()
        return {TopicPartition(entry.topic, entry.partition): entry.offset for entry in entries}

    def _bytes(self, directory: SourceDirectory, name: str) -> bytes | None:
        """A small file without the room at its end; None if it is not there, or cannot be read: it is told so where it
        is copied.
        """
        try:
            with directory.open(name) as file:
                must_be_readable(file.seen.size_bytes)
                return os.pread(file.fd, written_bytes(file.fd, file.seen.size_bytes), 0)
        except OSError:
            return None

    def _copy(self, directory: SourceDirectory, name: str, to: str) -> None:
        try:
            with directory.open(name) as file:
                must_be_of_kafka(file.seen.size_bytes)
                with self.target.create(to) as sink:
                    copy_file(file, sink, self.meter)
        except (OSError, UnreadableError) as error:
            self._leave(to, error)

    def _leave(self, path: str, error: Exception) -> None:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        self.left_out.append(LeftOut(path=as_text(path), reason=f"cannot be read: {reason}"))


def _log(base: int) -> str:
    return f"{base:020d}.log"


def _index(base: int) -> str:
    return f"{base:020d}.index"
