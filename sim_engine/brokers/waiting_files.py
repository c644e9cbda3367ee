"""Files and directories that wait to be removed, and what a death in the middle of a cleaning leaves.

In: a broker's disk, the time, chance. Out: the disk without what was removed meanwhile, or with what was half done.
Only a running broker removes anything; one that starts removes `.deleted` and `.cleaned` files at once, puts `.swap`
files in place, and lets directories wait anew.

    -delete   a partition that its broker has no longer: log.segment.delete.delay.ms from then on
    -stray    a partition that the metadata log did not give to a broker that has started: until somebody removes it
    .deleted  a segment that retention, truncation or the cleaner took: file.delete.delay.ms
    .cleaned  the cleaner was writing it when its broker died
    .swap     the cleaner was through with writing, and had put nothing in place

Source: Kafka LogManager#asyncDelete, #deleteLogs, #addStrayLog; LogLoader#load, #completeSwapOperations; LocalLog.
"""

from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.dice import draw
from tidegauge.sim_engine.files.leftovers import Leftover, LeftSegment, not_yet_removed, together
from tidegauge.sim_engine.files.render import Beside, RenamedReplica, Replica
from tidegauge.sim_engine.log.cleaner import cleaned_if_due
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.segment import Segment
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Disk

DIRECTORY_DELAY_MS: Final = 60_000
"""log.segment.delete.delay.ms of the broker; a topic's own setting is about its segments alone."""
_OF_SO_MANY: Final = 4
"""A death finds a cleaning half written in one case of these, not put in place in another one."""


def set_aside(turn: Turn, broker_id: int, partition: TopicPartition, beside: Beside) -> None:
    """A partition's directory gets another name."""
    disk = turn.broker(broker_id).disk
    where = f"{broker_id}/{partition}/{beside.value}"
    unique = f"{draw(turn.seed, turn.sequence, where):016x}{draw(turn.seed, turn.now_ms, where):016x}"
    moved = RenamedReplica(
        partition=partition, beside=beside, unique=unique, replica=disk.replicas[partition], since_ms=turn.now_ms
    )
    turn.put_disk(broker_id, replace(disk, renamed=(*disk.renamed, moved)))


def swept(disk: Disk, *, now_ms: int) -> Disk:
    """The disk of a running broker without what it has removed until now."""
    renamed = tuple(
        each
        for each in disk.renamed
        if each.beside is not Beside.DELETED or now_ms - each.since_ms < DIRECTORY_DELAY_MS
    )
    replicas = {}
    for partition, replica in disk.replicas.items():
        if replica.leftovers:
            delay_ms = replica.log.config.file_delete_delay_ms
            replicas[partition] = replace(
                replica, leftovers=not_yet_removed(replica.leftovers, now_ms=now_ms, delay_ms=delay_ms)
            )
    waiting = tuple(w for w in disk.waiting_files if now_ms - w.since_ms < DIRECTORY_DELAY_MS)
    if not replicas and (renamed, waiting) == (disk.renamed, disk.waiting_files):
        return disk
    return replace(disk, renamed=renamed, waiting_files=waiting, replicas={**disk.replicas, **replicas})


def found_by_start(disk: Disk, *, now_ms: int) -> Disk:
    """The disk as a broker that starts makes it, before it looks at the logs."""
    renamed = tuple(replace(each, since_ms=now_ms) if each.beside is Beside.DELETED else each for each in disk.renamed)
    replicas = {
        p: Replica(log=_with_swapped(r), topic_id=r.topic_id) if r.leftovers else r for p, r in disk.replicas.items()
    }
    return replace(disk, renamed=renamed, replicas=replicas, waiting_files=())


def half_cleaned(turn: Turn, broker_id: int) -> None:
    """A process dies: a cleaner that was about to be done, or in the middle, leaves its files."""
    disk = turn.broker(broker_id).disk
    for partition, replica in sorted(disk.replicas.items()):
        if not replica.log.config.compact:
            continue
        how = turn.below(_OF_SO_MANY, f"half-cleaned {partition}")
        done = cleaned_if_due(replica.log, disk.cleaner_offsets.get(partition), now_ms=turn.now_ms) if how < 2 else None
        made = _first_written(replica.log, done[0]) if done is not None else None
        if made is not None:
            left = LeftSegment(segment=made, leftover=Leftover.SWAP)
            if how == 0:
                left = LeftSegment(segment=_half(made), leftover=Leftover.CLEANED)
            replicas = turn.broker(broker_id).disk.replicas
            now = replace(replica, leftovers=together(replica.leftovers, (left,)))
            turn.put_disk(broker_id, replace(turn.broker(broker_id).disk, replicas={**replicas, partition: now}))


def _first_written(before: ReplicaLog, after: ReplicaLog) -> Segment | None:
    kept = {id(segment) for segment in before.segments}
    return next((segment for segment in after.segments if id(segment) not in kept), None)


def _half(segment: Segment) -> Segment:
    written = len(segment.batches) // 2
    return segment.truncated(segment.batches[written].base_offset) if written else segment


def _with_swapped(replica: Replica) -> ReplicaLog:
    """Segments that lie where a swap file's offsets are go; the file takes their place."""
    log = replica.log
    for left in replica.leftovers:
        if left.leftover is Leftover.SWAP:
            start, end = left.segment.base_offset, left.segment.end_offset
            kept = [s for s in log.segments if not start <= s.base_offset < max(end, start + 1)]
            segments = tuple(sorted((*kept, left.segment), key=lambda s: s.base_offset))
            bases = {s.base_offset for s in segments}
            gone = {s.base_offset for s in log.segments} - bases
            log = replace(log, segments=segments, snapshots={k: v for k, v in log.snapshots.items() if k not in gone})
    return log
