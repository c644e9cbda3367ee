"""Headers mode: what a capture takes of each file of a log dir so that no user's record leaves the broker.

In: a file's path below its log dir, and its bytes as a stream. Out: a `Treatment` (what becomes of the file, and under
which path), and the bytes to keep. The rules that must hold: what may be copied is listed, and all else stays behind
and is named; a log of a topic that is not Kafka's own is never copied, in whatever state or suffix it is.

What is copied, and why it holds no record: indexes (offsets, positions, timestamps), transaction indexes and producer
snapshots (producer ids, offsets), checkpoints, `partition.metadata`, `meta.properties`, `quorum-state`, metadata
snapshots, the remote tier's cache of indexes. Kafka's internal topics are copied whole: they hold offsets, groups,
transactional ids and the cluster's metadata. Anything else (a remote tier kept inside the log dir, somebody's copy of a
segment, files half written under `.tmp`) is left behind, since nobody can say what is in it.

With hashed names an internal topic's log becomes a headers file too. Its rows are those of the log, and the batches
that it keeps are the log's with other names (`snapshots.hashed_records`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, Final

from numpy.typing import NDArray

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.headers_file import write_headers
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA, INTERNAL_TOPICS
from tidegauge.kafka_log.log_dir import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LATER_EPOCH_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    headers_name,
    parse_metadata_checkpoint,
    parse_partition_dir,
    parse_segment_file,
)
from tidegauge.kafka_log.scan import scan_batches
from tidegauge.kafka_log.sources import PassZeros, ReadInto, no_zeros
from tidegauge.snapshots.hashed_records import hashed_checkpoint, hashed_log, unreadable_batch
from tidegauge.snapshots.topic_names import TopicNames


class _Kind(Enum):
    """What a file is to headers mode; None instead: nobody knows what is in it."""

    USER_LOG = auto()
    INTERNAL_LOG = auto()
    METADATA_BATCHES = auto()
    OFFSET_CHECKPOINT = auto()
    HARMLESS = auto()


_OF_LOG_DIR: Final[Mapping[str, _Kind]] = {
    REPLICATION_OFFSET_CHECKPOINT: _Kind.OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT: _Kind.OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT: _Kind.OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT: _Kind.OFFSET_CHECKPOINT,
    "bootstrap.checkpoint": _Kind.METADATA_BATCHES,
    META_PROPERTIES: _Kind.HARMLESS,
    CLEAN_SHUTDOWN: _Kind.HARMLESS,
    ".lock": _Kind.HARMLESS,
}
_OF_PARTITION: Final = frozenset({LEADER_EPOCH_CHECKPOINT, LATER_EPOCH_CHECKPOINT, PARTITION_METADATA, QUORUM_STATE})
_INDEX_CACHE: Final = re.compile(
    r"remote-log-index-cache/[0-9]+_[A-Za-z0-9_-]{22}\.(?:index|timeindex|txnindex)(?:\.deleted)?"
)
_LEFT_OUT: Final = "headers mode copies only what is known to hold no record of a user's topic"
_CHUNK: Final = 1 << 20


class How(StrEnum):
    """What becomes of a file."""

    COPIED = "copied"
    HEADERS = "headers"
    HASHED_LOG = "hashed_log"
    HASHED_BATCHES = "hashed_batches"
    HASHED_CHECKPOINT = "hashed_checkpoint"
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """What becomes of one file: how, under which path below the log dir, and why if it is left out.

    `topic` is the real name of the topic whose log it is.
    """

    how: How
    path: str
    topic: str | None = None
    reason: str | None = None


def treatment(path: str, names: TopicNames | None = None) -> Treatment:
    """What headers mode makes of the file at a path below its log dir; with `names`, what is hashed in it."""
    kind = _kind(path)
    if kind is None:
        shown = names.unknown_path(path) if names is not None else path
        return Treatment(how=How.LEFT_OUT, path=shown, reason=_LEFT_OUT)
    given = names.path(path) if names is not None else path
    if kind is _Kind.USER_LOG:
        return Treatment(how=How.HEADERS, path=headers_name(given), topic=_topic(path))
    if names is None or kind is _Kind.HARMLESS:
        return Treatment(how=How.COPIED, path=given)
    if kind is _Kind.INTERNAL_LOG:
        return Treatment(how=How.HASHED_LOG, path=headers_name(given), topic=_topic(path))
    how = How.HASHED_BATCHES if kind is _Kind.METADATA_BATCHES else How.HASHED_CHECKPOINT
    return Treatment(how=how, path=given)


def write_treated(
    treated: Treatment,
    readinto: ReadInto,
    write: Callable[[bytes], object],
    names: TopicNames | None = None,
    *,
    pass_zeros: PassZeros = no_zeros,
) -> None:
    """Writes what is kept of the file that `readinto` gives, up to its end. `pass_zeros` passes a log's holes.

    Memory is bounded, but for checkpoints with names in them, which are held whole.
    """
    match treated.how:
        case How.HEADERS:
            write_headers(readinto, write, pass_zeros=pass_zeros)
        case How.HASHED_LOG:
            rewrite = hashed_log(treated.topic or "", _required(names))
            write_headers(readinto, write, rewrite=rewrite, pass_zeros=pass_zeros)
        case How.HASHED_BATCHES:
            _write_hashed_batches(readinto, pass_zeros, write, _required(names))
        case How.HASHED_CHECKPOINT:
            write(hashed_checkpoint(b"".join(_chunks(readinto)), _required(names)))
        case How.COPIED:
            for chunk in _chunks(readinto):
                write(chunk)
        case How.LEFT_OUT:
            raise ValueError(f"{treated.path} is left out: there is nothing to write")


def _required(names: TopicNames | None) -> TopicNames:
    assert names is not None, "a treatment that hashes is carried out with the names that it was made with"
    return names


def _kind(path: str) -> _Kind | None:
    folder, _, name = path.rpartition("/")
    if not folder:
        return _OF_LOG_DIR.get(name)
    if _INDEX_CACHE.fullmatch(path):
        return _Kind.HARMLESS
    partition = parse_partition_dir(folder)
    if partition is None:
        return None
    if name in _OF_PARTITION:
        return _Kind.HARMLESS
    if partition.topic == CLUSTER_METADATA and parse_metadata_checkpoint(name) is not None:
        return _Kind.METADATA_BATCHES
    segment = parse_segment_file(name)
    if segment is None or segment.kind == "headers":
        return None
    if segment.kind != "log":
        return _Kind.HARMLESS
    return _Kind.INTERNAL_LOG if partition.topic in INTERNAL_TOPICS else _Kind.USER_LOG


def _topic(path: str) -> str:
    partition = parse_partition_dir(path.partition("/")[0])
    return partition.topic if partition is not None else CLUSTER_METADATA


def _write_hashed_batches(
    readinto: ReadInto, pass_zeros: PassZeros, write: Callable[[bytes], object], names: TopicNames
) -> None:
    """A metadata snapshot with other names; what of it cannot be read stays something that cannot be read."""
    rewrite = hashed_log(CLUSTER_METADATA, names)

    def take(rows: NDArray[Any], data: memoryview, first_position: int) -> None:
        for row in rows[rows["magic"] == layout.CURRENT_MAGIC]:
            start = int(row["position"]) - first_position
            kept = rewrite(bytes(data[start : start + int(row["size_bytes"])])) if row["crc_valid"] else None
            if kept is not None:
                write(kept)
            elif row["control_type"] == -1:
                write(unreadable_batch(int(row["base_offset"])))

    for _ in scan_batches(readinto, pass_zeros=pass_zeros, on_rows=take):
        pass


def _chunks(readinto: ReadInto) -> Iterator[bytes]:
    buffer = bytearray(_CHUNK)
    while size := readinto(memoryview(buffer)):
        yield bytes(buffer[:size])
