"""Holes: what a file's end is where nothing was ever written, as in the index files that a broker preallocates.

In: a file of this machine. Out: how much of it was written; the rest are zeros that need not be read. The rule that
must hold: what is called a hole reads as zeros. Where the system cannot tell, there is none.

A broker preallocates 10 MiB for each index of each active segment, and a small snapshot is mostly these zeros.
"""

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from snapshots.local_path import must_be_readable

_CHUNK: Final = 1 << 20
_ZEROS: Final = bytes(_CHUNK)


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
