"""High-watermark bounds and the last stable offset.

In: what the replicas of a partition have on disk. Out: bounds between which the high watermark lies, and the last
stable offset below a given high watermark. A file only bounds the high watermark from below (it is written every five
seconds, ReplicaManager#checkpointHighWatermarks), log ends of the in-sync replicas bound it from above
(Partition#maybeIncrementLeaderHW), and a bound that the evidence does not give is None.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOffsets:
    """One replica, as far as the high watermark is concerned.

    `shared_end_offset`: up to where its log is the current lineage's (its divergence offset against the reference).
    """

    broker_id: int
    checkpointed_high_watermark: int | None
    shared_end_offset: int
    log_end_offset: int
    whole: bool = True
    """False where damage may hide some of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkBounds:
    """lower <= high watermark <= upper; None where nothing bounds it. `known_by`: whose checkpoint `lower` is."""

    lower: int | None
    upper: int | None
    known_by: int | None = None


def high_watermark_bounds(
    replicas: Iterable[ReplicaOffsets], *, leader_id: int, must_hold: frozenset[int]
) -> HighWatermarkBounds:
    """Bounds of the current lineage's high watermark.

    `must_hold`: the ISR, and the ELR beside it: each member holds everything committed. One that was copied earlier,
    or is cut short or damaged, may end below a high watermark that another one knows: then only the leader's own log
    end bounds it, or nothing.
    """
    by_id = {r.broker_id: r for r in replicas}
    known = [
        (min(r.checkpointed_high_watermark, r.shared_end_offset), r.broker_id == leader_id, r.broker_id)
        for r in by_id.values()
        if r.checkpointed_high_watermark is not None
    ]
    lower, _, known_by = max(known, default=(None, False, None))
    members = [by_id[b] for b in must_hold if b in by_id]
    upper: int | None = None
    if members and must_hold <= by_id.keys() and all(m.whole for m in members):
        upper = min(m.log_end_offset for m in members)
    leader = by_id.get(leader_id)
    if upper is None or (lower is not None and upper < lower):
        upper = leader.log_end_offset if leader is not None and (leader_id in must_hold or not must_hold) else None
        if upper is not None and lower is not None and upper < lower:
            upper = None
    return HighWatermarkBounds(lower=lower, upper=upper, known_by=known_by)


def last_stable_offset(
    *, high_watermark: int | None, first_unstable_offset: int | None, log_start_offset: int
) -> int | None:
    """The first unstable offset, raised to the log start, if below the high watermark (UnifiedLog#lastStableOffset)."""
    if high_watermark is None:
        return None
    if first_unstable_offset is None:
        return high_watermark
    return min(max(first_unstable_offset, log_start_offset), high_watermark)
