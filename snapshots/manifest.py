"""The manifest: what a snapshot holds, when it was read, and how its files belong together.

In: JSON text, or values. Out: `Manifest` values, or JSON text. The rule that must hold: a snapshot without a manifest
does not exist (it is written last), and a manifest names every file with its size, so that nothing can be missing
unseen.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from tidegauge.kafka_log.log_dir import parse_segment_file
from tidegauge.snapshots.errors import SnapshotError

MANIFEST_NAME: Final = "MANIFEST.json"
SCHEMA_VERSION: Final = 1

LARGEST_NODE_ID: Final = (1 << 31) - 1
"""Kafka's node.id is an int32 that is not negative (KafkaConfig)."""
LARGEST_WHOLE: Final = (1 << 63) - 1
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
    files: tuple[FileEntry, ...]


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


def to_json(manifest: Manifest) -> str:
    """The manifest as MANIFEST.json holds it."""
    return json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n"


def from_json(text: str, *, where: str, settled: bool = False) -> Manifest:
    """Reads MANIFEST.json. Raises `SnapshotError` that names the file and the field.

    `settled`: a run directory's own copy, which keeps what is foreign. A snapshot does not decide that for itself.
    """
    try:
        value = Fields.of(json.loads(text, parse_constant=_no_number), "the manifest")
        version = value.whole("schema_version")
        if version != SCHEMA_VERSION:
            raise SnapshotError(
                f"{where} has schema version {version}; this release reads version {SCHEMA_VERSION}. "
                "Take the snapshot again, or use the release that wrote it."
            )
        return Manifest(
            cluster=value.text("cluster"),
            cluster_id=value.text_or_none("cluster_id"),
            snapshot_id=value.text("snapshot_id"),
            source=Source(value.text("source")),
            mode=Mode(value.text("mode")),
            consistency=Consistency(value.text("consistency")),
            brokers=tuple(broker_from(b) for b in value.objects("brokers")),
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


def check_words(manifest: Manifest, *, where: str) -> None:
    """Raises `SnapshotError` where the manifest holds what `from_json` refuses, files aside: such words come from a
    copy's meta.properties or from a command line, and whatever keeps the manifest could not be read again.
    """
    bare = replace(manifest, brokers=tuple(replace(broker, files=()) for broker in manifest.brokers))
    try:
        from_json(to_json(bare), where=where, settled=True)
    except SnapshotError as error:
        raise SnapshotError(
            f"{where} cannot be a snapshot ({error.__cause__}). Kafka writes no such names; mend what holds them, its "
            "meta.properties or the name of a directory, or name another --cluster and --id."
        ) from error


def left_out_from(value: "Fields") -> LeftOut:
    """One `LeftOut` from its JSON object."""
    return LeftOut(path=value.text("path"), reason=value.text("reason"))


def broker_from(value: "Fields") -> BrokerCapture:
    """One broker's share from its JSON object. Raises `KeyError`, `TypeError` or `ValueError`."""
    return BrokerCapture(
        broker_id=value.whole("broker_id", most=LARGEST_NODE_ID),
        directory=value.path("directory"),
        rack=value.text_or_none("rack"),
        log_dirs=tuple(
            LogDir(name=d.path("name"), directory_id=d.text_or_none("directory_id")) for d in value.objects("log_dirs")
        ),
        read_started_at_ms=value.whole_or_none("read_started_at_ms", most=LAST_INSTANT_MS),
        read_finished_at_ms=value.whole_or_none("read_finished_at_ms", most=LAST_INSTANT_MS),
        files=tuple(file_from(f) for f in value.objects("files")),
    )


def _foreign_from(value: "Fields") -> ForeignLogDir:
    return ForeignLogDir(
        broker_id=value.whole("broker_id", most=LARGEST_NODE_ID),
        name=value.path("name"),
        directory_id=value.text_or_none("directory_id"),
        cluster_id=value.text_or_none("cluster_id"),
        node_id=None if value.values["node_id"] is None else int(value.values["node_id"]),
        path=value.path("path"),
        reason=value.text("reason"),
    )


def file_from(value: "Fields") -> FileEntry:
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


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object whose fields are asked for by type: who wrote the manifest need not mean well.

    Every method raises `KeyError` where the field is not there and `TypeError` or `ValueError` where it is something
    else; `optional`: a field that is not there is None.
    """

    values: Mapping[str, Any]

    @classmethod
    def of(cls, value: object, what: str) -> "Fields":
        """Of what should be an object."""
        if not isinstance(value, dict):
            raise TypeError(f"{what} must be an object, not {_kind(value)}")
        return cls(value)

    def text(self, key: str) -> str:
        """A text that UTF-8 can hold."""
        value = self.values[key]
        if not isinstance(value, str):
            raise TypeError(f"{key} must be a text, not {_kind(value)}")
        value.encode("utf-8")  # Half of a surrogate pair can be neither printed nor kept.
        if "\0" in value:
            raise ValueError(f"{key} holds a NUL")
        return value

    def text_or_none(self, key: str, *, optional: bool = False) -> str | None:
        """A text, or null."""
        value = self.values.get(key) if optional else self.values[key]
        return None if value is None else self.text(key)

    def path(self, key: str) -> str:
        """A path that stays below the snapshot's root."""
        return _relative(self.text(key))

    def whole(self, key: str, *, most: int = LARGEST_WHOLE) -> int:
        """A whole number from 0 to `most`."""
        value = self.values[key]
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{key} must be a whole number, not {_kind(value)}")
        if not 0 <= value <= most:
            raise ValueError(f"{key} must lie in [0, {most}]")
        return value

    def whole_or_none(self, key: str, *, optional: bool = False, most: int = LARGEST_WHOLE) -> int | None:
        """A whole number from 0 to `most`, or null."""
        value = self.values.get(key) if optional else self.values[key]
        return None if value is None else self.whole(key, most=most)

    def flag(self, key: str) -> bool:
        """True or false; false where it is not there."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise TypeError(f"{key} must be true or false, not {_kind(value)}")
        return value

    def objects(self, key: str) -> "Iterable[Fields]":
        """A list of objects."""
        value = self.values[key]
        if not isinstance(value, list):
            raise TypeError(f"{key} must be a list, not {_kind(value)}")
        return (Fields.of(each, f"each of {key}") for each in value)


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


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")


def _relative(path: str) -> str:
    """A manifest may only name files below its own root."""
    if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"path {path!r} leaves the snapshot")
    return path
