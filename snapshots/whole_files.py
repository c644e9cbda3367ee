"""A file that appears whole or not at all, and never through what somebody laid there before.

In: a path and its bytes. Out: the file. The rule that must hold: nothing that was there is written into. Who may put
files into the directory could else lay a link, hard or symbolic, under the name that is about to be written, and let us
(root, often) overwrite what it leads to. So what has the name beside is unlinked, the file is made anew (O_EXCL follows
no link), and it is renamed over the one before.

The name beside is the same each time: what a killed process left there goes when the same is written again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def appearing(path: Path, *, by: str = "", synced: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which is `path` when the block has ended well. Raises `OSError`.

    `by` tells apart those who may write the same file at once; `synced`: it is on the disk before it appears.
    """
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


def write_whole(path: Path, data: str | bytes, *, by: str = "", synced: bool = False) -> None:
    """The same for what is in memory; a text is written as UTF-8."""
    with appearing(path, by=by, synced=synced) as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)
