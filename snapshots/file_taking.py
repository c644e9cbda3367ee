"""Taking files: each of a broker's files becomes a file of the snapshot and an entry of the manifest.

In: open directories of a source, names. Out: entries, and what was left out and why. The rules that must hold: a file
is copied, or known to be held already, or named with the reason; a source that fails is noted, a target that fails
stops the capture.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.kafka_log.sources import PassZeros, ReadInto
from tidegauge.snapshots.copying import Meter, Rewrite, UnreadableError, copy_file
from tidegauge.snapshots.headers import How, Treatment, write_treated
from tidegauge.snapshots.headers import treatment as headers_treatment
from tidegauge.snapshots.local_path import must_be_of_kafka, must_be_readable
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import NO_TEXT, FileEntry, LeftOut, Mode, as_text, is_preallocated, is_text
from tidegauge.snapshots.reuse import is_unchanged
from tidegauge.snapshots.source_files import Seen, SourceDirectory, SourceFile, gone
from tidegauge.snapshots.target import Target
from tidegauge.snapshots.topic_names import TopicNames

GONE: Final = "vanished while the broker was read"
NONE_HELD: Final[Mapping[str, FileEntry]] = MappingProxyType({})
_HALF_WRITTEN: Final = ".tmp"
"""A file under this name is renamed as soon as it is whole, and is taken under its own."""
_READINGS: Final = 3
_LINK: Final = "a link; not followed"
_NO_FILE: Final = "not a regular file"


class VanishedError(Exception):
    """A file was listed, and is there no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How files are taken: the mode, and the names that hide the topics' own."""

    mode: Mode
    names: TopicNames | None = None

    def of(self, path: str) -> Treatment:
        """What becomes of the file at a path below its log dir."""
        return Treatment(how=How.COPIED, path=path) if self.mode is Mode.FULL else headers_treatment(path, self.names)

    def shown(self, path: str) -> str:
        """A directory's path as it may be named."""
        if self.names is None:
            return path
        return self.names.path(path) if parse_partition_dir(path) is not None else self.names.unknown_path(path)

    def rewrite(self, treated: Treatment) -> Rewrite | None:
        """How its copy is written; None: as it is."""
        if treated.how is How.COPIED:
            return None

        def rewrite(readinto: ReadInto, pass_zeros: PassZeros, write: Callable[[bytes], object]) -> None:
            write_treated(treated, readinto, write, self.names, pass_zeros=pass_zeros)

        return rewrite


@dataclass(slots=True, kw_only=True)
class Taker:
    """Takes the files of one log dir; several threads may, each of partitions of its own. `prefix`: its folder in the
    snapshot, with a / at its end.

    `held_root`: where an earlier snapshot is. `own`: files of this snapshot from before it was interrupted, by path in
    the snapshot. `left_out`: what is not in the snapshot, a set in the order in which it was met. `rotten`: files that
    an earlier snapshot holds with other bytes, though nobody has written to them since. `linked_bytes`: of each file
    that the earlier snapshot held. `safe`: copies that would survive a power cut.
    """

    prefix: str
    way: Way
    target: Target
    meter: Meter
    held_root: Location | None = None
    own: dict[str, FileEntry] = field(default_factory=dict)
    reread: bool = False
    journal: Callable[[FileEntry], None] = lambda entry: None
    entries: dict[str, FileEntry] = field(default_factory=dict)
    left_out: dict[LeftOut, None] = field(default_factory=dict)
    rotten: list[str] = field(default_factory=list)
    linked_bytes: list[int] = field(default_factory=list)
    safe: set[str] = field(default_factory=set)

    def take(
        self, directory: SourceDirectory, name: str, path: str, *, held: Mapping[str, FileEntry] | None = None
    ) -> Seen | None:
        """Takes one regular file; `path` is below the log dir. What it was then; None if it has no copy. Of one that
        was cut during each reading the size is -1.

        `held`: it may be known already, and these are the earlier snapshot's files, by path below the log dir. Raises
        `VanishedError`, and what the target raises.
        """
        if not is_text(path):
            self.leave(path, NO_TEXT)
            return None
        treated = self.way.of(path)
        if treated.how is How.LEFT_OUT:
            self.leave(path, treated.reason or "", shown=treated.path)
            return None
        to = self.prefix + treated.path
        # One that is cut while it is read is neither what it was nor what it is: a roll cuts the zeros off an index.
        for _ in range(_READINGS):
            try:
                with _opened(directory, name, whole=treated.how is How.HASHED_CHECKPOINT) as source:
                    entry = self._kept(to, treated, source, held) if held is not None else None
                    if entry is None:
                        entry = self._copied(to, treated, source)
                    seen = source.seen
            except UnreadableError as error:
                self.drop(path)
                self.leave(path, str(error), shown=treated.path)
                return None
            self.entries[to] = entry
            if entry.log_size_bytes == seen.size_bytes:
                return seen
        return replace(seen, size_bytes=-1)

    def take_noted(self, directory: SourceDirectory, name: str, path: str) -> Seen | None:
        """The same, but one that is not there any more, or is no regular file, is named as left out."""
        try:
            kind = _kind(directory, name)
            if kind == "file":
                return self.take(directory, name, path)
            self.leave(path, _LINK if kind == "link" else _NO_FILE)
        except VanishedError:
            if not name.endswith(_HALF_WRITTEN):
                self.leave(path, GONE)
        except UnreadableError as error:
            self.leave(path, str(error))
        return None

    def take_again(self, directory: SourceDirectory, name: str, path: str, *, other: str) -> None:
        """Reads a small file a second time: a change of it is kept under another name, no change with its instant."""
        before = self.entry(path)
        try:
            with _opened(directory, name) as source:
                now = copy_file(source, None, self.meter)
        except (VanishedError, UnreadableError):
            return  # What was read before stands.
        if before is None:
            self.take_noted(directory, name, path)
        elif now.sha256 == before.sha256:
            self.entries[before.path] = replace(before, read_again_at_ms=now.read_at_ms)
            if self.entry(other) is not None:
                self.drop(other)
        else:
            self.entries[before.path] = replace(before, read_again_at_ms=None)
            self.take_noted(directory, name, other)

    def unchanged(self, path: str) -> None:
        """Notes that nobody has written to a file since it was taken."""
        entry = self.entry(path)
        if entry is not None:
            self.entries[entry.path] = replace(entry, read_again_at_ms=self.meter.now_ms())

    def keep(self, path: str) -> None:
        """Makes sure that a file's copy need not be made again, should the capture be interrupted."""
        entry = self.entry(path)
        if entry is not None:
            self.target.sync([entry.path])
            self.safe.add(entry.path)
            self.journal(entry)

    def leave(self, path: str, reason: str, *, shown: str | None = None) -> None:
        """Notes that something of the log dir is not in the snapshot."""
        noted = LeftOut(path=as_text(self.prefix + (self.way.of(path).path if shown is None else shown)), reason=reason)
        self.left_out[noted] = None

    def leave_directory(self, path: str, reason: str) -> None:
        """Notes that something about a directory."""
        self.leave(path, reason, shown=self.way.shown(path))

    def drop(self, path: str) -> None:
        """Takes a copy back."""
        to = self.prefix + self.way.of(path).path
        self.entries.pop(to, None)
        self.target.remove(to)

    def drop_directory(self, path: str) -> None:
        """Takes back all that was taken of a directory."""
        below = f"{self.prefix}{self.way.shown(path)}/"
        for to in [to for to in list(self.entries) if to.startswith(below)]:
            del self.entries[to]
            self.target.remove(to)

    def take_empty(self, name: str) -> None:
        """A file that is not even opened, since somebody locks it, and that holds nothing."""
        to = self.prefix + name
        with self.target.create(to):
            self.entries[to] = FileEntry(
                path=to, size_bytes=0, read_at_ms=self.meter.now_ms(), sha256=hashlib.sha256().hexdigest()
            )

    def entry(self, path: str) -> FileEntry | None:
        """The entry of a file below the log dir."""
        return self.entries.get(self.prefix + self.way.of(path).path)

    def _copied(self, to: str, treated: Treatment, source: SourceFile) -> FileEntry:
        self.entries.pop(to, None)
        self.safe.discard(to)
        without_room = not self.target.keeps_holes and treated.how is How.COPIED and is_preallocated(to)
        with self.target.create(to) as sink:
            rewrite = self.way.rewrite(treated)
            copied = copy_file(source, sink, self.meter, rewrite=rewrite, without_room=without_room)
        return FileEntry(
            path=to,
            size_bytes=copied.size_bytes,
            read_at_ms=copied.read_at_ms,
            sha256=copied.sha256,
            modified_at_ns=copied.seen.modified_at_ns,
            changed_at_ns=copied.seen.changed_at_ns,
            source_size_bytes=None if treated.how is How.COPIED else copied.source_size_bytes,
            zeros_behind=copied.zeros_behind,
        )

    def _kept(
        self, to: str, treated: Treatment, source: SourceFile, earlier: Mapping[str, FileEntry]
    ) -> FileEntry | None:
        """The entry of a copy that need not be made: one of our own from before, or an earlier snapshot's."""
        at_ms, seen = self.meter.now_ms(), source.seen
        own = self.own.get(to)
        if own is not None and is_unchanged(own, seen) and self.target.size(to) == own.size_bytes:
            return replace(own, read_at_ms=at_ms)
        held = earlier.get(treated.path)
        if held is None or self.held_root is None or treated.how is How.HASHED_LOG or held.zeros_behind:
            return None  # An index with room is small, and its digest is not the source's.
        unchanged = is_unchanged(held, seen)
        if self.reread or not unchanged:
            # Another inode with the same size and time may be a restored volume's, or what the cleaner wrote.
            if held.log_size_bytes != seen.size_bytes or (held.modified_at_ns != seen.modified_at_ns and not unchanged):
                return None
            if copy_file(source, None, self.meter, rewrite=self.way.rewrite(treated)).sha256 != held.sha256:
                if unchanged:
                    self.rotten.append(to)
                return None
        try:
            if (self.held_root / held.path).stat().st_size != held.size_bytes:
                return None  # Somebody has written into the earlier snapshot.
            self.target.link(self.held_root / held.path, to)
        except (FileNotFoundError, PermissionError):
            return None  # Somebody has removed it from the earlier snapshot, or it is not ours to read.
        self.linked_bytes.append(held.size_bytes)
        return replace(
            held, path=to, read_at_ms=at_ms, modified_at_ns=seen.modified_at_ns, changed_at_ns=seen.changed_at_ns
        )


def _opened(directory: SourceDirectory, name: str, *, whole: bool = False) -> SourceFile:
    """`whole`: it is to be in memory at once. What is larger than is read cannot be read."""
    try:
        source = directory.open(name)
    except OSError as error:
        if gone(error):
            raise VanishedError(name) from error
        if error.errno == errno.ELOOP:
            raise UnreadableError(_LINK) from error
        if error.errno == errno.EINVAL:
            raise UnreadableError(_NO_FILE) from error
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
    try:
        (must_be_readable if whole else must_be_of_kafka)(source.seen.size_bytes)
    except OSError as error:
        os.close(source.fd)
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
    return source


def _kind(directory: SourceDirectory, name: str) -> str:
    try:
        kind = directory.kind(name)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
    if kind == "gone":
        raise VanishedError(name)
    return kind
