from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_CLOCKS_APART_MS: Final = 300_000
"""Machines whose clocks nobody keeps in step are minutes apart before anybody notices."""
_BY_TIME: Final = line(f"""
    (retention_ms >= 0 AND coalesce(removed_newest_at_ms <= captured_at_ms + {_CLOCKS_APART_MS} - retention_ms, FALSE))
""")
_BY_SIZE: Final = "(retention_bytes >= 0 AND largest_size_bytes >= retention_bytes)"
_UNEXPLAINED: Final = line(f"""
    removed_start_offset IS NOT NULL AND NOT log_start_in_segment AND NOT coalesce(deleted_by_request, FALSE)
    AND NOT {_BY_TIME} AND NOT {_BY_SIZE}
""")

INVARIANT = Invariant(
    code="C06",
    key="RETENTION_NOT_EARLY",
    name="RetentionNotEarly",
    severity=Severity.CRITICAL,
    relation="upkeep_changes",
    statement=line("""
        What a log lost at its head since the earlier snapshot went by retention.ms, retention.bytes or DeleteRecords.
    """),
    because=line("""
        Records that were to be kept longer are gone. A broker whose clock runs ahead, a segment whose timestamps are
        wrong, or a hand on the files deletes without anybody noticing: no metric counts it.
    """),
    applies_when="NOT remote_storage_enable",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_UNEXPLAINED}"),
        Unknown(reason="log dir replaced", evidence=None, when=f"directory_replaced AND {_UNEXPLAINED}"),
        Unknown(reason="setting not known", evidence=Evidence.SETTINGS, when=f"NOT retention_known AND {_UNEXPLAINED}"),
        Unknown(
            reason="history of the setting not known",
            evidence=Evidence.METADATA_LOG_START,
            when=f"NOT retention_history_known AND {_UNEXPLAINED}",
        ),
        # The cleaner has made the log smaller since the deletion, so its size tells nothing of that moment.
        Unknown(reason="compacted", evidence=None, when=f"compacted AND retention_bytes >= 0 AND {_UNEXPLAINED}"),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"NOT broker_quiet AND NOT checkpointed_log_start AND {_UNEXPLAINED}",
        ),
        Unknown(
            reason="the instant of the capture is not known",
            evidence=Evidence.INSTANTS,
            when=f"retention_ms >= 0 AND captured_at_ms IS NULL AND {_UNEXPLAINED}",
        ),
        Unknown(
            reason="timestamps not known",
            evidence=Evidence.INSTANTS,
            when=f"retention_ms >= 0 AND removed_newest_at_ms IS NULL AND {_UNEXPLAINED}",
        ),
        # DeleteRecords up to the log's end leaves a new, empty segment there, as retention does that takes everything.
        Unknown(
            reason="deleted as a whole",
            evidence=None,
            when=f"removed_end_offset >= previous_log_end_offset AND {_UNEXPLAINED}",
        ),
        # The broker itself moved the log start, as retention makes it do and a request; only a follower that is ahead
        # of its leader cannot have heard of a request.
        Unknown(
            reason="DeleteRecords up to a segment's base leaves the same",
            evidence=None,
            when=f"deletion_by_request_possible AND {_UNEXPLAINED}",
        ),
    ),
    breach_when=_UNEXPLAINED,
    derived=(
        ("for_ever", "CASE WHEN retention_ms < 0 THEN 'forever' END"),
        ("kept_ms", "CASE WHEN retention_ms >= 0 THEN retention_ms END"),
        ("kept_bytes", "CASE WHEN retention_bytes >= 0 THEN retention_bytes END"),
        ("last_removed_offset", "removed_end_offset - 1"),
        ("epochs_begin_at", "CASE WHEN epochs_start_offset < removed_end_offset THEN epochs_start_offset END"),
        (
            "leader_begins_at",
            "CASE WHEN leader_log_start_offset < removed_end_offset THEN leader_log_start_offset END",
        ),
    ),
    evidence=(
        "previous_snapshot_id",
        "previous_log_start_offset",
        "log_start_offset",
        "removed_newest_at_ms",
        "captured_at_ms",
        "retention_ms",
        "retention_bytes",
        "largest_size_bytes",
        "checkpointed_log_start",
    ),
    explanation=lines("""
        In snapshot {previous_snapshot_id} broker {broker_id} held {topic}-{partition} from {previous_log_start_offset}
          on; now its log starts at {log_start_offset}.
        Offsets {removed_start_offset}..{last_removed_offset} are gone; the newest of these records is of
          {removed_newest_at_ms}.
        The topic keeps records {for_ever}.
        retention.ms is {kept_ms} and was no smaller then: by {captured_at_ms} they were not old enough.
        retention.bytes is {kept_bytes}: the largest replica has only {largest_size_bytes} bytes left, so size did not
          ask for it.
        leader-epoch-checkpoint still begins at {epochs_begin_at}: the broker has not moved the log start, so neither
          retention nor a request did; somebody took the files.
        Its leader's log starts at {leader_begins_at}: no request to delete has come that way.
    """),
    start_offset="removed_start_offset",
    end_offset="removed_end_offset",
    records="removed_end_offset - removed_start_offset",
    next=line("""
        tidegauge salvage <snapshot {previous_snapshot_id}> --topic {topic} --partition {partition} --from
        {removed_start_offset} --to {removed_end_offset} --out salvaged
    """),
    one_event_on_all_replicas=True,
    points_to="retention",
    reference="UnifiedLog#deleteOldSegments, UnifiedLog#deletableSegments; KafkaAdminClient#deleteRecords",
)
