"""What the inputs are made from: real brokers' files, out of the golden captures' archives.

In: names of archives. Out: `Corpus`, the files by what they are, each of its kind once. The rule that must hold: the
same archives give the same corpus, in the same order.
"""

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tidegauge.kafka_log.batch import COMPRESSION_MASK, CONTROL_BIT, CURRENT_MAGIC
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.headers_file import write_headers
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA, INTERNAL_TOPICS
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.kafka_log.records import Record, read_records
from tidegauge.kafka_log.scan import scan_buffer

GOLDEN: Final = Path(__file__).resolve().parents[2] / "tests" / "golden"
ARCHIVES: Final = (
    "format-1", "format-upgraded", "hanging-txn", "kafka-4.1", "mirror", "quorum-changed-unclean", "shares", "streams",
    "tiered", "zookeeper-unclean",
)  # fmt: skip
"""Every format, codec and control type, and every coordinator's topic, in captures of some tens of kilobytes."""

_LARGEST_FILE: Final = 4 << 20
_WRITTEN_INDEX: Final = 512
"""What is kept of an index: the room behind its entries is megabytes of zeros."""
_RUN_BYTES: Final = 4 << 10
"""A log goes in runs of whole batches of about so many bytes: what is small is read a million times."""
_OF_EACH: Final = 300
_SMALL_FILES: Final = {
    ".snapshot": "producer-snapshot",
    ".txnindex": "transaction-index",
    ".index": "offset-index",
    ".timeindex": "time-index",
    "leader-epoch-checkpoint": "epoch-checkpoint",
    "meta.properties": "meta.properties",
    "partition.metadata": "partition.metadata",
    "quorum-state": "quorum-state",
    ".kafka_cleanshutdown": "clean-shutdown",
}


@dataclass(slots=True)
class Corpus:
    """Files by kind; batches by codec, entries of the old formats apart; logs as runs of whole batches.

    `records`: topic -> records of Kafka's own topics; `control`: those of control batches.
    """

    files: dict[str, list[bytes]] = field(default_factory=dict)
    logs: list[list[bytes]] = field(default_factory=list)
    old_logs: list[list[bytes]] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    batches: dict[int, list[bytes]] = field(default_factory=dict)
    entries: list[bytes] = field(default_factory=list)
    records: dict[str, list[Record]] = field(default_factory=dict)
    own_batches: dict[str, list[bytes]] = field(default_factory=dict)
    control: list[Record] = field(default_factory=list)

    def flat(self) -> list[bytes]:
        """Batches of every codec, to be put among others."""
        return [batch for codec in sorted(self.batches) for batch in self.batches[codec]]


def loaded(archives: Iterable[str] = ARCHIVES) -> Corpus:
    """The corpus of some archives. Raises `OSError` or `tarfile.TarError` if one cannot be read."""
    corpus = Corpus()
    seen: set[bytes] = set()
    for name in archives:
        for path, data in _members(GOLDEN / f"{name}.tar.gz"):
            kind = _SMALL_FILES.get(path.name) or _SMALL_FILES.get(path.suffix)
            if path.name.endswith("-offset-checkpoint"):
                kind = "offset-checkpoint"
            if kind is not None:
                if kind.endswith("index"):
                    data = data[:_WRITTEN_INDEX]
                if data not in seen:
                    seen.add(data)
                    corpus.files.setdefault(kind, []).append(data)
            elif path.suffix in (".log", ".checkpoint"):
                _take_log(corpus, _topic(path), data)
    return _sampled(corpus)


def _members(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            # An index in use is larger than that, and its entries stand at its front.
            is_index = path.suffix in (".index", ".timeindex")
            if member.isfile() and (is_index or member.size <= _LARGEST_FILE):
                file = tar.extractfile(member)
                assert file is not None, "a regular file has contents"
                yield path, file.read(_WRITTEN_INDEX if is_index else -1)


def _topic(path: PurePosixPath) -> str:
    partition = parse_partition_dir(path.parent.name)
    return partition.topic if partition is not None else CLUSTER_METADATA


def _take_log(corpus: Corpus, topic: str, data: bytes) -> None:
    rows, damage = scan_buffer(data)
    if not len(rows) or damage:
        return
    run: list[bytes] = []
    for row in rows:
        batch = data[int(row["position"]) : int(row["position"] + row["size_bytes"])]
        if len(batch) > _RUN_BYTES:
            continue
        run.append(batch)
        if row["magic"] < CURRENT_MAGIC:
            corpus.entries.append(batch)
        else:
            corpus.batches.setdefault(int(row["attributes"]) & COMPRESSION_MASK, []).append(batch)
            _take_records(corpus, topic, batch, control=bool(row["attributes"] & CONTROL_BIT))
        if sum(map(len, run)) > _RUN_BYTES:
            _keep_run(corpus, run)
            run = []
    if run:
        _keep_run(corpus, run)


def _take_records(corpus: Corpus, topic: str, batch: bytes, *, control: bool) -> None:
    if topic not in INTERNAL_TOPICS and not control:
        return
    records = read_records(batch)
    assert not isinstance(records, Corruption), "a golden capture's batch can be read"
    if control:
        corpus.control += records
        return
    corpus.own_batches.setdefault(topic, []).append(batch)
    corpus.records.setdefault(topic, []).extend(records)


def _keep_run(corpus: Corpus, run: list[bytes]) -> None:
    old = run[0][16] < CURRENT_MAGIC
    (corpus.old_logs if old else corpus.logs).append(run)
    if len(corpus.headers) < _OF_EACH:
        corpus.headers.append(headers_file(b"".join(run)))


def headers_file(log: bytes) -> bytes:
    """The headers file of a log."""
    given, out = 0, bytearray()

    def readinto(target: memoryview) -> int:
        nonlocal given
        size = min(len(target), len(log) - given)
        target[:size] = log[given : given + size]
        given += size
        return size

    write_headers(readinto, out.extend, rewrite=lambda batch: batch if len(batch) % 3 == 0 else None)
    return bytes(out)


def _sampled(corpus: Corpus) -> Corpus:
    """Some of each kind, from all over the archives."""
    every: tuple[dict[Any, list[Any]], ...] = (corpus.files, corpus.batches, corpus.records, corpus.own_batches)
    for lists in every:
        for key in sorted(lists):
            lists[key] = _some(lists[key])
    corpus.logs, corpus.old_logs = _some(corpus.logs), _some(corpus.old_logs)
    corpus.entries, corpus.control = _some(corpus.entries), _some(corpus.control)
    return corpus


def _some(found: list[Any]) -> list[Any]:
    return found[:: max(1, len(found) // _OF_EACH)]
