r"""Checkpoint files: `leader-epoch-checkpoint` and the four `*-offset-checkpoint` files.

In: a file's bytes. Out: its entries, and a `Corruption` per line that cannot be one; reading goes on after it. The
rules that must hold: an untouched file (0 bytes, or "0\n0\n") is empty, not damaged (CheckpointFile,
LeaderEpochCheckpointFile); and no more is kept than `MAX_ENTRIES`, each of which takes some hundred bytes out of six.

    version (0)
    number of entries
    topic partition offset      one line each   (offset checkpoints)
    epoch start-offset          one line each   (leader-epoch-checkpoint)
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from tidegauge.kafka_log.corruption import Corruption, Damage, Places

_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1

MAX_ENTRIES: Final = 1 << 18
"""More partitions than a log dir has, and more epochs than a partition. Lines behind so many are not read."""
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_MAX_LINE_BYTES: Final = 1024
"""A topic's name has 249 characters, and two numbers have 30."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """One partition's offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry:
    """Where a leader epoch starts."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCheckpoint:
    """An offset checkpoint. `declared_entries` is its second line, None if that cannot be read."""

    empty: bool
    declared_entries: int | None
    entries: tuple[CheckpointEntry, ...]
    corruptions: tuple[Corruption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochCheckpoint:
    """A leader-epoch-checkpoint, entries in file order."""

    empty: bool
    declared_entries: int | None
    entries: tuple[EpochEntry, ...]
    corruptions: tuple[Corruption, ...]


_Entry = TypeVar("_Entry")


def parse_offset_checkpoint(data: bytes) -> OffsetCheckpoint:
    """Reads an offset checkpoint file."""
    empty, declared, entries, corruptions = _parse(data, _offset_entry)
    return OffsetCheckpoint(empty=empty, declared_entries=declared, entries=entries, corruptions=corruptions)


def parse_leader_epoch_checkpoint(data: bytes) -> LeaderEpochCheckpoint:
    """Reads a leader-epoch-checkpoint file."""
    empty, declared, entries, corruptions = _parse(data, _epoch_entry)
    return LeaderEpochCheckpoint(empty=empty, declared_entries=declared, entries=entries, corruptions=corruptions)


def write_offset_checkpoint(entries: Iterable[CheckpointEntry]) -> bytes:
    """The bytes of an offset checkpoint with these entries, in this order (CheckpointFile#write)."""
    return _write(f"{e.topic} {e.partition} {e.offset}" for e in entries)


def write_leader_epoch_checkpoint(entries: Iterable[EpochEntry]) -> bytes:
    """The bytes of a leader-epoch-checkpoint with these entries, in this order."""
    return _write(f"{e.leader_epoch} {e.start_offset}" for e in entries)


def _write(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def offset_entry(line: bytes) -> CheckpointEntry | None:
    """What a line of an offset checkpoint behind the first two says, None if it is no entry."""
    return _offset_entry(line.decode("utf-8", "replace").split()) if len(line) <= _MAX_LINE_BYTES else None


def _offset_entry(words: list[str]) -> CheckpointEntry | None:
    # A topic's name has no white space, so three words are all there can be.
    if len(words) != 3:
        return None
    partition, offset = _number(words[1], _MAX_INT32), _number(words[2], _MAX_INT64)
    if partition is None or offset is None:
        return None
    return CheckpointEntry(topic=words[0], partition=partition, offset=offset)


def _epoch_entry(words: list[str]) -> EpochEntry | None:
    # The broker refuses negative ones too (LeaderEpochFileCache#assign).
    if len(words) != 2:
        return None
    epoch, start = _number(words[0], _MAX_INT32), _number(words[1], _MAX_INT64)
    if epoch is None or start is None:
        return None
    return EpochEntry(leader_epoch=epoch, start_offset=start)


def _number(text: str, largest: int) -> int | None:
    """A decimal number from 0 to `largest`; anything else is no number that Kafka wrote."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(largest))):
        return None
    value = int(text)
    return value if value <= largest else None


def _parse(
    data: bytes, entry_of: Callable[[list[str]], _Entry | None]
) -> tuple[bool, int | None, tuple[_Entry, ...], tuple[Corruption, ...]]:
    if not data:
        return True, None, (), ()
    damages = Places()
    entries: list[_Entry] = []
    declared: int | None = None
    for at, line in enumerate(_LINE.finditer(data)):
        position, end = line.span()
        text = data[position : min(end, position + _MAX_LINE_BYTES)].decode("utf-8", "replace").strip()

        def bad(kind: Damage, detail: str, start: int = position, end: int = end) -> None:
            damages.add(Corruption(kind=kind, position=start, end_position=end, detail=detail))

        if at == MAX_ENTRIES + 2:
            detail = f"more than {MAX_ENTRIES} entries: those from line {at + 1} on are not read"
            bad(Damage.NOT_READ, detail, end=len(data))
            break
        if at == 0:
            if text != "0":
                bad(Damage.VERSION, f"the first line is {text[:40]!r}, not version 0")
        elif at == 1:
            declared = _number(text, _MAX_INT32)
            if declared is None:
                bad(Damage.FORM, f"the second line is {text[:40]!r}, not a number of entries")
        elif text:
            entry = entry_of(text.split()) if end - position <= _MAX_LINE_BYTES else None
            if entry is None:
                bad(Damage.FORM, f"line {at + 1} is {text[:60]!r}, not an entry")
            else:
                entries.append(entry)
    corruptions = damages.all()
    if declared is not None and declared != len(entries):
        detail = f"{declared} entries are declared, {len(entries)} are there"
        corruptions.append(Corruption(kind=Damage.COUNT, position=0, end_position=len(data), detail=detail))
    elif declared is None and not corruptions:
        corruptions.append(
            Corruption(
                kind=Damage.FORM, position=0, end_position=len(data), detail="the file ends after its first line"
            )
        )
    return declared == 0 and not entries, declared, tuple(entries), tuple(corruptions)
