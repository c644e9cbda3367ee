"""The replicas of a compacted partition, key by key: rows of `key_comparisons`.

In: a partition's replicas, a way to read their keys. Out: a row for each follower. Two logs that were cleaned at
different times are compared by what a reader would make of them, the last committed record of each key below what both
know to be committed; byte by byte they differ soundly (D02 does not judge them).
"""

from typing import Final

from tidegauge.facts.cleanup.key_table import difference
from tidegauge.facts.cleanup.upkeep import ReadKeys, is_damaged, works_on
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.relations import KeyComparisonRow

_NOT_CHECKPOINTED: Final = "high watermark not checkpointed"
_NOTHING: Final = "no common range"


def key_comparison_rows(present: ReplicaSet, keys: ReadKeys) -> list[KeyComparisonRow]:
    """Each follower of a partition that a cleaner works on against the reference."""
    reference, context = present.reference, present.context
    if reference is None or context.topic == CLUSTER_METADATA:
        return []
    if not any(works_on(context, f) for f in present.live):
        return []
    return [_row(present, reference, f, keys) for f in present.live if f is not reference]


def _row(present: ReplicaSet, leader: ReplicaFacts, follower: ReplicaFacts, keys: ReadKeys) -> KeyComparisonRow:
    start = max(
        leader.log_start_offset,
        follower.log_start_offset,
        leader.local_log_start_offset,
        follower.local_log_start_offset,
    )
    end = _end(present, leader, follower)
    row: KeyComparisonRow = {
        "topic": present.context.topic,
        "partition": present.context.partition,
        "leader_id": leader.broker_id,
        "follower_id": follower.broker_id,
        "compared_from_offset": start,
        "compared_to_end_offset": end,
        "damaged": is_damaged(leader) or is_damaged(follower),
        "leader_quiet": leader.moment.broker_quiet,
        "follower_quiet": follower.moment.broker_quiet,
        "broker_quiet": leader.moment.broker_quiet and follower.moment.broker_quiet,
        "snapshot_quiet": present.context.cluster.snapshot_quiet,
    }
    if end is None or start >= end:
        return {**row, "incomparable_reason": _NOT_CHECKPOINTED if end is None else _NOTHING}
    one, other = keys(leader), keys(follower)
    if isinstance(one, str):
        return {**row, "incomparable_reason": one}
    if isinstance(other, str):
        return {**row, "incomparable_reason": other}
    outrun = (_outruns(follower, leader), _outruns(leader, follower))
    found = difference(one, other, start_offset=start, end_offset=end, outrun=outrun)
    return {
        **row,
        "keys_sampled_permille": min(one.permille, other.permille),
        "keys_compared": found.compared,
        "differing_keys": found.differing,
        "missing_keys": found.missing,
        "revived_keys": found.revived,
        "first_differing_offset": found.first_offset,
        "only_on": (
            None if found.only_on is None else (leader.broker_id if found.only_on == 0 else follower.broker_id)
        ),
    }


def _outruns(cleaned: ReplicaFacts, other: ReplicaFacts) -> bool:
    """Whether a log was cleaned beyond the other's end."""
    return (
        cleaned.checkpointed.cleaner_offset is not None and cleaned.checkpointed.cleaner_offset > other.log_end_offset
    )


def _end(present: ReplicaSet, *replicas: ReplicaFacts) -> int | None:
    """Up to where both hold the same history, committed on both, with every transaction decided."""
    marks = [r.checkpointed.high_watermark for r in replicas]
    if any(m is None for m in marks):
        return None
    unstable = [r.replay.first_unstable_offset(r.checkpointed.high_watermark) for r in replicas]
    ends = [*marks, *unstable, *(r.log_end_offset for r in replicas), *(present.shared_end_of(r) for r in replicas)]
    return min(e for e in ends if e is not None)
