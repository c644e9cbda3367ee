"""One partition: its replicas' facts, compared and bounded, as rows of the relations.

In: the replicas' inputs and a `PartitionContext`, what the metadata log, the coordinators and the capture say of the
partition. Out: rows (column -> value) per relation, without the common columns. A row says what is so and how it is
known; whether that is right is for the catalogue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegauge.facts.cleanup.storage_rows import StoredBytes, storage_rows
from tidegauge.facts.context import PartitionContext
from tidegauge.facts.coordinators.fencing import partition_epochs
from tidegauge.facts.metadata.history import record_place
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.partitions.answer_rows import partition_answer_rows
from tidegauge.facts.partitions.epoch_span_rows import epoch_span_rows
from tidegauge.facts.partitions.file_rows import index_file_rows, segment_rows
from tidegauge.facts.partitions.replica_rows import divergence_row, replica_row
from tidegauge.facts.partitions.share_rows import share_rows
from tidegauge.facts.replicas.comparison import ReadBatches
from tidegauge.facts.replicas.readers import course_columns, epoch_columns, reading_columns
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_input import ReplicaInput
from tidegauge.facts.replicas.replica_set import ReplicaSet, replica_set
from tidegauge.facts.replicas.succession import (
    GIVES_RECORDS_UP,
    elections_known,
    lineage_captured,
    tells_what_was_elected,
)
from tidegauge.facts.replicas.watermarks import HighWatermarkBounds, last_stable_offset
from tidegauge.facts.risk.acknowledged import acknowledged_columns
from tidegauge.facts.risk.changes import Pairing, changes_of
from tidegauge.facts.risk.holdings import expansion_columns, holding_columns
from tidegauge.facts.risk.isr_members import isr_member_rows
from tidegauge.facts.risk.losses import losses_of
from tidegauge.facts.risk.parted_logs import not_parted, parted_losses
from tidegauge.facts.risk.unheld_records import unheld_losses
from tidegauge.facts.risk.unread_lineages import possibly_given_up
from tidegauge.facts.transactions.producer_agreement import agreement_columns
from tidegauge.facts.transactions.producer_rows import producer_rows, transaction_rows
from tidegauge.facts.transactions.stability import stability_columns
from tidegauge.facts.transactions.transaction_ends import transaction_end_rows
from tidegauge.kafka_log.coordinator_records import OffsetCommit
from tidegauge.relations import CommittedOffsetRow, LossRow, PartitionChangeRow, PartitionRow, Rows

_NOTHING_STORED: Final = StoredBytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The partition in an earlier snapshot, and how to read its batches."""

    replicas: ReplicaSet
    pairing: Pairing
    read: ReadBatches


def partition_rows(
    context: PartitionContext,
    replicas: Sequence[ReplicaInput],
    *,
    read: ReadBatches,
    earlier: Earlier | None = None,
    stored: StoredBytes = _NOTHING_STORED,
) -> Rows:
    """All rows of one partition."""
    present = replica_set(context, replicas, read=read)
    live, reference, bounds = present.live, present.reference, present.bounds
    rows = _log_rows(present, read)
    if not context.assignment.topic_deleted and (context.assignment.known or (live and not context.metadata.captured)):
        known = holding_columns(present) | acknowledged_columns(present)
        rows["partitions"] = [_partition_row(context, live, reference, bounds) | known]
    if context.coordinators.decisions:
        rows["transaction_ends"] = transaction_end_rows(context, reference, bounds)
    if context.coordinators.share_states:
        rows["share_states"] = list(share_rows(context, reference, bounds))
    loss_rows = losses_of(context, not_parted(present.divergences), present.commitments)
    loss_rows += [*parted_losses(present, read=read), *possibly_given_up(present, read=read)]
    if earlier is not None:
        rows["changes"], lost = changes_of(
            present, earlier.replicas, earlier.pairing, read=read, read_earlier=earlier.read
        )
        loss_rows += lost
        for change in rows["changes"]:
            if reference is not None and change["broker_id"] == reference.broker_id:
                change |= stability_columns(present, earlier.replicas)
    rows["losses"] = [*loss_rows, *unheld_losses(present, loss_rows, stored.objects)]
    rows |= storage_rows(
        present, stored, earlier=earlier.replicas if earlier is not None else None, changes=rows.get("changes", [])
    )
    previous = {c.group: c for c in earlier.replicas.context.coordinators.commits} if earlier is not None else {}
    rows["committed_offsets"] = [
        _commit_row(context, c, reference, bounds, rows["losses"], previous.get(c.group))
        for c in context.coordinators.commits
    ]
    rows["fencing_epochs"] = partition_epochs(rows)
    if context.answers is not None:
        rows["cluster_answers"] = partition_answer_rows(context, context.answers, live)
    return rows


def _log_rows(present: ReplicaSet, read: ReadBatches) -> Rows:
    """What each replica's log holds, and the logs beside each other."""
    context, facts, live, reference = present.context, present.facts, present.live, present.reference
    compacted = context.settings.ever_compacted or any(f.ever_compacted for f in facts)
    cleaned = compacted and not present.cleaning.assumed
    rows: Rows = {
        "segments": [r for f in facts for r in segment_rows(context, f, compacted=cleaned, cleaning=present.cleaning)],
        "replicas": [
            replica_row(
                context,
                f,
                is_reference=f is reference,
                compacted=compacted,
                high_watermark=present.known_high_watermark(f),
            )
            for f in facts
        ],
        "epoch_spans": list(epoch_span_rows(present, compacted=compacted)),
        "divergences": [
            divergence_row(context, d, present.commitments[d.follower.broker_id])
            | expansion_columns(context, d)
            | agreement_columns(d.leader, d.follower, shared_end=d.divergence_offset)
            for d in present.divergences
        ],
        "isr_members": isr_member_rows(present),
        "producers": [],
        "sequence_gaps": [],
        "transactions": transaction_rows(context, reference) if reference is not None else [],
        "index_files": [r for f in facts for r in index_file_rows(context, f, compacted=compacted)],
        "partition_changes": [_change_row(context, c, present) for c in context.history.changes],
    }
    for f in live:
        producers, gaps = producer_rows(context, f, compacted=compacted, read=read)
        rows["producers"] += producers
        rows["sequence_gaps"] += gaps
    return rows


def gone_rows(context: PartitionContext, earlier: Earlier) -> Rows:
    """What is left to tell of a partition that an earlier snapshot had, and this one has not."""
    present = replica_set(context, (), read=earlier.read)
    changes, lost = changes_of(present, earlier.replicas, earlier.pairing, read=earlier.read, read_earlier=earlier.read)
    return {"changes": changes, "losses": lost}


def _partition_row(
    context: PartitionContext,
    live: Sequence[ReplicaFacts],
    reference: ReplicaFacts | None,
    bounds: HighWatermarkBounds,
) -> PartitionRow:
    log_start = None
    assignment, settings = context.assignment, context.settings
    reassigning = _reassigning_since_ms(context)
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
        "leader_id": assignment.leader_id,
        "last_leader_id": assignment.last_leader_id,
        "leader_epoch": assignment.leader_epoch,
        "partition_epoch": assignment.partition_epoch,
        "replicas": list(assignment.replicas) if assignment.told else None,
        "isr": list(assignment.isr) if assignment.told else None,
        "elr": list(assignment.elr) if assignment.known else None,
        "last_known_elr": list(assignment.last_known_elr) if assignment.known else None,
        "adding_replicas": list(assignment.adding_replicas) if assignment.known else None,
        "removing_replicas": list(assignment.removing_replicas) if assignment.known else None,
        "captured_replicas": sorted(f.broker_id for f in live),
        "log_start_offset": log_start,
        "log_end_offset": reference.log_end_offset if reference is not None else None,
        "high_watermark_lower": bounds.lower,
        "high_watermark_upper": bounds.upper,
        "last_stable_offset": stable,
        "first_unstable_offset": unstable,
        "min_insync_replicas": settings.min_insync_replicas,
        "cleanup_policy": settings.cleanup_policy,
        "unclean_leader_election_enable": settings.unclean_leader_election_enable,
        "cluster_stopped": context.cluster.stopped if context.metadata.captured else None,
        "active_replicas": (
            len([b for b in assignment.replicas if b in context.cluster.alive_brokers]) if assignment.known else None
        ),
        "broker_quiet": reference.moment.broker_quiet if reference is not None else context.cluster.snapshot_quiet,
        "snapshot_quiet": context.cluster.snapshot_quiet,
        "reassigning_since_ms": reassigning,
        "reassigning_ms": (
            context.cluster.captured_at_ms - reassigning
            if reassigning is not None and context.cluster.captured_at_ms is not None
            else None
        ),
    }


def _reassigning_since_ms(context: PartitionContext) -> int | None:
    """When the sets of a move that goes on became what they are: a move that gets on makes them smaller."""
    since = None
    moving = (context.assignment.adding_replicas, context.assignment.removing_replicas)
    for change in reversed(context.history.changes if any(moving) else ()):
        if (change.adding_replicas, change.removing_replicas) != moving:
            break
        since = change.at_ms
    return since


def _log_start(context: PartitionContext, reference: ReplicaFacts, live: Sequence[ReplicaFacts]) -> int:
    """The reference's own; of a tiered partition the largest that any replica or the remote tier's metadata knows.

    Each broker writes its checkpoint once a minute, and the log start only moves up.
    """
    if not context.settings.remote_storage_enable:
        return reference.log_start_offset
    listed = [f.checkpointed.log_start_offset for f in live]
    known = [start for start in (*listed, context.remote_log_start_offset) if start is not None]
    return max(known, default=reference.log_start_offset)


def _change_row(context: PartitionContext, change: PartitionChange, present: ReplicaSet) -> PartitionChangeRow:
    members = set(change.isr) | set(change.elr) | set(change.last_known_elr)
    moving = set(change.adding_replicas) | set(change.removing_replicas)
    at_stake, known, holders = _given_up(change, present)
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
        "topic_deleted": context.assignment.topic_deleted,
        "records_at_stake": at_stake,
        "records_at_stake_known": known,
        "old_lineage_holders": holders,
        "created": change.created,
        "restated": change.restated,
        "previous_leader_epoch": change.previous_leader_epoch,
        "previous_partition_epoch": change.previous_partition_epoch,
        "previous_recovering": change.previous_recovering,
        "min_insync_replicas": change.min_insync_replicas,
        "directory_count": len(change.directories),
        "snapshot_end_offset": change.snapshot_end_offset,
        "snapshot_partition_epoch": change.snapshot_partition_epoch,
        "snapshot_leader_epoch": change.snapshot_leader_epoch,
        "isr_inactive": list(change.isr_inactive),
        "isr_without_directory": list(change.isr_without_directory),
        "isr_joined_inactive": list(change.isr_joined_inactive),
        "out_of_place_offset": change.out_of_place_offset,
        "out_of_place_ms": change.out_of_place_ms,
        "migrated": change.migrated,
        "after_damage": change.after_damage,
        **record_place(context.metadata.files, change.metadata_offset, from_snapshot=change.from_snapshot),
        "snapshot_nodes": [node_id for node_id, _ in change.snapshot_files],
        "snapshot_paths": [path for _, path in change.snapshot_files],
        "elected_log_captured": (
            tells_what_was_elected(context, present.reference, change) if change.election in GIVES_RECORDS_UP else None
        ),
    }


def _given_up(change: PartitionChange, present: ReplicaSet) -> tuple[int | None, bool | None, list[int] | None]:
    """What an election gave up: records that were committed, or may have been, whether that is all, and who has them.

    Of two in a row each gave up what had been written until then: the first one that its lineage met.
    """
    if change.election not in GIVES_RECORDS_UP:
        return None, None, None
    told = {broker: c for broker, c in present.commitments.items() if c.unclean == change}
    stakes = {broker: c.records + c.possible_records for broker, c in told.items()}
    holders = sorted(broker for broker, records in stakes.items() if records > 0)
    truncated = {
        f.broker_id
        for f in present.live
        if f.broker_id != change.leader_id
        and f.broker_id not in told
        and (f.vector.latest_epoch or 0) >= change.leader_epoch
    }
    # Where both are empty, anyone may have been the last to hold something.
    former = set(change.previous_isr) | set(change.previous_elr) or set(change.replicas)
    known = former <= present.brokers_at_hand and not (former & truncated)
    return max(stakes.values(), default=0), known, holders


def _commit_row(
    context: PartitionContext,
    commit: OffsetCommit,
    reference: ReplicaFacts | None,
    bounds: HighWatermarkBounds,
    losses: Sequence[LossRow],
    previous: OffsetCommit | None,
) -> CommittedOffsetRow:
    start = reference.log_start_offset if reference is not None else None
    end = reference.log_end_offset if reference is not None else None
    offset = commit.offset
    lost = [
        loss["start_offset"]
        for loss in losses
        if loss["state"] != "possible"
        and offset > loss["start_offset"]
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
        "metadata_topic_id": context.topic_id if context.assignment.in_place else None,
        "partition_exists": context.assignment.in_place,
        "log_start_offset": start,
        # Where a damaged in-sync replica ends below a high watermark that is known, the latter bounds the commit.
        "high_watermark_upper": None if bounds.upper is None else max(bounds.upper, bounds.lower or 0),
        "log_end_offset": end,
        "in_range": None if start is None or end is None else start <= offset <= end,
        "below_log_start": None if start is None else offset < start,
        "above_log_end": None if end is None else offset > end,
        "lost_from_offset": min(lost, default=None),
        "metadata_leader_epoch": context.assignment.leader_epoch,
        "elections_on_record": elections_known(context, since_epoch=commit.leader_epoch),
        **reading_columns(context.coordinators.reached.get(commit.group, {}), reference, commit.leader_epoch),
        "previous_committed_offset": previous.offset if previous is not None else None,
        "previous_committed_at_ms": previous.commit_timestamp_ms if previous is not None else None,
        "previous_topic_id": previous.topic_id if previous is not None else None,
        **epoch_columns(context, commit),
        "name_reused": any(context.history.topic_ids_deleted.values()),
        "metadata_damaged": context.metadata.damaged,
        **course_columns(context.coordinators.courses.get(commit.group)),
        "names_hashed": context.cluster.names_hashed,
        "broker_quiet": reference.moment.broker_quiet if reference is not None else context.cluster.snapshot_quiet,
        "snapshot_quiet": context.cluster.snapshot_quiet,
        "lineage_captured": lineage_captured(context, reference),
        "metadata_log_captured": context.metadata.captured,
        "log_starts_copied": reference.copied.log_starts if reference is not None else None,
    }
