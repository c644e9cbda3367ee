"""Holes: where nothing of a file was ever written, as at the end of the index files that a broker preallocates.

In: a file of this machine. Out: how much of it was written, or a source that passes over the rest: zeros that need not
be read. What is called a hole reads as zeros. Where the system cannot tell, there is none.

A broker preallocates 10 MiB for each index of each active segment, and a small snapshot is mostly these zeros. A log
has its hole at the end with log.preallocate, and anywhere where somebody makes work with it.
"""

import errno
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final

from tidegauge.snapshots.local_path import must_be_readable

_CHUNK: Final = 1 << 20
_ZEROS: Final = bytes(_CHUNK)
_BLOCK: Final = 4096
_NEVER: Final = 1 << 63


def read_written(path: Path) -> tuple[bytes, int]:
    """A file's bytes up to the hole at its end, and the size of that hole. Raises `OSError`."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        written = written_bytes(file.fileno(), size)
        must_be_readable(written)
        data = bytearray()
        while len(data) < written and (more := file.read(written - len(data))):
            data += more
    # What was appended or cut meanwhile is as if it had been asked a moment earlier or later.
    return bytes(data), size - written if len(data) == written else 0


def sha256_of(path: Path) -> str:
    """The digest of a whole file, its hole included, at the size that it has when it is opened. Raises `OSError`."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        written = written_bytes(file.fileno(), size)
        if written == 0:
            return _sha256_of_zeros(size)
        digest = hashlib.sha256()
        left = written
        while left and (chunk := file.read(min(left, _CHUNK))):
            digest.update(chunk)
            left -= len(chunk)
    add_zeros(digest, size - written)
    return digest.hexdigest()


def sha256_with_zeros(data: bytes, zeros: int) -> str:
    """The digest of what `read_written` read."""
    digest = hashlib.sha256(data)
    add_zeros(digest, zeros)
    return digest.hexdigest()


def written_bytes(descriptor: int, size: int) -> int:
    """Bytes before the hole at the end; leaves the position at 0."""
    try:
        hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
        if hole >= size:
            return size
        try:
            os.lseek(descriptor, hole, os.SEEK_DATA)
        except OSError:  # ENXIO: no data behind it
            return hole
        return size
    except (AttributeError, OSError):  # a system or a file system that knows no holes
        return size
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def add_zeros(digest: "hashlib._Hash", count: int) -> None:
    """As many zeros into a digest."""
    for _ in range(count // _CHUNK):
        digest.update(_ZEROS)
    digest.update(_ZEROS[: count % _CHUNK])


@lru_cache(maxsize=64)
def _sha256_of_zeros(count: int) -> str:
    digest = hashlib.sha256()
    add_zeros(digest, count)
    return digest.hexdigest()


def extents(descriptor: int | None, size: int) -> Iterator[tuple[int, int]]:
    """The stretches `[start, end)` of an open file that hold data, up to a size; between them are holes. The whole file
    where the system cannot say, or there is no descriptor. The file's own position stays.
    """
    position = 0
    while position < size:
        start, end = (position, size) if descriptor is None else _extent(descriptor, position, size)
        if start >= size:
            return  # A hole up to the end.
        yield start, min(end, size)
        position = end


def _extent(descriptor: int, position: int, size: int) -> tuple[int, int]:
    """The next one at a position or behind it."""
    own = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        start = os.lseek(descriptor, position, os.SEEK_DATA)
        return start, os.lseek(descriptor, start, os.SEEK_HOLE)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", None) != errno.ENXIO:
            return position, size  # A system or a file system that knows no holes.
        # No data behind it: a hole up to the file's end. Where that was cut meanwhile, whoever reads there sees it.
        return max(position, os.fstat(descriptor).st_size), size
    finally:
        os.lseek(descriptor, own, os.SEEK_SET)


class HoledSource(ABC):
    """A source (`kafka_log.sources`) over extents, from the first byte up to a size: holes are given as zeros, and not
    read.
    """

    def __init__(self, of: Iterator[tuple[int, int]], size: int) -> None:
        self._extents, self._size = of, size
        self._start = self._end = 0
        self.position = 0

    @abstractmethod
    def _read(self, target: memoryview) -> int:
        """Reads at the position, as much as it likes of what fits into memory that is not empty; 0 at the end."""

    def readinto(self, target: memoryview) -> int:
        """The next bytes, up to where a hole begins; of a hole no more than a look at it needs."""
        if hole := self._hole():
            # Who sees that it is one passes the rest.
            size = min(len(target), hole, _BLOCK)
            target[:size] = _ZEROS[:size]
        else:
            wanted = min(len(target), self._end - self.position)
            size = self._read(target[:wanted]) if wanted > 0 else 0
        self.position += size
        return size

    def pass_zeros(self) -> int:
        """The rest of a hole."""
        hole = self._hole()
        self.position += hole
        return hole

    def _hole(self) -> int:
        """What is left of the hole that the next byte is in."""
        if self.position >= self._end:
            self._start, self._end = next(self._extents, (self._size, self._size))
        return max(0, self._start - self.position)


class HoledFile(HoledSource):
    """An open file as a source, from its first byte up to a size, or to wherever it ends by then."""

    def __init__(self, file: IO[bytes], size_bytes: int | None = None) -> None:
        size = _NEVER if size_bytes is None else size_bytes
        super().__init__(extents(_descriptor(file), size), size)
        self._file: Any = file
        self._read_to = 0

    def _read(self, target: memoryview) -> int:
        if self._read_to != self.position:
            self._file.seek(self.position)
        size: int = self._file.readinto(target)
        self._read_to = self.position + size
        return size


def _descriptor(file: IO[bytes]) -> int | None:
    """Of a file of this machine; bytes in memory and objects of a store have none."""
    try:
        return file.fileno()
    except (AttributeError, OSError):
        return None
