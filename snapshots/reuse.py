"""What need not be read again: files of an earlier snapshot, and of this one before it was interrupted.

In: a manifest, or a journal. Out: for a file of the source, the entry of a copy that holds the same bytes. The rule
that must hold: a copy is taken for the source's bytes unread only if size, mtime and ctime are the same to the
nanosecond, for the same directory.id and topic id; all three, because the log cleaner gives a segment that it wrote
anew the mtime of the old one.
"""

import json
from dataclasses import dataclass, field

from tidegauge.kafka_log.log_dir import PARTITION_METADATA
from tidegauge.snapshots.fields import Fields
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import FileEntry, Manifest, file_from
from tidegauge.snapshots.source_files import Seen
from tidegauge.snapshots.sources import LogDirSource


def is_unchanged(entry: FileEntry, seen: Seen) -> bool:
    """Whether the copy was made of the source as it is now."""
    return (
        entry.log_size_bytes == seen.size_bytes
        and entry.modified_at_ns == seen.modified_at_ns
        and entry.changed_at_ns == seen.changed_at_ns
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier snapshot of the same cluster: where it is, and its files below each log dir, by directory.id."""

    root: Location
    snapshot_id: str
    by_directory_id: dict[str, dict[str, FileEntry]]

    def of(self, log_dir: LogDirSource) -> dict[str, FileEntry]:
        """The files of one log dir by their path in the snapshot below it."""
        return self.by_directory_id.get(log_dir.directory_id, {}) if log_dir.directory_id is not None else {}


def earlier(root: Location, manifest: Manifest) -> Earlier:
    """Lists a snapshot's files by where they came from."""
    found: dict[str, dict[str, FileEntry]] = {}
    for broker in manifest.brokers:
        for log_dir, files in broker.by_log_dir().items():
            directory_id = next(d.directory_id for d in broker.log_dirs if d.name == log_dir)
            if directory_id is not None:
                found[directory_id] = {path: file for path, file in files.items() if file.sha256 is not None}
    return Earlier(root=root, snapshot_id=manifest.snapshot_id, by_directory_id=found)


def same_topic(held: dict[str, FileEntry], directory: str, metadata: FileEntry | None) -> bool:
    """Whether an earlier copy of a partition is of the same topic id: by its `partition.metadata`."""
    before = held.get(f"{directory}/{PARTITION_METADATA}")
    if before is None or metadata is None:
        return before is None and metadata is None
    return before.sha256 == metadata.sha256


@dataclass(slots=True, kw_only=True)
class Journal:
    """What an unfinished capture has got already. A line each; one that was cut off by a crash is passed over."""

    header: dict[str, object] | None = None
    files: dict[str, FileEntry] = field(default_factory=dict)


def read_journal(text: str) -> Journal:
    """Reads a journal: a header, then an entry a line."""
    journal = Journal()
    for line in text.splitlines():
        try:
            value = json.loads(line)
            if "path" in value:
                entry = file_from(Fields.of(value, "an entry"))
                journal.files[entry.path] = entry
            else:
                journal.header = value
                journal.files.clear()  # Begun anew: what was there was made by another key.
        except (ValueError, KeyError, TypeError):
            continue  # The machine stopped while it was written.
    return journal
