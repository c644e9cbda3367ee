"""A file that appears whole or not at all, and never through what somebody laid there before.

In: a place and its bytes. Out: the file, or the object, of which a store promises the same. The rule that must hold of
a directory of this machine: nothing that was there is written into. Who may put files into it could else lay a link,
hard or symbolic, under the name that is about to be written, and let us (root, often) overwrite what it leads to. So
what has the name beside is unlinked, the file is made anew (O_EXCL follows no link), and it is renamed over the one
before.

The name beside is the same each time: what a killed process left there goes when the same is written again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from tidegauge.snapshots.location import Location, ObjectPath


@contextmanager
def appearing(path: Location, *, by: str = "", synced: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which is `path` when the block has ended well. Raises `OSError`.

    `by` tells apart those who may write the same file at once; `synced`: it is on the disk before it appears. An object
    is always both, once it is there.
    """
    found = _file(path, by=by, synced=synced) if isinstance(path, Path) else _object(path)
    with found as file:
        yield file


@contextmanager
def _object(path: ObjectPath) -> Iterator[IO[bytes]]:
    """What is written waits on this machine: a store takes an object whole, and an upload has to know its bytes."""
    with NamedTemporaryFile(prefix="tidegauge-") as file:
        yield file
        file.flush()
        path.fs.put_file(file.name, path.path)


@contextmanager
def _file(path: Path, *, by: str, synced: bool) -> Iterator[IO[bytes]]:
    partial = path.with_name(f".{path.name}{f'.{by}' if by else ''}.partial")
    partial.unlink(missing_ok=True)
    file: IO[bytes] | None = None
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())
            os.replace(partial, path)
    except BaseException as error:
        # What another made here since is not ours to unlink: opening it fails, and leaves it alone. A signal may come
        # when the file was made and nobody has heard so.
        if file is not None or not isinstance(error, OSError):
            partial.unlink(missing_ok=True)
        raise


def write_whole(path: Location, data: str | bytes, *, by: str = "", synced: bool = False) -> None:
    """The same for what is in memory; a text is written as UTF-8."""
    whole = data.encode("utf-8") if isinstance(data, str) else data
    if not isinstance(path, Path):
        path.write_bytes(whole)
        return
    with appearing(path, by=by, synced=synced) as file:
        file.write(whole)
