"""Rows about replicas: `replicas` and `divergences`.

In: `PartitionContext`, `ReplicaFacts`, `Divergence`. Out: dictionaries column -> value, as `relations` names them.
Nothing is computed here that a fact does not already say; this is the last step before a table.
"""

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.producers.replay import ProducerReplay
from tidegauge.facts.replicas.commitment import Commitment
from tidegauge.facts.replicas.divergence import Divergence
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_columns import capture, of_replica
from tidegauge.facts.replicas.replica_input import ReplicaInput
from tidegauge.facts.replicas.replica_set import is_of_this_topic, may_be_an_earlier_topics, of_deleted_topic
from tidegauge.facts.replicas.succession import elections_known, of_an_earlier_moment
from tidegauge.facts.rows import json_list, known
from tidegauge.facts.transactions.producer_rows import live_producer_columns
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.relations import DivergenceRow, ReplicaRow


def replica_row(
    context: PartitionContext,
    replica: ReplicaFacts,
    *,
    is_reference: bool,
    compacted: bool,
    high_watermark: int | None,
) -> ReplicaRow:
    """A row of `replicas`."""
    given = replica.given
    unstable = replica.replay.first_unstable_offset(high_watermark)
    from_snapshot = replica.snapshot_replay
    stable = None
    if high_watermark is not None:
        stable = high_watermark if unstable is None else min(high_watermark, max(unstable, replica.log_start_offset))
    # What lies in a segment that could not be read is not known, and so is all that follows from where the log ends.
    log_end = replica.log_end_offset if replica.end_known else None
    if log_end is None:
        unstable = stable = None
    return {
        **of_replica(replica),
        "topic_id": given.topic_id,
        "metadata_topic_id": context.topic_id if context.assignment.in_place else None,
        "log_dir": given.place.log_dir,
        "log_start_offset": replica.log_start_offset,
        "local_log_start_offset": replica.local_log_start_offset,
        "log_end_offset": log_end,
        "readable_end_offset": replica.readable_end_offset if replica.end_known else None,
        "first_unstable_offset": unstable,
        "snapshot_first_unstable_offset": (_open_first(from_snapshot) if from_snapshot is not None else None),
        "snapshot_replay_possible": from_snapshot is not None,
        "last_stable_offset": stable,
        "last_leader_epoch": known(replica.summary.last_leader_epoch),
        **_checkpoint_columns(replica.given, disorder=replica.epoch_checkpoint_disorder),
        "segment_count": len(replica.segments),
        "batch_count": replica.summary.batch_count,
        "size_bytes": sum(r.segment.size_bytes for r in replica.segments),
        "damaged_batches": replica.damaged_batches,
        "is_reference": is_reference,
        "is_future": given.place.is_future,
        **_assignment_columns(context, replica),
        "clean_shutdown": given.moment.clean_shutdown,
        "ever_compacted": compacted,
        "remote_storage_enable": context.settings.remote_storage_enable,
        "max_ever_high_watermark": high_watermark,
        "newest_producer_snapshot": max((s.offset for s in given.snapshots), default=None),
        "producer_snapshots_copied": given.copied.producer_snapshots,
        "producer_ids": len(replica.replay.states),
        "snapshot_at_end": (any(s.offset == log_end for s in given.snapshots) if log_end is not None else None),
        "open_first_unstable_offset": _open_first(replica.replay),
        "topic_id_deleted": context.history.topic_ids_deleted.get(given.topic_id or ""),
        "elections_on_record": elections_known(context, since_epoch=known(replica.summary.last_leader_epoch)),
        "metadata_log_captured": context.metadata.captured,
        "may_be_earlier_topics": may_be_an_earlier_topics(context, given),
        **live_producer_columns(context, replica),
        **capture(context, replica),
    }


def _checkpoint_columns(given: ReplicaInput, *, disorder: int) -> ReplicaRow:
    """What checkpoints say of the replica."""
    checkpoint = given.epoch_checkpoint
    last = checkpoint.entries[-1] if checkpoint is not None and checkpoint.entries else None
    return {
        "high_watermark": given.checkpointed.high_watermark,
        "recovery_point_offset": given.checkpointed.recovery_point_offset,
        "checkpoint_log_start_offset": given.checkpointed.log_start_offset,
        "cleaner_offset": given.checkpointed.cleaner_offset,
        "checkpoint_older_than_log": given.moment.checkpoint_older_than_log,
        "epoch_checkpoints_copied": given.copied.epoch_checkpoints,
        "log_starts_copied": given.copied.log_starts,
        "checkpoint_last_leader_epoch": last.leader_epoch if last is not None else None,
        "checkpoint_last_epoch_start_offset": last.start_offset if last is not None else None,
        "epoch_checkpoint_missing": checkpoint is None,
        "epoch_checkpoint_entries": len(checkpoint.entries) if checkpoint is not None else None,
        "epoch_checkpoint_disorder": disorder if checkpoint is not None else None,
    }


def _assignment_columns(context: PartitionContext, replica: ReplicaFacts) -> ReplicaRow:
    """What the metadata log says of the replica."""
    given, assignment = replica.given, context.assignment
    ours, named = is_of_this_topic(context, replica), not of_deleted_topic(context, given)
    return {
        "is_leader": ours and context.assignment.leader_id == given.place.broker_id,
        "in_isr": ours and given.place.broker_id in assignment.isr if assignment.told else None,
        "in_elr": ours and given.place.broker_id in assignment.elr if assignment.known else None,
        "assigned": ours and given.place.broker_id in assignment.replicas if assignment.told else None,
        "metadata_leader_epoch": context.assignment.leader_epoch if named else None,
        "metadata_known": named and context.assignment.known,
        "metadata_damaged": context.metadata.damaged,
        "broker_alive": given.place.broker_id in context.cluster.alive_brokers,
    }


def _open_first(replay: ProducerReplay) -> int | None:
    return min((t.first_offset for t in replay.open_transactions), default=None)


def _told_epoch(epoch: int | None) -> int | None:
    """A leader epoch of batches, which those of message formats 0 and 1 do not have."""
    return None if epoch is None else known(epoch)


def _copied_after(leader: ReplicaFacts, follower: ReplicaFacts) -> bool | None:
    """Whether the follower's log was read after the leader's; None where the capture does not say, or they overlap."""
    if leader.moment.log_read_at_ms is None or follower.moment.log_read_at_ms is None:
        return None
    (leader_first, leader_last), (first, last) = (
        leader.moment.log_read_at_ms,
        follower.moment.log_read_at_ms,
    )
    return True if first > leader_last else False if last < leader_first else None


def _commitment_columns(context: PartitionContext, divergence: Divergence, committed: Commitment) -> DivergenceRow:
    """How much of what is at stake was committed, and by which election it came to that."""
    unclean, follower = committed.unclean, divergence.follower
    return {
        "declared_committed": committed.records,
        "committed_proof": committed.by,
        "possible_records": committed.possible_records,
        "commitment_lacks": committed.lacks,
        "elections_on_record": (
            committed.elections_on_record
            if divergence.records_at_stake > 0
            else elections_known(context, since_epoch=known(follower.summary.last_leader_epoch))
        ),
        "unclean_election_offset": unclean.metadata_offset if unclean is not None else None,
        "unclean_election_at_ms": unclean.at_ms if unclean is not None else None,
        "isr_before_election": list(unclean.previous_isr) if unclean is not None else None,
    }


def _side_columns(context: PartitionContext, leader: ReplicaFacts, follower: ReplicaFacts) -> DivergenceRow:
    """The two logs, and how they were copied."""
    return {
        "follower_log_start_offset": follower.log_start_offset,
        "follower_log_end_offset": follower.log_end_offset,
        "leader_log_end_offset": leader.log_end_offset,
        "follower_high_watermark": follower.checkpointed.high_watermark,
        "leader_high_watermark": leader.checkpointed.high_watermark,
        "follower_last_leader_epoch": known(follower.summary.last_leader_epoch),
        "leader_last_leader_epoch": known(leader.summary.last_leader_epoch),
        "follower_in_isr": follower.broker_id in context.assignment.isr,
        "follower_in_elr": follower.broker_id in context.assignment.elr,
        "follower_alive": follower.broker_id in context.cluster.alive_brokers,
        "follower_clean_shutdown": follower.moment.clean_shutdown,
        "leader_clean_shutdown": leader.moment.clean_shutdown,
        "follower_copied_after_leader": _copied_after(leader, follower),
        "broker_quiet": follower.moment.broker_quiet and leader.moment.broker_quiet,
    }


def divergence_row(context: PartitionContext, divergence: Divergence, committed: Commitment) -> DivergenceRow:
    """A row of `divergences`."""
    leader, follower, difference = divergence.leader, divergence.follower, divergence.difference
    first = difference.offset
    both = [h for h in (leader.checkpointed.high_watermark, follower.checkpointed.high_watermark) if h is not None]
    committed_end = min(both) if len(both) == 2 else None
    epoch_start = leader.vector.entries[-1].start_offset if leader.vector.entries else None
    led = context.history.epoch_leaders.get(follower.summary.last_leader_epoch)
    return {
        "topic": context.topic,
        "partition": context.partition,
        "leader_id": leader.broker_id,
        "follower_id": follower.broker_id,
        "divergence_offset": divergence.divergence_offset,
        "truncation_rounds": divergence.rounds,
        "first_differing_offset": first,
        "first_differing_committed_offset": (
            first if first is not None and committed_end is not None and first < committed_end else None
        ),
        "first_differing_undiverged_offset": divergence.undiverged_offset,
        "differs_without_epochs": divergence.parted_without_epochs,
        "identity_violation_offset": difference.same_epoch_offset,
        "differing_batches": json_list(q.named("leader_batch", "follower_batch") for q in difference.quoted),
        "compared_from_offset": divergence.compared_from_offset,
        "compared_to_end_offset": divergence.compared_to_end_offset,
        "comparable": divergence.incomparable_reason is None,
        "incomparable_reason": divergence.incomparable_reason,
        "of_an_earlier_moment": of_an_earlier_moment(context, follower) or of_an_earlier_moment(context, leader),
        "records_at_stake": divergence.records_at_stake,
        "truncated_leader_epoch": _told_epoch(divergence.truncated_leader_epoch),
        "newer_epoch": divergence.newer_epoch,
        "newer_epoch_start_offset": divergence.newer_epoch_start_offset,
        "damage_hides": divergence.damage_hides,
        "markers_at_stake": divergence.markers_at_stake,
        **_commitment_columns(context, divergence, committed),
        **_side_columns(context, leader, follower),
        "leader_is_elected": context.assignment.leader_id == leader.broker_id,
        "leader_known": context.assignment.told or context.topic == CLUSTER_METADATA,
        "leader_epoch_start_offset": epoch_start,
        "snapshot_quiet": context.cluster.snapshot_quiet,
        "reference_led_last_epoch": led == leader.broker_id if led is not None else None,
        "metadata_committed_end_offset": context.metadata.committed_end_offset,
        "leader_segment": leader.segment_of(first) if first is not None else None,
        "follower_segment": follower.segment_of(first) if first is not None else None,
    }
