"""Where the results of a run lie: names in, folders out; and whose a run directory has to be.

The rules that must hold: no two snapshots of a run share a folder, whatever their manifests call them and their
clusters; no folder leads out of the run directory; and nobody but us, root, and those whom our own directory lets in
can have laid what is in it, or exchange it, since we write there with our rights.
"""

import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.places_above import check_above, trusted

_PLAIN: Final = re.compile(r"[^./\\~][^/\\~]*")
_LONGEST: Final = 100
"""Bytes of a name that stays as it is. A file system takes 255, and a path of them has its limit, too."""
RUN_FILE: Final = "run.json"
COVERAGE_FILE: Final = "coverage.json"
"""Of each snapshot: with it its facts count."""
FACTS_DIGEST: Final = "facts_digest"
"""In it: what tells whether they are still all there."""
_OURS: Final = frozenset({"work", "failed", "facts", "data_docs", RUN_FILE, "report.json", COVERAGE_FILE})
"""What lies in a run directory under these names is no snapshot's."""
_DIGITS: Final = 32


def folders(names: Collection[str]) -> Mapping[str, str]:
    """A folder for each name, no two alike, not even for a file system that does not tell a from A.

    A name that can be a folder's is its folder's. Any other keeps what of it can be, with a digest of all of it behind
    a `~`, which no plain name has.
    """
    alike = Counter(_folded(name) for name in set(names))
    return {name: name if _is_plain(name) and alike[_folded(name)] == 1 else _told_apart(name) for name in names}


def _is_plain(name: str) -> bool:
    fits = _PLAIN.fullmatch(name) is not None and len(name.encode("utf-8", "replace")) <= _LONGEST
    return fits and name.isprintable() and _folded(name) not in _OURS


def _folded(name: str) -> str:
    """What a file system that minds neither case nor how an accent is written makes of a name (APFS, HFS+)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _told_apart(name: str) -> str:
    kept = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:40].lstrip(".")
    return f"{kept}~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def check_own(directory: Location) -> None:
    """Raises `SnapshotError` for a run directory in which somebody else may have laid something, or that somebody else
    could exchange. One that is not there yet is made by us. In an object store its own policies say who may write.

    The group of a directory of ours may write to it: Spark's workers on other machines do.
    """
    if not isinstance(directory, Path):
        return
    check_above(directory)
    try:
        found = (directory.lstat(), directory.stat())
    except FileNotFoundError:
        return
    for status in found:
        if status.st_uid not in trusted():
            raise SnapshotError(
                f"{directory} belongs to user {status.st_uid}, who could let what is written there go anywhere. Name "
                "a directory of your own or one that does not exist, or take this one: chown it, and see what is in it."
            )
    if stat.S_IMODE(found[1].st_mode) & stat.S_IWOTH:
        raise SnapshotError(
            f"Everybody may write to {directory}, and could let what is written there go anywhere. Name a directory "
            f"below it that does not exist, or close it: chmod o-w {directory}, and see what is in it."
        )


def place_below(directory: Location, told: object) -> Location:
    """A place that a run directory's own files name. Raises `ValueError` where it is not one below the directory, or
    a link is passed on the way there.
    """
    if not isinstance(told, str) or "\0" in told:
        raise ValueError(f"{told!r} is no path")
    parts = Path(told).parts
    if Path(told).is_absolute() or ".." in parts:
        raise ValueError(f"{told!r} leads out of the run directory")
    place = directory
    for part in parts:
        place = place / part
        if isinstance(place, Path) and place.is_symlink():
            raise ValueError(f"{place} is a link")
    return place
