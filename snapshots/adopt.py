"""Adopting a plain copy: a directory that holds `broker-<id>/` becomes a snapshot; and opening one.

In: a directory. Out: a `Snapshot` (root and manifest). The rule that must hold: nothing but
MANIFEST.json and its parts is ever written into the copy, nothing is followed out of it, and what cannot be read is
named, not dropped.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidegauge.kafka_log.headers_file import END_FRAME_BYTES, log_size_bytes
from tidegauge.kafka_log.log_dir import META_PROPERTIES, is_headers_file
from tidegauge.kafka_log.properties import parse_meta_properties
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.holes import sha256_of
from tidegauge.snapshots.local_path import LARGEST_FILE_OF_KAFKA, must_be_of_kafka, really
from tidegauge.snapshots.location import Location, local
from tidegauge.snapshots.manifest import (
    LARGEST_NODE_ID,
    MANIFEST_NAME,
    NO_TEXT,
    BrokerCapture,
    Consistency,
    FileEntry,
    LeftOut,
    LogDir,
    Manifest,
    Mode,
    Source,
    as_text,
    check_words,
    from_json,
    in_parts,
    is_text,
    to_json,
)
from tidegauge.snapshots.other_directories import is_log_dir, is_metadata_log_dir, log_dirs_below, what_it_holds
from tidegauge.snapshots.places_above import check_within
from tidegauge.snapshots.settled import settled
from tidegauge.snapshots.signing import Trusted, signature_name
from tidegauge.snapshots.tree import DEEPEST, directories, is_directory
from tidegauge.snapshots.whole_files import write_whole

_BROKER_PREFIX: Final = "broker-"
_BROKER_DIR: Final = re.compile(r"broker-(0|[1-9][0-9]{0,9})")
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot that can be read: where it lies and what it holds."""

    root: Location
    manifest: Manifest


def open_snapshot(
    directory: Location, *, cluster: str | None = None, settle: bool = True, trusted: Trusted | None = None
) -> Snapshot:
    """A snapshot by its manifest; without one, the directory is adopted on the fly as fuzzy, and nothing is written.

    `cluster` names the cluster of a plain copy; a manifest that names another one is refused. Log dirs that are no
    evidence of its cluster are not among its brokers', unless it is not to `settle` that. `trusted`: by whose keys its
    manifest has to be signed; what its files hold is `snapshots.verification`'s. Raises `SnapshotError`.
    """
    if isinstance(directory, Path):
        directory = local(directory)
    manifest = _manifest(directory, cluster, trusted)
    return Snapshot(root=directory, manifest=settled(directory, manifest) if settle else manifest)


def _manifest(directory: Location, cluster: str | None, trusted: Trusted | None) -> Manifest:
    _must_be_directory(directory)
    manifest_path = directory / MANIFEST_NAME
    if manifest_path.exists():
        try:
            text = manifest_path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"{manifest_path} cannot be read: {error}. Check its permissions.") from error
        if trusted is not None:
            beside = directory / signature_name(MANIFEST_NAME)
            trusted.check(text.encode("utf-8"), beside.read_bytes, where=str(manifest_path))
        manifest = from_json(text, place=directory, where=str(manifest_path))
        _must_be_named(manifest, cluster, directory)
        return manifest
    if trusted is not None:
        raise SnapshotError(
            f"{directory} has no {MANIFEST_NAME}, so nobody has signed it, and {trusted.where} asks for a signature. "
            "Capture the brokers with --sign."
        )
    if not isinstance(directory, Path):
        raise SnapshotError(
            f"{directory} has no {MANIFEST_NAME}, so it is no snapshot: one in an object store is written by "
            "`tidegauge capture --out URL`, the manifest last. Capture it again, or adopt a local copy."
        )
    return survey(directory, cluster=cluster)


def _must_be_named(manifest: Manifest, cluster: str | None, directory: Location) -> None:
    """Whoever names a cluster means that one: results under the manifest's other name would go where nobody looks."""
    if cluster is not None and manifest.cluster != cluster:
        raise SnapshotError(
            f"{directory} is a snapshot of {manifest.cluster}, by its manifest, and not of {cluster}. Name the one of "
            f"{cluster} that is meant, or the cluster by its own name: --cluster {manifest.cluster}."
        )


def adopt(
    directory: Path,
    *,
    cluster: str,
    consistency: Consistency = Consistency.FUZZY,
    snapshot_id: str | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Writes the manifest of a plain copy, with every file's digest. Raises `SnapshotError` where there is one, or
    where somebody else could exchange it.
    """
    directory = local(directory)
    _must_be_directory(directory)
    check_within(directory)
    target = directory / MANIFEST_NAME
    if target.exists():
        raise SnapshotError(
            f"{directory} is a snapshot already ({MANIFEST_NAME} is there). To adopt it anew, remove {target} first."
        )
    for option, name in (("--cluster", cluster), ("--id", snapshot_id)):
        if name is not None and not (name.strip() and name.isprintable()):
            raise SnapshotError(f"{option} {name!r} is no name: it is blank, or holds what steers a terminal.")
    manifest = survey(
        directory, cluster=cluster, consistency=consistency, snapshot_id=snapshot_id, digests=True, progress=progress
    )
    check_words(manifest, where=str(directory))
    try:
        manifest = in_parts(manifest, directory, lambda name, text: write_whole(directory / name, text))
        write_whole(target, to_json(manifest, directory))
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
    directory = local(directory)
    _must_be_directory(directory)
    left_out: list[LeftOut] = []
    brokers = []
    misnamed = []
    for child in _children(directory):
        match = _BROKER_DIR.fullmatch(child.name)
        if match is None or int(match[1]) > LARGEST_NODE_ID:
            if child.name.startswith(_BROKER_PREFIX):
                misnamed.append(LeftOut(path=as_text(child.name), reason="not read: it is not called broker-<node.id>"))
            continue
        if child.is_symlink() or not child.is_dir():
            left_out.append(LeftOut(path=child.name, reason="not a directory of the copy itself"))
            continue
        names = _log_dir_names(child)
        if names:
            node_id = int(match[1])
            brokers.append(_broker(directory, child, node_id, names, left_out, digests, progress))
        else:
            left_out.append(LeftOut(path=child.name, reason=_no_log_dir(directory, child)))
    if not any(b.files for b in brokers):
        raise SnapshotError(_holds_nothing(directory, left_out))
    found = Manifest(
        cluster=as_text(really(directory).name),
        cluster_id=None,
        snapshot_id=snapshot_id or _default_id(directory, brokers),
        source=Source.SIMULATED if (directory / "TRUTH.json").exists() else Source.CAPTURED,
        mode=Mode.HEADERS if any(is_headers_file(f.path) for b in brokers for f in b.files) else Mode.FULL,
        consistency=consistency,
        brokers=tuple(brokers),
        left_out=(*left_out, *misnamed),
    )
    cluster_id = settled(directory, found).cluster_id
    return replace(found, cluster=cluster or cluster_id or found.cluster, cluster_id=cluster_id)


def _must_be_directory(directory: Location) -> None:
    if not directory.exists():
        raise SnapshotError(f"{directory} does not exist. Name a snapshot, or a directory that holds broker-<id>/.")
    if not directory.is_dir():
        raise SnapshotError(f"{directory} is not a directory. Unpack it first, then name the directory.")


def _broker(
    root: Path,
    directory: Path,
    broker_id: int,
    names: tuple[str, ...],
    left_out: list[LeftOut],
    digests: bool,
    progress: Progress | None,
) -> BrokerCapture:
    files = []
    for path in walk(root, directory, left_out):
        relative = path.relative_to(root).as_posix()
        try:
            size = path.stat().st_size
            digest = sha256_of(path) if digests else None
        except OSError as error:
            left_out.append(LeftOut(path=relative, reason=f"cannot be read: {error.strerror or error}"))
            continue
        files.append(
            FileEntry(path=relative, size_bytes=size, sha256=digest, source_size_bytes=_size_of_log(path, size))
        )
        if progress is not None:
            progress(relative)
    log_dirs = []
    listed = {file.path for file in files}
    for name in names:
        path = (directory if name == "." else directory / name) / META_PROPERTIES
        directory_id = None
        if path.relative_to(root).as_posix() in listed:
            with suppress(OSError):  # Named as unread where it is judged.
                directory_id = parse_meta_properties(path.read_bytes()).directory_id
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


def _no_log_dir(root: Path, directory: Path) -> str:
    """Why a node's directory is not read, and what to do where its log dirs lie deeper."""
    likely = [path.relative_to(root).as_posix() for path in log_dirs_below(directory)]
    if likely:
        return f"its log dirs lie deeper, at {as_text(', '.join(likely))}: put each at {directory.name}/<any name>"
    return f"no log dir of a broker: it {what_it_holds(directory)}"


def _size_of_log(path: Path, size: int) -> int | None:
    """The size of the log of which this is the headers file; None for any other file, and for a broken one."""
    if not is_headers_file(path.name) or size < END_FRAME_BYTES:
        return None
    with path.open("rb") as file:
        file.seek(size - END_FRAME_BYTES)
        told = log_size_bytes(file.read(END_FRAME_BYTES))
    return told if told is not None and told <= LARGEST_FILE_OF_KAFKA else None


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise SnapshotError(f"{directory} cannot be listed: {error}. Check its permissions.") from error


def _log_dir_names(directory: Path) -> tuple[str, ...]:
    """Give "." where the broker's directory is itself a log dir, and its sub-directories that are one.

    A metadata.log.dir may have the log dirs below it; a log dir never has (LogManager#loadLogs).
    """
    own = (".",) if is_log_dir(directory) else ()
    if own and not is_metadata_log_dir(directory):
        return own
    try:
        children = sorted(directory.iterdir())
    except OSError:
        return own
    below = (c.name for c in children if is_text(c.name) and c.is_dir() and not c.is_symlink() and is_log_dir(c))
    return (*own, *below)


def _holds_nothing(directory: Path, left_out: list[LeftOut]) -> str:
    """Why a directory is no copy of log dirs, and which one may be meant."""
    reasons = "; ".join(f"{x.path}: {x.reason}" for x in left_out[:3])
    words = (
        f"{directory} holds no broker's log directories{f' that can be read ({reasons})' if reasons else ''}: a "
        "snapshot has one directory broker-<id> per broker, with what its log.dirs hold. "
    )
    if is_log_dir(directory):
        return f"{words}This is a log dir itself: put it into a directory of its own, under the name broker-<node.id>."
    snapshots = [c for c in _children(directory) if (c / MANIFEST_NAME).is_file()]
    if snapshots:
        return f"{words}It holds {len(snapshots)} snapshots: name one of them, such as {snapshots[-1]}."
    likely = log_dirs_below(directory)
    if likely:
        return (
            f"{words}Log dirs lie at {', '.join(map(str, likely[:3]))}{' and elsewhere' if len(likely) > 3 else ''}: "
            f"put each at {directory}/broker-<node.id>, or at {directory}/broker-<node.id>/<any name> where a broker "
            "has several."
        )
    if not left_out:
        words += f"This one {what_it_holds(directory)}. "
    return f"{words}Copy them there, for example: cp -a --sparse=always /var/lib/kafka {directory}/broker-1"


def walk(root: Path, directory: Path, left_out: list[LeftOut]) -> Iterator[Path]:
    """Regular files below a directory, sorted; what is not read of it is named in `left_out`: links, directories that
    are closed or too deep, pipes, devices, and names that no manifest can hold.
    """

    def left(path: Path, reason: str) -> None:
        left_out.append(LeftOut(path=as_text(path.relative_to(root).as_posix()), reason=reason))

    for parent, entries in directories(
        directory,
        failed=lambda path, error: left(path, f"cannot be read: {error.strerror or error}"),
        too_deep=lambda path: left(path, f"not read: more than {DEEPEST} directories lie in one another here"),
    ):
        if not is_text(parent.relative_to(directory).as_posix()):
            continue  # It is named already.
        for entry in entries:
            path = parent / entry.name
            if not is_text(entry.name):
                left(path, NO_TEXT)
            elif is_directory(entry):
                continue
            elif (reason := _not_read(entry)) is not None:
                left(path, reason)
            else:
                yield path


def _not_read(entry: os.DirEntry[str]) -> str | None:
    try:
        if entry.is_symlink():
            return "a link; not followed"
        if not entry.is_file(follow_symlinks=False):
            return "not a regular file"
        if not os.access(entry.path, os.R_OK):
            return "cannot be read: Permission denied"
        must_be_of_kafka(entry.stat(follow_symlinks=False).st_size)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return None


def _default_id(directory: Path, brokers: list[BrokerCapture]) -> str:
    """The directory's name and a digest of what is listed: the same copy has the same id each time it is named."""
    digest = hashlib.sha256()
    for broker in brokers:
        for file in broker.files:
            digest.update(f"{file.path}\0{file.size_bytes}\n".encode("utf-8", "surrogateescape"))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", really(directory).name).strip("-") or "copy"
    return f"{name}-{digest.hexdigest()[:8]}"
