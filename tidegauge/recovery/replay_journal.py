"""What was produced again, kept beside the salvaged records, so that a replay that died goes on and repeats nothing.

In: what is about to be sent, and what was acknowledged. Out: the same, after a restart. A line a fact, each on the disk
before the next step is taken:

    {"replay": 1, …}    a producer id begins: for which cluster, topic and partition, at which end of its log
    {"send": 0, …}      the batch with this sequence is about to be sent: which salvaged offsets are in it
    {"sent": 0, …}      it was acknowledged, and lies at this offset
    {"dropped": 0}      the leader refuses it and does not have it: its records are to be sent in another one

The rule that must hold: a batch that may be on the topic is in the journal. A death between "send" and "sent" leaves it
open whether the batch arrived. Who goes on looks for its producer id and sequence on the topic, and sends the very same
batch again if it is not there: the leader takes a sequence once, also if the first one arrives late.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.snapshots.fields import Fields, no_number
from tidegauge.snapshots.location import local
from tidegauge.snapshots.places_above import check_within

JOURNAL: Final = "replay.jsonl"
_VERSION: Final = 1
_MOST_IN_A_BATCH: Final = 1 << 20

Range = tuple[int, int]
"""Salvaged offsets, the end exclusive. Offsets that no salvaged record has may lie between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where records are produced to."""

    cluster_id: str | None
    topic_id: str | None
    place: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """One batch. `offset` is where it lies on the topic, None where no acknowledgement is on record or it told none."""

    sequence: int
    offsets: tuple[int, ...]
    acknowledged: bool
    offset: int | None


@dataclass(slots=True, kw_only=True)
class ProducerRun:
    """All that one producer id sent."""

    target: Target
    producer_id: int
    producer_epoch: int
    end_offset: int
    """The partition's, before the first batch: nothing of this run lies below."""
    batches: dict[int, SentBatch] = field(default_factory=dict)
    """By sequence."""

    @property
    def open_batches(self) -> list[SentBatch]:
        """Of which nobody knows from here whether they arrived: one at most, unless a file was edited."""
        return [batch for batch in self.batches.values() if not batch.acknowledged]


def read_journal(directory: Path) -> list[ProducerRun]:
    """The runs so far, the oldest first; none where there is no journal. Raises `SnapshotError` where it is damaged."""
    path = local(directory) / JOURNAL
    if not path.exists():
        return []
    runs: list[ProducerRun] = []
    number = 0
    try:
        with path.open("r", encoding="utf-8") as lines:
            for line in lines:
                number += 1
                if line.endswith("\n"):  # Else whoever wrote it died over it, before anything was sent.
                    _take(runs, Fields.of(json.loads(line, parse_constant=no_number), "it"))
    except (KeyError, TypeError, ValueError, StopIteration, RecursionError) as error:
        raise SnapshotError(
            f"{path}, line {number}, is not what a replay writes: {error}. It says what was produced already. Restore "
            "it from a copy; or move it away, and records are then told from those on the topic by their content alone."
        ) from error
    return runs


def _take(runs: list[ProducerRun], told: Fields) -> None:
    if "replay" in told.values:
        if told.whole("replay") != _VERSION:
            raise ValueError(f"version {told.whole('replay')} is not {_VERSION}")
        target = Target(
            cluster_id=told.text_or_none("cluster_id"),
            topic_id=told.text_or_none("topic_id"),
            place=TopicPartition(told.text("topic"), told.whole("partition")),
        )
        runs.append(
            ProducerRun(
                target=target,
                producer_id=told.whole("producer_id"),
                producer_epoch=told.whole("producer_epoch"),
                end_offset=told.whole("end_offset"),
            )
        )
    elif "send" in told.values:
        sequence = told.whole("send")
        offsets = tuple(offset for start, end in _ranges(told.values["offsets"]) for offset in range(start, end))
        _begun(runs, told)[sequence] = SentBatch(sequence=sequence, offsets=offsets, acknowledged=False, offset=None)
    elif "dropped" in told.values:
        del _begun(runs, told)[told.whole("dropped")]
    else:
        sent = _begun(runs, told)[told.whole("sent")]
        _begun(runs, told)[sent.sequence] = replace(sent, acknowledged=True, offset=told.whole_or_none("offset"))


def _begun(runs: list[ProducerRun], told: Fields) -> dict[int, SentBatch]:
    """The batches of the run that a line is about: the last one, or the one whose open batch was settled later."""
    producer_id = told.whole("producer_id")
    return next(run.batches for run in reversed(runs) if run.producer_id == producer_id)


def _ranges(value: object) -> Iterator[Range]:
    if not isinstance(value, list):
        raise TypeError("offsets must be a list")
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, int) for n in pair)):
            raise TypeError("offsets must be pairs of numbers")
        start, end = pair
        if not 0 <= start < end <= start + _MOST_IN_A_BATCH:
            raise ValueError(f"[{start}, {end}) is no batch")
        yield start, end


class Journal:
    """The file to add to; a context manager that nobody else has open meanwhile."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "Journal":
        check_within(self._directory)
        path = local(self._directory) / JOURNAL
        is_new = not path.exists()
        # Through no link, and no second name: what is added to may be root's.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            _must_be_ours_alone(file, path)
            _drop_torn_line(file)
            if is_new:
                _sync_directory(self._directory)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def begin(self, run: ProducerRun) -> None:
        """A producer id is about to be used."""
        self._add(
            {
                "replay": _VERSION,
                "cluster_id": run.target.cluster_id,
                "topic": run.target.place.topic,
                "topic_id": run.target.topic_id,
                "partition": run.target.place.partition,
                "producer_id": run.producer_id,
                "producer_epoch": run.producer_epoch,
                "end_offset": run.end_offset,
            }
        )

    def send(self, run: ProducerRun, batch: SentBatch) -> None:
        """A batch is about to be sent."""
        ranges = [list(pair) for pair in _as_ranges(batch.offsets)]
        self._add({"send": batch.sequence, "producer_id": run.producer_id, "offsets": ranges})

    def sent(self, run: ProducerRun, sequence: int, offset: int | None) -> None:
        """It was acknowledged."""
        self._add({"sent": sequence, "producer_id": run.producer_id, "offset": offset})

    def dropped(self, run: ProducerRun, sequence: int) -> None:
        """It is not on the topic, and will never be."""
        self._add({"dropped": sequence, "producer_id": run.producer_id})

    def _add(self, line: dict[str, object]) -> None:
        assert self._file is not None
        whole = json.dumps(line).encode() + b"\n"
        if self._file.write(whole) != len(whole):
            raise OSError(28, "No space left on device", str(self._directory / JOURNAL))
        os.fsync(self._file.fileno())


def _as_ranges(offsets: Sequence[int]) -> Iterator[Range]:
    start = end = offsets[0]
    for offset in offsets:
        if offset > end:
            yield start, end
            start = offset
        end = offset + 1
    yield start, end


def _must_be_ours_alone(file: IO[bytes], path: Path) -> None:
    if os.fstat(file.fileno()).st_nlink > 1:
        raise SnapshotError(
            f"{path} has a second name (a hard link), and nothing is written into what may be another's. See who laid "
            "it there, and copy the directory without it."
        )
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise AuditError(
            f"Another replay of {path.parent} runs right now. Wait until it has ended, then run the same command: it "
            "produces only what is left."
        ) from error


def _drop_torn_line(file: IO[bytes]) -> None:
    """What a death left of a line: nothing was sent under it."""
    size = file.seek(0, os.SEEK_END)
    block = min(size, 1 << 20)
    file.seek(size - block)
    tail = file.read(block)
    if tail and not tail.endswith(b"\n"):
        file.truncate(size - block + tail.rfind(b"\n") + 1)
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
