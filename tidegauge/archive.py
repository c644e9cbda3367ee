"""Unpacking a capture: a `.tar.gz` of log directories in, a directory out, once.

Kafka preallocates index files, so an archive of log directories holds files that are mostly holes; they stay holes. The
rule that must hold: the directory appears under its name only when it is whole, so that several processes may ask for
the same one at once and a killed one leaves nothing that looks finished.
"""

import os
import shutil
import tarfile
import tempfile
from pathlib import Path


def unpack(archive: Path, directory: Path) -> Path:
    """The contents of `archive` as `directory`; what is already there is taken as it is.

    Raises `OSError` or `tarfile.TarError` when the archive cannot be read or the disk is full.
    """
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(partial, filter=_closed)  # noqa: S202 - the filter is that of PEP 706
        partial.chmod(0o750)
        os.rename(_only_child(partial), directory)
    except OSError:
        if not directory.is_dir():  # else somebody else was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def _closed(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """What may be unpacked (PEP 706), as far as others have nothing to see in it."""
    found = tarfile.data_filter(member, path)
    return found if found.mode is None else found.replace(mode=found.mode & ~0o027)


def _only_child(directory: Path) -> Path:
    """An archive of one directory is that directory's contents."""
    children = list(directory.iterdir())
    return children[0] if len(children) == 1 and children[0].is_dir() else directory
