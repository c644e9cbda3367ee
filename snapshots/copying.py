"""One file of a broker to one file of a snapshot, up to its size at open.

In: an open source file and a sink. Out: `Copied`: sizes, digest, instant. The rules that must hold: memory is bounded
by a chunk; holes stay holes and are not read; the digest is over the bytes as a reader of the copy sees them; a
source that fails while it is read raises `UnreadableError`, so that it is never taken for a target that fails.
"""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tidegauge.kafka_log.sources import PassZeros, ReadInto
from tidegauge.snapshots.holes import HoledSource, add_zeros, extents
from tidegauge.snapshots.source_files import Seen, SourceFile
from tidegauge.snapshots.throttle import Throttle

Rewrite = Callable[[ReadInto, PassZeros, Callable[[bytes], object]], object]
"""Reads a source up to its end, and writes what is kept of it."""

_BLOCK: Final = 4096
_ZERO_BLOCK: Final = bytes(_BLOCK)


class UnreadableError(Exception):
    """The source's file cannot be read; the text says why."""


class Sink(Protocol):
    """Where a copy is written to, from its beginning to its end."""

    def write(self, data: bytes | memoryview) -> None:
        """The next bytes."""

    def skip(self, size: int) -> None:
        """The next bytes are zeros."""


@dataclass(slots=True, kw_only=True)
class Meter:
    """What all copying of a capture goes through: its rate limit, its clock, and what it counts."""

    throttle: Throttle
    tick: Callable[[int, int], None] = lambda partitions, size: None
    """Hears of each partition that was taken, and of bytes that were read."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    bytes_read: int = 0

    def read(self, size: int) -> None:
        """Bytes that were read from a source."""
        self.bytes_read += size
        self.tick(0, size)
        self.throttle.take(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A finished copy. `source_size_bytes` is how far the source was read: less than `seen` says if it shrank. Size and
    digest are without `zeros_behind`, the room at the end that is not in the copy.
    """

    seen: Seen
    size_bytes: int
    source_size_bytes: int
    sha256: str
    read_at_ms: int
    zeros_behind: int

    @property
    def shrank(self) -> bool:
        """The source was cut while it was read."""
        return self.source_size_bytes < self.seen.size_bytes


def copy_file(
    source: SourceFile, sink: Sink | None, meter: Meter, *, rewrite: Rewrite | None = None, without_room: bool = False
) -> Copied:
    """Copies an open file, or only makes its digest. Raises `UnreadableError`, and what the sink raises.

    `without_room`: a block or more of zeros at its end is told, not copied.
    """
    at_ms = meter.now_ms()
    target = _WithoutRoom(sink) if without_room else _Hashed(sink)
    if rewrite is None:
        read = _verbatim(source, target, meter)
    else:
        reader = _Reader(source, meter)
        rewrite(reader.readinto, reader.pass_zeros, target.write)
        read = reader.position
    zeros_behind = target.finish()
    return Copied(
        seen=source.seen,
        size_bytes=target.size,
        source_size_bytes=read,
        sha256=target.digest.hexdigest(),
        read_at_ms=at_ms,
        zeros_behind=zeros_behind,
    )


def _verbatim(source: SourceFile, target: "_Hashed", meter: Meter) -> int:
    position = 0
    for start, end in extents(source.fd, source.seen.size_bytes):
        target.skip(start - position)
        position = start
        while position < end:
            data = _read(source.fd, min(meter.throttle.chunk_bytes, end - position), position)
            if not data:
                return position
            meter.read(len(data))
            target.write_sparse(data, position)
            position += len(data)
    target.skip(source.seen.size_bytes - position)
    return source.seen.size_bytes


def _read(fd: int, size: int, position: int) -> bytes:
    try:
        return os.pread(fd, size, position)
    except OSError as error:
        raise UnreadableError(f"cannot be read at byte {position}: {error.strerror or error}") from error


def reading(source: SourceFile, meter: Meter) -> tuple[ReadInto, PassZeros]:
    """An open file as a source, up to its size at open. Raises `UnreadableError`."""
    reader = _Reader(source, meter)
    return reader.readinto, reader.pass_zeros


class _Reader(HoledSource):
    """An open file as a source, up to its size at open."""

    def __init__(self, source: SourceFile, meter: Meter) -> None:
        super().__init__(extents(source.fd, source.seen.size_bytes), source.seen.size_bytes)
        self._fd, self._meter = source.fd, meter

    def _read(self, target: memoryview) -> int:
        data = _read(self._fd, min(len(target), self._meter.throttle.chunk_bytes), self.position)
        target[: len(data)] = data
        self._meter.read(len(data))
        return len(data)


class _Hashed:
    """Counts and digests what goes to a sink."""

    def __init__(self, sink: Sink | None) -> None:
        self._sink = sink
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """The next bytes."""
        self.digest.update(data)
        if self._sink is not None:
            self._sink.write(data)
        self.size += len(data)

    def write_sparse(self, data: bytes, position: int) -> None:
        """Whole blocks of zeros are left out of the sink; `position` is the file's, for a hole begins at a block."""
        self.digest.update(data)
        self.size += len(data)
        if self._sink is None:
            return
        head = -position % _BLOCK
        pending, at = 0, head
        while at + _BLOCK <= len(data):
            if data[at : at + _BLOCK] == _ZERO_BLOCK:
                if pending < at:
                    self._sink.write(data[pending:at])
                self._sink.skip(_BLOCK)
                pending = at + _BLOCK
            at += _BLOCK
        if pending < len(data):
            self._sink.write(data[pending:] if pending else data)

    def skip(self, size: int) -> None:
        """A hole."""
        self.size += size
        if self._sink is not None and size:
            self._sink.skip(size)
        add_zeros(self.digest, size)

    def finish(self) -> int:
        """The end of the file. How many zeros before it are not in the copy."""
        return 0


class _WithoutRoom(_Hashed):
    """Holds zeros back until something follows them."""

    _held = 0

    def write_sparse(self, data: bytes, position: int) -> None:
        """A target that keeps no holes is given none."""
        end = len(data.rstrip(b"\0"))
        if end:
            self._let_go()
            self.write(data[:end])
        self._held += len(data) - end

    def skip(self, size: int) -> None:
        """A hole."""
        self._held += size

    def finish(self) -> int:
        """The end of the file. Less than a block is no room, and is written."""
        if self._held < _BLOCK:
            self._let_go()
        return self._held

    def _let_go(self) -> None:
        held, self._held = self._held, 0
        super().skip(held)
