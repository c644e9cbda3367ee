"""A broker's disk in miniature: log dirs that are appended to, rolled, deleted from, compacted and truncated.

In: what is to happen. Out: files named, renamed and removed in the order in which Kafka does it. Records tell their own
offset, so that a copy can be judged by itself. What belongs to a sealed log says so: its index is the log's digest.
"""

import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.kafka_log.writing import batch, record
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
EMPTY_PRODUCER_SNAPSHOT = struct.pack(">hIi", 1, crc32c(struct.pack(">i", 0)), 0)


def log_dir(directory: Path, *, node: int = 1, cluster: str = CLUSTER) -> Path:
    """An empty log dir."""
    directory.mkdir(parents=True)
    (directory / "meta.properties").write_text(
        f"version=1\nnode.id={node}\ndirectory.id=dir-{node}-{directory.name}\ncluster.id={cluster}\n"
    )
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (directory / name).write_text("0\n0\n")
    return directory


@dataclass
class Log:
    """One partition's log: base offset -> end offset of each segment."""

    directory: Path
    compacted: bool = False
    segments: dict[int, int] = field(default_factory=dict)
    waiting: list[Path] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    @classmethod
    def new(cls, directory: Path, *, compacted: bool = False) -> "Log":
        """An empty log, as a broker makes it."""
        directory.mkdir()
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {directory.name:_<22}\n")
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        log = cls(directory=directory, compacted=compacted)
        log._open(0)
        return log

    @property
    def end(self) -> int:
        return max(self.segments.values())

    @property
    def active(self) -> int:
        return max(self.segments)

    def append(self, count: int = 1) -> None:
        with self._file(self.active, "log").open("ab") as file:
            for _ in range(count):
                file.write(batch(self.end, record(0, None, b"%032d" % self.end), 1))
                self.segments[self.active] += 1

    def roll(self) -> None:
        self._seal(self.active)
        self._open(self.end)

    def retain(self) -> None:
        """Retention deletes the oldest segment."""
        self._rename(min(self.segments))

    def compact(self) -> None:
        """The cleaner merges the oldest sealed segments: of each offset that is odd the record goes."""
        merged = [base for base in sorted(self.segments) if base != self.active][:2]
        first, data = merged[0], b"".join(self._file(base, "log").read_bytes() for base in merged)
        rows, _ = scan_buffer(data)
        kept = b"".join(
            data[r["position"] : r["position"] + r["size_bytes"]] for r in rows if int(r["base_offset"]) % 2 == 0
        )
        end = self.segments[merged[-1]]
        cleaned = {"log": kept, "index": digest(kept), "timeindex": b""}
        for kind, content in cleaned.items():
            self._file(first, f"{kind}.cleaned").write_bytes(content)
        self.meanwhile()
        for kind in cleaned:
            self._file(first, f"{kind}.cleaned").rename(self._file(first, f"{kind}.swap"))
        self.meanwhile()
        for base in merged:
            self._rename(base, snapshot=base != first)
            self.meanwhile()
        for kind in cleaned:
            self._file(first, f"{kind}.swap").rename(self._file(first, kind))
        self.segments[first] = end

    def truncate(self, to: int) -> None:
        """A follower cuts its log back to an offset of its last segment, and goes on in a new leader epoch."""
        log = self._file(self.active, "log")
        rows, _ = scan_buffer(log.read_bytes())
        os.truncate(log, int(rows["size_bytes"][rows["base_offset"] < to].sum()))
        self.segments[self.active] = to

    def expire(self) -> None:
        """What waited to be deleted is."""
        for path in self.waiting:
            path.unlink()
        self.waiting.clear()

    def _open(self, base: int) -> None:
        self._file(base, "log").touch()
        self._file(base, "index").write_bytes(bytes(8192))
        self._file(base, "timeindex").write_bytes(bytes(8196))
        if base:
            self._file(base, "snapshot").write_bytes(EMPTY_PRODUCER_SNAPSHOT)
        self.segments[base] = base

    def _seal(self, base: int) -> None:
        os.truncate(self._file(base, "index"), 0)
        self._file(base, "index").write_bytes(digest(self._file(base, "log").read_bytes()))
        os.truncate(self._file(base, "timeindex"), 0)

    def _rename(self, base: int, *, snapshot: bool = True) -> None:
        for kind in ("log", "index", "timeindex", *(("snapshot",) if snapshot and base else ())):
            path = self._file(base, kind)
            path.rename(path.with_name(f"{path.name}.deleted"))
            if path.with_name(f"{path.name}.deleted") not in self.waiting:
                self.waiting.append(path.with_name(f"{path.name}.deleted"))
        del self.segments[base]

    def _file(self, base: int, suffix: str) -> Path:
        return self.directory / f"{base:020d}.{suffix}"


def digest(log: bytes) -> bytes:
    """What the index of a sealed log says here."""
    return hashlib.sha256(log).digest()


def offsets_in(directory: Path) -> list[int]:
    """Offsets of a copied partition in file order. Every batch must be whole, and every record say its own offset."""
    found = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        rows, corruptions = scan_buffer(data)
        assert corruptions == ()
        for _, records in records_in(data, rows):
            for one in records:
                assert one.value == b"%032d" % one.offset
                found.append(one.offset)
    return found
