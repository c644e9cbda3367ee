"""Adopting a plain copy: a directory that holds `broker-<id>/` becomes a snapshot; and verifying one.

In: a directory. Out: a `Snapshot` (root and manifest). The rule that must hold: nothing but MANIFEST.json is ever
written into the copy, nothing is followed out of it, and what cannot be read is named, not dropped.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_log.headers_file import END_FRAME_BYTES, log_size_bytes
from kafka_log.log_dir import is_headers_file, parse_partition_dir
from kafka_log.properties import MetaProperties, parse_meta_properties
from kafka_log.types import BrokerId
from snapshots.errors import SnapshotError
from snapshots.holes import sha256_of
from snapshots.location import Location, open_bytes
from snapshots.manifest import (
    MANIFEST_NAME,
    BrokerCapture,
    Consistency,
    FileEntry,
    LeftOut,
    LogDir,
    Manifest,
    Mode,
    Source,
    from_json,
    to_json,
)

_BROKER_DIR: Final = re.compile(r"broker-(\d+)")
_CHUNK: Final = 1 << 20
_META_PROPERTIES: Final = "meta.properties"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot that can be read: where it lies and what it holds."""

    root: Location
    manifest: Manifest


def open_snapshot(directory: Location, *, cluster: str | None = None) -> Snapshot:
    """A snapshot by its manifest; without one, the directory is adopted on the fly as fuzzy, and nothing is written."""
    _must_be_directory(directory)
    manifest_path = directory / MANIFEST_NAME
    if manifest_path.exists():
        try:
            text = manifest_path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"{manifest_path} cannot be read: {error}. Check its permissions.") from error
        return Snapshot(root=directory, manifest=from_json(text, where=str(manifest_path)))
    if not isinstance(directory, Path):
        raise SnapshotError(
            f"{directory} has no {MANIFEST_NAME}, so it is no snapshot: one in an object store is written by "
            "`tidegauge capture --out URL`, the manifest last. Capture it again, or adopt a local copy."
        )
    return Snapshot(root=directory, manifest=survey(directory, cluster=cluster))


def adopt(
    directory: Path,
    *,
    cluster: str,
    consistency: Consistency = Consistency.FUZZY,
    snapshot_id: str | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Writes the manifest of a plain copy, with every file's digest, and refuses to overwrite one."""
    _must_be_directory(directory)
    target = directory / MANIFEST_NAME
    if target.exists():
        raise SnapshotError(
            f"{directory} is a snapshot already ({MANIFEST_NAME} is there). To adopt it anew, remove {target} first."
        )
    manifest = survey(
        directory, cluster=cluster, consistency=consistency, snapshot_id=snapshot_id, digests=True, progress=progress
    )
    partial = directory / f".{MANIFEST_NAME}.partial"
    try:
        partial.write_text(to_json(manifest), encoding="utf-8")
        os.replace(partial, target)
    except OSError as error:
        raise SnapshotError(f"{target} cannot be written: {error}. Adopt a copy that you may write to.") from error
    return Snapshot(root=directory, manifest=manifest)


def survey(
    directory: Path,
    *,
    cluster: str | None = None,
    consistency: Consistency = Consistency.FUZZY,
    snapshot_id: str | None = None,
    digests: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """What a plain copy holds. Without a name the cluster is called by its cluster id."""
    _must_be_directory(directory)
    left_out: list[LeftOut] = []
    brokers = []
    meta: dict[str, MetaProperties] = {}
    try:
        children = sorted(directory.iterdir())
    except OSError as error:
        raise SnapshotError(f"{directory} cannot be listed: {error}. Check its permissions.") from error
    for child in children:
        match = _BROKER_DIR.fullmatch(child.name)
        if match is None:
            continue
        if child.is_symlink() or not child.is_dir():
            left_out.append(LeftOut(path=child.name, reason="not a directory of the copy itself"))
            continue
        brokers.append(_broker(directory, child, BrokerId(int(match[1])), left_out, meta, digests, progress))
    readable = [b for b in brokers if b.files]
    if not readable:
        reasons = "; ".join(f"{x.path}: {x.reason}" for x in left_out[:3])
        raise SnapshotError(
            f"{directory} holds no broker's log directories{f' that can be read ({reasons})' if reasons else ''}: "
            "a snapshot has one directory broker-<id> per broker, with what its log.dirs hold. "
            "Copy them there, for example: cp -a --sparse=always /var/lib/kafka DIR/broker-1"
        )
    cluster_id = _one_cluster(directory, meta)
    name = cluster or cluster_id or directory.resolve().name
    return Manifest(
        cluster=name,
        cluster_id=cluster_id,
        snapshot_id=snapshot_id or _default_id(directory, brokers),
        source=Source.SIMULATED if (directory / "TRUTH.json").exists() else Source.CAPTURED,
        mode=Mode.HEADERS if any(is_headers_file(f.path) for b in brokers for f in b.files) else Mode.FULL,
        consistency=consistency,
        brokers=tuple(brokers),
        left_out=tuple(left_out),
    )


def verify(snapshot: Snapshot, *, progress: Progress | None = None) -> tuple[LeftOut, ...]:
    """The manifest against the files: what is missing, of another size, changed, or not named. Empty: all is well."""
    problems: list[LeftOut] = []
    named = {f.path for f in snapshot.manifest.files()}
    for file in snapshot.manifest.files():
        path = snapshot.root / file.path
        try:
            size = path.stat().st_size
            if size != file.size_bytes:
                problems.append(LeftOut(path=file.path, reason=f"{size} bytes; the manifest says {file.size_bytes}"))
            elif file.sha256 is not None and _sha256(path) != file.sha256:
                problems.append(LeftOut(path=file.path, reason="its bytes have changed since the snapshot was taken"))
        except FileNotFoundError:
            problems.append(LeftOut(path=file.path, reason="missing"))
        except OSError as error:
            problems.append(LeftOut(path=file.path, reason=f"cannot be read: {error.strerror or error}"))
        if progress is not None:
            progress(file.path)
    for broker in snapshot.manifest.brokers:
        left: list[LeftOut] = []
        for relative in _present(snapshot.root, broker.directory, left):
            if relative not in named:
                problems.append(LeftOut(path=relative, reason="not named in the manifest"))
    return tuple(problems)


def _present(root: Location, directory: str, left_out: list[LeftOut]) -> Iterator[str]:
    """Every file below a directory of the snapshot, as paths below its root."""
    if isinstance(root, Path):
        for path in _walk(root, root / directory, left_out):
            yield path.relative_to(root).as_posix()
    else:
        yield from (f"{directory}/{name}" for name in (root / directory).sizes_below())


def _must_be_directory(directory: Location) -> None:
    if not directory.exists():
        raise SnapshotError(f"{directory} does not exist. Name a snapshot, or a directory that holds broker-<id>/.")
    if not directory.is_dir():
        raise SnapshotError(f"{directory} is not a directory. Unpack it first, then name the directory.")


def _broker(
    root: Path,
    directory: Path,
    broker_id: BrokerId,
    left_out: list[LeftOut],
    meta: dict[str, MetaProperties],
    digests: bool,
    progress: Progress | None,
) -> BrokerCapture:
    files = []
    for path in _walk(root, directory, left_out):
        relative = path.relative_to(root).as_posix()
        try:
            size = path.stat().st_size
            digest = _sha256(path) if digests else None
        except OSError as error:
            left_out.append(LeftOut(path=relative, reason=f"cannot be read: {error.strerror or error}"))
            continue
        files.append(
            FileEntry(path=relative, size_bytes=size, sha256=digest, source_size_bytes=_size_of_log(path, size))
        )
        if progress is not None:
            progress(relative)
    log_dirs = []
    for name in _log_dir_names(directory):
        properties_path = (directory if name == "." else directory / name) / _META_PROPERTIES
        directory_id = None
        if properties_path.is_file():
            relative = properties_path.relative_to(root).as_posix()
            try:
                properties = parse_meta_properties(properties_path.read_bytes())
            except OSError:
                properties = None  # Named in left_out by the walk above.
            if properties is not None:
                meta[relative] = properties
                directory_id = properties.directory_id
                if properties.node_id is not None and properties.node_id != broker_id:
                    raise SnapshotError(
                        f"{relative} says node.id={properties.node_id}, but it lies under {directory.name}. "
                        f"Rename the directory to broker-{properties.node_id}, or copy the right broker there."
                    )
        log_dirs.append(LogDir(name=name, directory_id=directory_id))
    return BrokerCapture(
        broker_id=broker_id,
        directory=directory.name,
        rack=None,
        log_dirs=tuple(log_dirs),
        read_started_at_ms=None,
        read_finished_at_ms=None,
        files=tuple(files),
    )


def _size_of_log(path: Path, size: int) -> int | None:
    """The size of the log of which this is the headers file; None for any other file, and for a broken one."""
    if not is_headers_file(path.name) or size < END_FRAME_BYTES:
        return None
    with path.open("rb") as file:
        file.seek(size - END_FRAME_BYTES)
        return log_size_bytes(file.read(END_FRAME_BYTES))


def _log_dir_names(directory: Path) -> tuple[str, ...]:
    """Give "." where the broker's directory is itself a log dir, else its sub-directories that are one."""
    try:
        children = sorted(directory.iterdir())
    except OSError:
        return (".",)
    if any(_is_log_dir_content(c) for c in children):
        return (".",)
    below = [c.name for c in children if c.is_dir() and not c.is_symlink() and _looks_like_log_dir(c)]
    return tuple(below) or (".",)


def _looks_like_log_dir(directory: Path) -> bool:
    try:
        return any(_is_log_dir_content(c) for c in directory.iterdir())
    except OSError:
        return False


def _is_log_dir_content(path: Path) -> bool:
    return (
        path.name == _META_PROPERTIES
        or path.name.endswith("-offset-checkpoint")
        or (path.is_dir() and parse_partition_dir(path.name) is not None and not _holds_checkpoints(path))
    )


def _holds_checkpoints(path: Path) -> bool:
    """A log dir may be called like a partition (`data-1`); a partition directory never holds meta.properties."""
    return (path / _META_PROPERTIES).exists()


def _walk(root: Path, directory: Path, left_out: list[LeftOut]) -> Iterator[Path]:
    """Regular files below a directory, sorted; links and unreadable directories are named in `left_out`."""

    def failed(error: OSError) -> None:
        path = Path(error.filename) if error.filename else directory
        left_out.append(
            LeftOut(path=path.relative_to(root).as_posix(), reason=f"cannot be read: {error.strerror or error}")
        )

    for parent, directories, names in os.walk(directory, onerror=failed, followlinks=False):
        directories.sort()
        for name in list(directories):
            path = Path(parent, name)
            if path.is_symlink():
                directories.remove(name)
                left_out.append(LeftOut(path=path.relative_to(root).as_posix(), reason="a link; not followed"))
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink():
                left_out.append(LeftOut(path=relative, reason="a link; not followed"))
            elif not path.is_file():
                left_out.append(LeftOut(path=relative, reason="not a regular file"))
            elif not os.access(path, os.R_OK):
                left_out.append(LeftOut(path=relative, reason="cannot be read: Permission denied"))
            else:
                yield path


def _one_cluster(directory: Path, meta: dict[str, MetaProperties]) -> str | None:
    ids: dict[str, str] = {}
    for path, properties in meta.items():
        if properties.cluster_id:
            ids.setdefault(properties.cluster_id, path)
    if len(ids) > 1:
        told = ", ".join(f"{path} says {cluster_id}" for cluster_id, path in ids.items())
        raise SnapshotError(
            f"{directory} mixes log directories of {len(ids)} clusters: {told}. Keep one cluster to a snapshot."
        )
    return next(iter(ids), None)


def _default_id(directory: Path, brokers: list[BrokerCapture]) -> str:
    """The directory's name and a digest of what is listed: the same copy has the same id each time it is named."""
    digest = hashlib.sha256()
    for broker in brokers:
        for file in broker.files:
            digest.update(f"{file.path}\0{file.size_bytes}\n".encode("utf-8", "surrogateescape"))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", directory.resolve().name).strip("-") or "copy"
    return f"{name}-{digest.hexdigest()[:8]}"


def _sha256(path: Location) -> str:
    if isinstance(path, Path):
        return sha256_of(path)
    digest = hashlib.sha256()
    with open_bytes(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
