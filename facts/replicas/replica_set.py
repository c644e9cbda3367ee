"""A partition's replicas in one snapshot: which one speaks for it, where the others part from it, what is committed.

In: the replicas' inputs and the partition's context. Out: a `ReplicaSet`. Each replica is compared with one other only,
the reference, so that what is said of two others follows from that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.replicas.cleaning_doubt import NO_DOUBT, CleaningDoubt, cleaning_doubt
from tidegauge.facts.replicas.commitment import Commitment, commitment
from tidegauge.facts.replicas.comparison import ReadBatches
from tidegauge.facts.replicas.divergence import Divergence, diverge
from tidegauge.facts.replicas.replica import ReplicaFacts, replica_facts
from tidegauge.facts.replicas.replica_input import ReplicaInput
from tidegauge.facts.replicas.snapshot_witnesses import count_witnessed
from tidegauge.facts.replicas.succession import of_an_earlier_moment
from tidegauge.facts.replicas.watermarks import HighWatermarkBounds, ReplicaOffsets, high_watermark_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    """A partition's replicas. `live` are those that brokers serve and whose logs were read to their end; `facts` has
    moving copies (-future), what is left of a deleted topic of the same name, and logs whose end was not read, too.

    `shared_end` and `commitments` are by the id of a broker that follows the reference: up to where it holds the same
    log, and how much of what it holds beyond was committed.
    """

    context: PartitionContext
    facts: Sequence[ReplicaFacts]
    live: Sequence[ReplicaFacts]
    reference: ReplicaFacts | None
    divergences: Sequence[Divergence]
    shared_end: Mapping[int, int]
    bounds: HighWatermarkBounds
    commitments: Mapping[int, Commitment]
    cleaning: CleaningDoubt = NO_DOUBT

    @property
    def brokers_at_hand(self) -> frozenset[int]:
        """Whose replicas were read, and are not of a moment before their brokers last led."""
        return frozenset(f.broker_id for f in self.live if not of_an_earlier_moment(self.context, f))

    def shared_end_of(self, replica: ReplicaFacts) -> int:
        """Up to where a replica holds the reference's log."""
        return self.shared_end.get(replica.broker_id, replica.log_end_offset)

    def known_high_watermark(self, replica: ReplicaFacts) -> int | None:
        """The largest checkpointed high watermark that this replica's lineage shares."""
        own_end = self.shared_end_of(replica)
        known = [
            min(f.checkpointed.high_watermark, self.shared_end_of(f))
            for f in self.live
            if f.checkpointed.high_watermark is not None
            and (f is replica or self.shared_end_of(f) <= own_end or own_end == replica.log_end_offset)
        ]
        return max(known, default=None)


def replica_set(context: PartitionContext, replicas: Sequence[ReplicaInput], *, read: ReadBatches) -> ReplicaSet:
    """Folds each replica and compares it with the reference."""
    facts = _folded(context, replicas)
    live = _live(context, facts)
    cleaning = cleaning_doubt(context, live, read)
    if cleaning.assumed:
        facts = _folded(context, replicas, compaction_assumed=True)
        live = _live(context, facts)
    count_witnessed(live, captured_at_ms=context.cluster.captured_at_ms)
    reference = _reference(context, live)
    leads = reference is not None and reference.broker_id == context.assignment.leader_id
    elected_epoch = context.assignment.leader_epoch if leads else None
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
        commitments={d.follower.broker_id: commitment(context, d, live) for d in divergences},
        cleaning=cleaning,
    )


def _folded(
    context: PartitionContext, replicas: Sequence[ReplicaInput], *, compaction_assumed: bool = False
) -> list[ReplicaFacts]:
    return [
        replica_facts(
            given,
            topic_compacted=context.settings.ever_compacted,
            tiered=context.settings.remote_storage_enable,
            expiration=context.settings.producer_expiration,
            captured_at_ms=context.cluster.captured_at_ms,
            compaction_assumed=compaction_assumed,
        )
        for given in replicas
    ]


def _live(context: PartitionContext, facts: Sequence[ReplicaFacts]) -> list[ReplicaFacts]:
    return [f for f in facts if f.end_known and not f.given.place.is_future and is_of_this_topic(context, f)]


def of_deleted_topic(context: PartitionContext, replica: ReplicaInput) -> bool:
    """Whether a directory is of an earlier topic of this name, whose deletion its broker has not followed yet."""
    own = replica.topic_id
    return own is not None and own != context.topic_id and context.history.topic_ids_deleted.get(own, False)


def is_of_this_topic(context: PartitionContext, replica: ReplicaFacts) -> bool:
    """Whether a directory may be taken for a replica of the topic that has this name now."""
    if of_deleted_topic(context, replica.given):
        return False
    return not (may_be_an_earlier_topics(context, replica.given) and _has_epoch_above_metadata(context, replica))


def may_be_an_earlier_topics(context: PartitionContext, replica: ReplicaInput) -> bool:
    """It has no topic id, and the metadata log knows, or does not rule out, an earlier topic of this name.

    A broker that finds such a directory when it starts takes it for a stray (LogManager#isStrayKraftReplica).
    """
    if context.topic_id is None or replica.topic_id is not None:
        return False
    return not context.history.names_whole or len(context.history.topic_ids_deleted) > 1


def _has_epoch_above_metadata(context: PartitionContext, replica: ReplicaFacts) -> bool:
    """The controller has never given out so high an epoch for this topic: epochs begin anew with each."""
    if context.assignment.leader_epoch is None:
        return False
    checkpoint = replica.given.epoch_checkpoint
    listed = (e.leader_epoch for e in (checkpoint.entries if checkpoint is not None else ()))
    return max(replica.summary.last_leader_epoch, *listed, -1) > context.assignment.leader_epoch


def _reference(context: PartitionContext, live: Sequence[ReplicaFacts]) -> ReplicaFacts | None:
    """The leader if it was captured, else the last leader, else the longest log of the newest epoch."""
    by_id = {f.broker_id: f for f in live}
    assignment = context.assignment
    for wanted in (assignment.leader_id, assignment.last_leader_id if assignment.leader_id is None else None):
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
    assignment = context.assignment
    must_hold = (
        frozenset(assignment.isr)
        | frozenset(assignment.elr)
        | frozenset(assignment.last_known_elr if not assignment.isr and not assignment.elr else ())
    )
    return high_watermark_bounds(
        [
            ReplicaOffsets(
                broker_id=f.broker_id,
                checkpointed_high_watermark=f.checkpointed.high_watermark,
                shared_end_offset=shared_end.get(f.broker_id, f.log_end_offset),
                log_end_offset=f.log_end_offset,
                whole=f.damaged_batches == 0 and not f.given.unread_bases,
            )
            for f in live
        ],
        leader_id=reference.broker_id,
        must_hold=must_hold,
    )
