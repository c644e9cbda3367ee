from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import UNCLEAN_ELECTION_BESIDE
from tidegauge.expectations.invariants.shared.lacking import LOG_START_UNTOLD, OLD_LINEAGE, UNTOLD_LINEAGE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OUT_OF_RANGE: Final = line("""
    committed_offset < log_start_offset OR committed_offset > coalesce(high_watermark_upper, log_end_offset)
""")

INVARIANT = Invariant(
    code="J01",
    key="COMMITTED_IN_RANGE",
    name="CommittedOffsetInRange",
    severity=Severity.WARNING,
    relation="committed_offsets",
    statement="A group's committed offset lies between the partition's log start and its high watermark.",
    because=line("""
        A consumer that starts outside of the log gets an out-of-range error and goes where auto.offset.reset sends it:
        to the beginning, which replays, or to the end, which skips.
    """),
    # Offsets of a deleted topic are no position in anything.
    applies_when="partition_exists OR log_end_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="the partition's log was not captured",
            evidence=Evidence.BROKER,
            when="log_start_offset IS NULL OR log_end_offset IS NULL",
        ),
        OLD_LINEAGE,
        Unknown(
            reason=UNTOLD_LINEAGE.reason,
            evidence=Evidence.METADATA_LOG,
            when=f"{UNTOLD_LINEAGE.when} AND lost_from_offset IS NULL",
        ),
        Unknown(
            reason="the commit is of an earlier topic of that name",
            evidence=None,
            when=line("""
                topic_id <> metadata_topic_id AND (committed_offset < log_start_offset
                OR committed_offset > coalesce(high_watermark_upper, log_end_offset))
            """),
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # Commits copied after the log may be ahead of it; not so where a loss explains them.
            when=line("""
                NOT snapshot_quiet AND lost_from_offset IS NULL
                AND committed_offset > coalesce(high_watermark_upper, log_end_offset)
            """),
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"{LOG_START_UNTOLD} AND NOT ({_OUT_OF_RANGE})",
        ),
    ),
    breach_when=_OUT_OF_RANGE,
    severity_when=((Severity.INFO, "committed_offset < log_start_offset"),),
    derived=(
        ("missed", "CASE WHEN committed_offset < log_start_offset THEN log_start_offset - committed_offset END"),
        (
            "ahead",
            line("""
                CASE
                WHEN committed_offset > coalesce(high_watermark_upper, log_end_offset) THEN committed_offset -
                coalesce(high_watermark_upper, log_end_offset) END
            """),
        ),
        ("upper_bound", "coalesce(high_watermark_upper, log_end_offset)"),
        (
            "lost_since",
            "CASE WHEN committed_offset > coalesce(high_watermark_upper, log_end_offset) THEN lost_from_offset END",
        ),
    ),
    evidence=(
        "committed_offset",
        "log_start_offset",
        "high_watermark_upper",
        "log_end_offset",
        "committed_at_ms",
        "lost_from_offset",
    ),
    explanation=lines("""
        Group {group} committed offset {committed_offset} of {topic}-{partition} at {committed_at_ms}.
        The log starts at {log_start_offset}: retention or DeleteRecords removed {missed} offsets that the group had not
          read.
        The partition's high watermark is {upper_bound} at most, so the commit lies {ahead} offsets beyond what may be
          read.
        The group had read records that are lost from {lost_since} on.
        On its next start auto.offset.reset decides where the group goes on.
    """),
    start_offset=line("""
        CASE WHEN committed_offset < log_start_offset THEN committed_offset
        ELSE coalesce(high_watermark_upper, log_end_offset) END
    """),
    end_offset="CASE WHEN committed_offset < log_start_offset THEN log_start_offset ELSE committed_offset END",
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    points_to="retention",
    diagnosis=(UNCLEAN_ELECTION_BESIDE,),
    reference="KafkaConsumer's auto.offset.reset; nothing checks a commit (OffsetMetadataManager#commitOffset)",
)
