"""Family C, retention: what should be gone and is there, what is gone and should be there.

In: the columns of `upkeep` and `upkeep_changes`. Out: invariants C04 to C06. The rules that must hold here: a setting
that rests on Kafka's default, where a broker's properties file may say otherwise, decides nothing; and what was done is
judged by the settings of then, which may have been changed and put back.
"""

from typing import Final

from expectations.catalogue.lacking import POLICY_UNTOLD
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_STOPPED: Final = "(clean_shutdown OR NOT broker_alive)"
_GRACE_MS: Final = 60_000
"""What is due is done by a thread that runs once in a check interval, and it takes its time."""

LOG_START_VS_SEGMENTS = Invariant(
    code="C04",
    key="LOG_START_VS_SEGMENTS",
    name="LogStartInFirstSegment",
    severity=Severity.INFO,
    relation="upkeep",
    statement="The log start lies in the first segment: segments wholly below it go within a check interval.",
    because=(
        "Below the log start nobody can read. Segments that stay there are deleted data that are still on the disk: "
        "the thread that deletes is stuck, or its broker cannot delete files."
    ),
    applies_when="NOT remote_storage_enable AND first_base_offset IS NOT NULL",
    unknown=(
        Unknown(reason="broker stopped", evidence=None, when=f"segments_below_log_start > 0 AND {_STOPPED}"),
        Unknown(
            reason="since when is not known",
            evidence=Evidence.INSTANTS,
            when="segments_below_log_start > 0 AND below_log_start_since_ms IS NULL",
        ),
    ),
    breach_when=(
        "segments_below_log_start > 0 AND "
        f"coalesce(below_log_start_since_ms, 0) > retention_check_interval_ms + {_GRACE_MS}"
    ),
    evidence=(
        "log_start_offset",
        "first_base_offset",
        "segments_below_log_start",
        "below_log_start_since_ms",
        "retention_check_interval_ms",
    ),
    start_offset="first_base_offset",
    end_offset="log_start_offset",
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset}, its first segment at "
        "{first_base_offset}.",
        "{segments_below_log_start} whole segments lie below the log start, and did so {below_log_start_since_ms} ms "
        "ago, in the earlier snapshot.",
        "The broker looks for such segments every {retention_check_interval_ms} ms.",
    ),
    next="grep 'kafka-log-retention\\|Failed to delete' <broker {broker_id}'s server.log>",
    points_to="retention",
    reference="UnifiedLog#deleteLogStartOffsetBreachedSegments, LogManager#cleanupLogs",
)

_UNTOLD: Final = "overdue_segments IS NULL AND cleanup_policy LIKE '%delete%'"
_WHEN_NOT_KNOWN: Final = f"({_UNTOLD} AND captured_at_ms IS NULL)"
_MARK_NOT_KNOWN: Final = f"({_UNTOLD} AND high_watermark IS NULL)"

RETENTION_HELD = Invariant(
    code="C05",
    key="RETENTION_HELD",
    name="RetentionHeld",
    severity=Severity.INFO,
    relation="upkeep",
    statement="No closed segment below the high watermark outlives retention.ms or retention.bytes by more than a "
    "check interval.",
    because=(
        "What should have been deleted is still there: the disk fills, and data that must not be kept any longer are."
    ),
    applies_when=f"(overdue_segments IS NOT NULL OR {_WHEN_NOT_KNOWN} OR {_MARK_NOT_KNOWN} OR {POLICY_UNTOLD}) "
    "AND NOT remote_storage_enable",
    unknown=(
        Unknown(reason="policy not known", evidence=Evidence.METADATA_LOG, when=POLICY_UNTOLD),
        Unknown(reason="the instant of the capture is not known", evidence=Evidence.INSTANTS, when=_WHEN_NOT_KNOWN),
        Unknown(reason="high watermark not checkpointed", evidence=Evidence.CHECKPOINT, when=_MARK_NOT_KNOWN),
        Unknown(reason="broker stopped", evidence=None, when=f"overdue_segments > 0 AND {_STOPPED}"),
        Unknown(
            reason="setting not known", evidence=Evidence.SETTINGS, when="overdue_segments > 0 AND NOT retention_known"
        ),
        Unknown(
            reason="history of the setting not known",
            evidence=Evidence.METADATA_LOG_START,
            when="overdue_segments > 0 AND NOT retention_history_known",
        ),
    ),
    breach_when="overdue_segments > 0",
    derived=(
        ("limit_ms", "CASE WHEN overdue_by = 'time' THEN retention_ms END"),
        ("limit_bytes", "CASE WHEN overdue_by = 'size' THEN retention_bytes END"),
    ),
    evidence=(
        "overdue_segments",
        "overdue_by",
        "overdue_since_at_ms",
        "retention_ms",
        "retention_bytes",
        "size_bytes",
        "captured_at_ms",
    ),
    start_offset="log_start_offset",
    end_offset="overdue_end_offset",
    explanation=(
        "The first {overdue_segments} segments of broker {broker_id}'s {topic}-{partition}, up to offset "
        "{overdue_end_offset}, should have been deleted; their newest record is of {overdue_since_at_ms}.",
        "retention.ms is {limit_ms}, the snapshot was taken at {captured_at_ms}.",
        "retention.bytes is {limit_bytes}, the log has {size_bytes} bytes.",
        "Since they were due no larger limit was in force.",
        "Records with timestamps in the future hold back a segment and those behind it; none does here.",
    ),
    next="bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic} "
    "--all",
    points_to="retention",
    reference="UnifiedLog#deleteRetentionMsBreachedSegments, UnifiedLog#deleteRetentionSizeBreachedSegments",
)

_CLOCKS_APART_MS: Final = 300_000
"""Machines whose clocks nobody keeps in step are minutes apart before anybody notices."""
_BY_TIME: Final = (
    "(retention_ms >= 0 AND "
    f"coalesce(removed_newest_at_ms <= captured_at_ms + {_CLOCKS_APART_MS} - retention_ms, FALSE))"
)
_BY_SIZE: Final = "(retention_bytes >= 0 AND largest_size_bytes >= retention_bytes)"
_UNEXPLAINED: Final = (
    "removed_start_offset IS NOT NULL AND NOT log_start_in_segment AND NOT coalesce(deleted_by_request, FALSE) "
    f"AND NOT {_BY_TIME} AND NOT {_BY_SIZE}"
)

RETENTION_NOT_EARLY = Invariant(
    code="C06",
    key="RETENTION_NOT_EARLY",
    name="RetentionNotEarly",
    severity=Severity.CRITICAL,
    relation="upkeep_changes",
    statement="What a log lost at its head since the earlier snapshot went by retention.ms, retention.bytes or "
    "DeleteRecords.",
    because=(
        "Records that were to be kept longer are gone. A broker whose clock runs ahead, a segment whose timestamps are "
        "wrong, or a hand on the files deletes without anybody noticing: no metric counts it."
    ),
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
        ("for_ever", "CASE WHEN retention_ms < 0 THEN 'for ever' END"),
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
    start_offset="removed_start_offset",
    end_offset="removed_end_offset",
    records="removed_end_offset - removed_start_offset",
    explanation=(
        "In snapshot {previous_snapshot_id} broker {broker_id} held {topic}-{partition} from "
        "{previous_log_start_offset} on; now its log starts at {log_start_offset}.",
        "Offsets {removed_start_offset}..{last_removed_offset} are gone; the newest of these records is of "
        "{removed_newest_at_ms}.",
        "The topic keeps records {for_ever}.",
        "retention.ms is {kept_ms} and was no smaller then: by {captured_at_ms} they were not old enough.",
        "retention.bytes is {kept_bytes}: the largest replica has only {largest_size_bytes} bytes left, so size did "
        "not ask for it.",
        "leader-epoch-checkpoint still begins at {epochs_begin_at}: the broker has not moved the log start, so neither "
        "retention nor a request did; somebody took the files.",
        "Its leader's log starts at {leader_begins_at}: no request to delete has come that way.",
    ),
    next="tidegauge salvage <snapshot {previous_snapshot_id}> --topic {topic} --partition {partition} --from "
    "{removed_start_offset} --to {removed_end_offset} --out salvaged",
    points_to="retention",
    one_event_on_all_replicas=True,
    reference="UnifiedLog#deleteOldSegments, UnifiedLog#deletableSegments; KafkaAdminClient#deleteRecords",
)
