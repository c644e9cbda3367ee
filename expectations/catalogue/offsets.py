"""Invariants about a replica's offsets: log start, last stable offset, high watermark, log end (family C).

In: rows of `replicas`. The rule that must hold here: a checkpoint is minutes or seconds old, so it bounds the true
value from below; only what contradicts it in spite of its age is a breach.
"""

from typing import Final

from expectations.catalogue.diagnoses import CUT_OR_LOST, LOST_ITS_TAIL, ROTTED_TOO, TORN_ALONE
from expectations.catalogue.lacking import LOG_START_UNTOLD
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_SKEWED: Final = "NOT broker_quiet AND NOT coalesce(checkpoint_older_than_log, false)"
"""The checkpoint may be younger than the copy of the log, which then ends too early."""

_OUT_OF_ORDER: Final = """log_start_offset > log_end_offset
        OR (high_watermark IS NOT NULL AND high_watermark > log_end_offset)
        OR (clean_shutdown AND high_watermark IS NOT NULL AND high_watermark < log_start_offset)
        OR (last_stable_offset IS NOT NULL AND max_ever_high_watermark IS NOT NULL
            AND last_stable_offset > max_ever_high_watermark)"""

OFFSET_ORDER = Invariant(
    code="C01",
    key="OFFSET_ORDER",
    name="OffsetsInOrder",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="On every replica log start <= last stable offset <= high watermark <= log end.",
    because="Each of these is a promise about the one after it. Where the log ends below its high watermark, records "
    "that "
    "were declared committed are gone from this replica; where it ends below its log start, Kafka deletes the whole "
    "log on start.",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"{_SKEWED} AND (log_start_offset > log_end_offset OR high_watermark > log_end_offset)",
        ),
        Unknown(
            reason="high watermark not checkpointed",
            evidence=Evidence.CHECKPOINT,
            # The metadata log's high watermark is never checkpointed: there the ends alone are judged.
            when="high_watermark IS NULL AND topic <> '__cluster_metadata' AND log_start_offset <= log_end_offset",
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"{LOG_START_UNTOLD} AND NOT ({_OUT_OF_ORDER})",
        ),
    ),
    # A high watermark is written every five seconds, and only a clean stop writes the last one: below the log start it
    # contradicts nothing on a running broker.
    breach_when=_OUT_OF_ORDER,
    derived=(
        ("missing_committed", "CASE WHEN high_watermark > log_end_offset THEN high_watermark - log_end_offset END"),
        ("start_beyond_end", "CASE WHEN log_start_offset > log_end_offset THEN log_start_offset - log_end_offset END"),
        (
            "watermark_below_start",
            "CASE WHEN clean_shutdown AND high_watermark < log_start_offset THEN log_start_offset - high_watermark END",
        ),
        (
            "stable_beyond_watermark",
            "CASE WHEN last_stable_offset > max_ever_high_watermark THEN last_stable_offset - max_ever_high_watermark "
            "END",
        ),
        ("damaged", "CASE WHEN damaged_batches > 0 THEN damaged_batches END"),
    ),
    evidence=(
        "log_start_offset",
        "last_stable_offset",
        "high_watermark",
        "log_end_offset",
        "damaged_batches",
        "elections_on_record",
    ),
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset} and ends at {log_end_offset}.",
        "{damaged} batches of it are damaged; the log ends where Kafka's recovery would cut it.",
        "Its checkpointed high watermark is {high_watermark}: {missing_committed} offsets that were declared "
        "committed lie "
        "beyond the end of this log.",
        "Its log start lies {start_beyond_end} offsets beyond its end: on start Kafka deletes the log and begins anew "
        "at {log_start_offset}.",
        "The broker stopped cleanly, so its high watermark {high_watermark} is the last one; yet it lies "
        "{watermark_below_start} below the log start, where only committed records may be removed.",
        "Its last stable offset {last_stable_offset} lies {stable_beyond_watermark} above the largest high watermark "
        "known, "
        "{max_ever_high_watermark}.",
    ),
    start_offset="CASE WHEN high_watermark > log_end_offset THEN log_end_offset END",
    end_offset="CASE WHEN high_watermark > log_end_offset THEN high_watermark END",
    next="bin/kafka-log-dirs.sh --bootstrap-server <host:port> --describe "
    "--broker-list {broker_id} --topic-list {topic}",
    points_to="lost_flush",
    diagnosis=(
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="UnifiedLog#maybeIncrementLogStartOffset, #maybeIncrementHighWatermark, "
    "LogLoader#deleteSegmentsIfLogStartGreaterThanLogEnd",
)

LOG_END_OFFSET = Invariant(
    code="C02",
    key="LEO",
    name="LogEndIsLastReadableBatch",
    severity=Severity.INFO,
    relation="replicas",
    statement="A replica's log ends after its last readable batch: none stands behind a damaged place.",
    because="Kafka's recovery cuts a log at the first place that it cannot read. Batches behind it can be read today, "
    "and "
    "are gone after the next unclean start of this broker.",
    breach_when="readable_end_offset > log_end_offset",
    derived=(("stranded", "readable_end_offset - log_end_offset"),),
    evidence=("log_end_offset", "readable_end_offset", "damaged_batches"),
    explanation=(
        "On broker {broker_id} {topic}-{partition} can be followed without a break up to {log_end_offset}.",
        "Behind the damaged place whole batches can be read again, up to {readable_end_offset}.",
        "If this broker recovers the segment after an unclean stop, it cuts the log at {log_end_offset}: {stranded} "
        "offsets go with it.",
    ),
    start_offset="log_end_offset",
    end_offset="readable_end_offset",
    next="tidegauge salvage <snapshot> --topic {topic} --partition {partition} --from {log_end_offset} --out salvaged",
    points_to="torn_write",
    diagnosis=(
        ROTTED_TOO,
        TORN_ALONE,
    ),
    reference="LogSegment#readNextOffset, LogSegment#recover",
)

LAST_STABLE_OFFSET = Invariant(
    code="C03",
    key="LSO",
    name="FirstUnstableOffsetRebuilds",
    severity=Severity.INFO,
    relation="replicas",
    statement="Replaying the whole log finds the same first open transaction as replaying from the newest producer "
    "snapshot.",
    because="A broker rebuilds its producers from the newest snapshot. If that leads elsewhere than the log itself, "
    "the last "
    "stable offset, and with it what read_committed consumers see, depends on which file the broker happens to load.",
    # Both replays know open transactions only, so the column compared is the open one.
    applies_when="snapshot_replay_possible",
    unknown=(
        Unknown(
            reason="log damaged",
            evidence=None,
            when="damaged_batches > 0 AND coalesce(open_first_unstable_offset, -1) <> "
            "coalesce(snapshot_first_unstable_offset, -1)",
        ),
        Unknown(
            reason="compacted",
            evidence=None,
            when="ever_compacted AND coalesce(open_first_unstable_offset, -1) <> "
            "coalesce(snapshot_first_unstable_offset, -1)",
        ),
        Unknown(
            reason="head of the log is gone",
            evidence=None,
            when="(log_start_offset > 0 OR local_log_start_offset > 0) "
            "AND coalesce(open_first_unstable_offset, -1) <> coalesce(snapshot_first_unstable_offset, -1)",
        ),
    ),
    breach_when="coalesce(open_first_unstable_offset, -1) <> coalesce(snapshot_first_unstable_offset, -1)",
    derived=(
        ("open_by_log", "CASE WHEN open_first_unstable_offset IS NULL THEN 'no open transaction' END"),
        ("open_by_snapshot", "CASE WHEN snapshot_first_unstable_offset IS NULL THEN 'no open transaction' END"),
    ),
    evidence=("open_first_unstable_offset", "snapshot_first_unstable_offset", "last_stable_offset", "high_watermark"),
    explanation=(
        "Read from its first batch on, {topic}-{partition} on broker {broker_id} has its first open transaction at "
        "{open_first_unstable_offset}.",
        "Read from its first batch on, {topic}-{partition} on broker {broker_id} has {open_by_log}.",
        "Read from the newest producer snapshot on, it has its first open transaction at "
        "{snapshot_first_unstable_offset}.",
        "Read from the newest producer snapshot on, it has {open_by_snapshot}.",
        "A broker that loads that snapshot computes another last stable offset than the log warrants.",
    ),
    start_offset="coalesce(open_first_unstable_offset, snapshot_first_unstable_offset)",
    next="bin/kafka-dump-log.sh --files <log.dir of broker {broker_id}>/{topic}-{partition}/<newest>.snapshot",
    points_to="derived_file",
    reference="ProducerStateManager#firstUnstableOffset, UnifiedLog#maybeIncrementFirstUnstableOffset",
)
