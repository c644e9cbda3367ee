"""A partition's replicas in one snapshot: which one speaks for it, where the others part from it, what is committed.

In: the replicas' inputs and the partition's context. Out: a `ReplicaSet`. The rule that must hold: each replica is
compared with one other only, the reference, so that what is said of two others follows from that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.facts.comparison import ReadBatches
from spark_jobs.facts.context import PartitionContext
from spark_jobs.facts.divergence import Divergence, diverge
from spark_jobs.facts.losses import Proof, committed_proof
from spark_jobs.facts.replica import ReplicaFacts, ReplicaInput, replica_facts
from spark_jobs.facts.watermarks import HighWatermarkBounds, ReplicaOffsets, high_watermark_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    """A partition's replicas. `live` are those that brokers serve; `facts` has moving copies (-future), and what is
    left of a deleted topic of the same name, too.

    `shared_end` and `proofs` are by the id of a broker that follows the reference: up to where it holds the same log,
    and how much of what it holds beyond is proven committed.
    """

    context: PartitionContext
    facts: Sequence[ReplicaFacts]
    live: Sequence[ReplicaFacts]
    reference: ReplicaFacts | None
    divergences: Sequence[Divergence]
    shared_end: Mapping[int, int]
    bounds: HighWatermarkBounds
    proofs: Mapping[int, Proof]

    def shared_end_of(self, replica: ReplicaFacts) -> int:
        """Up to where a replica holds the reference's log."""
        return self.shared_end.get(replica.broker_id, replica.log_end_offset)

    def known_high_watermark(self, replica: ReplicaFacts) -> int | None:
        """The largest checkpointed high watermark that this replica's lineage shares."""
        own_end = self.shared_end_of(replica)
        known = [
            min(f.given.high_watermark, self.shared_end_of(f))
            for f in self.live
            if f.given.high_watermark is not None
            and (f is replica or self.shared_end_of(f) <= own_end or own_end == replica.log_end_offset)
        ]
        return max(known, default=None)


def replica_set(context: PartitionContext, replicas: Sequence[ReplicaInput], *, read: ReadBatches) -> ReplicaSet:
    """Folds each replica and compares it with the reference."""
    facts = [
        replica_facts(
            given,
            topic_compacted=context.topic_compacted,
            tiered=context.remote_storage_enable,
            expiration_ms=context.producer_expiration_ms,
        )
        for given in replicas
    ]
    live = [f for f in facts if not f.given.is_future and not of_deleted_topic(context, f.given)]
    reference = _reference(context, live)
    elected_epoch = context.leader_epoch if reference is not None and reference.broker_id == context.leader_id else None
    divergences = (
        [diverge(reference, f, elected_epoch=elected_epoch, read=read) for f in live if f is not reference]
        if reference is not None
        else []
    )
    shared_end = {d.follower.broker_id: d.divergence_offset for d in divergences}
    return ReplicaSet(
        context=context,
        facts=facts,
        live=live,
        reference=reference,
        divergences=divergences,
        shared_end=shared_end,
        bounds=_bounds(context, live, reference, shared_end),
        proofs={d.follower.broker_id: committed_proof(context, d) for d in divergences},
    )


def of_deleted_topic(context: PartitionContext, replica: ReplicaInput) -> bool:
    """Whether a directory is of an earlier topic of this name, whose deletion its broker has not followed yet."""
    own = replica.partition_metadata.topic_id if replica.partition_metadata is not None else None
    return own is not None and own != context.topic_id and context.topic_ids_deleted.get(own, False)


def _reference(context: PartitionContext, live: Sequence[ReplicaFacts]) -> ReplicaFacts | None:
    """The leader if it was captured, else the last leader, else the longest log of the newest epoch."""
    by_id = {f.broker_id: f for f in live}
    for wanted in (context.leader_id, context.last_leader_id if context.leader_id is None else None):
        if wanted is not None and wanted in by_id:
            return by_id[wanted]
    return max(
        live,
        key=lambda f: (f.vector.latest_epoch if f.vector.latest_epoch is not None else -1, f.log_end_offset),
        default=None,
    )


def _bounds(
    context: PartitionContext,
    live: Sequence[ReplicaFacts],
    reference: ReplicaFacts | None,
    shared_end: Mapping[int, int],
) -> HighWatermarkBounds:
    if reference is None:
        return HighWatermarkBounds(lower=None, upper=None)
    must_hold = (
        frozenset(context.isr)
        | frozenset(context.elr)
        | frozenset(context.last_known_elr if not context.isr and not context.elr else ())
    )
    return high_watermark_bounds(
        [
            ReplicaOffsets(
                broker_id=f.broker_id,
                checkpointed_high_watermark=f.given.high_watermark,
                shared_end_offset=shared_end.get(f.broker_id, f.log_end_offset),
                log_end_offset=f.log_end_offset,
            )
            for f in live
        ],
        leader_id=reference.broker_id,
        must_hold=must_hold,
        one_moment=context.snapshot_quiet,
    )
