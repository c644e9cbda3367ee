"""Folders that are written to: of this machine, or in an object store, where a folder is there with its first object.

In: a `Location`. Out: what lies in it, moved or removed. A file or an object is there whole, under the one name or the
other; of many that are moved some may be there before others.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidegauge.snapshots.location import Location

_AT_ONCE: Final = 16
"""Requests to an object store that are under way together: each takes some 20 ms, whatever its object has."""


def made(folder: Location) -> Location:
    """The same, there now."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def absolute(place: Location) -> str:
    """A place as any process of this machine names it, and one in an object store as any machine does."""
    return str(place.absolute()) if isinstance(place, Path) else str(place)


def emptied(folder: Location) -> None:
    """Removes a folder and all that is below."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    elif paths := [f"{folder.path}/{name}" for name in folder.sizes_below()]:
        folder.fs.rm(paths)


def sizes_in(folder: Location, suffix: str) -> Mapping[str, int]:
    """The files directly in a folder whose names end so, with their bytes; in order. A folder that is not there has
    none.
    """
    if isinstance(folder, Path):
        paths = folder.iterdir() if folder.is_dir() else ()
        found = {path.name: path.stat().st_size for path in paths if path.name.endswith(suffix)}
    else:
        found = {name: size for name, size in folder.sizes_below().items() if "/" not in name}
    return {name: found[name] for name in sorted(found) if name.endswith(suffix)}


def sizes_below(folder: Location) -> Mapping[str, int]:
    """Every file below a folder by its path from there, with its bytes. A folder that is not there has none."""
    if not isinstance(folder, Path):
        return folder.sizes_below()
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def moved(pairs: Iterable[tuple[Location, Location]]) -> None:
    """Gives files other names in the same place; what had the name before is replaced. Raises `OSError`."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(_moved, pairs):
            pass


def _moved(pair: tuple[Location, Location]) -> None:
    old, new = pair
    if isinstance(old, Path):
        assert isinstance(new, Path), "a file stays on its machine"
        made(new.parent)
        os.replace(old, new)
    else:
        assert not isinstance(new, Path), "an object stays in its store"
        old.fs.cp_file(old.path, new.path)
        old.unlink()
