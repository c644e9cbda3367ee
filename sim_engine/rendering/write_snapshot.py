"""Rendered brokers, written as a snapshot.

In: brokers' disks, the remote store and what truly happened; or a live copy. Out: `broker-<id>/…`, `remote-storage/…`,
`TRUTH.json` and `MANIFEST.json` in a new directory. Zeros at a file's end are a hole, the manifest is about brokers
alone, says when each file was read, as a capture's does, and is written last.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tidegauge.sim_engine.files.render import BrokerDisk, render_broker
from tidegauge.sim_engine.log.render_log import File
from tidegauge.sim_engine.log.tiering import RemoteStore, render_store
from tidegauge.sim_engine.rendering.live_copy import LiveCopy, TakenFile
from tidegauge.snapshots.adopt import Snapshot, adopt, survey
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import (
    MANIFEST_NAME,
    BrokerCapture,
    Consistency,
    FileEntry,
    LeftOut,
    Manifest,
    in_parts,
    to_json,
)
from tidegauge.snapshots.whole_files import write_whole

TRUTH: Final = "TRUTH.json"


def write_snapshot(
    directory: Path,
    disks: Iterable[BrokerDisk],
    *,
    cluster: str,
    snapshot_id: str,
    consistency: Consistency,
    truth: Mapping[str, Any],
    remote: RemoteStore | None = None,
    at_ms: int | None = None,
) -> Snapshot:
    """Writes disks of one moment, `at_ms` in the cluster's time; without it they are a plain copy, which tells none.

    Raises `SnapshotError` if the directory is there already.
    """
    _new(directory)
    taken_files: dict[str, TakenFile] = {}
    for disk in disks:
        for name, file in render_broker(disk):
            path = _path(disk.broker_id, disk.log_dir, name)
            _write(directory / path, file)
            if at_ms is not None:
                taken_files[path] = TakenFile(
                    broker_id=disk.broker_id,
                    log_dir=disk.log_dir,
                    name=name,
                    file=file,
                    read_at_ms=at_ms,
                    modified_at_ms=disk.written_at_ms.get(name),
                )
    _write_remote(directory, remote)
    _write_truth(directory, truth)
    if at_ms is None:
        return adopt(directory, cluster=cluster, consistency=consistency, snapshot_id=snapshot_id)
    return _with_manifest(directory, taken_files, (), cluster=cluster, snapshot_id=snapshot_id, consistency=consistency)


def write_live_copy(
    directory: Path,
    copy: LiveCopy,
    *,
    cluster: str,
    snapshot_id: str,
    truth: Mapping[str, Any],
    remote: RemoteStore | None = None,
) -> Snapshot:
    """Writes a fuzzy copy, its manifest as a capture's. Raises `SnapshotError` if the directory is there already."""
    _new(directory)
    taken_files: dict[str, TakenFile] = {}
    for taken in copy.files:
        name = _path(taken.broker_id, taken.log_dir, taken.name)
        _write(directory / name, taken.file)
        taken_files[name] = taken
    _write_remote(directory, remote)
    _write_truth(directory, truth)
    return _with_manifest(
        directory,
        taken_files,
        copy.left_out,
        cluster=cluster,
        snapshot_id=snapshot_id,
        consistency=Consistency.FUZZY,
    )


def _with_manifest(
    directory: Path,
    files: Mapping[str, TakenFile],
    left_out: Iterable[tuple[str, str]],
    *,
    cluster: str,
    snapshot_id: str,
    consistency: Consistency,
) -> Snapshot:
    """Writes the manifest, with the instants at which the files were read."""
    found = survey(directory, cluster=cluster, consistency=consistency, snapshot_id=snapshot_id, digests=True)
    timed = _with_instants(found, files, left_out)
    manifest = in_parts(timed, directory, lambda name, text: write_whole(directory / name, text))
    write_whole(directory / MANIFEST_NAME, to_json(manifest, directory))
    return Snapshot(root=directory, manifest=manifest)


def _with_instants(manifest: Manifest, files: Mapping[str, TakenFile], left_out: Iterable[tuple[str, str]]) -> Manifest:
    """The manifest with when each file was written and read, and when each broker was begun and done."""

    def timed(file: FileEntry) -> FileEntry:
        taken = files[file.path]
        modified_at_ns = taken.modified_at_ms * 1_000_000 if taken.modified_at_ms is not None else None
        return replace(
            file,
            read_at_ms=taken.read_at_ms,
            read_again_at_ms=taken.read_again_at_ms,
            modified_at_ns=modified_at_ns,
        )

    def timed_broker(broker: BrokerCapture) -> BrokerCapture:
        own = tuple(timed(file) for file in broker.files)
        instants = [at for file in own for at in (file.read_at_ms, file.read_again_at_ms) if at is not None]
        return replace(broker, files=own, read_started_at_ms=min(instants), read_finished_at_ms=max(instants))

    gone = tuple(LeftOut(path=path, reason=reason) for path, reason in left_out)
    brokers = tuple(timed_broker(broker) for broker in manifest.brokers)
    return replace(manifest, brokers=brokers, left_out=(*manifest.left_out, *gone))


def _path(broker_id: int, log_dir: str, name: str) -> str:
    return os.path.normpath(f"broker-{broker_id}/{log_dir}/{name}")


def _new(directory: Path) -> None:
    if directory.exists():
        raise SnapshotError(f"{directory} exists. Name a directory that does not, or remove it first.")
    directory.mkdir(parents=True)


def _write(path: Path, file: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as out:
        out.write(file.data)
        out.truncate(file.size_bytes)


def _write_remote(directory: Path, remote: RemoteStore | None) -> None:
    for name, file in render_store(remote) if remote is not None else ():
        _write(directory / name, file)


def _write_truth(directory: Path, truth: Mapping[str, Any]) -> None:
    (directory / TRUTH).write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n", encoding="utf-8")
