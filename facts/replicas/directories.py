"""Partition directories by their files' names: rows of `partition_directories`.

In: the listing of a snapshot. Out: a row for each directory that a broker serves or fills. How long a file has had its
name is known by its ctime where a capture brought it along, and by nothing else; a rename does not touch the mtime.

Source: LogManager#loadLogs, LocalLog#replaceSegments, LogLoader#removeTempFilesAndCollectSwapFiles.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tidegauge.facts.rows import json_list
from tidegauge.kafka_log.log_dir import log_name, parse_segment_file
from tidegauge.relations import PartitionDirectoryRow
from tidegauge.snapshots.listing import ReplicaFiles, SnapshotListing
from tidegauge.snapshots.manifest import FileEntry, LeftOut

_DELETED: Final = ".deleted"
_HALF_DONE: Final = (".cleaned", ".swap", ".tmp")
_SERVED: Final = ("live", "future")
_NS_PER_MS: Final = 1_000_000


def partition_directory_rows(
    files: SnapshotListing, *, delete_delay_ms: Callable[[str], int], unread: Sequence[LeftOut]
) -> list[PartitionDirectoryRow]:
    """Rows without the columns of the capture. `delete_delay_ms`: by topic, file.delete.delay.ms in force."""
    homes: dict[tuple[int, str, int, str], list[str]] = {}
    for log_dir in files.log_dirs:
        for replica in log_dir.replicas:
            homes.setdefault(_home(replica, replica.state), []).append(log_dir.name)
    unread_logs = {log_name(x.path) for x in unread}
    rows: list[PartitionDirectoryRow] = []
    for log_dir in files.log_dirs:
        for replica in log_dir.replicas:
            if replica.state not in _SERVED:
                continue
            live, future = (homes.get(_home(replica, state), []) for state in _SERVED)
            rows.append(
                {
                    "broker_id": replica.broker_id,
                    "topic": replica.topic,
                    "partition": replica.partition,
                    "log_dir": log_dir.name,
                    "directory": replica.directory,
                    "state": replica.state,
                    "live_directories": len(live),
                    "future_directories": len(future),
                    "log_dirs": sorted(live),
                    "file_delete_delay_ms": delete_delay_ms(replica.topic),
                    "clean_shutdown": log_dir.clean_shutdown,
                    **_leftovers(replica, unread_logs),
                }
            )
    return rows


def _home(replica: ReplicaFiles, state: str) -> tuple[int, str, int, str]:
    return replica.broker_id, replica.topic, replica.partition, state


def _leftovers(replica: ReplicaFiles, unread_logs: set[str]) -> PartitionDirectoryRow:
    deleted = [f for f in replica.other if f.path.endswith(_DELETED)]
    half_done = [f for f in replica.other if f.path.endswith(_HALF_DONE)]
    orphans = [f for f in replica.orphans if not _has_unread_log(replica, f, unread_logs)]
    return {
        "deleted_files": len(deleted),
        "half_done_files": len(half_done),
        "oldest_deleted_age_ms": _oldest(deleted),
        "oldest_half_done_age_ms": _oldest(half_done),
        "orphans": len(orphans),
        "leftovers": json_list(
            {"kind": kind, "path": log_name(f.path), "detail": _told(f)}
            for kind, of_kind in (("half_done", half_done), ("orphan", orphans), ("deleted", deleted))
            for f in sorted(of_kind, key=lambda file: log_name(file.path))
        ),
    }


def _has_unread_log(replica: ReplicaFiles, file: FileEntry, unread_logs: set[str]) -> bool:
    """The log of its base is there, and could not be listed or read."""
    parsed = parse_segment_file(file.path.rsplit("/", 1)[-1])
    return parsed is not None and f"{replica.directory}/{parsed.base_offset:020d}.log" in unread_logs


def _oldest(files: Iterable[FileEntry]) -> int | None:
    return max(_ages(files), default=None)


def _ages(files: Iterable[FileEntry]) -> Iterator[int]:
    for file in files:
        if file.changed_at_ns is not None and file.read_at_ms is not None:
            yield file.read_at_ms - file.changed_at_ns // _NS_PER_MS


def _told(file: FileEntry) -> str:
    age = _oldest([file])
    size = f"{file.log_size_bytes} bytes"
    return size if age is None else f"{size}, under this name for {age} ms"
