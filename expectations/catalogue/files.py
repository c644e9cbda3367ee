"""Family A, segment files: how the files of one log fit together, and whose log it is.

In: the columns of `segments` and `replicas`. Out: invariants A11 to A13, A16, A18 and A19. The rule that must hold
here: what cleaning, tiering and the deletion of topics do to a sound directory is no breach.
"""

from typing import Final

from expectations.catalogue.diagnoses import BASE_OFFSET_ROTTED, IDENTITY_OF_ANOTHER, OFFSETS_LOST_ALONE
from expectations.catalogue.lacking import NO_METADATA_LOG
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_COPIED_DURING_A_SWAP: Final = "NOT broker_quiet AND ever_compacted"
"""The cleaner replaces segments by renaming files: a copy that takes a while may hold old and new ones side by side."""

SEGMENT_RELATIVE_RANGE = Invariant(
    code="A11",
    key="SEGMENT_RELATIVE_RANGE",
    name="SegmentRelativeRange",
    severity=Severity.WARNING,
    relation="segments",
    statement="A segment's offsets lie at or above the offset in its name, by at most 2147483647.",
    because=(
        "Indexes store offsets as 4-byte distances from the name. What lies outside cannot be indexed, and the broker "
        "refuses to load or roll such a segment."
    ),
    applies_when="batch_count > 0",
    breach_when="first_offset < base_offset OR last_offset - base_offset > 2147483647",
    derived=(
        ("below_name_offset", "CASE WHEN first_offset < base_offset THEN first_offset END"),
        ("span", "CASE WHEN last_offset - base_offset > 2147483647 THEN last_offset - base_offset END"),
    ),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    evidence=("base_offset", "first_offset", "last_offset"),
    explanation=(
        "{path} says in its name that it begins at offset {base_offset}; its batches reach from {first_offset} to "
        "{last_offset}.",
        "Offset {below_name_offset} lies below the name: a lookup for it goes to the segment before this one.",
        "The last offset is {span} above the name, more than an index entry can express.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("A13",),
    points_to="cleaner_bug",
    diagnosis=(BASE_OFFSET_ROTTED,),
    reference="LogSegment#ensureOffsetInRange, LogLoader#retryOnOffsetOverflow; KAFKA-5413, KAFKA-6264",
)

SEGMENTS_DISJOINT = Invariant(
    code="A12",
    key="SEGMENTS_DISJOINT",
    name="SegmentsDisjoint",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="A segment's offsets end below the offset in the next segment's name.",
    because=(
        "A lookup goes to the last segment whose name is not above the offset. Where two overlap, a reader meets some "
        "offsets twice, or in two versions."
    ),
    applies_when="previous_last_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"previous_last_offset >= base_offset AND {_COPIED_DURING_A_SWAP}",
        ),
    ),
    breach_when="previous_last_offset >= base_offset",
    start_offset="base_offset",
    end_offset="previous_last_offset + 1",
    records="previous_last_offset + 1 - base_offset",
    evidence=("base_offset", "previous_last_offset", "first_offset", "last_offset"),
    explanation=(
        "{path} begins at offset {base_offset} by its name.",
        "The segments before it reach offset {previous_last_offset}: both claim the offsets from {base_offset} to "
        "{previous_last_offset}.",
        "A cleaner's swap was interrupted, or the directory was put together from two copies.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("A04", "E04"),
    points_to="restored_files",
    diagnosis=(OFFSETS_LOST_ALONE,),
    reference="LocalLog#roll, LocalLog#replaceSegments, LogLoader#completeSwapOperations",
)

NO_OFFSET_GAP = Invariant(
    code="A13",
    key="NO_OFFSET_GAP",
    name="NoOffsetGap",
    severity=Severity.CRITICAL,
    relation="segments",
    statement=("In a log that was never cleaned, each batch begins right behind the last offset of the one before."),
    because=(
        "A leader gives out every offset once. Only cleaning leaves holes, and a remote tier takes away only a log's "
        "head; any other hole is records that are no "
        "longer "
        "there. No broker looks: a follower copies the hole from its leader."
    ),
    applies_when="batch_count > 0 AND NOT ever_compacted",
    unknown=(
        # The segment before was the active one when it was copied, and grew on before it was rolled.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND is_active AND offset_gaps = 1 AND first_offset = base_offset "
            "AND previous_last_offset + 1 < base_offset",
        ),
        # A follower whose leader has no longer what it lacks begins anew behind what is in the tier.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND remote_storage_enable AND offset_gaps > 0",
        ),
        # It may have been compacted once, and moved here since: the holes came along, the cleaner's checkpoint did not.
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="NOT policy_history_known AND offset_gaps > 0 AND coalesce(gaps_held_elsewhere, 0) = 0",
        ),
    ),
    breach_when="offset_gaps > 0",
    derived=(
        (
            "hole_start_offset",
            "CASE WHEN offset_gaps = 1 AND previous_last_offset + 1 < first_offset THEN previous_last_offset + 1 END",
        ),
        ("never", "CASE WHEN coalesce(policy_history_known, TRUE) THEN 'never' END"),
        ("proven", "CASE WHEN gaps_held_elsewhere > 0 THEN gaps_held_elsewhere END"),
    ),
    start_offset=(
        "CASE WHEN offset_gaps = 1 AND previous_last_offset + 1 < first_offset THEN previous_last_offset + 1 END"
    ),
    end_offset="CASE WHEN offset_gaps = 1 AND previous_last_offset + 1 < first_offset THEN first_offset END",
    records="missing_offsets",
    evidence=("offset_gaps", "missing_offsets", "previous_last_offset", "first_offset"),
    details=("offset_gap",),
    explanation=(
        "In {path} {missing_offsets} offsets are missing, in {offset_gaps} gaps.",
        "The segments before it end at {previous_last_offset}, its first batch begins at {first_offset}: "
        "nothing holds the offsets from {hole_start_offset} on.",
        "The topic was {never} compacted, so nothing that Kafka does took them away.",
        "In {proven} of the gaps another replica holds batches: no cleaner took them away.",
    ),
    next="kafka-dump-log.sh --files {path} | grep baseOffset",
    implies=(
        "A15",
        "B02",
        "B11",
        "B14",
        "D02",
        "D07",
        "D20",
        "E01",
    ),
    points_to="lost_batch",
    diagnosis=(OFFSETS_LOST_ALONE,),
    reference="UnifiedLog#append assigns offsets without holes; followers accept any offset at or above their end",
)

CLEAN_STOP_NO_TORN_TAIL = Invariant(
    code="A16",
    key="CLEAN_STOP_NO_TORN_TAIL",
    name="CleanStopNoTornTail",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="After a clean stop every segment reads to its last byte and every checksum is right.",
    because=(
        "The broker flushes and closes all logs before it writes .kafka_cleanshutdown, and at the next start it "
        "trusts that "
        "file: it recovers nothing, and serves the damage."
    ),
    applies_when="clean_shutdown",
    breach_when="length_errors > 0 OR crc_errors > 0",
    evidence=("clean_shutdown", "length_errors", "crc_errors", "size_bytes", "valid_bytes"),
    details=("length", "torn_tail", "crc"),
    explanation=(
        "Broker {broker_id} left .kafka_cleanshutdown: all its logs were flushed and closed before that.",
        "{path} has {length_errors} breaks in its chain of batches and {crc_errors} failing checksums all the same.",
        "So the bytes changed after the stop, the file system lost writes it had confirmed, or the copy was made "
        "while the broker ran.",
        "At its next start this broker will not recover the log, and so not notice.",
    ),
    next="kafka-dump-log.sh --files {path} | tail -n 3",
    points_to="lost_flush",
    reference="LogManager#shutdown, CleanShutdownFileHandler, LogLoader#recoverLog",
)

TOPIC_ID_MATCH = Invariant(
    code="A18",
    key="TOPIC_ID_MATCH",
    name="TopicIdMatch",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="A replica's partition.metadata names the topic id that the metadata log gives its topic.",
    because=(
        "A topic that was deleted and created again has its name and another id. A directory with the old id holds "
        "the old "
        "topic's records under the new one's name; the broker refuses to use it."
    ),
    unknown=(
        Unknown(reason="no partition.metadata", evidence=Evidence.REPLICA, when="topic_id IS NULL"),
        NO_METADATA_LOG,
        Unknown(
            reason="topic not in the metadata log",
            evidence=Evidence.METADATA_LOG,
            when="metadata_topic_id IS NULL AND topic <> '__cluster_metadata'",
        ),
        Unknown(
            reason="the broker was down when the topic was deleted",
            evidence=None,
            when="topic_id <> metadata_topic_id AND topic_id_deleted AND NOT broker_alive",
        ),
        Unknown(
            # A broker that was just started, or cut off, deletes the directory when it has caught up with the metadata.
            reason="the broker may not have heard of the deletion when it was copied",
            evidence=None,
            when="topic_id <> metadata_topic_id AND topic_id_deleted AND NOT broker_quiet",
        ),
    ),
    breach_when=(
        "topic_id <> CASE WHEN topic = '__cluster_metadata' THEN 'AAAAAAAAAAAAAAAAAAAAAQ' ELSE metadata_topic_id END"
    ),
    evidence=("topic_id", "metadata_topic_id", "log_dir", "log_start_offset", "log_end_offset"),
    explanation=(
        "Broker {broker_id}'s directory of {topic}-{partition} says that it belongs to topic id {topic_id}.",
        "In the metadata log {topic} has the id {metadata_topic_id}.",
        "Its offsets from {log_start_offset} to {log_end_offset} are another topic's: none of them may be served as "
        "{topic}'s.",
    ),
    next="kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic {topic}",
    implies=("D02", "D03", "D05", "D06", "D07", "D10", "D14", "D15"),
    points_to="stale_disk",
    diagnosis=(IDENTITY_OF_ANOTHER,),
    reference="UnifiedLog#initializeTopicId (InconsistentTopicIdException); KIP-516, KAFKA-14616, KAFKA-16814",
)

_TOO_LARGE: Final = (
    "size_bytes > segment_limit_bytes AND batch_count > 1 AND NOT ever_compacted AND NOT "
    "coalesce(segment_limit_changed_at_ms > max_timestamp_ms, FALSE)"
)

SEGMENT_SIZE = Invariant(
    code="A19",
    key="SEGMENT_SIZE",
    name="SegmentSizeWithinLimit",
    severity=Severity.INFO,
    relation="segments",
    statement="A segment of more than one batch is no larger than segment.bytes.",
    because=(
        "A broker rolls the log before an append that would not fit. A larger segment was written under another "
        "setting than the one in force, or put together by something else than a broker."
    ),
    applies_when="batch_count > 0 AND segment_limit_bytes IS NOT NULL",
    unknown=(
        Unknown(
            reason="setting not known", evidence=Evidence.SETTINGS, when=f"NOT segment_limit_known AND {_TOO_LARGE}"
        ),
        Unknown(
            reason="history of the setting not known",
            evidence=Evidence.METADATA_LOG_START,
            when=f"NOT segment_limit_history_known AND {_TOO_LARGE}",
        ),
    ),
    breach_when=_TOO_LARGE,
    evidence=("size_bytes", "segment_limit_bytes", "batch_count", "largest_batch_bytes", "segment_limit_changed_at_ms"),
    explanation=(
        "{path} has {size_bytes} bytes in {batch_count} batches; segment.bytes is {segment_limit_bytes}, and was never "
        "more.",
        "It was last set at {segment_limit_changed_at_ms}.",
        "Segments of one batch, and those that a cleaner merged, are allowed for.",
    ),
    next="bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic}",
    points_to="configuration",
    reference="LogSegment#shouldRoll, UnifiedLog#maybeRoll",
)
