"""The brokers to capture: which log dirs, and that they are what they are said to be.

In: `ID=LOG_DIR[,LOG_DIR]` as the user wrote it. Out: `BrokerSource`s and the id of their one cluster. Whatever can be
known to be wrong is said here, before anything is written; and one node's wrong file keeps nobody from capturing the
others.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegauge.kafka_log.log_dir import META_PROPERTIES
from tidegauge.kafka_log.properties import MetaProperties, parse_meta_properties
from tidegauge.snapshots.copying import Meter
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.identity import Claim, Owners, Settled, settle
from tidegauge.snapshots.leaders import Leaders
from tidegauge.snapshots.local_path import really
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.metadata_copies import is_kraft, leaders_of, without_metadata_log
from tidegauge.snapshots.other_directories import (
    METADATA_DIR,
    is_log_dir,
    is_metadata_log_dir,
    is_replica,
    log_dirs_below,
    what_it_holds,
)
from tidegauge.snapshots.source_files import log_directory
from tidegauge.snapshots.throttle import Throttle

NODE_ID: Final = re.compile(r"[0-9]{1,10}")
"""As a user writes it."""
_MAX_META_BYTES: Final = 1 << 20
_TOLD: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirSource:
    """One log dir: where it is, its folder's name in the snapshot ("." for a broker's only one), its directory.id."""

    path: Path
    name: str
    directory_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSource:
    """One broker's log dirs."""

    broker_id: int
    log_dirs: tuple[LogDirSource, ...]

    @property
    def directory(self) -> str:
        """The broker's folder in the snapshot."""
        return f"broker-{self.broker_id}"


def broker_sources(
    given: Sequence[str], *, part: bool = False, warn: Callable[[str], None] = lambda _: None
) -> tuple[tuple[BrokerSource, ...], str]:
    """The brokers that `ID=LOG_DIR[,LOG_DIR]` texts name, and their cluster's id, "" if that is not decided.

    `part`: they are some of the brokers only. What is odd and no reason to stop goes to `warn`, a sentence each. Raises
    `SnapshotError`.
    """
    if not given:
        raise SnapshotError("No broker was named. Name each with its log dirs: --broker 1=/var/lib/kafka/data")
    paths: dict[int, list[Path]] = {}
    for text in given:
        broker_id, log_dirs = broker_of(text)
        if broker_id in paths:
            raise SnapshotError(
                f"Broker {broker_id} is named twice. Name each broker once, all its log dirs behind one "
                f"another: --broker {broker_id}={','.join(map(str, [*paths[broker_id], *log_dirs]))}"
            )
        paths[broker_id] = log_dirs
    _must_be_apart([(broker_id, path) for broker_id, of_broker in paths.items() for path in of_broker])
    said = _said(paths)
    names = {broker_id: _names(of_broker) for broker_id, of_broker in paths.items()}
    claims = [
        Claim(node_id=broker_id, log_dir=name, path=str(path / META_PROPERTIES), said=said[path].meta)
        for broker_id, of_broker in paths.items()
        for path, name in zip(of_broker, names[broker_id], strict=True)
    ]
    at = {claim.place: Path(claim.path).parent for claim in claims}
    settled = settle(claims, lambda places: _owners(at[place] for place in places), names_are_fresh=not part)
    _must_differ(claim for claim in claims if claim.place not in settled.foreign)
    sources = tuple(
        BrokerSource(
            broker_id=broker_id,
            log_dirs=tuple(
                LogDirSource(path=path, name=name, directory_id=_directory_id(said[path].meta))
                for path, name in zip(of_broker, names[broker_id], strict=True)
            ),
        )
        for broker_id, of_broker in sorted(paths.items())
    )
    problems = (said[path].problem for path in said if said[path].problem)
    for warning in (*problems, *_doubts(claims, settled), *_without_metadata(sources, said)):
        warn(warning)
    if not part and not any(is_replica(entry) for path in said for entry in _in(path)):
        warn(f"There is no replica of Kafka in {', '.join(map(str, said))}: an audit will have nothing to look at.")
    return sources, settled.cluster_id or ""


def must_not_hold(sources: Iterable[BrokerSource], out: Location) -> None:
    """A snapshot inside a log dir would be copied into itself, and Kafka would find it there; nor the other way."""
    if not isinstance(out, Path):
        return
    brokers = tuple(sources)
    written = [really(out), *(really(out / s.directory) for s in brokers)]
    for source in brokers:
        for log_dir in source.log_dirs:
            read = really(log_dir.path)
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


def check_name(name: str, option: str) -> None:
    """A cluster's name and a snapshot's id are names of directories. Raises `SnapshotError`."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", name) is None:
        raise SnapshotError(
            f"{option} {name!r} cannot be a directory's name: use letters, digits, '.', '_' and '-', at most 200 of "
            "them, and begin with a letter, a digit or '_'."
        )


def broker_of(text: str) -> tuple[int, list[Path]]:
    """The id and the log dirs that `ID=LOG_DIR[,LOG_DIR]` names. Raises `SnapshotError`.

    A log dir that is left empty is not left out: a start would be judged, and a snapshot made, without its replicas.
    """
    number, equals, dirs = text.partition("=")
    names = [name.strip() for name in dirs.split(",")]
    if not equals or NODE_ID.fullmatch(number.strip()) is None or not any(names):
        raise SnapshotError(
            f"--broker {text} names no broker: give its id and its log dirs, like --broker 1=/data/a or "
            "--broker 1=/data/a,/data/b"
        )
    if not all(names):
        raise SnapshotError(
            f"--broker {text} leaves a log dir empty: there is nothing before or behind one of its commas. Is a "
            "variable of the shell not set? Name every log dir of the broker, with one comma between two."
        )
    if "\0" in dirs:
        raise SnapshotError(f"--broker {text} holds a NUL, and no directory's name does. Name the log dirs.")
    return int(number), [Path(name).absolute() for name in names]


def _must_be_apart(paths: Sequence[tuple[int, Path]]) -> None:
    """No log dir is another one, or inside another one."""
    for at, (broker_id, path) in enumerate(paths):
        for other_id, other in paths[:at]:
            if really(path) == really(other):
                raise SnapshotError(
                    f"{path} is named as a log dir of broker {other_id} and of broker {broker_id}. "
                    if broker_id != other_id
                    else f"{path} is named twice for broker {broker_id}. " + "Name each log dir once."
                )
            inner, outer = (path, other) if really(path).is_relative_to(really(other)) else (other, path)
            if not really(inner).is_relative_to(really(outer)):
                continue
            if broker_id != other_id or not is_metadata_log_dir(outer):
                raise SnapshotError(
                    f"Of {other} and {path} one is inside the other; a broker's log dirs never are. Check the paths."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What a log dir's meta.properties says; else why it says nothing."""

    meta: MetaProperties | None
    problem: str = ""


def _said(paths: Mapping[int, Sequence[Path]]) -> dict[Path, _Said]:
    """What each log dir says of itself. Raises `SnapshotError` for what is no log dir, or if none says anything."""
    found = {path: _meta(broker_id, path) for broker_id, of_broker in paths.items() for path in of_broker}
    if not any(said.meta is not None for said in found.values()):
        raise SnapshotError(next(said.problem for said in found.values()))
    return found


def _meta(broker_id: int, path: Path) -> _Said:
    if not path.exists():
        raise SnapshotError(
            f"{path}, said to be a log dir of broker {broker_id}, does not exist. Name what log.dirs of that broker "
            "names, as this machine sees it."
        )
    if not path.is_dir():
        raise SnapshotError(f"{path}, said to be a log dir of broker {broker_id}, is not a directory.")
    try:
        with log_directory(path) as log_dir, log_dir.open(META_PROPERTIES) as file:
            return _Said(meta=parse_meta_properties(os.pread(file.fd, _MAX_META_BYTES, 0)))
    except FileNotFoundError as error:
        if not is_log_dir(path):
            raise SnapshotError(_no_log_dir(path)) from error
        return _Said(
            meta=None,
            problem=f"{path} has no {META_PROPERTIES}, so nothing says that it is broker {broker_id}'s; a broker does "
            "not start with it.",
        )
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL):
            return _Said(
                meta=None,
                problem=f"{path / META_PROPERTIES} is a link or no regular file: it is not read, and nothing says that "
                f"{path} is broker {broker_id}'s. Name the directory that log.dirs of the broker names.",
            )
        problem = (
            f"{path} cannot be read: {error.strerror or error}. Run the capture as a user who may read the broker's "
            "log dirs; it never needs to write there."
        )
        if not os.access(path, os.R_OK | os.X_OK):
            raise SnapshotError(problem) from error
        return _Said(meta=None, problem=problem)


def _in(path: Path) -> Iterator[Path]:
    """What lies in a log dir."""
    with suppress(OSError):
        yield from path.iterdir()


def _no_log_dir(path: Path) -> str:
    """Why a directory is none, what it is instead, and which one may be meant."""
    words = f"{path} has no {META_PROPERTIES}, so it is no log dir of a Kafka broker: it {what_it_holds(path)}"
    words += "" if words.endswith("?") else "."
    likely = log_dirs_below(path)
    if likely:
        more = " and elsewhere below it" if len(likely) > _TOLD else ""
        return f"{words} Log dirs lie at {', '.join(map(str, likely[:_TOLD]))}{more}: name these."
    return f"{words} Name the directory that log.dirs of the broker names, not one above or below it."


def _doubts(claims: Iterable[Claim], settled: Settled) -> Iterator[str]:
    for claim in claims:
        if claim.place in settled.foreign:
            yield (
                f"{claim.path}: {settled.foreign[claim.place]}. It is captured, and an audit will not count it: check "
                "--broker, or put the file right."
            )
        elif claim.place in settled.wrong:
            yield f"{claim.path} says {settled.wrong[claim.place]}; by its directory id the log dir is the node's own."


def _without_metadata(sources: Iterable[BrokerSource], said: Mapping[Path, _Said]) -> Iterator[str]:
    for source in sources:
        paths = [str(log_dir.path) for log_dir in source.log_dirs]
        of_kraft = is_kraft(said[log_dir.path].meta for log_dir in source.log_dirs)
        if of_kraft and not any((log_dir.path / METADATA_DIR).is_dir() for log_dir in source.log_dirs):
            left_out = without_metadata_log(source.directory)
            yield (
                f"{left_out.path}: {left_out.reason}. Name that directory too: --broker {source.broker_id}="
                f"{','.join(paths)},<metadata.log.dir>"
            )


def _owners(log_dirs: Iterable[Path]) -> Owners:
    """By the furthest of the metadata logs in these log dirs."""
    found = []
    for path in log_dirs:
        with suppress(OSError), log_directory(path) as log_dir, log_dir.directory(METADATA_DIR) as directory:
            found.append(leaders_of(directory, Meter(throttle=Throttle(None))))
    return max(found, key=lambda leaders: leaders.reach, default=Leaders()).owners


def _directory_id(meta: MetaProperties | None) -> str | None:
    return meta.directory_id if meta is not None else None


def _must_differ(claims: Iterable[Claim]) -> None:
    """A directory.id names one directory; twice, one is a copy of the other."""
    seen: dict[str, str] = {}
    for claim in claims:
        directory_id = _directory_id(claim.said)
        if directory_id is None:
            continue
        if directory_id in seen:
            raise SnapshotError(
                f"{seen[directory_id]} and {Path(claim.path).parent} have the same directory.id, {directory_id}: one "
                "is a copy of the other. Name the one that the broker uses."
            )
        seen[directory_id] = str(Path(claim.path).parent)


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
