"""The brokers to capture: which log dirs, and that they are what they are said to be.

In: `ID=LOG_DIR[,LOG_DIR]` as the user wrote it. Out: `BrokerSource`s and the id of their one cluster. The rule that
must hold: whatever can be known to be wrong is said here, before anything is written.
"""

import errno
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_log.log_dir import META_PROPERTIES
from kafka_log.properties import MetaProperties, parse_meta_properties
from kafka_log.types import BrokerId
from snapshots.errors import SnapshotError
from snapshots.location import Location
from snapshots.source_files import log_directory

_MAX_META_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirSource:
    """One log dir: where it is, its folder's name in the snapshot ("." for a broker's only one), its directory.id."""

    path: Path
    name: str
    directory_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSource:
    """One broker's log dirs."""

    broker_id: BrokerId
    log_dirs: tuple[LogDirSource, ...]

    @property
    def directory(self) -> str:
        """The broker's folder in the snapshot."""
        return f"broker-{self.broker_id}"


def broker_sources(given: Sequence[str]) -> tuple[tuple[BrokerSource, ...], str]:
    """The brokers that `ID=LOG_DIR[,LOG_DIR]` texts name, and their cluster's id. Raises `SnapshotError`."""
    if not given:
        raise SnapshotError("No broker was named. Name each with its log dirs: --broker 1=/var/lib/kafka/data")
    paths: dict[int, list[Path]] = {}
    for text in given:
        broker_id, log_dirs = _parsed(text)
        if broker_id in paths:
            raise SnapshotError(
                f"Broker {broker_id} is named twice. Name each broker once, all its log dirs behind one "
                f"another: --broker {broker_id}={','.join(map(str, [*paths[broker_id], *log_dirs]))}"
            )
        paths[broker_id] = log_dirs
    _must_be_apart([(broker_id, path) for broker_id, of_broker in paths.items() for path in of_broker])
    said = {path: _meta(broker_id, path) for broker_id, of_broker in paths.items() for path in of_broker}
    _must_differ(said)
    cluster_id = one_cluster({str(path): meta.cluster_id for path, meta in said.items()})
    sources = [
        BrokerSource(
            broker_id=BrokerId(broker_id),
            log_dirs=tuple(
                LogDirSource(path=path, name=name, directory_id=said[path].directory_id)
                for path, name in zip(of_broker, _names(of_broker), strict=True)
            ),
        )
        for broker_id, of_broker in sorted(paths.items())
    ]
    return tuple(sources), cluster_id


def must_not_hold(sources: Iterable[BrokerSource], out: Location) -> None:
    """A snapshot inside a log dir would be copied into itself, and Kafka would find it there; nor the other way."""
    if not isinstance(out, Path):
        return
    brokers = tuple(sources)
    written = [out.resolve(), *((out / s.directory).resolve() for s in brokers)]
    for source in brokers:
        for log_dir in source.log_dirs:
            read = log_dir.path.resolve()
            if any(to.is_relative_to(read) for to in written):
                raise SnapshotError(
                    f"The snapshot would be written to {out}, which is inside broker {source.broker_id}'s log dir "
                    f"{log_dir.path}. Nothing is ever written there: name another --out."
                )
            if any(read.is_relative_to(to) for to in written):
                raise SnapshotError(
                    f"The snapshot would be written to {out}, and broker {source.broker_id}'s log dir {log_dir.path} "
                    "is in there: nothing of ours is ever written around one. Name another --out or --id."
                )


def one_cluster(said: dict[str, str | None]) -> str:
    """The cluster id that all of these say. Raises `SnapshotError`."""
    ids: dict[str, str] = {}
    for where, cluster_id in said.items():
        if cluster_id:
            ids.setdefault(cluster_id, where)
    if len(ids) > 1:
        told = ", ".join(f"{where} says {cluster_id}" for cluster_id, where in ids.items())
        raise SnapshotError(
            f"These are log dirs of {len(ids)} clusters: {told}. Keep one cluster to a snapshot: check the paths."
        )
    return next(iter(ids), "")


def check_name(name: str, option: str) -> None:
    """A cluster's name and a snapshot's id are names of directories. Raises `SnapshotError`."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", name) is None:
        raise SnapshotError(
            f"{option} {name!r} cannot be a directory's name: use letters, digits, '.', '_' and '-', and begin with "
            "a letter or digit."
        )


def _parsed(text: str) -> tuple[int, list[Path]]:
    number, equals, dirs = text.partition("=")
    names = [name for name in dirs.split(",") if name.strip()]
    if not equals or re.fullmatch(r"[0-9]{1,10}", number.strip()) is None or not names:
        raise SnapshotError(
            f"--broker {text} names no broker: give its id and its log dirs, like --broker 1=/data/a or "
            "--broker 1=/data/a,/data/b"
        )
    return int(number), [Path(name.strip()).absolute() for name in names]


def _must_be_apart(paths: Sequence[tuple[int, Path]]) -> None:
    """No log dir is another one, or inside another one."""
    for at, (broker_id, path) in enumerate(paths):
        for other_id, other in paths[:at]:
            if path.resolve() == other.resolve():
                raise SnapshotError(
                    f"{path} is named as a log dir of broker {other_id} and of broker {broker_id}. "
                    if broker_id != other_id
                    else f"{path} is named twice for broker {broker_id}. " + "Name each log dir once."
                )
            if path.resolve().is_relative_to(other.resolve()) or other.resolve().is_relative_to(path.resolve()):
                raise SnapshotError(
                    f"Of {other} and {path} one is inside the other; a broker's log dirs never are. Check the paths."
                )


def _meta(broker_id: int, path: Path) -> MetaProperties:
    if not path.exists():
        raise SnapshotError(
            f"{path}, said to be a log dir of broker {broker_id}, does not exist. Name what log.dirs of that broker "
            "names, as this machine sees it."
        )
    if not path.is_dir():
        raise SnapshotError(f"{path}, said to be a log dir of broker {broker_id}, is not a directory.")
    try:
        with log_directory(path) as log_dir, log_dir.open(META_PROPERTIES) as file:
            data = os.pread(file.fd, _MAX_META_BYTES, 0)
    except FileNotFoundError as error:
        raise SnapshotError(
            f"{path} has no {META_PROPERTIES}, so it is no log dir of a Kafka broker. Name the directory that "
            "log.dirs of the broker names, not one above or below it."
        ) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL):
            raise SnapshotError(
                f"{path / META_PROPERTIES} is a link or no regular file: it is not read, and {path} is taken for no "
                "log dir. Name the directory that log.dirs of the broker names."
            ) from error
        raise SnapshotError(
            f"{path} cannot be read: {error.strerror or error}. Run the capture as a user who may read the broker's "
            "log dirs; it never needs to write there."
        ) from error
    meta = parse_meta_properties(data)
    if meta.node_id is not None and meta.node_id != broker_id:
        raise SnapshotError(
            f"{path} belongs to broker {meta.node_id} (its {META_PROPERTIES} says node.id={meta.node_id}), not to "
            f"broker {broker_id}. Name it with the right id."
        )
    return meta


def _must_differ(said: dict[Path, MetaProperties]) -> None:
    """A directory.id names one directory; twice, one is a copy of the other."""
    seen: dict[str, Path] = {}
    for path, meta in said.items():
        if meta.directory_id is None:
            continue
        if meta.directory_id in seen:
            raise SnapshotError(
                f"{seen[meta.directory_id]} and {path} have the same directory.id, {meta.directory_id}: one is a copy "
                "of the other. Name the one that the broker uses."
            )
        seen[meta.directory_id] = path


def _names(paths: Sequence[Path]) -> list[str]:
    """Folders for a broker's log dirs: their own names, made different where they are not."""
    if len(paths) == 1:
        return ["."]
    names: list[str] = []
    for path in paths:
        base = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name).strip(".-") or "data"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}.{number}"
        names.append(name)
    return names
