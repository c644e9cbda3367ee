"""The manifest: what a snapshot holds, when it was read, and how its files belong together.

In: JSON text, or values. Out: `Manifest` values, or JSON text. The rule that must hold: a snapshot without a manifest
does not exist (it is written last), and a manifest names every file with its size, so that nothing can be missing
unseen.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from kafka_log.types import BrokerId
from snapshots.errors import SnapshotError

MANIFEST_NAME: Final = "MANIFEST.json"
SCHEMA_VERSION: Final = 1


class Source(StrEnum):
    """Where the files come from."""

    CAPTURED = "captured"
    SIMULATED = "simulated"


class Mode(StrEnum):
    """How much of the logs was copied."""

    FULL = "full"
    HEADERS = "headers"


class Consistency(StrEnum):
    """How the files belong together in time: of one stopped cluster, of one instant, or of many instants."""

    QUIESCED = "quiesced"
    ATOMIC = "atomic"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file: path below the snapshot's root (with /), size in bytes, when it was read (ms UTC), SHA-256.

    `modified_at_ns` and `changed_at_ns` are the source's mtime and ctime. `source_size_bytes` is how much of the source
    file was read, where the file here is of another size than that: a headers file, or one whose names are hashed.
    `read_again_at_ms`: it was read once more then, and had not changed. Of a file that was not read, because nobody had
    written to it since an earlier copy was made of it, `read_at_ms` is when that was made sure.
    """

    path: str
    size_bytes: int
    read_at_ms: int | None = None
    sha256: str | None = None
    modified_at_ns: int | None = None
    source_size_bytes: int | None = None
    changed_at_ns: int | None = None
    read_again_at_ms: int | None = None

    @property
    def log_size_bytes(self) -> int:
        """The size that the file had on its broker, as far as it was read."""
        return self.size_bytes if self.source_size_bytes is None else self.source_size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something that is not in the snapshot, or is there and cannot be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One log dir of a broker: its folder below the broker's ("." where the broker has one) and its directory.id."""

    name: str
    directory_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLogDir:
    """A log dir that lies in the snapshot and is no evidence of its cluster, by what its meta.properties says."""

    broker_id: BrokerId
    """The node under whose folder it lies."""
    name: str
    directory_id: str | None
    cluster_id: str | None
    node_id: int | None
    path: str
    """Of its meta.properties, below the snapshot's root."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapture:
    """One node's share of the snapshot: a broker's, or that of a controller that is no broker.

    Times are milliseconds since the epoch, None for a plain copy.
    """

    broker_id: BrokerId
    directory: str
    rack: str | None
    log_dirs: tuple[LogDir, ...]
    read_started_at_ms: int | None
    read_finished_at_ms: int | None
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The whole snapshot.

    `answers` names the file of the cluster's own answers. `hashed_topics`: no user's topic has its real name here.
    `foreign` is what `snapshots.settled` has taken out of `brokers`, for whoever audits; no snapshot keeps it.
    """

    cluster: str
    cluster_id: str | None
    snapshot_id: str
    source: Source
    mode: Mode
    consistency: Consistency
    brokers: tuple[BrokerCapture, ...]
    left_out: tuple[LeftOut, ...]
    answers: str | None = None
    hashed_topics: bool = False
    foreign: tuple[ForeignLogDir, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def files(self) -> Iterable[FileEntry]:
        """Every file of every broker."""
        for broker in self.brokers:
            yield from broker.files


def to_json(manifest: Manifest) -> str:
    """The manifest as MANIFEST.json holds it."""
    return json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n"


def from_json(text: str, *, where: str) -> Manifest:
    """Reads MANIFEST.json. Raises `SnapshotError` that names the file and the field."""
    try:
        value = json.loads(text)
        version = value["schema_version"]
        if version != SCHEMA_VERSION:
            raise SnapshotError(
                f"{where} has schema version {version}; this release reads version {SCHEMA_VERSION}. "
                "Take the snapshot again, or use the release that wrote it."
            )
        return Manifest(
            cluster=_text(value, "cluster"),
            cluster_id=value["cluster_id"],
            snapshot_id=_text(value, "snapshot_id"),
            source=Source(value["source"]),
            mode=Mode(value["mode"]),
            consistency=Consistency(value["consistency"]),
            brokers=tuple(broker_from(b) for b in value["brokers"]),
            left_out=tuple(left_out_from(x) for x in value["left_out"]),
            answers=None if value.get("answers") is None else _relative(_text(value, "answers")),
            hashed_topics=bool(value.get("hashed_topics", False)),
            foreign=tuple(ForeignLogDir(**x) for x in value.get("foreign", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(
            f"{where} is not a manifest that can be used ({type(error).__name__}: {error}). "
            "Remove it and adopt the directory again: tidegauge snapshot adopt DIR --cluster NAME"
        ) from error


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value[key]
    if not isinstance(text, str):
        raise TypeError(f"{key} must be a text, not {type(text).__name__}")
    return text


def left_out_from(value: Mapping[str, Any]) -> LeftOut:
    """One `LeftOut` from its JSON object."""
    return LeftOut(path=_text(value, "path"), reason=_text(value, "reason"))


def broker_from(value: Mapping[str, Any]) -> BrokerCapture:
    """One broker's share from its JSON object. Raises `KeyError`, `TypeError` or `ValueError`."""
    return BrokerCapture(
        broker_id=BrokerId(int(value["broker_id"])),
        directory=_relative(_text(value, "directory")),
        rack=value["rack"],
        log_dirs=tuple(
            LogDir(name=_relative(_text(d, "name")), directory_id=d["directory_id"]) for d in value["log_dirs"]
        ),
        read_started_at_ms=value["read_started_at_ms"],
        read_finished_at_ms=value["read_finished_at_ms"],
        files=tuple(file_from(f) for f in value["files"]),
    )


def file_from(value: Mapping[str, Any]) -> FileEntry:
    """One file from its JSON object."""
    return FileEntry(
        path=_relative(_text(value, "path")),
        size_bytes=int(value["size_bytes"]),
        read_at_ms=value["read_at_ms"],
        sha256=value["sha256"],
        modified_at_ns=value.get("modified_at_ns"),
        source_size_bytes=value.get("source_size_bytes"),
        changed_at_ns=value.get("changed_at_ns"),
        read_again_at_ms=value.get("read_again_at_ms"),
    )


def _relative(path: str) -> str:
    """A manifest may only name files below its own root."""
    if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"path {path!r} leaves the snapshot")
    return path
