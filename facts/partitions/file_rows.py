"""Rows about files: `segments` and `index_files`.

In: a replica's facts. Out: dictionaries column -> value. A place that cleaning or tiering explains is not told as
damage.
"""

from typing import Final

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.metadata.upkeep_context import INDEX_INTERVAL_BYTES, SEGMENT_BYTES
from tidegauge.facts.replicas.cleaning_doubt import NO_DOUBT, CleaningDoubt, policy_history_known
from tidegauge.facts.replicas.replica import CHAIN_DAMAGE, ReplicaFacts, ReplicaSegment
from tidegauge.facts.replicas.replica_columns import capture, of_replica
from tidegauge.facts.rows import json_list, known
from tidegauge.facts.segments.log_place import DamagedPlace, LogPlace
from tidegauge.facts.segments.record_check import RecordCheck
from tidegauge.facts.segments.summary import FINDING_KINDS
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.relations import IndexFileRow, SegmentRow

ENTRY_PER_BATCH: Final = (4, 1)
"""From this release on an index gets its entries batch by batch; before, append by append (LogSegment#append)."""


def segment_rows(
    context: PartitionContext, replica: ReplicaFacts, *, compacted: bool, cleaning: CleaningDoubt = NO_DOUBT
) -> list[SegmentRow]:
    """Rows of `segments`."""
    last = len(replica.segments) - 1
    return [
        _segment_row(context, replica, row, is_active=at == last, compacted=compacted, cleaning=cleaning)
        for at, row in enumerate(replica.segments)
    ]


def _segment_row(
    context: PartitionContext,
    replica: ReplicaFacts,
    row: ReplicaSegment,
    *,
    is_active: bool,
    compacted: bool,
    cleaning: CleaningDoubt,
) -> SegmentRow:
    segment, summary = row.segment, row.summary
    return {
        **of_replica(replica),
        "path": segment.path,
        "base_offset": segment.base_offset,
        "next_base_offset": row.next_base_offset,
        "is_active": is_active,
        "size_bytes": segment.size_bytes,
        "valid_bytes": segment.valid_bytes,
        "batch_count": summary.batch_count,
        "record_count": summary.record_count,
        "first_offset": summary.begins_at,
        "last_offset": known(summary.last_offset),
        "previous_last_offset": row.previous_last_offset,
        "max_timestamp_ms": known(summary.max_timestamp_ms),
        "first_leader_epoch": known(summary.first_leader_epoch),
        "last_leader_epoch": known(summary.last_leader_epoch),
        **_error_columns(row, is_active=is_active, compacted=compacted),
        "ever_compacted": compacted,
        "policy_history_known": policy_history_known(context),
        "gaps_held_elsewhere": cleaning.held_elsewhere.get((replica.broker_id, segment.base_offset, "offset_gap"), 0),
        "short_batches_held_elsewhere": cleaning.held_elsewhere.get(
            (replica.broker_id, segment.base_offset, "short_batch"), 0
        ),
        "remote_storage_enable": context.settings.remote_storage_enable,
        "recovery_point_offset": replica.checkpointed.recovery_point_offset,
        "clean_shutdown": replica.moment.clean_shutdown,
        "preallocate": context.settings.preallocate,
        "older_format_batches": summary.older_batches,
        "format_falls": row.format_falls,
        "format_fall_offset": known(row.format_fall_offset),
        "epochless_first": 0 if compacted else row.epochless_first,
        **_record_columns(segment.records),
        **_storage_columns(context, replica, row),
        **capture(context, replica),
    }


def _error_columns(row: ReplicaSegment, *, is_active: bool, compacted: bool) -> SegmentRow:
    """What is wrong with its batches, kind by kind."""
    summary, counts = row.summary, row.counts
    chain = [c for c in row.segment.corruptions if c.kind in CHAIN_DAMAGE]
    tail = chain[-1] if len(chain) == 1 and chain[0].kind is Damage.TORN_TAIL else None
    short = 0 if compacted else counts["short_batch"]
    # A cleaner of Kafka 4 writes batches of format 2 of what it keeps of older ones, which had no leader epoch.
    rewritten = row.rewritten_batches + (row.epochless_first if compacted else 0)
    return {
        "length_errors": len(chain),
        "torn_tail": tail is not None,
        "torn_tail_position": tail.position if tail is not None else None,
        "zero_tail": tail is not None and "zero" in tail.detail,
        "magic_errors": summary.magic_errors,
        "crc_errors": summary.crc_errors,
        "crc_errors_in_tail": is_active and summary.crc_errors == 1 and summary.last_batch_crc_bad,
        "offset_order_errors": counts["offset_order"],
        "record_count_errors": counts["record_count"] + short,
        "short_batches": short,
        "control_batch_errors": counts["control_batch"],
        "producer_field_errors": counts["producer_fields"],
        "epoch_missing_errors": counts["epoch_missing"] - rewritten,
        "epoch_order_errors": counts["epoch_order"],
        "offset_gaps": 0 if compacted else counts["offset_gap"],
        "missing_offsets": 0 if compacted else summary.missing_offsets + row.boundary_missing,
        "cut_tail": _cut_tail(tail),
        "damages": json_list(_damages(row, compacted=compacted)),
    }


def _record_columns(records: RecordCheck | None) -> SegmentRow:
    return {
        "record_batches_read": records.batches_read if records is not None else None,
        "record_batches_passed_over": records.batches_passed_over if records is not None else None,
        "record_form_errors": records.form_errors if records is not None else None,
        "record_offset_errors": records.offset_errors if records is not None else None,
        "record_timestamp_errors": records.timestamp_errors if records is not None else None,
    }


def _storage_columns(context: PartitionContext, replica: ReplicaFacts, row: ReplicaSegment) -> SegmentRow:
    """What decides how large a segment may be, and how closely its index must follow it."""
    spacing, known = row.segment.index_spacing, context.upkeep
    # The metadata log's segments are the quorum's: no topic's settings are theirs.
    settings = known.settings if known is not None and context.topic != CLUSTER_METADATA else None
    return {
        "index_entries": spacing.entries if spacing is not None else None,
        "widest_index_gap_bytes": spacing.widest_gap_bytes if spacing is not None else None,
        "largest_batch_bytes": spacing.largest_batch_bytes if spacing is not None else None,
        "index_interval_bytes": settings.largest(INDEX_INTERVAL_BYTES) if settings is not None else None,
        "index_entry_per_batch": known.ran_since(replica.broker_id, ENTRY_PER_BATCH) if known is not None else None,
        "segment_limit_bytes": settings.largest(SEGMENT_BYTES) if settings is not None else None,
        "segment_limit_known": settings.known(SEGMENT_BYTES) if settings is not None else None,
        "segment_limit_history_known": settings.reaches(SEGMENT_BYTES) if settings is not None else None,
        "segment_limit_changed_at_ms": settings.segment_bytes_changed_at_ms if settings is not None else None,
    }


def _damages(row: ReplicaSegment, *, compacted: bool) -> list[LogPlace | DamagedPlace]:
    places: list[LogPlace | DamagedPlace] = [_damage(c) for c in row.segment.corruptions]
    hidden = frozenset({"offset_gap", "short_batch"}) if compacted else frozenset()
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
    places += row.segment.records.places if row.segment.records is not None else ()
    places += [d for d in row.boundary_damages if d["kind"] not in hidden]
    return sorted(places, key=lambda p: p["position"])


def _damage(corruption: Corruption) -> DamagedPlace:
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


def _cut_tail(tail: Corruption | None) -> bool | None:
    """Whether the torn tail begins like a batch that was cut short, and not like something else altogether."""
    return None if tail is None else "length field says" in tail.detail or "too short" in tail.detail


def index_file_rows(context: PartitionContext, replica: ReplicaFacts, *, compacted: bool) -> list[IndexFileRow]:
    """Rows of `index_files`."""
    bases = [r.segment.base_offset for r in replica.segments]
    last_base = bases[-1] if bases else 0
    damaged = {
        r.segment.base_offset for r in replica.segments if any(c.kind in CHAIN_DAMAGE for c in r.segment.corruptions)
    }
    rows: list[IndexFileRow] = []
    for file in replica.index_files:
        facts = file.facts
        base = int(file.path.rsplit("/", 1)[-1].split(".")[0])
        rows.append(
            {
                **of_replica(replica),
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
                "just_loaded": replica.moment.clean_shutdown,
                "log_damaged": base in damaged,
                "log_start_offset": replica.log_start_offset,
                "log_end_offset": replica.log_end_offset,
                "ever_compacted": compacted,
                "local_log_start_offset": replica.local_log_start_offset,
                "damages": json_list(facts.damages),
                "undecided_entries": len(facts.undecided),
                "older_has_entries": any(
                    s.content.entries for s in replica.given.snapshots if facts.kind == "snapshot" and s.offset < base
                ),
                "cleaning_known": policy_history_known(context) or replica.copied.cleaner_offsets,
                "aborted_unlisted": facts.aborted_unlisted,
                "aborted_unmarked": facts.aborted_unmarked,
                **capture(context, replica),
            }
        )
    return rows
