"""What retention, the cleaner and the remote tier have made of each replica's log: rows of `upkeep`.

In: a partition's replicas, its settings, a way to read a compacted log's keys. Out: rows. The rules that must hold:
time and size are what Kafka's own deletion looks at, from the first segment on and only as far as the high watermark
(UnifiedLog#deleteRetentionMsBreachedSegments); records are asked for only where a cleaner works.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidegauge.facts.cleanup.key_table import KeyTable, duplicates_between, key_count
from tidegauge.facts.cleanup.remote_tier import first_hole, remote_end
from tidegauge.facts.clocks import CLOCKS_APART_MS
from tidegauge.facts.context import PartitionContext
from tidegauge.facts.metadata.config_history import EVER, Since
from tidegauge.facts.metadata.history import COMPACT
from tidegauge.facts.metadata.upkeep_context import POLICY, RETENTION_BYTES, RETENTION_MS, LogSettings, UpkeepContext
from tidegauge.facts.replicas.comparison import blind_stretches
from tidegauge.facts.replicas.replica import ReplicaFacts, ReplicaSegment
from tidegauge.facts.replicas.replica_columns import capture, of_replica
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry
from tidegauge.relations import UpkeepRow

ReadKeys = Callable[[ReplicaFacts], KeyTable | str]
"""A compacted replica's table, or why there is none."""
NOT_COMPACTED: Final = "not compacted"
_DELETE: Final = "delete"


def upkeep_rows(present: ReplicaSet, keys: ReadKeys, *, earlier: ReplicaSet | None = None) -> list[UpkeepRow]:
    """A row for each replica that a broker serves; the metadata log is kept by rules of its own."""
    if present.context.topic == CLUSTER_METADATA:
        return []
    before = {f.broker_id: f for f in earlier.live} if earlier is not None else {}
    elapsed = elapsed_ms(present, earlier) if earlier is not None else None
    return [_row(present, f, keys, before.get(f.broker_id), elapsed) for f in present.live]


def elapsed_ms(present: ReplicaSet, earlier: ReplicaSet) -> int | None:
    """Between two captures."""
    then, now = earlier.context.cluster.captured_at_ms, present.context.cluster.captured_at_ms
    return None if then is None or now is None else now - then


def _row(
    present: ReplicaSet, replica: ReplicaFacts, keys: ReadKeys, before: ReplicaFacts | None, elapsed: int | None
) -> UpkeepRow:
    context, given = present.context, replica.given
    known = context.upkeep or UpkeepContext()
    first = replica.segments[0].segment.base_offset if replica.segments else None
    active = replica.segments[-1].segment.base_offset if replica.segments else None
    below = _below_log_start(replica)
    hole = None
    tiered = context.settings.remote_storage_enable and known.remote_known
    if tiered and first is not None and present.reference is not None:
        vector = present.reference.vector
        hole = first_hole(known.remote, vector, log_start_offset=replica.log_start_offset, local_start_offset=first)
    return {
        **of_replica(replica),
        "cleanup_policy": context.settings.cleanup_policy,
        "remote_storage_enable": context.settings.remote_storage_enable,
        "clean_shutdown": given.moment.clean_shutdown,
        "broker_alive": replica.broker_id in context.cluster.alive_brokers,
        "damaged": is_damaged(replica),
        "captured_at_ms": context.cluster.captured_at_ms,
        "log_start_offset": replica.log_start_offset,
        "checkpoint_log_start_offset": given.checkpointed.log_start_offset,
        "first_base_offset": first,
        "active_base_offset": active,
        "log_end_offset": replica.log_end_offset,
        "high_watermark": given.checkpointed.high_watermark,
        "open_first_offset": replica.replay.first_unstable_offset(None),
        "size_bytes": size_of(replica),
        "segments_below_log_start": below,
        "below_log_start_since_ms": (
            elapsed if below and before is not None and _reached(before, replica, below) else None
        ),
        **_retention(known.settings, replica, context),
        "cleaner_offset": given.checkpointed.cleaner_offset,
        **_keys(context, replica, keys, known),
        **_producers(present, replica),
        "remote_known": known.remote_known,
        "remote_end_offset": (
            remote_end(known.remote, present.reference.vector) if present.reference is not None else None
        ),
        "remote_gap_start_offset": hole[0] if hole is not None else None,
        "remote_gap_end_offset": hole[1] if hole is not None else None,
        **capture(context, replica),
    }


def size_of(replica: ReplicaFacts) -> int:
    """Bytes of its .log files."""
    return sum(s.segment.size_bytes for s in replica.segments)


def is_damaged(replica: ReplicaFacts) -> bool:
    """A place of its log could not be read, or not be believed."""
    return bool(blind_stretches(replica) or replica.given.unread_bases or replica.replay.doubtful_offsets)


def _below_log_start(replica: ReplicaFacts) -> int:
    """Segments that end at or below the log start."""
    return sum(
        1 for s in replica.segments if s.next_base_offset is not None and s.next_base_offset <= replica.log_start_offset
    )


def _reached(before: ReplicaFacts, now: ReplicaFacts, below: int) -> bool:
    """In the earlier snapshot, too, the log started behind the first segment that is still there."""
    end = now.segments[0].next_base_offset
    return below > 0 and end is not None and before.log_start_offset >= end


def _retention(settings: LogSettings, replica: ReplicaFacts, context: PartitionContext) -> UpkeepRow:
    """What should have been deleted by now: what no setting has kept since the last time that somebody looked."""
    now, interval = context.cluster.captured_at_ms, settings.retention_check_interval_ms
    due = Since(at_ms=now - interval - CLOCKS_APART_MS) if now is not None else EVER
    limits = _Limits(
        retention_ms=settings.largest(RETENTION_MS, due),
        retention_bytes=settings.largest(RETENTION_BYTES, due),
        check_interval_ms=interval,
    )
    told: UpkeepRow = {
        "retention_check_interval_ms": interval,
        "retention_ms": limits.retention_ms,
        "retention_bytes": limits.retention_bytes,
        "retention_known": settings.known(RETENTION_MS, RETENTION_BYTES, since=due),
        "retention_history_known": settings.reaches(POLICY, RETENTION_MS, RETENTION_BYTES, since=due),
    }
    policies = settings.of(POLICY).in_force(due)
    policy = context.settings.cleanup_policy or ""
    if now is None or _DELETE not in policy or any(_DELETE not in p.value for p in policies):
        return told
    high_watermark, rolled = replica.checkpointed.high_watermark, replica.segments[:-1]
    if high_watermark is None and rolled:
        return told
    most = 0
    closed = [
        s
        for s in rolled
        if s.next_base_offset is not None and high_watermark is not None and s.next_base_offset <= high_watermark
    ]
    for why, overdue in (
        ("time", _by_time(closed, limits, now)),
        ("size", _by_size(closed, limits, now)),
    ):
        if overdue > most:
            most = overdue
            told |= {
                "overdue_end_offset": closed[overdue - 1].next_base_offset,
                "overdue_since_at_ms": max(s.summary.max_timestamp_ms for s in closed[:overdue]),
                "overdue_by": why,
            }
    told["overdue_segments"] = most
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """The largest that were in force at any time since a deletion should have come; -1 is without limit."""

    retention_ms: int
    retention_bytes: int
    check_interval_ms: int


def _by_time(closed: list[ReplicaSegment], limits: _Limits, now: int) -> int:
    if limits.retention_ms < 0:
        return 0
    latest = now - limits.retention_ms - limits.check_interval_ms
    count = 0
    for row in closed:
        if not 0 <= row.summary.max_timestamp_ms < latest:
            break
        count += 1
    return count


def _by_size(closed: list[ReplicaSegment], limits: _Limits, now: int) -> int:
    """Counts only what was there a check interval ago, so that the deletion had its chance."""
    if limits.retention_bytes < 0:
        return 0
    old = [s for s in closed if 0 <= s.summary.max_timestamp_ms < now - limits.check_interval_ms]
    excess = sum(s.segment.size_bytes for s in old) - limits.retention_bytes
    count = 0
    for row in closed:
        excess -= row.segment.size_bytes
        if excess < 0:
            break
        count += 1
    return count


def _keys(context: PartitionContext, replica: ReplicaFacts, keys: ReadKeys, known: UpkeepContext) -> UpkeepRow:
    told: UpkeepRow = {
        "policy_changed_at_ms": known.settings.compact_since_ms,
        "policy_history_known": known.history_whole,
    }
    if not works_on(context, replica):
        return {**told, "key_incomparable_reason": NOT_COMPACTED}
    table = keys(replica)
    if isinstance(table, str):
        return {**told, "key_incomparable_reason": table}
    cleaner = replica.checkpointed.cleaner_offset
    duplicates, first = (
        duplicates_between(table, replica.log_start_offset, cleaner) if cleaner is not None else (0, None)
    )
    return {
        **told,
        "keys_sampled_permille": table.permille,
        "keys": key_count(table),
        "duplicate_keys": duplicates,
        "first_duplicate_offset": first,
        # Where the policy was compact once and is no more, records may come without keys.
        "unkeyed_records": table.unkeyed_records if COMPACT in (context.settings.cleanup_policy or "") else None,
        "first_unkeyed_offset": table.first_unkeyed_offset,
        "first_unkeyed_at_ms": table.first_unkeyed_at_ms,
    }


def works_on(context: PartitionContext, replica: ReplicaFacts) -> bool:
    """Whether a cleaner works on a replica, or did."""
    found = replica.ever_compacted and not replica.compaction_assumed
    return context.settings.ever_compacted or replica.checkpointed.cleaner_offset is not None or found


def _producers(present: ReplicaSet, replica: ReplicaFacts) -> UpkeepRow:
    """Producers whose last batch the newest producer snapshot names, and which the log has not.

    Only of a compacted log; elsewhere the snapshot's content is compared with the log as it is (B11).
    """
    context, expiration = present.context, present.context.settings.producer_expiration
    if not works_on(context, replica):
        return {}
    usable = [
        s
        for s in replica.given.snapshots
        if max(replica.log_start_offset, replica.local_log_start_offset) < s.offset <= replica.log_end_offset
        and not s.content.corruptions
        and s.offset in replica.states_at
    ]
    if not usable:
        return {}
    newest = max(usable, key=lambda s: s.offset)
    start = max(replica.log_start_offset, replica.local_log_start_offset)
    states = replica.states_at[newest.offset]
    missing: list[tuple[int, int]] = []
    expired = unsettled = 0
    for entry in newest.content.entries:
        if entry.last_offset < start:
            continue  # Behind a marker of version 2 it names no batch; or retention took it.
        state, last = states.get(entry.producer_id), replica.replay.states.get(entry.producer_id)
        if state is not None and state.last_offset >= entry.last_offset:
            continue
        if last is not None and last.last_offset > entry.last_offset:
            continue  # It wrote on behind the snapshot: the cleaner keeps that batch instead.
        if last is not None and last.producer_epoch > entry.producer_epoch:
            continue  # An end marker behind the snapshot raised its epoch: the cleaner keeps that instead.
        over = None  # Of an instant that is not known, any producer may have been forgotten.
        if context.cluster.captured_at_ms is not None:
            idle_ms = context.cluster.captured_at_ms - entry.timestamp
            over = expiration.may_be_over(written_at_ms=entry.timestamp, idle_ms=idle_ms)
        if over is None and not _remembered(present, replica, newest.offset, entry):
            unsettled += 1
        elif over:
            expired += 1
        else:
            missing.append((entry.last_offset, entry.producer_id))
    told: UpkeepRow = {
        "producers_without_batch": len(missing),
        "expired_producers": expired,
        "producers_perhaps_expired": unsettled,
    }
    if missing:
        told |= {"first_missing_offset": min(missing)[0], "first_missing_producer_id": min(missing)[1]}
    return told


def _remembered(present: ReplicaSet, replica: ReplicaFacts, offset: int, entry: ProducerSnapshotEntry) -> bool:
    """Whether brokers knew a producer when they cleaned, whatever the setting is.

    This one wrote it down when it stopped, after its cleaner's last work; and another one's cleaner, which has passed
    the batch too, kept it.
    """
    captured_at_ms = present.context.cluster.captured_at_ms
    if captured_at_ms is None or not replica.moment.clean_shutdown or offset != replica.log_end_offset:
        return False
    others = (f for f in present.live if f is not replica and (f.checkpointed.cleaner_offset or 0) > entry.last_offset)
    kept = (f.replay.states.get(entry.producer_id) for f in others)
    return any(state is not None and state.last_offset >= entry.last_offset for state in kept)
