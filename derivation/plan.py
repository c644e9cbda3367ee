"""The plan: which segments to read, with what the index step must know of each.

In: a run's snapshots. Out: `SegmentTask`s. Every live and every -future replica's segments are in it, Kafka's internal
topics and the metadata log like any other; deleted and stray directories are not judged. A restricted audit leaves out
user topics' partitions that it was not asked for.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tidegauge.derivation.kept_summaries import KeptSummaries, planned
from tidegauge.derivation.segment_tasks import SegmentTask
from tidegauge.kafka_log.internal_topics import (
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from tidegauge.kafka_log.log_dir import log_name
from tidegauge.runs.restriction import Restriction
from tidegauge.runs.run import ReadSnapshot, Run
from tidegauge.snapshots.listing import LogDirListing, ReplicaFiles, SegmentFiles, listing
from tidegauge.snapshots.manifest import Consistency, FileEntry

DECODED_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, REMOTE_LOG_METADATA})
"""Internal topics whose records are decoded while their segments are read."""


def segment_tasks(run: Run, kept: Mapping[str, KeptSummaries] = MappingProxyType({})) -> list[SegmentTask]:
    """One task per segment of every replica that is judged, and of those that it is compared with, each once. `kept`:
    summaries at hand.
    """
    return [task for snapshot in reads(run) for task in planned(kept, snapshot, tasks_of(snapshot, run.restriction))]


def reads(run: Run) -> tuple[ReadSnapshot, ...]:
    """Every snapshot that a run reads, each once."""
    return tuple({snapshot.key: snapshot for audited in run.snapshots for snapshot in audited.reads}.values())


def tasks_of(snapshot: ReadSnapshot, restriction: Restriction) -> Iterator[SegmentTask]:
    """One task per segment of one snapshot."""
    for log_dir in listing(snapshot.manifest).log_dirs:
        for replica in log_dir.replicas:
            read = restriction.reads(replica.topic, replica.partition)
            if read and replica.state in ("live", "future") and replica.segments:
                bases = [s.base_offset for s in replica.segments]
                for segment, next_base in zip(replica.segments, [*bases[1:], None], strict=True):
                    rolled_meanwhile = next_base == bases[-1]
                    yield _task(snapshot, log_dir, replica, segment, next_base, rolled_meanwhile=rolled_meanwhile)


def _task(
    snapshot: ReadSnapshot,
    log_dir: LogDirListing,
    replica: ReplicaFiles,
    segment: SegmentFiles,
    next_base: int | None,
    *,
    rolled_meanwhile: bool,
) -> SegmentTask:
    quiet = log_dir.clean_shutdown or snapshot.manifest.consistency is not Consistency.FUZZY
    return SegmentTask(
        snapshot=snapshot.key,
        root=str(snapshot.root),
        broker_id=replica.broker_id,
        directory=replica.directory,
        topic=replica.topic,
        partition=replica.partition,
        path=log_name(segment.log.path),
        stored_path=segment.log.path,
        base_offset=segment.base_offset,
        size_bytes=segment.log.log_size_bytes,
        stored_bytes=segment.log.size_bytes,
        index_path=_path(segment.index),
        time_index_path=_path(segment.timeindex),
        cuts=tuple(o for o, _ in replica.snapshots if segment.base_offset < o and (next_base is None or o < next_base)),
        # In a live copy the last segment but one may have been the active one when its log was copied, and rolled
        # before its indexes were.
        indexes_open=next_base is None or (rolled_meanwhile and not quiet),
        clean_shutdown=log_dir.clean_shutdown,
        ignore_sequences=replica.topic == CONSUMER_OFFSETS,
        with_records=replica.topic in DECODED_TOPICS and replica.state == "live",
        zeros_behind=(_zeros_behind(segment.index), _zeros_behind(segment.timeindex)),
    )


def _path(file: FileEntry | None) -> str | None:
    return file.path if file is not None else None


def _zeros_behind(file: FileEntry | None) -> int:
    return file.zeros_behind if file is not None else 0
