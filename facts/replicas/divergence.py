"""Follower against reference: where Kafka would truncate, where their batches first differ, and what is at stake.

In: two `ReplicaFacts`, their partition's history, and a way to read batch headers of a stretch on demand. Out: one
`Divergence`. Digests only say where to look; a difference is claimed on the batches themselves.

Sources: Partition#readRecords, AbstractFetcherThread#getOffsetTruncationState (KIP-101, KIP-279, KIP-320).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.replicas.comparison import (
    NO_DIFFERENCE,
    Difference,
    ReadBatches,
    blind_stretches,
    first_difference,
    markers_between,
    records_between,
)
from tidegauge.facts.replicas.epochs import truncation
from tidegauge.facts.replicas.replica import CLEANED_END_UNKNOWN, ReplicaFacts
from tidegauge.kafka_log.checkpoints import EpochEntry
from tidegauge.kafka_log.scan import BATCH_HEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One follower against the reference. Offsets are None where there is nothing to say."""

    leader: ReplicaFacts
    follower: ReplicaFacts
    divergence_offset: int
    rounds: int
    compared_from_offset: int
    compared_to_end_offset: int
    incomparable_reason: str | None
    difference: Difference
    damage_hides: bool
    """Damage of either log hides batches of what was compared."""
    undiverged_offset: int | None
    """Of a difference that truncation would leave."""
    stake_offset: int
    """Where what the reference lacks begins, above the follower's log start: a follower that cuts off more than that
    gets the rest back as it was.
    """
    suffix: NDArray[Any]
    """Headers of the follower's batches from the cut on."""
    records_at_stake: int
    """Of a tail of end markers alone, these: a transaction whose end is cut off is open again."""
    truncated_leader_epoch: int | None
    newer_epoch: int | None
    newer_epoch_start_offset: int | None

    @property
    def parted_without_epochs(self) -> bool:
        """The two hold other records where neither has a leader epoch: nothing in the logs tells whose are newer."""
        return self.difference.offset is not None and self.difference.without_epochs

    @property
    def markers_at_stake(self) -> int:
        """End markers of transactions among what is at stake."""
        return markers_between(self.suffix, self.stake_offset)


def diverge(
    leader: ReplicaFacts, follower: ReplicaFacts, *, elected_epoch: int | None, read: ReadBatches
) -> Divergence:
    """Compares one follower with the reference replica.

    `elected_epoch` is the leader epoch for which the reference is elected, None where it is not: a broker that has not
    heard of its election yet will begin that epoch at its log end before it answers any follower.
    """
    cut = truncation(
        leader=leader.vector if elected_epoch is None else leader.vector.led(elected_epoch),
        follower=follower.vector,
        follower_high_watermark=follower.checkpointed.high_watermark,
    )
    divergence_offset = int(cut.offset)
    start, end, reason = _comparable_range(leader, follower)
    difference = NO_DIFFERENCE if reason else _difference(leader, follower, start, end, read)
    undiverged = difference
    if difference.offset is not None and difference.offset < leader.log_start_offset:
        # Deleted at the leader, which forgot the epochs of it (KIP-107): a follower that ends there starts anew at the
        # leader's start (AbstractFetcherThread#fetchOffsetAndTruncate), one that goes on takes that start over.
        undiverged = _difference(leader, follower, leader.log_start_offset, end, read)
    kept = undiverged.offset is not None and undiverged.offset < divergence_offset
    stake_offset = divergence_offset
    if reason is None and start <= divergence_offset:
        stake_offset = max(divergence_offset, end if difference.offset is None else difference.offset)
    # What the follower itself has deleted, on request or by its age, may still lie in its first segment.
    stake_offset = max(stake_offset, follower.log_start_offset)
    suffix: NDArray[Any] = np.zeros(0, dtype=BATCH_HEADER)
    if divergence_offset < follower.log_end_offset:
        suffix = read(follower, divergence_offset, follower.log_end_offset)
    truncated_epoch = int(suffix[-1]["partition_leader_epoch"]) if len(suffix) else None
    newer = _newer_epoch(leader, truncated_epoch, divergence_offset)
    return Divergence(
        leader=leader,
        follower=follower,
        divergence_offset=divergence_offset,
        rounds=cut.rounds,
        compared_from_offset=start,
        compared_to_end_offset=end,
        incomparable_reason=reason,
        difference=difference,
        damage_hides=any(
            s.start_offset < end and start < s.end_offset for f in (leader, follower) for s in blind_stretches(f)
        ),
        undiverged_offset=undiverged.offset if kept else None,
        stake_offset=stake_offset,
        suffix=suffix,
        records_at_stake=records_between(suffix, stake_offset),
        truncated_leader_epoch=truncated_epoch,
        newer_epoch=newer.leader_epoch if newer is not None else None,
        newer_epoch_start_offset=newer.start_offset if newer is not None else None,
    )


def _newer_epoch(leader: ReplicaFacts, truncated_epoch: int | None, divergence_offset: int) -> EpochEntry | None:
    """The leader's first epoch above the one that is cut off: best one that has begun where the follower is cut."""
    if truncated_epoch is None:
        return None
    newer = [e for e in leader.vector.entries if e.leader_epoch > truncated_epoch]
    return next((e for e in newer if e.start_offset <= divergence_offset), newer[0] if newer else None)


def _difference(leader: ReplicaFacts, follower: ReplicaFacts, start: int, end: int, read: ReadBatches) -> Difference:
    if start >= end:
        return NO_DIFFERENCE
    return first_difference(leader, follower, start, end, read=(read, read))


def _comparable_range(leader: ReplicaFacts, follower: ReplicaFacts) -> tuple[int, int, str | None]:
    """The offsets that both hold as they were written: above both log heads and above what a cleaner has rewritten."""
    if leader.summary.batch_count == 0 or follower.summary.batch_count == 0:
        return 0, 0, "no batches"
    if leader.given.unread_bases or follower.given.unread_bases:
        return 0, 0, "a segment could not be read"
    if not (leader.cleaned_end_known and follower.cleaned_end_known):
        return 0, 0, CLEANED_END_UNKNOWN
    start = max(leader.summary.first_offset, follower.summary.first_offset)
    end = min(leader.readable_end_offset, follower.readable_end_offset)
    for replica in (leader, follower):
        if replica.ever_compacted and replica.checkpointed.cleaner_offset is not None:
            start = max(start, replica.checkpointed.cleaner_offset)
    if start >= end:
        cleaned = leader.ever_compacted or follower.ever_compacted
        return start, max(start, end), "compacted" if cleaned else "no common range"
    return start, end, None
