"""Directories below one: a directory in, what each of them holds out.

In: a directory that anybody may have filled. Out: its directories, each with its entries. The work is bounded by a
depth, not by Python's stack (os.walk of 3.11 calls itself for each directory in a directory), and no link is entered.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

DEEPEST: Final = 64
"""Directories in one another that are entered. In a log dir are partitions' own, so that a broker's copy has two."""


def directories(
    top: Path,
    *,
    failed: Callable[[Path, OSError], None] = lambda path, error: None,
    too_deep: Callable[[Path], None] = lambda path: None,
) -> Iterator[tuple[Path, Sequence[os.DirEntry[str]]]]:
    """Each directory from `top` downwards with its entries by name, one before those in it.

    `failed` hears of one that cannot be listed, `too_deep` of one that is not entered.
    """
    waiting = [(top, 0)]
    while waiting:
        path, depth = waiting.pop()
        if depth > DEEPEST:
            too_deep(path)
            continue
        try:
            with os.scandir(path) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            failed(path, error)
            continue
        yield path, entries
        inside = (path / entry.name for entry in entries if is_directory(entry))
        waiting += reversed([(below, depth + 1) for below in inside])


def is_directory(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory, and no link to one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False  # gone meanwhile
