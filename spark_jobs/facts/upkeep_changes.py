"""What retention and the cleaner took of each replica since an earlier snapshot: rows of `upkeep_changes`.

In: the replicas of one partition in both snapshots, and ways to read their keys. Out: a row for each replica that is
the same one in both. The rule that must hold: between two snapshots a deletion may have come, done its work and gone;
where so much time lies between them, a key that is no longer there is not called lost.

Source: UnifiedLog#deleteOldSegments; Cleaner#shouldRetainRecord, Cleaner#checkBatchRetention (KAFKA-17076, of 4.0),
LogToClean; KIP-534.
"""

from typing import Final

from kafka_log.internal_topics import CLUSTER_METADATA
from spark_jobs.facts.context import Row
from spark_jobs.facts.epochs import truncation
from spark_jobs.facts.key_table import KeyChange, change
from spark_jobs.facts.metadata import COMPACT
from spark_jobs.facts.replica import ReplicaFacts
from spark_jobs.facts.replica_set import ReplicaSet
from spark_jobs.facts.row_basics import capture, of_replica
from spark_jobs.facts.upkeep import NOT_COMPACTED, ReadKeys, elapsed_ms, is_damaged, size_of, works_on
from spark_jobs.facts.upkeep_context import LogSettings, UpkeepContext

KEEPS_LAST_BATCH: Final = (4, 0)
MARGIN_MS: Final = 5_000
"""Clocks of brokers, and the instant of a plain copy, are known this well."""
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
) -> list[Row]:
    """A row for each broker whose replica goes on (`continuity` is "same")."""
    if present.context.topic == CLUSTER_METADATA:
        return []
    before = {f.broker_id: f for f in earlier.live}
    return [
        _row(present, earlier, before[f.broker_id], f, keys, earlier_keys)
        | {
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
) -> Row:
    context = present.context
    known = context.upkeep or UpkeepContext()
    own, past = known.settings, (earlier.context.upkeep or UpkeepContext()).settings
    first_base = now.segments[0].segment.base_offset if now.segments else None
    release = known.oldest_releases.get(now.broker_id)
    return {
        **of_replica(now),
        "previous_captured_at_ms": earlier.context.captured_at_ms,
        "captured_at_ms": context.captured_at_ms,
        "elapsed_ms": elapsed_ms(present, earlier),
        "cleanup_policy": context.cleanup_policy,
        "damaged": is_damaged(then) or is_damaged(now),
        "remote_storage_enable": context.remote_storage_enable,
        "compacted": works_on(context, now),
        "previous_log_start_offset": then.log_start_offset,
        "log_start_offset": now.log_start_offset,
        # One below the first segment is what the log start was before that segment's predecessors went.
        "checkpointed_log_start": (now.given.checkpoint_log_start_offset or -1) >= (first_base or 0),
        "log_start_in_segment": None if first_base is None else now.log_start_offset > first_base,
        "previous_log_end_offset": then.log_end_offset,
        "log_end_offset": now.log_end_offset,
        "previous_high_watermark": then.given.high_watermark,
        "high_watermark": now.given.high_watermark,
        **_removed(then, now),
        "retention_ms": _smaller(own.retention_ms, past.retention_ms),
        "retention_bytes": _smaller(own.retention_bytes, past.retention_bytes),
        "retention_known": own.retention_known and past.retention_known,
        "largest_size_bytes": max((size_of(f) for f in present.live), default=None),
        "previous_cleaner_offset": then.given.cleaner_offset,
        "cleaner_offset": now.given.cleaner_offset,
        "last_batch_end_offset": now.summary.last_offset + 1 if now.summary.batch_count else None,
        "cleaned_by_release": None if release is None else f"{release[0]}.{release[1]}",
        "keeps_last_batch": known.ran_since(now.broker_id, KEEPS_LAST_BATCH),
        **_keys(present, earlier, then, now, keys, earlier_keys),
        **(_dirt(then, now, own) if COMPACT in (context.cleanup_policy or "") else {}),
        "open_first_offset": now.replay.first_unstable_offset(None),
        "broker_alive": now.broker_id in context.alive_brokers,
        **capture(context, now),
    }


def _smaller(one: int, other: int) -> int:
    """The one that deletes more; -1 is without limit."""
    limits = [v for v in (one, other) if v >= 0]
    return min(limits, default=-1)


def _removed(then: ReplicaFacts, now: ReplicaFacts) -> Row:
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


def _keys(
    present: ReplicaSet,
    earlier: ReplicaSet,
    then: ReplicaFacts,
    now: ReplicaFacts,
    keys: ReadKeys,
    earlier_keys: ReadKeys,
) -> Row:
    known, past = present.context.upkeep or UpkeepContext(), earlier.context.upkeep or UpkeepContext()
    retained = min(known.settings.delete_retention_ms, past.settings.delete_retention_ms)
    retention_known = known.settings.delete_retention_known and past.settings.delete_retention_known
    if not works_on(present.context, now) and not works_on(earlier.context, then):
        return {"key_incomparable_reason": NOT_COMPACTED}
    start, end = max(now.log_start_offset, now.local_log_start_offset), _end(then, now)
    if end is None or start >= end:
        return {"key_incomparable_reason": _NOTHING}
    one, other = earlier_keys(then), keys(now)
    if isinstance(one, str) or isinstance(other, str):
        return {"key_incomparable_reason": one if isinstance(one, str) else other}
    at, was_at = present.context.captured_at_ms, earlier.context.captured_at_ms
    found: KeyChange = change(
        one,
        other,
        start_offset=start,
        end_offset=end,
        now_ms=None if at is None else at + MARGIN_MS,
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
            None if at is None or was_at is None else not retention_known or at + MARGIN_MS >= was_at + retained
        ),
        "early_tombstones": found.early_tombstones,
        "first_early_tombstone_offset": found.first_early_offset,
        "early_tombstone_due_at_ms": found.due_at_ms,
        "delete_retention_ms": retained,
    }


def _end(then: ReplicaFacts, now: ReplicaFacts) -> int | None:
    """Up to where the earlier log was committed and decided, and the log now goes on from it."""
    mark = then.given.high_watermark
    if mark is None:
        return None
    shared = truncation(leader=now.vector, follower=then.vector, follower_high_watermark=mark).offset
    ends = [mark, then.replay.first_unstable_offset(mark), then.log_end_offset, now.log_end_offset, int(shared)]
    return min(e for e in ends if e is not None)


def _dirt(then: ReplicaFacts, now: ReplicaFacts, settings: LogSettings) -> Row:
    """Closed segments by whether they lie below the cleaner's checkpoint."""
    clean, dirty = _shares(now)
    was_clean, was_dirty = _shares(then)
    return {
        "previous_dirty_bytes": was_dirty,
        "dirty_bytes": dirty,
        "clean_bytes": clean,
        "previous_dirty_permille": _permille(was_clean, was_dirty),
        "dirty_permille": _permille(clean, dirty),
        "cleanable_permille": settings.cleanable_permille,
        "cleanable_known": settings.cleanable_known,
        "compaction_lag_ms": settings.compaction_lag_ms,
    }


def _shares(replica: ReplicaFacts) -> tuple[int, int]:
    offset = replica.given.cleaner_offset or 0
    closed = replica.segments[:-1]
    clean = sum(s.segment.size_bytes for s in closed if (s.next_base_offset or 0) <= offset)
    return clean, sum(s.segment.size_bytes for s in closed) - clean


def _permille(clean: int, dirty: int) -> int:
    return round(1000 * dirty / (clean + dirty)) if clean + dirty else 0
