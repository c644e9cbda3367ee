"""What retention and the cleaner took of each replica since an earlier snapshot: rows of `upkeep_changes`.

In: the replicas of one partition in both snapshots, and ways to read their keys. Out: a row for each replica that is
the same one in both. Between two snapshots a deletion may have come, done its work and gone; where so much time lies
between them, a key that is no longer there is not called lost.

Source: UnifiedLog#deleteOldSegments; Cleaner#shouldRetainRecord, Cleaner#checkBatchRetention (KAFKA-17076, of 4.0),
LogToClean; KIP-534.
"""

from typing import Final

from tidegauge.facts.cleanup.key_table import KeyChange, change
from tidegauge.facts.cleanup.upkeep import NOT_COMPACTED, ReadKeys, elapsed_ms, is_damaged, size_of, works_on
from tidegauge.facts.clocks import CLOCKS_APART_MS
from tidegauge.facts.metadata.config_history import Since
from tidegauge.facts.metadata.history import COMPACT
from tidegauge.facts.metadata.upkeep_context import (
    CLEANABLE_RATIO,
    COMPACTION_LAG_MS,
    DELETE_RETENTION_MS,
    REMOTE_STORAGE,
    RETENTION_BYTES,
    RETENTION_MS,
    LogSettings,
    UpkeepContext,
)
from tidegauge.facts.replicas.epochs import truncation
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_columns import capture, of_replica
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.relations import UpkeepChangeRow

KEEPS_LAST_BATCH: Final = (4, 0)
_NOTHING: Final = "no common range"
_NO_TIME: Final = "instants not known"


def upkeep_change_rows(
    present: ReplicaSet,
    earlier: ReplicaSet,
    *,
    continuity: dict[int, str],
    directory_replaced: dict[int, bool | None],
    previous_snapshot_id: str,
    keys: ReadKeys,
    earlier_keys: ReadKeys,
) -> list[UpkeepChangeRow]:
    """A row for each broker whose replica goes on (`continuity` is "same")."""
    if present.context.topic == CLUSTER_METADATA:
        return []
    before = {f.broker_id: f for f in earlier.live}
    return [
        {
            **_row(present, earlier, before[f.broker_id], f, keys, earlier_keys),
            "previous_snapshot_id": previous_snapshot_id,
            "directory_replaced": directory_replaced.get(f.broker_id),
        }
        for f in present.live
        if f.broker_id in before and continuity.get(f.broker_id) == "same"
    ]


def _row(
    present: ReplicaSet,
    earlier: ReplicaSet,
    then: ReplicaFacts,
    now: ReplicaFacts,
    keys: ReadKeys,
    earlier_keys: ReadKeys,
) -> UpkeepChangeRow:
    context = present.context
    known = context.upkeep or UpkeepContext()
    own, since = known.settings, _since(earlier, then)
    first_base = now.segments[0].segment.base_offset if now.segments else None
    release = known.oldest_releases.get(now.broker_id)
    return {
        **of_replica(now),
        "previous_captured_at_ms": earlier.context.cluster.captured_at_ms,
        "captured_at_ms": context.cluster.captured_at_ms,
        "elapsed_ms": elapsed_ms(present, earlier),
        "cleanup_policy": context.settings.cleanup_policy,
        "damaged": is_damaged(then) or is_damaged(now),
        "remote_storage_enable": context.settings.remote_storage_enable or own.of(REMOTE_STORAGE).ever("true", since),
        "compacted": works_on(context, now),
        "previous_log_start_offset": then.log_start_offset,
        "log_start_offset": now.log_start_offset,
        # One below the first segment is what the log start was before that segment's predecessors went.
        "checkpointed_log_start": (now.checkpointed.log_start_offset or -1) >= (first_base or 0),
        "log_start_in_segment": None if first_base is None else now.log_start_offset > first_base,
        **_request(present, now),
        "previous_log_end_offset": then.log_end_offset,
        "log_end_offset": now.log_end_offset,
        "previous_high_watermark": then.checkpointed.high_watermark,
        "high_watermark": now.checkpointed.high_watermark,
        **_removed(then, now),
        "retention_ms": own.smallest(RETENTION_MS, since),
        "retention_bytes": own.smallest(RETENTION_BYTES, since),
        "retention_known": own.known(RETENTION_MS, RETENTION_BYTES, since=since),
        "retention_history_known": own.reaches(RETENTION_MS, RETENTION_BYTES, REMOTE_STORAGE, since=since),
        "largest_size_bytes": max((size_of(f) for f in present.live), default=None),
        "previous_cleaner_offset": then.checkpointed.cleaner_offset,
        "cleaner_offset": now.checkpointed.cleaner_offset,
        "last_batch_end_offset": now.summary.last_offset + 1 if now.summary.batch_count else None,
        "cleaned_by_release": None if release is None else f"{release[0]}.{release[1]}",
        "keeps_last_batch": known.ran_since(now.broker_id, KEEPS_LAST_BATCH),
        **_keys(present, earlier, then, now, keys, earlier_keys),
        **(_dirt(then, now, own, since) if COMPACT in (context.settings.cleanup_policy or "") else {}),
        "open_first_offset": now.replay.first_unstable_offset(None),
        "broker_alive": now.broker_id in context.cluster.alive_brokers,
        **capture(context, now),
    }


def _since(earlier: ReplicaSet, then: ReplicaFacts) -> Since:
    """From when on a setting may have done something to a replica that the earlier snapshot does not show yet.

    What its metadata log had not come to; and, of a broker that ran while it was copied, what came after this log had
    been read.
    """
    told = earlier.context.upkeep
    offset = told.metadata_end_offset if told is not None else None
    read, taken = then.moment.log_read_at_ms, earlier.context.cluster.captured_at_ms
    at_ms = read[0] if read is not None else taken
    if at_ms is None or (then.moment.broker_quiet and offset is not None):
        return Since(offset=offset)
    return Since(offset=offset, at_ms=at_ms - CLOCKS_APART_MS)


def _removed(then: ReplicaFacts, now: ReplicaFacts) -> UpkeepChangeRow:
    """What lay in the earlier log and is below the log start now, by whole segments of the earlier log."""
    start = max(then.log_start_offset, then.local_log_start_offset)
    end = min(now.log_start_offset, then.log_end_offset)
    if end <= start:
        return {}
    touched = [
        s.summary.max_timestamp_ms
        for s in then.segments
        if s.segment.base_offset < end and (s.next_base_offset is None or s.next_base_offset > start)
    ]
    return {
        "removed_start_offset": start,
        "removed_end_offset": end,
        "removed_newest_at_ms": max((t for t in touched if t >= 0), default=None),
    }


def _request(present: ReplicaSet, now: ReplicaFacts) -> UpkeepChangeRow:
    """Whether the broker moved the log start itself, and whether a request to delete records may have made it do so.

    Whoever moves it cuts the leader epochs below it off, in memory and soon in the file (UnifiedLog#
    maybeIncrementLogStartOffset). A checkpoint lists a log start only above the first segment, where a request left it
    until the segments below went. A follower never starts behind its leader by a request.
    """
    given, start = now.given, now.log_start_offset
    checkpoint = given.later_epoch_checkpoint or given.epoch_checkpoint
    entries = checkpoint.entries if checkpoint is not None else ()
    epochs_start = entries[0].start_offset if entries else None
    first_base = now.segments[0].segment.base_offset if now.segments else None
    listed = first_base is not None and (given.checkpointed.log_start_offset or -1) >= first_base
    written = given.moment.broker_quiet or listed or given.later_epoch_checkpoint is not None
    untouched = written and epochs_start is not None and epochs_start < start
    leader = present.reference
    ahead = (
        present.context.cluster.snapshot_quiet
        and leader is not None
        and leader is not now
        and leader.broker_id in (present.context.assignment.leader_id, present.context.assignment.last_leader_id)
        and leader.log_start_offset < start
    )
    return {
        "epochs_start_offset": epochs_start,
        "leader_log_start_offset": leader.log_start_offset if leader is not None and leader is not now else None,
        "deleted_by_request": listed and epochs_start is not None and epochs_start >= start,
        "deletion_by_request_possible": not untouched and not ahead,
    }


def _keys(
    present: ReplicaSet,
    earlier: ReplicaSet,
    then: ReplicaFacts,
    now: ReplicaFacts,
    keys: ReadKeys,
    earlier_keys: ReadKeys,
) -> UpkeepChangeRow:
    settings, since = (present.context.upkeep or UpkeepContext()).settings, _since(earlier, then)
    retained = settings.smallest(DELETE_RETENTION_MS, since)
    retention_known = settings.known(DELETE_RETENTION_MS, since=since) and settings.reaches(
        DELETE_RETENTION_MS, since=since
    )
    if not works_on(present.context, now) and not works_on(earlier.context, then):
        return {"key_incomparable_reason": NOT_COMPACTED}
    start, end = max(now.log_start_offset, now.local_log_start_offset), _end(then, now)
    if end is None or start >= end:
        return {"key_incomparable_reason": _NOTHING}
    one, other = earlier_keys(then), keys(now)
    if isinstance(one, str):
        return {"key_incomparable_reason": one}
    if isinstance(other, str):
        return {"key_incomparable_reason": other}
    at, was_at = present.context.cluster.captured_at_ms, earlier.context.cluster.captured_at_ms
    found: KeyChange = change(
        one,
        other,
        start_offset=start,
        end_offset=end,
        now_ms=None if at is None else at + CLOCKS_APART_MS,
        without_horizon_due_ms=was_at + retained if was_at is not None and retention_known else None,
    )
    return {
        "key_incomparable_reason": None if at is not None and was_at is not None else _NO_TIME,
        "keys_compared": found.compared,
        "keys_lost": found.lost,
        "first_lost_key_offset": found.first_lost_offset,
        "keys_changed": found.changed,
        "first_changed_key_offset": found.first_changed_offset,
        # A deletion that came after the earlier snapshot goes delete.retention.ms after the cleaner first saw it.
        "tombstone_may_have_passed": (
            None if at is None or was_at is None else not retention_known or at + CLOCKS_APART_MS >= was_at + retained
        ),
        "early_tombstones": found.early_tombstones,
        "first_early_tombstone_offset": found.first_early_offset,
        "early_tombstone_due_at_ms": found.due_at_ms,
        "delete_retention_ms": retained,
    }


def _end(then: ReplicaFacts, now: ReplicaFacts) -> int | None:
    """Up to where the earlier log was committed and decided, and the log now goes on from it."""
    mark = then.checkpointed.high_watermark
    if mark is None:
        return None
    shared = truncation(leader=now.vector, follower=then.vector, follower_high_watermark=mark).offset
    ends = [mark, then.replay.first_unstable_offset(mark), then.log_end_offset, now.log_end_offset, int(shared)]
    return min(e for e in ends if e is not None)


def _dirt(then: ReplicaFacts, now: ReplicaFacts, settings: LogSettings, since: Since) -> UpkeepChangeRow:
    """Closed segments by whether they lie below the cleaner's checkpoint."""
    clean, dirty = _shares(now)
    was_clean, was_dirty = _shares(then)
    return {
        "previous_dirty_bytes": was_dirty,
        "dirty_bytes": dirty,
        "clean_bytes": clean,
        "previous_dirty_permille": _permille(was_clean, was_dirty),
        "dirty_permille": _permille(clean, dirty),
        "cleanable_permille": max(settings.permilles(CLEANABLE_RATIO, since)),
        "cleanable_known": settings.known(CLEANABLE_RATIO, since=since)
        and settings.reaches(CLEANABLE_RATIO, COMPACTION_LAG_MS, since=since),
        "compaction_lag_ms": max(settings.numbers(COMPACTION_LAG_MS, since)),
    }


def _shares(replica: ReplicaFacts) -> tuple[int, int]:
    offset = replica.checkpointed.cleaner_offset or 0
    closed = replica.segments[:-1]
    clean = sum(s.segment.size_bytes for s in closed if (s.next_base_offset or 0) <= offset)
    return clean, sum(s.segment.size_bytes for s in closed) - clean


def _permille(clean: int, dirty: int) -> int:
    return round(1000 * dirty / (clean + dirty)) if clean + dirty else 0
