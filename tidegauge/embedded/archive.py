"""Unpacking a capture: a `.tar.gz` of log directories in, a directory out, once.

Kafka preallocates index files, so an archive of log directories holds files that are mostly holes; they stay holes. The
rule that must hold: the directory appears under its name only when it is whole, so that several processes may ask for
the same one at once and a killed one leaves nothing that looks finished.
"""

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tidegauge.snapshots.places_above import made_safe


def unpack(archive: Path, directory: Path) -> Path:
    """The contents of `archive` as `directory`; what is already there is taken as it is.

    Raises `SnapshotError` where somebody else could exchange it, and `OSError` or `tarfile.TarError` when the archive
    cannot be read or the disk is full.
    """
    if directory.is_dir():
        return directory
    made_safe(directory.parent)
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        with tarfile.open(archive) as tar:
            # Before 3.11.4 nobody heeds a filter (PEP 706), so what is dangerous never gets as far as that.
            tar.extraction_filter = lambda member, path: member
            tar.extractall(partial, members=_harmless(tar))  # noqa: S202 - see _harmless
        partial.chmod(0o750)
        os.rename(_only_child(partial), directory)
    except OSError:
        if not directory.is_dir():  # else somebody else was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def _harmless(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Files and directories inside of the directory, the asker's own, closed to others. Raises `TarError` at any other
    member: log directories have neither links nor devices.
    """
    for member in tar:
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts or not (member.isreg() or member.isdir()):
            raise tarfile.ExtractError(f"{member.name!r} is no file or directory below the archive's root")
        member.mode = 0o750 if member.isdir() else member.mode & 0o750
        member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
        yield member


def _only_child(directory: Path) -> Path:
    """An archive of one directory is that directory's contents."""
    children = list(directory.iterdir())
    return children[0] if len(children) == 1 and children[0].is_dir() else directory
