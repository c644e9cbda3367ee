"""The manifest against the files: what is missing, of another size, changed, or not named.

In: a snapshot. Out: what is wrong, by path; or, where a signature is asked for, a snapshot of which all is as it was
signed, or an error. What is verified covers everything that an audit reads.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidegauge.snapshots.adopt import Snapshot, open_snapshot, walk
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.holes import sha256_of
from tidegauge.snapshots.local_path import must_be_of_kafka
from tidegauge.snapshots.location import Location, open_bytes
from tidegauge.snapshots.manifest import MANIFEST_NAME, LeftOut, Manifest, part_at
from tidegauge.snapshots.settled import settled
from tidegauge.snapshots.signing import Trusted, signature_name

_CHUNK: Final = 1 << 20
_TOLD: Final = 3
Progress = Callable[[str], None]
Expected = tuple[str, int | None, str | None]
"""A file's path, its size and its digest, as far as the manifest says."""


def open_verified(directory: Location, *, cluster: str | None, trusted: Trusted | None) -> Snapshot:
    """A snapshot to be audited. Where `trusted` asks for a signature, every file is read and held against it first.

    Raises `SnapshotError`.
    """
    if trusted is None:
        return open_snapshot(directory, cluster=cluster)
    snapshot = open_snapshot(directory, cluster=cluster, settle=False, trusted=trusted)
    problems = (*_changed(snapshot, _listed(snapshot), all_digests=True), *_unnamed_at_its_root(snapshot))
    if problems:
        told = "; ".join(f"{problem.path}: {problem.reason}" for problem in problems[:_TOLD])
        more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
        raise SnapshotError(
            f"{snapshot.root} is not as it was signed: {told}{more}. Find out who changed it, and capture it again; "
            "nothing of it is judged."
        )
    # Only now: which log dirs count is told by files.
    return Snapshot(root=snapshot.root, manifest=settled(snapshot.root, snapshot.manifest))


def verify(snapshot: Snapshot, *, all_digests: bool = False, progress: Progress | None = None) -> tuple[LeftOut, ...]:
    """Everything that is wrong; nothing where all is well. `all_digests`: a file without one is wrong, too."""
    listed = _listed(snapshot)
    problems = list(_changed(snapshot, listed, all_digests=all_digests, progress=progress))
    named = {f.path for f in snapshot.manifest.files()}
    present = _walked(snapshot.root, snapshot.manifest) if isinstance(snapshot.root, Path) else listed
    problems += [LeftOut(path=path, reason=_NOT_NAMED) for path in present if path not in named]
    if all_digests:
        problems += _unnamed_at_its_root(snapshot)
    return tuple(problems)


_NOT_NAMED: Final = "not named in the manifest"


def _changed(
    snapshot: Snapshot, sizes: Mapping[str, int], *, all_digests: bool, progress: Progress | None = None
) -> tuple[LeftOut, ...]:
    """The files that are not what the manifest says of them, in its order."""
    problems = []

    def problem(expected: Expected) -> str | None:
        return _problem(snapshot.root, expected, sizes, all_digests=all_digests)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Hashing lets go of the interpreter.
        for expected in _expected(snapshot.manifest):
            for (path, _, _), reason in zip(expected, pool.map(problem, expected), strict=True):
                if reason is not None:
                    problems.append(LeftOut(path=path, reason=reason))
                if progress is not None:
                    progress(path)
    return tuple(problems)


def _listed(snapshot: Snapshot) -> Mapping[str, int]:
    """The objects of each broker and their sizes: asking for each would cost a request. Nothing of a directory."""
    if isinstance(snapshot.root, Path):
        return {}
    return {
        f"{broker.directory}/{name}": size
        for broker in snapshot.manifest.brokers
        for name, size in (snapshot.root / broker.directory).sizes_below().items()
    }


def _expected(manifest: Manifest) -> Iterator[list[Expected]]:
    """Broker after broker, so that nobody holds the files of all."""
    for broker in manifest.brokers:
        yield [(file.path, file.size_bytes, file.sha256) for file in broker.files]
    if manifest.answers is not None:
        yield [(manifest.answers, None, manifest.answers_sha256)]


def _problem(root: Location, expected: Expected, sizes: Mapping[str, int], *, all_digests: bool) -> str | None:
    path, size_bytes, sha256 = expected
    try:
        size = sizes[path] if path in sizes else (root / path).stat().st_size
        must_be_of_kafka(size)
        if size_bytes is not None and size != size_bytes:
            return f"{size} bytes; the manifest says {size_bytes}"
        if sha256 is None:
            return "the manifest has no digest of it" if all_digests else None
        return None if _sha256(root / path) == sha256 else "its bytes have changed since the snapshot was taken"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def _unnamed_at_its_root(snapshot: Snapshot) -> Iterator[LeftOut]:
    """What lies beside the brokers' directories: some of it would be taken for evidence (answers, a remote tier)."""
    manifest = snapshot.manifest
    named = {MANIFEST_NAME, signature_name(MANIFEST_NAME), manifest.answers}
    parts = (part_at(broker.files, snapshot.root) for broker in manifest.brokers)
    named |= {part.name for part in parts if part is not None}
    named |= {broker.directory.split("/")[0] for broker in manifest.brokers}
    names: list[str] = [path.name for path in snapshot.root.iterdir()]
    yield from (LeftOut(path=name, reason=_NOT_NAMED) for name in sorted(names) if name not in named)


def _walked(root: Path, manifest: Manifest) -> Iterator[str]:
    """Every file below the brokers' directories, as paths below the snapshot's root."""
    for broker in manifest.brokers:
        yield from (path.relative_to(root).as_posix() for path in walk(root, root / broker.directory, []))


def _sha256(path: Location) -> str:
    if isinstance(path, Path):
        return sha256_of(path)
    digest = hashlib.sha256()
    with open_bytes(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
