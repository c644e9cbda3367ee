"""Taking one partition's directory from a broker that goes on appending, rolling, deleting and compacting.

In: the partition's directory, held open. Out: its files in the snapshot. The rules that must hold: the segments in
the copy are those of one listing, without a hole between them; beside a log lie the index files of the same
generation; each log goes up to its size at open, and what is derived from it is read after it.

Who may change what meanwhile, and what is done about it:

    append, roll      later segments are not taken: the copy ends where the last one was when it was opened
    retention         renames the oldest first; a listed segment that is gone makes the listing be taken anew
    log cleaner       renames what it merged, then puts one segment in its place; the same, and a log that is not the
                      one that was copied when its index files have been read is copied again
    truncation        cuts the last segment or removes it; the same
    topic deletion    renames the directory, which is held open and stays readable
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import sleep
from typing import Final

from tidegauge.kafka_log.log_dir import (
    LATER_EPOCH_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    is_live_log,
    parse_segment_file,
)
from tidegauge.snapshots.file_taking import GONE, NONE_HELD, Taker, VanishedError
from tidegauge.snapshots.manifest import FileEntry
from tidegauge.snapshots.source_files import Seen, SourceDirectory

_ATTEMPTS: Final = 8
_LISTINGS: Final = 20
_PAUSE_S: Final = 0.02
_DERIVED: Final = ("index", "timeindex", "txnindex", "snapshot")
_SMALL_FILES_TAKEN_BEFORE: Final = frozenset({LEADER_EPOCH_CHECKPOINT, "partition.metadata"})


@dataclass(slots=True, kw_only=True)
class Partition:
    """A partition directory by its path below the log dir, and what has been taken of it: base offset -> its log."""

    path: str
    inode: int
    taken: dict[int, Seen] = field(default_factory=dict)


def take_small_files(taker: Taker, directory: SourceDirectory, partition: Partition) -> None:
    """What must be read before the logs: epochs, and the topic id."""
    for name in sorted(_SMALL_FILES_TAKEN_BEFORE & set(directory.names())):
        taker.take_noted(directory, name, f"{partition.path}/{name}")


def take_partition(
    taker: Taker,
    directory: SourceDirectory,
    partition: Partition,
    *,
    held: Mapping[str, FileEntry] = NONE_HELD,
    pause: Callable[[float], None] = sleep,
) -> None:
    """Takes the segments and all else, then the epochs again. Called once more, it takes what has changed since.

    `held`: an earlier snapshot's files of the same topic id, by path below the log dir.
    """
    listed = set(partition.taken)
    for _ in range(_ATTEMPTS):
        names = _settled_names(directory, pause)
        listed |= _logs(names).keys()
        if not _take_segments(taker, directory, partition, names, held):
            continue
        if not _take_others(taker, directory, partition, names):
            continue
        taker.take_again(
            directory,
            LEADER_EPOCH_CHECKPOINT,
            f"{partition.path}/{LEADER_EPOCH_CHECKPOINT}",
            other=f"{partition.path}/{LATER_EPOCH_CHECKPOINT}",
        )
        # What was cut meanwhile has other epochs than those read behind it.
        if _is_uncut(directory, partition, max(partition.taken, default=None)):
            vanished = sorted(listed - _logs(names).keys())
            if vanished:
                bases = ", ".join(map(str, vanished))
                taker.leave_directory(partition.path, f"segments {bases}: {GONE}, by retention or the log cleaner")
            return
    taker.leave_directory(
        partition.path, f"its segments changed during each of {_ATTEMPTS} readings; the copy may have holes"
    )


def _take_others(taker: Taker, directory: SourceDirectory, partition: Partition, listed: list[str]) -> bool:
    """What is no segment's: what waits to be deleted, orphans, producer snapshots at a former log end.

    A segment's file that was not there when the logs were listed may speak of what was not copied. False if one came
    with a log that the cleaner has put in the place of the one that was copied.
    """
    late: set[int] = set()
    for name in directory.names():
        segment, path = parse_segment_file(name), f"{partition.path}/{name}"
        if segment is None or segment.suffix:
            wanted = name not in _SMALL_FILES_TAKEN_BEFORE
        elif segment.base_offset in partition.taken:
            # A producer snapshot is written right behind the roll, an index when the first entry is.
            wanted = segment.kind != "log" and taker.entry(path) is None
            late |= {segment.base_offset} if wanted else set()
        else:
            wanted = segment.kind != "log" and name in listed
        if wanted:
            taker.take_noted(directory, name, path)
    return all(_is_uncut(directory, partition, base) for base in late)


def _is_uncut(directory: SourceDirectory, partition: Partition, base: int | None) -> bool:
    """Whether a log was neither truncated nor replaced, so that what was read behind it still speaks of all of it."""
    if base is None:
        return True
    now = directory.seen(f"{base:020d}.log")
    return now is not None and _is_longer(now, partition.taken[base])


def _settled_names(directory: SourceDirectory, pause: Callable[[float], None]) -> list[str]:
    """A listing that no swap was going on in: while the cleaner swaps, neither old nor new segments may be there."""
    names = directory.names()
    for _ in range(_LISTINGS):
        again = directory.names()
        if _logs(again).keys() == _logs(names).keys() and not any(n.endswith(".swap") for n in again):
            return again
        pause(_PAUSE_S)
        names = directory.names()
    return names


def _logs(names: list[str]) -> dict[int, str]:
    """Base offset -> name, of the live logs."""
    return {int(name.removesuffix(".log")): name for name in sorted(names) if is_live_log(name)}


def _take_segments(
    taker: Taker,
    directory: SourceDirectory,
    partition: Partition,
    names: list[str],
    held: Mapping[str, FileEntry],
) -> bool:
    """One pass over a listing. False if a segment of it vanished or was cut before it could be taken whole."""
    logs = _logs(names)
    for base in [base for base in partition.taken if base not in logs]:
        _drop(taker, partition, base)
    last = max(logs, default=None)
    for base, name in logs.items():
        taken = partition.taken.get(base)
        if taken is not None and taken == directory.seen(name):
            taker.unchanged(f"{partition.path}/{name}")
            continue
        of_segment = held if base != last else None
        if not _take_segment(taker, directory, partition, base, name, held=of_segment):
            return False
    return True


def _take_segment(
    taker: Taker,
    directory: SourceDirectory,
    partition: Partition,
    base: int,
    name: str,
    *,
    held: Mapping[str, FileEntry] | None,
) -> bool:
    """`held` is None for the last segment, which is not sealed: that is read each time."""
    partition.taken.pop(base, None)
    path = f"{partition.path}/{name}"
    try:
        seen = taker.take(directory, name, path, held=held)
    except VanishedError:
        _drop(taker, partition, base)
        return False
    if seen is None:
        return True  # Left out, with the reason.
    for kind in _DERIVED:
        derived = f"{name.removesuffix('.log')}.{kind}"
        try:
            taker.take(directory, derived, f"{partition.path}/{derived}", held=held)
        except VanishedError:
            if taker.entry(f"{partition.path}/{derived}") is not None:
                taker.drop(f"{partition.path}/{derived}")
    now = directory.seen(name)
    whole = now == seen if held is not None else now is not None and _is_longer(now, seen)
    if whole:
        partition.taken[base] = seen
        taker.keep(path)
    else:
        _drop(taker, partition, base)
    return whole


def _is_longer(now: Seen, then: Seen) -> bool:
    """The last segment may have grown, or been rolled."""
    return now.inode == then.inode and now.size_bytes >= then.size_bytes >= 0


def _drop(taker: Taker, partition: Partition, base: int) -> None:
    """Takes back what was taken of a segment."""
    partition.taken.pop(base, None)
    for kind in ("log", *_DERIVED):
        path = f"{partition.path}/{base:020d}.{kind}"
        if taker.entry(path) is not None:
            taker.drop(path)
