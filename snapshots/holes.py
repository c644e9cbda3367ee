"""Holes: where nothing of a file was ever written, as at the end of the index files that a broker preallocates.

In: a file of this machine. Out: how much of it was written, or a source that passes over the rest: zeros that need not
be read. The rule that must hold: what is called a hole reads as zeros. Where the system cannot tell, there is none.

A broker preallocates 10 MiB for each index of each active segment, and a small snapshot is mostly these zeros. A log
has its hole at the end with log.preallocate, and anywhere where somebody makes work with it.
"""

import errno
import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final

from snapshots.local_path import must_be_readable

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
    _add_zeros(digest, size - written)
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


def _add_zeros(digest: "hashlib._Hash", count: int) -> None:
    for _ in range(count // _CHUNK):
        digest.update(_ZEROS)
    digest.update(_ZEROS[: count % _CHUNK])


@lru_cache(maxsize=64)
def _sha256_of_zeros(count: int) -> str:
    digest = hashlib.sha256()
    _add_zeros(digest, count)
    return digest.hexdigest()


class HoledFile:
    """An open file as a source (`kafka_log.sources`), from its first byte up to a size."""

    def __init__(self, file: IO[bytes], size_bytes: int | None = None) -> None:
        self._file: Any = file
        self._size = _NEVER if size_bytes is None else size_bytes
        self._fd = _descriptor(file)
        self._at = self._read_to = 0
        self._hole_end = 0
        self._written_end = 0 if self._fd is not None else _NEVER

    def readinto(self, target: memoryview) -> int:
        """The next bytes, up to where a hole begins; of a hole no more than a look at it needs."""
        hole, wanted = self._hole(), min(len(target), self._size - self._at)
        if hole:
            size = min(wanted, hole, _BLOCK)
            target[:size] = _ZEROS[:size]
        elif wanted > 0:
            if self._read_to != self._at:
                self._file.seek(self._at)
            size = self._file.readinto(target[: min(wanted, self._written_end - self._at)])
            self._read_to = self._at + size
        else:
            size = 0
        self._at += size
        return size

    def pass_zeros(self) -> int:
        """The rest of a hole."""
        hole = self._hole()
        self._at += hole
        return hole

    def _hole(self) -> int:
        """What is left of the hole that the next byte is in."""
        if self._fd is not None and self._at >= max(self._hole_end, self._written_end):
            self._look(self._fd)
        return max(0, min(self._hole_end, self._size) - self._at)

    def _look(self, descriptor: int) -> None:
        """What comes next; the position, which is the file's own, stays."""
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            data = os.lseek(descriptor, self._at, os.SEEK_DATA)
            if data > self._at:
                self._hole_end = data
            else:
                self._written_end = os.lseek(descriptor, self._at, os.SEEK_HOLE)
        except (AttributeError, OSError) as error:
            size = os.fstat(descriptor).st_size
            if getattr(error, "errno", None) == errno.ENXIO and size > self._at:
                self._hole_end = size
            else:  # Its end, or a system that knows no holes: whatever is read is what there is.
                self._written_end = _NEVER
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)


def _descriptor(file: IO[bytes]) -> int | None:
    """Of a file of this machine; bytes in memory and objects of a store have none."""
    try:
        return file.fileno()
    except (AttributeError, OSError):
        return None
