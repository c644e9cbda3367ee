"""Directories that somebody took for a log dir of Kafka: what they are, and where the log dirs lie.

In: a directory. Out: whether it is a log dir; if not, what it holds instead in words, and the log dirs below it. Only
names are looked at, no link is followed, and a search ends after so many directories.

A name alone makes no replica: Strimzi's volumes are called `data-0`, as a partition would be. What a broker calls
so holds segment files, each under the twenty digits of its base offset (LogFileUtils#filenamePrefixFromOffset).
"""

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.log_dir import META_PROPERTIES, is_of_a_log, parse_partition_dir

_MAX_DEPTH: Final = 5
_MAX_DIRECTORIES: Final = 2000
_TOLD: Final = 4
_LOST_AND_FOUND: Final = "lost+found"
METADATA_DIR: Final = f"{CLUSTER_METADATA}-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What tells somebody else's directory: all of some names in it, or a file whose name matches, there or below."""

    what: str
    names: tuple[frozenset[str], ...] = ()
    files: re.Pattern[str] | None = None


def _all(*names: str) -> frozenset[str]:
    return frozenset(names)


SIGNS: Final = (
    Sign(
        what="Redpanda's files, which are no Kafka log",
        names=(_all("redpanda", "kafka"), _all(".redpanda_data_dir"), _all("kafka_internal", "kafka")),
        files=re.compile(r"\d+-\d+-v\d+\.(log|base_index|compaction_index)"),
    ),
    Sign(
        what="objects of Confluent's tiered storage, which only its own brokers read",
        files=re.compile(
            r"\d{20}_\d+_v\d+\."
            r"(segment|offset-index|timestamp-index|transaction-index|producer-(state|status)|epoch-state)"
        ),
    ),
    Sign(
        what="objects of Kafka's remote tier (KIP-405), not what its brokers have on their disks",
        files=re.compile(r"\d{20}-[A-Za-z0-9_-]{22}\.(log|index|timeindex|txnindex|snapshot|indexes|rsm-manifest)"),
    ),
    Sign(what="ZooKeeper's data", names=(_all("version-2"), _all("myid"))),
    Sign(
        what="what a broker writes for people to read (server.log), not its log dirs, which log.dirs of its "
        "server.properties names",
        names=(_all("server.log"), _all("state-change.log"), _all("kafkaServer.out"), _all("controller.log")),
    ),
    Sign(what="an installation of Kafka, not its log dirs", names=(_all("bin", "config", "libs"),)),
    Sign(what="the state of a Kafka Streams application", names=(_all("kafka-streams-process-metadata"),)),
    Sign(what="BookKeeper's ledgers, as Pulsar has them", names=(_all("lastMark"), _all("lastId"))),
    Sign(what="etcd's data", names=(_all("wal", "snap"),)),
    Sign(what="PostgreSQL's data", names=(_all("PG_VERSION"),)),
    Sign(what="Cassandra's data", names=(_all("commitlog", "saved_caches"),)),
    Sign(what="Elasticsearch's data", names=(_all("_state", "indices"), _all("nodes", "node.lock"))),
)


def is_replica(directory: Path) -> bool:
    """A partition's directory, as a broker writes it: by its name, and a file of a segment in it."""
    return parse_partition_dir(directory.name) is not None and any(is_of_a_log(e.name) for e in _entries(directory))


def is_log_dir(directory: Path) -> bool:
    """Whether a broker or a controller keeps its files right here: by meta.properties, checkpoints, or a replica."""
    entries = list(_entries(directory))
    return any(e.name == META_PROPERTIES or e.name.endswith("-offset-checkpoint") for e in entries) or any(
        parse_partition_dir(e.name) is not None and e.is_dir(follow_symlinks=False) and is_replica(Path(e.path))
        for e in entries
    )


def is_metadata_log_dir(directory: Path) -> bool:
    """A log dir with the metadata log and nothing that a broker writes: a metadata.log.dir, or a controller's."""
    entries = list(_entries(directory))
    return any(e.name == METADATA_DIR for e in entries) and not any(
        e.name.endswith("-offset-checkpoint")
        or (e.name != METADATA_DIR and e.is_dir(follow_symlinks=False) and is_replica(Path(e.path)))
        for e in entries
    )


def log_dirs_below(directory: Path) -> tuple[Path, ...]:
    """The log dirs below a directory that is none, nearest first."""
    found = []
    for path in _directories(directory):
        if path != directory and is_log_dir(path):
            found.append(path)
    return tuple(found)


def what_it_holds(directory: Path) -> str:
    """What a directory that is no log dir holds, to follow its name in a sentence."""
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        return f"cannot be listed: {error.strerror or error}"
    sign = _sign(directory)
    if sign is not None:
        return f"holds {sign.what}"
    if not names:
        return "is empty: is its volume mounted?"
    if names == [_LOST_AND_FOUND]:
        return "holds nothing but lost+found: it is the root of a volume on which nobody has written"
    more = f", and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return f"holds {', '.join(names[:_TOLD])}{more}, and nothing of Kafka's"


def _sign(directory: Path) -> Sign | None:
    for path in _directories(directory):
        names = {e.name for e in _entries(path)}
        for sign in SIGNS:
            if any(of <= names for of in sign.names):
                return sign
            if sign.files is not None and any(sign.files.fullmatch(name) for name in names):
                return sign
    return None


def _directories(directory: Path) -> Iterator[Path]:
    """A directory and those below it, level by level; not what lies in a log dir, and no more than so many."""
    waiting = deque([(directory, 0)])
    for _ in range(_MAX_DIRECTORIES):
        if not waiting:
            return
        path, depth = waiting.popleft()
        yield path
        if depth < _MAX_DEPTH and not (depth and is_log_dir(path)):
            below = sorted(e.name for e in _entries(path) if e.is_dir(follow_symlinks=False))
            waiting.extend((path / name, depth + 1) for name in below)


def _entries(directory: Path) -> Sequence["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return ()
