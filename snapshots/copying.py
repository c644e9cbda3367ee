"""One file of a broker to one file of a snapshot, up to its size at open.

In: an open source file and a sink. Out: `Copied`: sizes, digest, instant. The rules that must hold: memory is bounded
by two chunks; holes stay holes and are not read; the digest is over the bytes as a reader of the copy sees them; a
source that fails while it is read raises `UnreadableError`, so that it is never taken for a target that fails.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
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


class StoppedError(Exception):
    """The capture has failed elsewhere, or was interrupted: nothing more is read."""


class Sink(Protocol):
    """Where a copy is written to, from its beginning to its end."""

    def write(self, data: bytes | memoryview) -> None:
        """The next bytes."""

    def skip(self, size: int) -> None:
        """The next bytes are zeros."""


@dataclass(slots=True, kw_only=True)
class Meter:
    """What all copying of a capture goes through, of whatever thread: its rate limit, its clock, and what it counts."""

    throttle: Throttle
    tick: Callable[[int, int], None] = lambda partitions, size: None
    """Hears of each partition that was taken, and of bytes that were read."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    bytes_read: int = 0
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, size: int) -> None:
        """Bytes that were read from a source. Raises `StoppedError` once that was asked for."""
        with self._lock:
            if self._stopped:
                raise StoppedError
            self.bytes_read += size
            self.tick(0, size)
        self.throttle.take(size)

    def taken(self) -> None:
        """A partition was taken."""
        with self._lock:
            self.tick(1, 0)

    def stop(self) -> None:
        """From now on nobody reads on."""
        self._stopped = True


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


def copy_file(
    source: SourceFile, sink: Sink | None, meter: Meter, *, rewrite: Rewrite | None = None, without_room: bool = False
) -> Copied:
    """Copies an open file, or only makes its digest. Raises `UnreadableError`, and what the sink raises.

    `without_room`: a block or more of zeros at its end is told, not copied.
    """
    at_ms = meter.now_ms()
    with ExitStack() as stack:
        behind = None
        if rewrite is None and source.seen.size_bytes > meter.throttle.chunk_bytes:
            behind = stack.enter_context(ThreadPoolExecutor(1))
        digest = _Digest(behind)
        target = _WithoutRoom(sink, digest) if without_room else _Hashed(sink, digest)
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
            sha256=digest.hexdigest(),
            read_at_ms=at_ms,
            zeros_behind=zeros_behind,
        )


def _verbatim(source: SourceFile, target: "_Hashed", meter: Meter) -> int:
    position, whole = 0, source.seen.size_bytes
    chunk = min(meter.throttle.chunk_bytes, whole)
    # While the digest of one is computed, the other one is read into.
    buffer, other = memoryview(bytearray(chunk)), memoryview(bytearray(chunk if chunk < whole else 0))
    for start, end in extents(source.fd, whole):
        target.skip(start - position)
        position = start
        while position < end:
            size = _read(source.fd, buffer[: end - position], position)
            if not size:
                return position
            meter.read(size)
            target.write_sparse(buffer[:size], position)
            position += size
            buffer, other = (other, buffer) if chunk < whole else (buffer, other)
    target.skip(whole - position)
    return whole


def _read(fd: int, buffer: memoryview, position: int) -> int:
    try:
        return os.preadv(fd, [buffer], position)
    except OSError as error:
        raise UnreadableError(f"cannot be read at byte {position}: {error.strerror or error}") from error


def reading(source: SourceFile, meter: Meter, *, start: int = 0) -> tuple[ReadInto, PassZeros]:
    """An open file as a source, from a position up to its size at open. Raises `UnreadableError`."""
    reader = _Reader(source, meter, start=start)
    return reader.readinto, reader.pass_zeros


class _Reader(HoledSource):
    """An open file as a source, from a position up to its size at open."""

    def __init__(self, source: SourceFile, meter: Meter, *, start: int = 0) -> None:
        size = source.seen.size_bytes
        super().__init__((extent for extent in extents(source.fd, size) if extent[1] > start), size)
        self.position = start
        self._fd, self._meter = source.fd, meter

    def _read(self, target: memoryview) -> int:
        size = _read(self._fd, target[: self._meter.throttle.chunk_bytes], self.position)
        self._meter.read(size)
        return size


class _Digest:
    """SHA-256 of what goes by. With a pool its thread computes it, one block at a time, while the block is written and
    the next one is read: so what is given has to stay as it is until the next but one is given.
    """

    def __init__(self, pool: Executor | None) -> None:
        self._pool = pool
        self._digest = hashlib.sha256()
        self._last: Future[None] | None = None

    def update(self, data: bytes | memoryview) -> None:
        """The next bytes."""
        self._wait()
        if self._pool is None:
            self._digest.update(data)
        else:
            self._last = self._pool.submit(self._digest.update, data)

    def add_zeros(self, count: int) -> None:
        """A hole."""
        self._wait()
        add_zeros(self._digest, count)

    def hexdigest(self) -> str:
        """Of all of it."""
        self._wait()
        return self._digest.hexdigest()

    def _wait(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()


class _Hashed:
    """Counts and digests what goes to a sink."""

    def __init__(self, sink: Sink | None, digest: _Digest) -> None:
        self._sink, self._digest = sink, digest
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        """The next bytes."""
        self._digest.update(data)
        if self._sink is not None:
            self._sink.write(data)
        self.size += len(data)

    def write_sparse(self, data: memoryview, position: int) -> None:
        """Whole blocks of zeros are left out of the sink; `position` is the file's, for a hole begins at a block."""
        self._digest.update(data)
        self.size += len(data)
        if self._sink is None:
            return
        pending = 0
        for at in _zero_blocks(data, -position % _BLOCK):
            if pending < at:
                self._sink.write(data[pending:at])
            self._sink.skip(_BLOCK)
            pending = at + _BLOCK
        if pending < len(data):
            self._sink.write(data[pending:])

    def skip(self, size: int) -> None:
        """A hole."""
        self.size += size
        if self._sink is not None and size:
            self._sink.skip(size)
        self._digest.add_zeros(size)

    def finish(self) -> int:
        """The end of the file. How many zeros before it are not in the copy."""
        return 0


def _zero_blocks(data: memoryview, first: int) -> Iterator[int]:
    """Where whole blocks of zeros begin. Of most blocks a look at the first byte is enough."""
    for at in range(first, len(data) - _BLOCK + 1, _BLOCK):
        if not data[at] and bytes(data[at : at + _BLOCK]) == _ZERO_BLOCK:
            yield at


class _WithoutRoom(_Hashed):
    """Holds zeros back until something follows them."""

    _held = 0

    def write_sparse(self, data: memoryview, position: int) -> None:
        """A target that keeps no holes is given none."""
        written = bytes(data).rstrip(b"\0")
        end = len(written)
        if end:
            self._let_go()
            self.write(written)
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
