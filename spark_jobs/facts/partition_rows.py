"""Rows of the relations, from one partition's facts.

In: `PartitionContext`, `ReplicaFacts`, `Divergence`. Out: dictionaries column -> value, as `relations` names them.
The rule that must hold: nothing is computed here that a fact does not already say; this is the last step before a
table.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka_log.corruption import Corruption, Damage
from spark_jobs.facts.context import PartitionContext, Row
from spark_jobs.facts.divergence import Divergence
from spark_jobs.facts.losses import Proof
from spark_jobs.facts.producers import ProducerReplay, Transaction
from spark_jobs.facts.replica import CHAIN_DAMAGE, ReplicaFacts, SegmentRow
from spark_jobs.facts.segment_summary import FINDING_KINDS
from spark_jobs.relations import DETAIL_LIMIT

_CLEANED_ONLY: Final = frozenset({"offset_gap", "short_batch"})
"""Findings that a cleaner accounts for."""


def json_list(values: Iterable[Mapping[str, Any]]) -> str:
    """A `json` column: at most `DETAIL_LIMIT` objects."""
    return json.dumps(list(values)[:DETAIL_LIMIT], separators=(",", ":"))


def known(value: int) -> int | None:
    """-1 on disk and in summaries means "none"."""
    return value if value >= 0 else None


def _of(replica: ReplicaFacts) -> Row:
    given = replica.given
    return {"broker_id": given.broker_id, "topic": given.topic, "partition": given.partition}


def _capture(context: PartitionContext, replica: ReplicaFacts) -> Row:
    return {"broker_quiet": replica.given.broker_quiet, "snapshot_quiet": context.snapshot_quiet}


def segment_rows(context: PartitionContext, replica: ReplicaFacts, *, compacted: bool) -> list[Row]:
    """Rows of `segments`."""
    last = len(replica.segments) - 1
    return [
        _segment_row(context, replica, row, is_active=at == last, compacted=compacted)
        for at, row in enumerate(replica.segments)
    ]


def _segment_row(
    context: PartitionContext, replica: ReplicaFacts, row: SegmentRow, *, is_active: bool, compacted: bool
) -> Row:
    segment, summary, counts = row.segment, row.summary, row.counts
    corruptions = segment.corruptions
    chain = [c for c in corruptions if c.kind in CHAIN_DAMAGE]
    tail = chain[-1] if len(chain) == 1 and chain[0].kind is Damage.TORN_TAIL else None
    explained = compacted or context.remote_storage_enable
    gaps = 0 if explained else counts["offset_gap"]
    record_counts = counts["record_count"] + (0 if compacted else counts["short_batch"])
    return {
        **_of(replica),
        "path": segment.path,
        "base_offset": segment.base_offset,
        "next_base_offset": row.next_base_offset,
        "is_active": is_active,
        "size_bytes": segment.size_bytes,
        "valid_bytes": segment.valid_bytes,
        "batch_count": summary.batch_count,
        "record_count": summary.record_count,
        "first_offset": known(summary.first_offset),
        "last_offset": known(summary.last_offset),
        "previous_last_offset": row.previous_last_offset,
        "max_timestamp_ms": known(summary.max_timestamp_ms),
        "first_leader_epoch": known(summary.first_leader_epoch),
        "last_leader_epoch": known(summary.last_leader_epoch),
        "length_errors": len(chain),
        "torn_tail": tail is not None,
        "torn_tail_position": tail.position if tail is not None else None,
        "zero_tail": tail is not None and "zero" in tail.detail,
        "magic_errors": summary.magic_errors,
        "crc_errors": summary.crc_errors,
        "crc_errors_in_tail": is_active and summary.crc_errors == 1 and summary.last_batch_crc_bad,
        "offset_order_errors": counts["offset_order"],
        "record_count_errors": record_counts,
        "control_batch_errors": counts["control_batch"],
        "producer_field_errors": counts["producer_fields"],
        "epoch_missing_errors": counts["epoch_missing"],
        "epoch_order_errors": counts["epoch_order"],
        "offset_gaps": gaps,
        "missing_offsets": 0 if explained else summary.missing_offsets + row.boundary_missing,
        "ever_compacted": compacted,
        "remote_storage_enable": context.remote_storage_enable,
        "recovery_point_offset": replica.given.recovery_point_offset,
        "clean_shutdown": replica.given.clean_shutdown,
        "preallocate": context.preallocate,
        "damages": json_list(_damages(row, explained=explained, compacted=compacted)),
        **_capture(context, replica),
    }


def _damages(row: SegmentRow, *, explained: bool, compacted: bool) -> list[Row]:
    places = [_damage(c) for c in row.segment.corruptions]
    hidden = (frozenset({"offset_gap"}) if explained else frozenset()) | (
        frozenset({"short_batch"}) if compacted else frozenset()
    )
    for finding in row.summary.findings:
        kind = FINDING_KINDS[int(finding["kind"])]
        if kind in hidden:
            continue
        places.append(
            {
                "kind": "record_count" if kind == "short_batch" else kind,
                "position": int(finding["position"]),
                "end_position": int(finding["end_position"]),
                "start_offset": int(finding["start_offset"]),
                "end_offset": int(finding["end_offset"]),
                "records": int(finding["records"]),
                "detail": _told(kind, int(finding["before"]), int(finding["found"])),
            }
        )
    places += [d for d in row.boundary_damages if d["kind"] not in hidden]
    return sorted(places, key=lambda p: p["position"])


def _damage(corruption: Corruption) -> Row:
    return {
        "kind": corruption.kind.value,
        "position": corruption.position,
        "end_position": corruption.end_position,
        "start_offset": corruption.start_offset,
        "end_offset": corruption.end_offset,
        "records": corruption.records,
        "detail": corruption.detail,
    }


def _told(kind: str, before: int, found: int) -> str:
    match kind:
        case "offset_order":
            return f"base offset {found} is not above the last offset {before} before it"
        case "offset_gap":
            return f"offset {found} follows {before}: {found - before - 1} offsets are missing"
        case "record_count" | "short_batch":
            return f"{found} records in a batch that spans {before} offsets"
        case "control_batch":
            return f"a control batch of type {before} with {found} records and the wrong shape"
        case "producer_fields":
            return f"producer id {before} with base sequence {found} do not fit together"
        case "epoch_missing":
            return f"partition leader epoch {found}"
        case _:
            return f"leader epoch {found} after {before}"


def replica_row(
    context: PartitionContext,
    replica: ReplicaFacts,
    *,
    is_reference: bool,
    compacted: bool,
    high_watermark: int | None,
) -> Row:
    """A row of `replicas`."""
    given, checkpoint = replica.given, replica.given.epoch_checkpoint
    last = checkpoint.entries[-1] if checkpoint is not None and checkpoint.entries else None
    unstable = replica.replay.first_unstable_offset(high_watermark)
    from_snapshot = replica.snapshot_replay
    stable = None
    if high_watermark is not None:
        stable = high_watermark if unstable is None else min(high_watermark, max(unstable, replica.log_start_offset))
    metadata = given.partition_metadata
    return {
        **_of(replica),
        "topic_id": metadata.topic_id if metadata is not None else None,
        "metadata_topic_id": context.topic_id if context.metadata_known and not context.topic_deleted else None,
        "log_dir": given.log_dir,
        "log_start_offset": replica.log_start_offset,
        "local_log_start_offset": replica.local_log_start_offset,
        "log_end_offset": replica.log_end_offset,
        "readable_end_offset": replica.readable_end_offset,
        "high_watermark": given.high_watermark,
        "recovery_point_offset": given.recovery_point_offset,
        "checkpoint_log_start_offset": given.checkpoint_log_start_offset,
        "cleaner_offset": given.cleaner_offset,
        "first_unstable_offset": unstable,
        "snapshot_first_unstable_offset": (_open_first(from_snapshot) if from_snapshot is not None else None),
        "snapshot_replay_possible": from_snapshot is not None,
        "last_stable_offset": stable,
        "last_leader_epoch": known(replica.summary.last_leader_epoch),
        "checkpoint_last_leader_epoch": last.leader_epoch if last is not None else None,
        "checkpoint_last_epoch_start_offset": last.start_offset if last is not None else None,
        "epoch_checkpoint_missing": checkpoint is None,
        "epoch_checkpoint_entries": len(checkpoint.entries) if checkpoint is not None else None,
        "epoch_checkpoint_disorder": replica.epoch_checkpoint_disorder if checkpoint is not None else None,
        "segment_count": len(replica.segments),
        "batch_count": replica.summary.batch_count,
        "size_bytes": sum(r.segment.size_bytes for r in replica.segments),
        "damaged_batches": replica.damaged_batches,
        "is_leader": context.leader_id == given.broker_id,
        "is_reference": is_reference,
        "in_isr": given.broker_id in context.isr,
        "in_elr": given.broker_id in context.elr,
        "assigned": given.broker_id in context.replicas,
        "is_future": given.is_future,
        "metadata_leader_epoch": context.leader_epoch,
        "metadata_known": context.metadata_known,
        "broker_alive": given.broker_id in context.alive_brokers,
        "clean_shutdown": given.clean_shutdown,
        "checkpoint_older_than_log": given.checkpoint_older_than_log,
        "ever_compacted": compacted,
        "remote_storage_enable": context.remote_storage_enable,
        "max_ever_high_watermark": high_watermark,
        "snapshot_at_end": any(s.offset == replica.log_end_offset for s in given.snapshots),
        "open_first_unstable_offset": _open_first(replica.replay),
        **_capture(context, replica),
    }


def _open_first(replay: ProducerReplay) -> int | None:
    return min((t.first_offset for t in replay.open_transactions), default=None)


def epoch_span_rows(
    context: PartitionContext,
    replica: ReplicaFacts,
    reference: ReplicaFacts | None,
    live: Sequence[ReplicaFacts],
    *,
    divergence_offset: int | None,
    compacted: bool,
) -> list[Row]:
    """Rows of `epoch_spans`: every epoch that the batches or the checkpoint of a replica know."""
    by_batches = _spans(replica)
    checkpoint = replica.given.epoch_checkpoint
    entries = checkpoint.entries if checkpoint is not None else ()
    by_checkpoint = {e.leader_epoch: e.start_offset for e in reversed(entries)}
    epochs = sorted(by_batches.keys() | by_checkpoint.keys())
    other = reference if reference is not None and reference is not replica else None
    other_spans = _spans(other) if other is not None else {}
    other_first = min(other_spans, default=None)
    other_entries = {e.leader_epoch: e.start_offset for e in other.vector.entries} if other is not None else {}
    by_broker = {f.broker_id: f for f in live}
    first_entry = entries[0].leader_epoch if entries else (epochs[0] if epochs else None)
    rows = []
    for at, epoch in enumerate(epochs):
        span = by_batches.get(epoch)
        later = [by_batches[e][0] for e in epochs[at + 1 :] if e in by_batches]
        writer_id = context.epoch_leaders.get(epoch)
        writer = by_broker.get(writer_id) if writer_id is not None else None
        writer_span = _spans(writer).get(epoch) if writer is not None else None
        rows.append(
            {
                **_of(replica),
                "leader_epoch": epoch,
                "start_offset": span[0] if span is not None else None,
                "end_offset": later[0] if later else replica.log_end_offset,
                "batch_count": span[2] if span is not None else 0,
                "checkpoint_start_offset": by_checkpoint.get(epoch),
                "is_first_entry": epoch == first_entry,
                "is_last_entry": bool(entries) and epoch == entries[-1].leader_epoch,
                "log_start_offset": replica.log_start_offset,
                "log_end_offset": replica.log_end_offset,
                "high_watermark": replica.given.high_watermark,
                "reference_broker_id": other.broker_id if other is not None else None,
                "reference_start_offset": (other_spans[epoch][0] if epoch in other_spans else other_entries.get(epoch)),
                "reference_is_first": other is not None and epoch == other_first,
                "reference_high_watermark": other.given.high_watermark if other is not None else None,
                "divergence_offset": divergence_offset,
                "elected_leader_id": writer_id,
                "election_known": epoch in context.epoch_leaders,
                "max_metadata_leader_epoch": context.leader_epoch,
                "writer_start_offset": writer_span[0] if writer_span is not None else None,
                "writer_end_offset": writer_span[1] if writer_span is not None else None,
                "epoch_checkpoint_missing": checkpoint is None,
                "ever_compacted": compacted,
                "remote_storage_enable": context.remote_storage_enable,
                "checkpoint_older_than_log": replica.given.checkpoint_older_than_log,
                "first_batch_offset": known(replica.summary.first_offset),
                **_capture(context, replica),
            }
        )
    return rows


def _spans(replica: ReplicaFacts) -> dict[int, tuple[int, int, int]]:
    """Leader epoch -> (first offset, end offset, batches), by the batches."""
    spans: dict[int, tuple[int, int, int]] = {}
    for run in replica.summary.epoch_runs:
        epoch = int(run["leader_epoch"])
        start, end, batches = int(run["start_offset"]), int(run["end_offset"]), int(run["batches"])
        if epoch in spans:
            start, batches = min(start, spans[epoch][0]), batches + spans[epoch][2]
        spans[epoch] = (start, end, batches)
    return spans


def divergence_row(context: PartitionContext, divergence: Divergence, proof: Proof) -> Row:
    """A row of `divergences`."""
    leader, follower, difference = divergence.leader, divergence.follower, divergence.difference
    first = difference.offset
    both = [h for h in (leader.given.high_watermark, follower.given.high_watermark) if h is not None]
    committed_end = min(both) if len(both) == 2 else None
    unclean = proof.unclean
    epoch_start = leader.vector.entries[-1].start_offset if leader.vector.entries else None
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
        "first_differing_undiverged_offset": (
            first if first is not None and first < divergence.divergence_offset else None
        ),
        "identity_violation_offset": difference.same_epoch_offset,
        "differing_batches": json_list(difference.quoted),
        "compared_from_offset": divergence.compared_from_offset,
        "compared_to_end_offset": divergence.compared_to_end_offset,
        "comparable": divergence.incomparable_reason is None,
        "incomparable_reason": divergence.incomparable_reason,
        "follower_log_start_offset": follower.log_start_offset,
        "follower_log_end_offset": follower.log_end_offset,
        "leader_log_end_offset": leader.log_end_offset,
        "follower_high_watermark": follower.given.high_watermark,
        "leader_high_watermark": leader.given.high_watermark,
        "follower_last_leader_epoch": known(follower.summary.last_leader_epoch),
        "leader_last_leader_epoch": known(leader.summary.last_leader_epoch),
        "records_at_stake": divergence.records_at_stake,
        "truncated_leader_epoch": divergence.truncated_leader_epoch,
        "newer_epoch": divergence.newer_epoch,
        "newer_epoch_start_offset": divergence.newer_epoch_start_offset,
        "declared_committed": proof.records,
        "committed_proof": proof.by,
        "unclean_election_offset": unclean.metadata_offset if unclean is not None else None,
        "unclean_election_at_ms": unclean.at_ms if unclean is not None else None,
        "isr_before_election": list(unclean.previous_isr) if unclean is not None else None,
        "follower_in_isr": follower.broker_id in context.isr,
        "follower_in_elr": follower.broker_id in context.elr,
        "follower_alive": follower.broker_id in context.alive_brokers,
        "leader_is_elected": context.leader_id == leader.broker_id,
        "follower_clean_shutdown": follower.given.clean_shutdown,
        "leader_epoch_start_offset": epoch_start,
        "follower_copied_after_leader": None,
        "broker_quiet": follower.given.broker_quiet and leader.given.broker_quiet,
        "snapshot_quiet": context.snapshot_quiet,
    }


def producer_rows(context: PartitionContext, replica: ReplicaFacts, *, compacted: bool) -> tuple[list[Row], list[Row]]:
    """Rows of `producers` and `sequence_gaps`."""
    producers, gaps = [], []
    open_first = {(t.producer_id, t.producer_epoch): t.first_offset for t in replica.replay.open_transactions}
    for (producer_id, producer_epoch), entry in sorted(replica.replay.epochs.items()):
        anomalies = [b for b in entry.breaks if not b.explained]
        producers.append(
            {
                **_of(replica),
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "first_sequence": entry.first_sequence,
                "last_sequence": entry.last_sequence,
                "first_offset": entry.first_offset,
                "last_offset": entry.last_offset,
                "last_timestamp_ms": known(entry.last_timestamp),
                "current_transaction_first_offset": open_first.get((producer_id, producer_epoch)),
                "lost_gaps": entry.lost_gaps,
                "missing_sequences": entry.missing_sequences,
                "explained_gaps": entry.explained_gaps,
                "nonzero_starts": entry.nonzero_starts,
                "epoch_regressions": entry.epoch_regressions,
                "duplicate_batches": entry.duplicate_batches,
                "overlapping_batches": entry.overlapping_batches,
                "next_producer_id": context.next_producer_id,
                "anomalies": json_list(
                    {
                        "kind": b.cause,
                        "cause": b.cause,
                        "expected_sequence": b.expected_sequence,
                        "found_sequence": b.found_sequence,
                        "offset": b.offset,
                        "start_offset": b.offset,
                        "end_offset": b.end_offset,
                        "detail": f"sequence {b.found_sequence} at offset {b.offset}, {b.expected_sequence} was due",
                    }
                    for b in sorted(anomalies, key=lambda b: b.offset)
                ),
                "ever_compacted": compacted,
                **_capture(context, replica),
            }
        )
        gaps += [
            {
                **_of(replica),
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "expected_sequence": b.expected_sequence,
                "found_sequence": b.found_sequence,
                "offset": b.offset,
                "previous_offset": known(b.previous_offset),
                "cause": b.cause,
            }
            for b in entry.breaks
        ]
    return producers, gaps


def transaction_rows(context: PartitionContext, replica: ReplicaFacts, high_watermark: int | None) -> list[Row]:
    """Rows of `transactions`, from the reference replica."""
    versions = _inferred_versions(replica.replay)
    return [_transaction_row(context, replica, t, versions.get(t.producer_id)) for t in replica.replay.transactions]


def _inferred_versions(replay: ProducerReplay) -> dict[int, int]:
    """Version 2 where a producer's committed transactions end with a marker one epoch above their data (KIP-890).

    Aborts don't count: under version 1 fencing bumps the epoch too.
    """
    versions: dict[int, int] = {}
    for transaction in replay.completed:
        if transaction.outcome == "committed" and transaction.marker_producer_epoch is not None:
            bumped = transaction.marker_producer_epoch == transaction.producer_epoch + 1
            versions.setdefault(transaction.producer_id, 2 if bumped else 1)
    return versions


def _transaction_row(
    context: PartitionContext, replica: ReplicaFacts, transaction: Transaction, inferred_version: int | None
) -> Row:
    state = context.transactions_by_producer.get(transaction.producer_id)
    lists = (
        None
        if state is None
        else any(p.topic == context.topic and p.partition == context.partition for p in state.partitions)
    )
    ongoing = state is not None and state.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    is_open = transaction.outcome == "open"
    hanging = is_open and context.transaction_states_known and not (ongoing and lists)
    version = state.client_transaction_version if state is not None else None
    return {
        "topic": context.topic,
        "partition": context.partition,
        "broker_id": replica.broker_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "transactional_id": state.transactional_id if state is not None else None,
        "first_offset": transaction.first_offset,
        "last_offset": transaction.last_offset,
        "record_count": transaction.records,
        "outcome": transaction.outcome,
        "marker_offset": transaction.marker_offset,
        "marker_producer_epoch": transaction.marker_producer_epoch,
        "coordinator_epoch": transaction.coordinator_epoch,
        "previous_coordinator_epoch": transaction.previous_coordinator_epoch,
        "repeated_markers": transaction.repeated_markers,
        "contradicting_markers": transaction.contradicting_markers,
        "first_timestamp_ms": known(transaction.first_timestamp),
        "last_timestamp_ms": known(transaction.last_timestamp),
        "hanging": hanging,
        "client_transaction_version": version if version is not None else inferred_version,
        "coordinator_state": state.state if state is not None else None,
        "coordinator_producer_epoch": state.producer_epoch if state is not None else None,
        "coordinator_lists_partition": lists,
        "coordinator_known": context.transaction_states_known,
        "transaction_timeout_ms": state.timeout_ms if state is not None else None,
        "max_transaction_timeout_ms": context.max_transaction_timeout_ms,
        "captured_at_ms": context.captured_at_ms,
        "log_start_offset": replica.log_start_offset,
        **_capture(context, replica),
    }


def index_file_rows(context: PartitionContext, replica: ReplicaFacts, *, compacted: bool) -> list[Row]:
    """Rows of `index_files`."""
    bases = [r.segment.base_offset for r in replica.segments]
    last_base = bases[-1] if bases else 0
    damaged = {
        r.segment.base_offset for r in replica.segments if any(c.kind in CHAIN_DAMAGE for c in r.segment.corruptions)
    }
    rows = []
    for file in replica.index_files:
        facts = file.facts
        base = int(file.path.rsplit("/", 1)[-1].split(".")[0])
        rows.append(
            {
                **_of(replica),
                "path": file.path,
                "kind": facts.kind,
                "base_offset": base,
                "size_bytes": file.size_bytes,
                "entries": facts.entries,
                "is_active": base > last_base if facts.kind == "snapshot" else base == last_base,
                "has_log": base in bases,
                "readable": facts.readable,
                "form_errors": facts.form_errors,
                "pointer_errors": facts.pointer_errors,
                "range_errors": facts.range_errors,
                "missing_entries": facts.missing_entries,
                "extra_entries": facts.extra_entries,
                "wrong_entries": facts.wrong_entries,
                "last_stable_offset_errors": facts.last_stable_offset_errors,
                "misplaced": facts.misplaced,
                "content_checkable": facts.content_checkable,
                "uncheckable_reason": facts.uncheckable_reason,
                "stale_tail": facts.stale_tail,
                "just_loaded": replica.given.clean_shutdown,
                "log_damaged": base in damaged,
                "log_start_offset": replica.log_start_offset,
                "log_end_offset": replica.log_end_offset,
                "ever_compacted": compacted,
                "damages": json_list(facts.damages),
                **_capture(context, replica),
            }
        )
    return rows
