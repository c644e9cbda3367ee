"""Losses: records that Kafka will remove from a replica, and the proof that they had been declared committed.

In: the divergences of a partition and its election history. Out: rows of `losses`, one per range. The rule that must
hold: an uncommitted tail that a clean election leaves behind is no loss; what is called committed is proven to have
been.

Two proofs. A checkpointed high watermark above the divergence: a replica never checkpoints more than was committed in
its lineage. Or the metadata log: if the replica was the only member of the ISR when it lost leadership (and
min.insync.replicas allowed that), each of its appends was committed at once (Partition#maybeIncrementLeaderHW has no
one to wait for).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.facts.context import PartitionChange, PartitionContext, Row
from spark_jobs.facts.divergence import Divergence
from spark_jobs.facts.readers import readers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How many of the records at stake are proven committed, by what, and the unclean election that cut them off."""

    records: int
    by: str | None
    unclean: PartitionChange | None


def committed_proof(context: PartitionContext, divergence: Divergence) -> Proof:
    """The best proof there is for one divergence."""
    epoch = divergence.truncated_leader_epoch
    if divergence.records_at_stake == 0 or epoch is None:
        return Proof(records=0, by=None, unclean=None)
    follower_id = divergence.follower.broker_id
    newest = divergence.leader.vector.latest_epoch
    successors = [c for c in context.changes if c.leader_epoch > epoch and (newest is None or c.leader_epoch <= newest)]
    unclean = next((c for c in successors if c.election == "unclean"), None)
    if (
        unclean is not None
        and _lone_leader(context, unclean, follower_id, epoch)
        and context.min_insync_replicas is not None
        and context.min_insync_replicas <= 1
    ):
        return Proof(records=divergence.records_at_stake, by="sole_isr", unclean=unclean)
    # Within one leader epoch only copies of one moment compare: a leader copied earlier looks shorter than its
    # follower.
    ordered = divergence.newer_epoch is not None or context.snapshot_quiet
    if divergence.records_below_own_high_watermark > 0 and ordered:
        return Proof(records=divergence.records_below_own_high_watermark, by="checkpoint", unclean=unclean)
    return Proof(records=0, by=None, unclean=unclean)


def _lone_leader(context: PartitionContext, unclean: PartitionChange, follower_id: int, epoch: int) -> bool:
    """The follower led the truncated epoch and was the only in-sync replica when the unclean election came.

    A leader that stops is first written out of leadership (leader none) with itself the last member of the ISR.
    """
    return tuple(unclean.previous_isr) == (follower_id,) and context.epoch_leaders.get(epoch) == follower_id


def losses_of(context: PartitionContext, divergences: Sequence[Divergence], proofs: Mapping[int, Proof]) -> list[Row]:
    """One row per range that is at risk on some replica's disk."""
    by_start: dict[tuple[int, int | None], list[Divergence]] = {}
    for divergence in divergences:
        if proofs[divergence.follower.broker_id].records > 0:
            key = (divergence.stake_offset, divergence.truncated_leader_epoch)
            by_start.setdefault(key, []).append(divergence)
    rows = []
    for (start, epoch), found in sorted(by_start.items(), key=lambda item: item[0][0]):
        longest = max(found, key=lambda d: d.follower.log_end_offset)
        proof = max((proofs[d.follower.broker_id] for d in found), key=lambda p: p.records)
        rows.append(
            {
                "topic": context.topic,
                "partition": context.partition,
                "start_offset": start,
                "end_offset": longest.follower.log_end_offset,
                "records": longest.records_at_stake,
                "leader_epoch": epoch,
                "held_by": sorted(d.follower.broker_id for d in found),
                "state": "at_risk",
                "declared_committed": proof.records,
                "cause": _cause(proof, longest),
                "groups_affected": sorted(readers_of(context, start, epoch)),
            }
        )
    return rows


def _cause(proof: Proof, divergence: Divergence) -> str:
    if proof.unclean is not None:
        return unclean_cause(proof.unclean)
    if divergence.newer_epoch is None:
        return (
            f"broker {divergence.leader.broker_id}'s log ends at {divergence.leader.log_end_offset} in the same leader "
            "epoch, below a high watermark that had been declared: it lost its tail"
        )
    return (
        f"leader epoch {divergence.newer_epoch} of broker {divergence.leader.broker_id} starts at "
        f"{divergence.newer_epoch_start_offset}, below a high watermark that had been declared; "
        "no unclean election is on record"
    )


def unclean_cause(election: PartitionChange) -> str:
    """An unclean election as the cause of a loss."""
    return (
        f"unclean election: record {election.metadata_offset} of the metadata log made broker {election.leader_id} "
        f"leader (epoch {election.leader_epoch}) while the ISR was {list(election.previous_isr)}"
    )
