"""One partition: its replicas' facts, compared and bounded, as rows of the relations.

In: the replicas' inputs and a `PartitionContext`, what the metadata log, the coordinators and the capture say of the
partition. Out: rows (column -> value) per relation, without the common columns. The rule that must hold: a row says
what is so and how it is known; whether that is right is for the catalogue.
"""

from collections.abc import Iterable, Mapping, Sequence

from kafka_log.coordinator_records import OffsetCommit
from spark_jobs.facts.context import PartitionChange, PartitionContext, Row, Rows
from spark_jobs.facts.divergence import Divergence, ReadBatches, diverge
from spark_jobs.facts.file_rows import index_file_rows, segment_rows
from spark_jobs.facts.losses import committed_proof, losses_of
from spark_jobs.facts.partition_rows import divergence_row, epoch_span_rows, replica_row
from spark_jobs.facts.producer_rows import producer_rows, transaction_rows
from spark_jobs.facts.replica import ReplicaFacts, ReplicaInput, replica_facts
from spark_jobs.facts.watermarks import HighWatermarkBounds, ReplicaOffsets, high_watermark_bounds, last_stable_offset


def partition_rows(context: PartitionContext, replicas: Sequence[ReplicaInput], *, read: ReadBatches) -> Rows:
    """All rows of one partition."""
    facts = [
        replica_facts(
            given,
            topic_compacted=context.topic_compacted,
            tiered=context.remote_storage_enable,
            expiration_ms=context.producer_expiration_ms,
        )
        for given in replicas
    ]
    live = [f for f in facts if not f.given.is_future]
    reference = _reference(context, live)
    compacted = context.topic_compacted or any(f.ever_compacted for f in facts)
    divergences = (
        [diverge(reference, f, read=read) for f in live if f is not reference] if reference is not None else []
    )
    shared_end = {d.follower.broker_id: d.divergence_offset for d in divergences}
    bounds = _bounds(context, live, reference, shared_end)
    proofs = {d.follower.broker_id: committed_proof(context, d) for d in divergences}
    rows: Rows = {
        "segments": [r for f in facts for r in segment_rows(context, f, compacted=compacted)],
        "replicas": [
            replica_row(
                context,
                f,
                is_reference=f is reference,
                compacted=compacted,
                high_watermark=_known_high_watermark(f, live, shared_end),
            )
            for f in facts
        ],
        "epoch_spans": [
            r
            for f in live
            for r in epoch_span_rows(
                context, f, reference, live, divergence_offset=shared_end.get(f.broker_id), compacted=compacted
            )
        ],
        "divergences": [divergence_row(context, d, proofs[d.follower.broker_id]) for d in divergences],
        "producers": [],
        "sequence_gaps": [],
        "transactions": transaction_rows(context, reference) if reference is not None else [],
        "index_files": [r for f in facts for r in index_file_rows(context, f, compacted=compacted)],
        "partition_changes": [_change_row(context, c, live, reference, divergences) for c in context.changes],
    }
    for f in live:
        producers, gaps = producer_rows(context, f, compacted=compacted)
        rows["producers"] += producers
        rows["sequence_gaps"] += gaps
    if context.metadata_known and not context.topic_deleted:
        rows["partitions"] = [_partition_row(context, live, reference, bounds)]
    loss_rows = losses_of(context, divergences, proofs)
    rows["losses"] = loss_rows
    rows["committed_offsets"] = [_commit_row(context, c, reference, bounds, loss_rows) for c in context.commits]
    return rows


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


def _known_high_watermark(
    replica: ReplicaFacts, live: Iterable[ReplicaFacts], shared_end: Mapping[int, int]
) -> int | None:
    """The largest checkpointed high watermark that this replica's lineage shares."""
    own_end = shared_end.get(replica.broker_id, replica.log_end_offset)
    known = [
        min(f.given.high_watermark, shared_end.get(f.broker_id, f.log_end_offset))
        for f in live
        if f.given.high_watermark is not None
        and (
            f is replica
            or shared_end.get(f.broker_id, f.log_end_offset) <= own_end
            or own_end == replica.log_end_offset
        )
    ]
    return max(known, default=None)


def _partition_row(
    context: PartitionContext,
    live: Sequence[ReplicaFacts],
    reference: ReplicaFacts | None,
    bounds: HighWatermarkBounds,
) -> Row:
    log_start = None
    unstable = stable = None
    if reference is not None:
        log_start = _log_start(context, reference, live)
        unstable = reference.replay.first_unstable_offset(bounds.lower)
        stable = last_stable_offset(
            high_watermark=bounds.lower, first_unstable_offset=unstable, log_start_offset=log_start
        )
    return {
        "topic": context.topic,
        "topic_id": context.topic_id,
        "partition": context.partition,
        "leader_id": context.leader_id,
        "last_leader_id": context.last_leader_id,
        "leader_epoch": context.leader_epoch,
        "partition_epoch": context.partition_epoch,
        "replicas": list(context.replicas),
        "isr": list(context.isr),
        "elr": list(context.elr),
        "last_known_elr": list(context.last_known_elr),
        "adding_replicas": list(context.adding_replicas),
        "removing_replicas": list(context.removing_replicas),
        "captured_replicas": sorted(f.broker_id for f in live),
        "log_start_offset": log_start,
        "log_end_offset": reference.log_end_offset if reference is not None else None,
        "high_watermark_lower": bounds.lower,
        "high_watermark_upper": bounds.upper,
        "last_stable_offset": stable,
        "first_unstable_offset": unstable,
        "min_insync_replicas": context.min_insync_replicas,
        "cleanup_policy": context.cleanup_policy,
        "unclean_leader_election_enable": context.unclean_leader_election_enable,
        "cluster_stopped": context.cluster_stopped,
        "active_replicas": len([b for b in context.replicas if b in context.alive_brokers]),
        "broker_quiet": reference.given.broker_quiet if reference is not None else context.snapshot_quiet,
        "snapshot_quiet": context.snapshot_quiet,
    }


def _log_start(context: PartitionContext, reference: ReplicaFacts, live: Sequence[ReplicaFacts]) -> int:
    """The reference's own; of a tiered partition the largest that any replica or the remote tier's metadata knows.

    Each broker writes its checkpoint once a minute, and the log start only moves up.
    """
    if not context.remote_storage_enable:
        return reference.log_start_offset
    listed = [f.given.checkpoint_log_start_offset for f in live]
    known = [start for start in (*listed, context.remote_log_start_offset) if start is not None]
    return max(known, default=reference.log_start_offset)


def _change_row(
    context: PartitionContext,
    change: PartitionChange,
    live: Sequence[ReplicaFacts],
    reference: ReplicaFacts | None,
    divergences: Sequence[Divergence],
) -> Row:
    members = set(change.isr) | set(change.elr) | set(change.last_known_elr)
    moving = set(change.adding_replicas) | set(change.removing_replicas)
    at_stake = known = holders = None
    if change.election == "unclean":
        old = [
            d
            for d in divergences
            if d.truncated_leader_epoch is not None
            and d.truncated_leader_epoch < change.leader_epoch
            and d.records_at_stake > 0
        ]
        at_stake = max((d.records_at_stake for d in old), default=0)
        holders = sorted(d.follower.broker_id for d in old)
        captured = {f.broker_id for f in live}
        truncated = {
            f.broker_id
            for f in live
            if f.broker_id != change.leader_id
            and f.broker_id not in holders
            and (f.vector.latest_epoch or 0) >= change.leader_epoch
        }
        known = set(change.previous_isr) <= captured and not (set(change.previous_isr) & truncated)
    return {
        "topic": context.topic,
        "topic_id": context.topic_id,
        "partition": context.partition,
        "metadata_offset": change.metadata_offset,
        "sequence_in_log": change.sequence_in_log,
        "from_snapshot": change.from_snapshot,
        "at_ms": change.at_ms,
        "leader_id": change.leader_id,
        "previous_leader_id": change.previous_leader_id,
        "leader_epoch": change.leader_epoch,
        "partition_epoch": change.partition_epoch,
        "replicas": list(change.replicas),
        "isr": list(change.isr),
        "previous_isr": list(change.previous_isr),
        "elr": list(change.elr),
        "previous_elr": list(change.previous_elr),
        "last_known_elr": list(change.last_known_elr),
        "adding_replicas": list(change.adding_replicas),
        "removing_replicas": list(change.removing_replicas),
        "recovering": change.recovering,
        "election": change.election,
        "isr_not_replicas": sorted((members | moving) - set(change.replicas)),
        "isr_and_elr": sorted(set(change.isr) & set(change.elr)),
        "leader_in_isr": None if change.leader_id is None else change.leader_id in change.isr,
        "topic_deleted": context.topic_deleted,
        "records_at_stake": at_stake,
        "records_at_stake_known": known,
        "old_lineage_holders": holders,
    }


def _commit_row(
    context: PartitionContext,
    commit: OffsetCommit,
    reference: ReplicaFacts | None,
    bounds: HighWatermarkBounds,
    losses: Sequence[Row],
) -> Row:
    start = reference.log_start_offset if reference is not None else None
    end = reference.log_end_offset if reference is not None else None
    offset = commit.offset
    lost = [
        loss["start_offset"]
        for loss in losses
        if offset > loss["start_offset"]
        and (commit.leader_epoch is None or loss["leader_epoch"] is None or commit.leader_epoch <= loss["leader_epoch"])
    ]
    return {
        "group": commit.group,
        "topic": context.topic,
        "partition": context.partition,
        "committed_offset": offset,
        "leader_epoch": commit.leader_epoch,
        "committed_at_ms": commit.commit_timestamp_ms,
        "topic_id": commit.topic_id,
        "metadata_topic_id": context.topic_id if context.metadata_known and not context.topic_deleted else None,
        "partition_exists": context.metadata_known and not context.topic_deleted,
        "log_start_offset": start,
        # Where a damaged in-sync replica ends below a high watermark that is known, the latter bounds the commit.
        "high_watermark_upper": None if bounds.upper is None else max(bounds.upper, bounds.lower or 0),
        "log_end_offset": end,
        "in_range": None if start is None or end is None else start <= offset <= end,
        "below_log_start": None if start is None else offset < start,
        "above_log_end": None if end is None else offset > end,
        "lost_from_offset": min(lost, default=None),
        "broker_quiet": reference.given.broker_quiet if reference is not None else context.snapshot_quiet,
        "snapshot_quiet": context.snapshot_quiet,
    }
