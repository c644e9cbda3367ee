"""What each captured replica of a partition holds: how many disks the committed records are truly on.

In: a partition's replicas, compared. Out: the columns `holdings` and `complete_replicas` of `partitions`, and those of
`divergences` that tell how a follower came into the ISR. A replica counts as complete only for bytes that were read and
found sound, never for being in the ISR.
"""

from dataclasses import asdict

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.replicas.divergence import Divergence
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.risk.posture import Holding, complete_holders
from tidegauge.facts.rows import json_list
from tidegauge.relations import DivergenceRow, PartitionRow


def holding_columns(replicas: ReplicaSet) -> PartitionRow:
    """The two columns."""
    reference, committed = replicas.reference, replicas.bounds.lower
    holdings = [
        Holding(
            broker_id=f.broker_id,
            log_start_offset=f.log_start_offset,
            shared_end_offset=replicas.shared_end_of(f),
            damaged=_damaged(f),
        )
        for f in sorted(replicas.live, key=lambda f: f.broker_id)
    ]
    complete = None
    # What a broker holds that is not assigned goes when the broker hears of it (D17): no copy to count on.
    told = replicas.context.assignment.told
    assigned = set(replicas.context.assignment.replicas) if told else {h.broker_id for h in holdings}
    if reference is not None and committed is not None:
        settings = replicas.context.settings
        complete = sorted(
            complete_holders(
                [h for h in holdings if h.broker_id in assigned],
                log_start_offset=reference.log_start_offset,
                committed_end_offset=committed,
                retained="delete" in (settings.cleanup_policy or "delete") or settings.remote_storage_enable,
            )
        )
    return {"holdings": json_list(asdict(h) for h in holdings), "complete_replicas": complete}


def expansion_columns(context: PartitionContext, divergence: Divergence) -> DivergenceRow:
    """Where the current leader epoch begins, and whether the follower joined the ISR in it.

    A leader takes in who has reached that offset (Partition#isFollowerInSync). Who was in the ISR when the leader
    was elected need not have caught up to it.
    """
    leader, follower = divergence.leader, divergence.follower.broker_id
    start = joined = None
    if leader.broker_id == context.assignment.leader_id:
        begun = (e.start_offset for e in leader.vector.entries if e.leader_epoch == context.assignment.leader_epoch)
        start = next(begun, None)
    elected = next((c for c in context.history.changes if c.leader_epoch == context.assignment.leader_epoch), None)
    if elected is not None and not elected.from_snapshot:
        joined = follower in context.assignment.isr and follower not in elected.isr
    return {"current_epoch_start_offset": start, "joined_isr_in_current_epoch": joined}


def _damaged(replica: ReplicaFacts) -> bool:
    """Committed bytes that cannot be read, or offsets that are missing where nothing was cleaned away."""
    return replica.damaged_batches > 0 or (not replica.ever_compacted and replica.summary.count("offset_gap") > 0)
