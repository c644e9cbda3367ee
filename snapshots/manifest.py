"""The manifest: what a snapshot holds, when it was read, and how its files belong together.

In: JSON text, or values. Out: `Manifest` values, or JSON text. The rule that must hold: a snapshot without a manifest
does not exist (it is written last), and a manifest names every file with its size, so that nothing can be missing
unseen.

    MANIFEST.json            all but the files: of each broker the name, the size and the digest of its part
    MANIFEST.broker-1.jsonl  the part of broker 1: an object a line, one for each of its files

A part is read when its broker's files are asked for, and held against its digest each time: nobody holds the files of
all brokers, and who signs MANIFEST.json has signed them all. In version 1 the files stood in MANIFEST.json.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

from tidegauge.kafka_log.log_dir import parse_segment_file
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.fields import Fields, no_number
from tidegauge.snapshots.location import Location, location
from tidegauge.snapshots.places import absolute

MANIFEST_NAME: Final = "MANIFEST.json"
SCHEMA_VERSION: Final = 2
_READ_VERSIONS: Final = (1, SCHEMA_VERSION)

LARGEST_NODE_ID: Final = (1 << 31) - 1
"""Kafka's node.id is an int32 that is not negative (KafkaConfig)."""
LAST_INSTANT_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the last one that Python and ISO 8601 can tell."""
LARGEST_FILE_BYTES: Final = 1 << 40
"""The largest number that a manifest may tell of a file: a bound on what is computed with it, not on what is read. What
is larger than any file of Kafka's (`local_path.LARGEST_FILE_OF_KAFKA`) is listed, named as not read, and never opened.
"""


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
    written to it since an earlier copy was made of it, `read_at_ms` is when that was made sure. `zeros_behind`: so many
    zeros followed at the source that are not in the file here, nor in its size and digest: room that a broker had
    preallocated for an index, which an object store would keep byte for byte.
    """

    path: str
    size_bytes: int
    read_at_ms: int | None = None
    sha256: str | None = None
    modified_at_ns: int | None = None
    source_size_bytes: int | None = None
    changed_at_ns: int | None = None
    read_again_at_ms: int | None = None
    zeros_behind: int = 0

    @property
    def log_size_bytes(self) -> int:
        """The size that the file had on its broker, as far as it was read."""
        return self.size_bytes + self.zeros_behind if self.source_size_bytes is None else self.source_size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file that tells of files: its name beside MANIFEST.json, how many it tells of, its bytes and their SHA-256."""

    name: str
    files: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOfPart:
    """What a part tells of: it is read as often as the files are asked for. `place` is where the part lies, as
    `location` reads it.
    """

    place: str
    part: Part

    def __len__(self) -> int:
        """As MANIFEST.json says."""
        return self.part.files

    def __iter__(self) -> Iterator[FileEntry]:
        """Reads the part, which must be as MANIFEST.json says. Raises `SnapshotError`."""
        text, found, at = self._text(), 0, 0
        try:
            while (end := text.find("\n", at)) >= 0:
                yield file_from(Fields.of(json.loads(text[at:end], parse_constant=no_number), "a file"))
                found, at = found + 1, end + 1
            if at != len(text) or found != self.part.files:
                raise ValueError(f"it tells of {found} files, and {MANIFEST_NAME} says {self.part.files}")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise SnapshotError(
                f"{self._where} is no part of a manifest ({type(error).__name__}: {error}). Capture again, or remove "
                f"{MANIFEST_NAME} and adopt the directory again: tidegauge snapshot adopt DIR --cluster NAME"
            ) from error

    @property
    def _where(self) -> str:
        return str(self._file)

    @property
    def _file(self) -> Location:
        return location(self.place) / self.part.name

    def _text(self) -> str:
        try:
            text = self._file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(
                f"{self._where}, which {MANIFEST_NAME} names, cannot be read: {error}. Bring it back from where the "
                "snapshot was copied from, or capture again."
            ) from error
        data = text.encode("utf-8")
        if (len(data), sha256(data).hexdigest()) != (self.part.size_bytes, self.part.sha256):
            raise SnapshotError(
                f"{self._where} is not as {MANIFEST_NAME} says: it was changed since. Find out who changed it, and "
                "capture again; nothing of it is judged."
            )
        return text


Files: TypeAlias = tuple[FileEntry, ...] | FilesOfPart
"""The files of a broker. Going through them raises `SnapshotError` where the part is not as it was written."""


def part_name(directory: str) -> str:
    """The file that tells of the files of a broker, by the broker's folder."""
    return f"MANIFEST.{directory}.jsonl"


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


_LONGEST_PATH: Final = 4096
"""No system opens a longer one (PATH_MAX of Linux)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLogDir:
    """A log dir that lies in the snapshot and is no evidence of its cluster, by what its meta.properties says."""

    broker_id: int
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

    broker_id: int
    directory: str
    rack: str | None
    log_dirs: tuple[LogDir, ...]
    read_started_at_ms: int | None
    read_finished_at_ms: int | None
    files: Files

    def without_instants(self) -> "BrokerCapture":
        """The same, as a plain copy is told of: when it was read tells nothing."""
        files = tuple(replace(file, read_at_ms=None, read_again_at_ms=None) for file in self.files)
        return replace(self, read_started_at_ms=None, read_finished_at_ms=None, files=files)

    def by_log_dir(self) -> dict[str, dict[str, FileEntry]]:
        """The files below each log dir, by log dir and by path below it. A metadata.log.dir may have the broker's log
        dirs below it, whose files are theirs. Raises `SnapshotError` as `files` does.
        """
        found: dict[str, dict[str, FileEntry]] = {log_dir.name: {} for log_dir in self.log_dirs}
        places = {self.directory if name == "." else f"{self.directory}/{name}": name for name in found}
        longest = max(map(len, places), default=0)
        for file in self.files:
            # Whoever wrote a manifest may have named as many log dirs as files: no file asks for each of them.
            at = file.path.rfind("/", 0, min(longest, _LONGEST_PATH) + 1)
            while at >= 0 and (name := places.get(file.path[:at])) is None:
                at = file.path.rfind("/", 0, at)
            if at >= 0 and name is not None:
                found[name][file.path[at + 1 :]] = file
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The whole snapshot.

    `answers` names the file of the cluster's own answers, and `answers_sha256` is its digest. `hashed_topics`: no
    user's topic has its real name here. `foreign` is what `snapshots.settled` has taken out of `brokers`, for whoever
    audits; no snapshot keeps it.
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
    answers_sha256: str | None = None
    hashed_topics: bool = False
    foreign: tuple[ForeignLogDir, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def files(self) -> Iterable[FileEntry]:
        """Every file of every broker."""
        for broker in self.brokers:
            yield from broker.files


def in_parts(manifest: Manifest, place: Location, put: Callable[[str, str], None]) -> Manifest:
    """The same manifest with its brokers' files in parts at `place`. `put` writes a file there, by name and text."""
    return replace(manifest, brokers=tuple(with_part(broker, place, put) for broker in manifest.brokers))


def with_part(broker: BrokerCapture, place: Location, put: Callable[[str, str], None]) -> BrokerCapture:
    """One broker's share with its files in a part; one that has it already stays."""
    if part_at(broker.files, place) is not None:
        return broker
    name, text = part_name(broker.directory), "".join(f"{file_line(file)}\n" for file in broker.files)
    put(name, text)
    data = text.encode("utf-8")
    part = Part(name=name, files=len(broker.files), size_bytes=len(data), sha256=sha256(data).hexdigest())
    return replace(broker, files=FilesOfPart(place=absolute(place), part=part))


def part_at(files: Files, place: Location | None) -> Part | None:
    """The part that tells of files, if it lies at a place."""
    return (
        files.part if isinstance(files, FilesOfPart) and place is not None and files.place == absolute(place) else None
    )


def file_line(file: FileEntry) -> str:
    """A file as a line of a part, and of a journal, without its end. What most files lack is left out."""
    told: dict[str, Any] = {
        "path": file.path,
        "size_bytes": file.size_bytes,
        "read_at_ms": file.read_at_ms,
        "sha256": file.sha256,
    }
    rare = {
        "modified_at_ns": file.modified_at_ns,
        "source_size_bytes": file.source_size_bytes,
        "changed_at_ns": file.changed_at_ns,
        "read_again_at_ms": file.read_again_at_ms,
        "zeros_behind": file.zeros_behind or None,
    }
    told |= {key: value for key, value in rare.items() if value is not None}
    return json.dumps(told, separators=(",", ":"))


def to_json(manifest: Manifest, place: Location | None = None) -> str:
    """The manifest as MANIFEST.json holds it at `place`: files that no part there tells of stand in it."""
    value = {
        "schema_version": SCHEMA_VERSION,
        "cluster": manifest.cluster,
        "cluster_id": manifest.cluster_id,
        "snapshot_id": manifest.snapshot_id,
        "source": manifest.source,
        "mode": manifest.mode,
        "consistency": manifest.consistency,
        "brokers": [broker_value(broker, place) for broker in manifest.brokers],
        "left_out": [_plain(left_out) for left_out in manifest.left_out],
        "answers": manifest.answers,
        "answers_sha256": manifest.answers_sha256,
        "hashed_topics": manifest.hashed_topics,
        "foreign": [_plain(log_dir) for log_dir in manifest.foreign],
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def broker_value(broker: BrokerCapture, place: Location | None) -> dict[str, Any]:
    """One broker's share as a JSON object."""
    part = part_at(broker.files, place)
    files = (
        {"files": [json.loads(file_line(file)) for file in broker.files]} if part is None else {"part": _plain(part)}
    )
    log_dirs = [_plain(log_dir) for log_dir in broker.log_dirs]
    return {
        "broker_id": broker.broker_id,
        "directory": broker.directory,
        "rack": broker.rack,
        "log_dirs": log_dirs,
        "read_started_at_ms": broker.read_started_at_ms,
        "read_finished_at_ms": broker.read_finished_at_ms,
        **files,
    }


def _plain(value: LeftOut | LogDir | ForeignLogDir | Part) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def from_json(text: str, *, place: Location, where: str, settled: bool = False) -> Manifest:
    """Reads MANIFEST.json, whose parts lie at `place`. Raises `SnapshotError` that names the file and the field.

    `settled`: a run directory's own copy, which keeps what is foreign. A snapshot does not decide that for itself.
    """
    try:
        value = Fields.of(json.loads(text, parse_constant=no_number), "the manifest")
        version = value.whole("schema_version")
        if version not in _READ_VERSIONS:
            raise SnapshotError(
                f"{where} has schema version {version}; this release reads versions up to {SCHEMA_VERSION}. "
                "Take the snapshot again, or use the release that wrote it."
            )
        return Manifest(
            cluster=value.name("cluster"),
            cluster_id=None if value.text_or_none("cluster_id") is None else value.name("cluster_id"),
            snapshot_id=value.name("snapshot_id"),
            source=Source(value.text("source")),
            mode=Mode(value.text("mode")),
            consistency=Consistency(value.text("consistency")),
            brokers=_each_once(broker_from(b, place) for b in value.objects("brokers")),
            left_out=tuple(left_out_from(x) for x in value.objects("left_out")),
            answers=value.path("answers") if value.text_or_none("answers", optional=True) is not None else None,
            answers_sha256=value.text_or_none("answers_sha256", optional=True),
            hashed_topics=value.flag("hashed_topics"),
            foreign=tuple(_foreign_from(x) for x in value.objects("foreign")) if settled else (),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(
            f"{where} is not a manifest that can be used ({type(error).__name__}: {error}). "
            "Remove it and adopt the directory again: tidegauge snapshot adopt DIR --cluster NAME"
        ) from error


def _each_once(brokers: Iterable[BrokerCapture]) -> tuple[BrokerCapture, ...]:
    """Raises `ValueError` for a node that is named twice: each of its replicas would count as two."""
    found: dict[int, BrokerCapture] = {}
    for broker in brokers:
        if found.setdefault(broker.broker_id, broker) is not broker:
            raise ValueError(f"broker_id {broker.broker_id} stands for two of the brokers")
    return tuple(found.values())


_NOWHERE: Final = Path()
"""A place without parts."""


def check_words(manifest: Manifest, *, where: str) -> None:
    """Raises `SnapshotError` where the manifest holds what `from_json` refuses, files aside: such words come from a
    copy's meta.properties or from a command line, and whatever keeps the manifest could not be read again.
    """
    bare = replace(manifest, brokers=tuple(replace(broker, files=()) for broker in manifest.brokers))
    try:
        from_json(to_json(bare), place=_NOWHERE, where=where, settled=True)
    except SnapshotError as error:
        raise SnapshotError(
            f"{where} cannot be a snapshot ({error.__cause__}). Kafka writes no such names; mend what holds them, its "
            "meta.properties or the name of a directory, or name another --cluster and --id."
        ) from error


def left_out_from(value: Fields) -> LeftOut:
    """One `LeftOut` from its JSON object."""
    return LeftOut(path=value.text("path"), reason=value.text("reason"))


def broker_from(value: Fields, place: Location) -> BrokerCapture:
    """One broker's share from its JSON object, its part at `place`. Raises `KeyError`, `TypeError`, `ValueError`."""
    part = value.object_or_none("part")
    return BrokerCapture(
        broker_id=value.whole("broker_id", most=LARGEST_NODE_ID),
        directory=value.path("directory"),
        rack=value.text_or_none("rack"),
        log_dirs=tuple(
            LogDir(name=d.path("name"), directory_id=d.text_or_none("directory_id")) for d in value.objects("log_dirs")
        ),
        read_started_at_ms=value.whole_or_none("read_started_at_ms", most=LAST_INSTANT_MS),
        read_finished_at_ms=value.whole_or_none("read_finished_at_ms", most=LAST_INSTANT_MS),
        files=(
            FilesOfPart(place=absolute(place), part=_part_from(part))
            if part is not None
            else tuple(file_from(f) for f in value.objects("files"))
        ),
    )


def _part_from(value: Fields) -> Part:
    name = value.path("name")
    if "/" in name:
        raise ValueError(f"{name} does not lie beside {MANIFEST_NAME}")
    return Part(
        name=name,
        files=value.whole("files"),
        size_bytes=value.whole("size_bytes", most=LARGEST_FILE_BYTES),
        sha256=value.text("sha256"),
    )


def _foreign_from(value: Fields) -> ForeignLogDir:
    return ForeignLogDir(
        broker_id=value.whole("broker_id", most=LARGEST_NODE_ID),
        name=value.path("name"),
        directory_id=value.text_or_none("directory_id"),
        cluster_id=value.text_or_none("cluster_id"),
        node_id=None if value.values["node_id"] is None else int(value.values["node_id"]),
        path=value.path("path"),
        reason=value.text("reason"),
    )


def file_from(value: Fields) -> FileEntry:
    """One file from its JSON object."""
    path, zeros = value.path("path"), value.whole_or_none("zeros_behind", optional=True, most=LARGEST_FILE_BYTES) or 0
    if zeros and not is_preallocated(path):
        raise ValueError(f"{path} is no index, and nothing else has zeros_behind")
    return FileEntry(
        path=path,
        size_bytes=value.whole("size_bytes", most=LARGEST_FILE_BYTES),
        read_at_ms=value.whole_or_none("read_at_ms", most=LAST_INSTANT_MS),
        sha256=value.text_or_none("sha256"),
        modified_at_ns=value.whole_or_none("modified_at_ns", optional=True),
        source_size_bytes=value.whole_or_none("source_size_bytes", optional=True, most=LARGEST_FILE_BYTES),
        changed_at_ns=value.whole_or_none("changed_at_ns", optional=True),
        read_again_at_ms=value.whole_or_none("read_again_at_ms", optional=True, most=LAST_INSTANT_MS),
        zeros_behind=zeros,
    )


def is_preallocated(path: str) -> bool:
    """Whether a broker makes such a file larger than its content: an offset or a time index (AbstractIndex)."""
    segment = parse_segment_file(path.rsplit("/", 1)[-1])
    return segment is not None and segment.kind in ("index", "timeindex")


NO_TEXT: Final = "not read: its name is no UTF-8"
"""Why a file is left out whose name is none."""


def is_text(name: str) -> bool:
    """Whether a manifest can hold a file's name: Linux takes any bytes, and Python has those that are no UTF-8 as
    halves of surrogate pairs.
    """
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def as_text(name: str) -> str:
    r"""The same name, with `\xff` for each byte that is no UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
