"""Family G over time: what the log cleaner took between two snapshots, and whether it works at all.

In: the columns of `upkeep_changes`. Out: invariants G01, G03, G05 and G09. The rule that must hold here: a key that was
deleted after the earlier snapshot may be gone with its tombstone; where the time between allows for that, or the
setting is not known, nothing is said.
"""

from typing import Final

from expectations.catalogue.compaction import NO_PAYLOAD, UNREADABLE
from expectations.catalogue.diagnoses import MARKER_LOST, NOBODY_ENDS_IT, PARTITION_NEVER_ADDED
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_COMPARED: Final = "coalesce(key_incomparable_reason, '') NOT IN ('not compacted', 'no common range')"
_NO_TIME: Final = Unknown(
    reason="instants not known", evidence=Evidence.INSTANTS, when="key_incomparable_reason = 'instants not known'"
)
_STALLED_MS: Final = 900_000
"""A cleaner thread comes by every 15 seconds, and may be busy with other logs for minutes."""

LATEST_PER_KEY_KEPT = Invariant(
    code="G01",
    key="LATEST_PER_KEY_KEPT",
    name="LatestPerKeyKept",
    severity=Severity.CRITICAL,
    relation="upkeep_changes",
    statement="Each key's last committed record of the earlier snapshot is there as it was, unless a newer one "
    "replaces it or it is deleted.",
    because=(
        "That is all that a compacted topic promises. A key that is gone without a tombstone is a row that is missing "
        "from every table that is built from the topic from now on."
    ),
    applies_when=_COMPARED,
    unknown=(
        NO_PAYLOAD,
        UNREADABLE,
        _NO_TIME,
        Unknown(reason="log damaged", evidence=None, when="damaged AND (keys_lost > 0 OR keys_changed > 0)"),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND keys_lost > 0 AND keys_changed = 0",
        ),
        Unknown(
            reason="a deletion may have come and gone",
            evidence=None,
            when="tombstone_may_have_passed AND keys_lost > 0 AND keys_changed = 0",
        ),
    ),
    breach_when="keys_lost > 0 OR keys_changed > 0",
    derived=(
        ("lost", "CASE WHEN keys_lost > 0 THEN keys_lost END"),
        ("changed", "CASE WHEN keys_changed > 0 THEN keys_changed END"),
    ),
    evidence=(
        "previous_snapshot_id",
        "keys_compared",
        "keys_lost",
        "first_lost_key_offset",
        "keys_changed",
        "first_changed_key_offset",
        "previous_cleaner_offset",
        "cleaner_offset",
        "elapsed_ms",
        "delete_retention_ms",
    ),
    start_offset="least(first_lost_key_offset, first_changed_key_offset)",
    records="keys_lost + keys_changed",
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition} was compared with itself in snapshot {previous_snapshot_id}, "
        "by the last committed record of each of {keys_compared} keys.",
        "{lost} of them have no record any more, neither that one nor a newer one; the first stood at offset "
        "{first_lost_key_offset}.",
        "{changed} stand at their offset with another value, the first at {first_changed_key_offset}.",
        "No deletion can have passed meanwhile: its tombstone would stay for {delete_retention_ms} ms, and only "
        "{elapsed_ms} ms lie between the two.",
        "The cleaner had come to {previous_cleaner_offset} then, and is at {cleaner_offset} now.",
    ),
    next="tidegauge salvage <snapshot {previous_snapshot_id}> --topic {topic} --partition {partition} --out salvaged",
    implies=("G07",),
    points_to="cleaner_bug",
    one_event_on_all_replicas=True,
    reference="Cleaner#shouldRetainRecord; KAFKA-6834, KAFKA-9826",
)

TOMBSTONE_HORIZON = Invariant(
    code="G03",
    key="TOMBSTONE_HORIZON",
    name="TombstoneKeptUntilHorizon",
    severity=Severity.WARNING,
    relation="upkeep_changes",
    statement="A tombstone stays until its batch's delete horizon, or delete.retention.ms at least.",
    because=(
        "A consumer that began to read before the deletion must meet the tombstone before it is done. One that does "
        "not keeps the deleted key for ever."
    ),
    applies_when=_COMPARED,
    unknown=(
        NO_PAYLOAD,
        UNREADABLE,
        _NO_TIME,
        Unknown(reason="log damaged", evidence=None, when="damaged AND early_tombstones > 0"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT broker_quiet AND early_tombstones > 0"),
    ),
    breach_when="early_tombstones > 0",
    evidence=(
        "previous_snapshot_id",
        "early_tombstones",
        "first_early_tombstone_offset",
        "early_tombstone_due_at_ms",
        "captured_at_ms",
        "delete_retention_ms",
    ),
    start_offset="first_early_tombstone_offset",
    records="early_tombstones",
    explanation=(
        "In snapshot {previous_snapshot_id} broker {broker_id}'s log of {topic}-{partition} held {early_tombstones} "
        "tombstones that are gone now, with nothing newer of their keys.",
        "The first stood at offset {first_early_tombstone_offset} and was to stay until {early_tombstone_due_at_ms}; "
        "this snapshot is of {captured_at_ms}.",
    ),
    next="bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic} "
    "--all | grep delete.retention.ms",
    points_to="cleaner_bug",
    reference="MemoryRecords#filterTo, Cleaner#checkBatchRetention; KIP-534",
)

_END_LOST: Final = (
    "coalesce(last_batch_end_offset, 0) < log_end_offset AND cleaner_offset >= log_end_offset "
    "AND log_start_offset < log_end_offset"
)

LAST_BATCH_KEPT = Invariant(
    code="G05",
    key="LAST_BATCH_KEPT",
    name="LastBatchKept",
    severity=Severity.WARNING,
    relation="upkeep_changes",
    statement="Where the cleaner has come to the end of a log, the log's last batch is still there, be it empty.",
    because=(
        "Only that batch tells where the log ends. A follower that copies the log without it ends at a lower offset "
        "than its leader, and never gets into the ISR."
    ),
    applies_when="compacted AND cleaner_offset IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_END_LOST}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_END_LOST}"),
        Unknown(
            reason="written by a release before 4.0",
            evidence=None,
            when=f"NOT coalesce(keeps_last_batch, FALSE) AND {_END_LOST}",
        ),
    ),
    breach_when=_END_LOST,
    evidence=(
        "previous_snapshot_id",
        "previous_log_end_offset",
        "log_end_offset",
        "last_batch_end_offset",
        "cleaner_offset",
        "cleaned_by_release",
    ),
    start_offset="last_batch_end_offset",
    end_offset="log_end_offset",
    explanation=(
        "Broker {broker_id} has cleaned {topic}-{partition} up to {cleaner_offset}, which is where its log ends "
        "({log_end_offset}, by the active segment's name).",
        "The last batch on its disk ends at {last_batch_end_offset}.",
        "It runs Kafka {cleaned_by_release}, whose cleaner keeps the last batch.",
        "In snapshot {previous_snapshot_id} the log ended at {previous_log_end_offset}.",
    ),
    next="kafka-dump-log.sh --files <log.dir of broker {broker_id}>/{topic}-{partition}/<last segments>.log",
    points_to="cleaner_bug",
    reference="Cleaner#checkBatchRetention; KAFKA-17076, KAFKA-20452",
)

_STALLED: Final = (
    "coalesce(cleaner_offset, 0) = coalesce(previous_cleaner_offset, 0) AND dirty_bytes > previous_dirty_bytes "
    f"AND previous_dirty_permille > cleanable_permille AND dirty_permille > cleanable_permille "
    f"AND elapsed_ms >= {_STALLED_MS}"
)

CLEANER_PROGRESS = Invariant(
    code="G09",
    key="CLEANER_PROGRESS",
    name="CleanerMakesProgress",
    severity=Severity.WARNING,
    relation="upkeep_changes",
    statement="A log that is dirty enough to be cleaned, and grows, is cleaned.",
    because=(
        "A cleaner thread that has died, or that a transaction without an end holds back, tells nobody: the log grows "
        "until the disk is full or a coordinator takes an hour to load it."
    ),
    applies_when="compacted AND dirty_permille IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_STALLED}"),
        Unknown(reason="broker stopped", evidence=None, when=f"NOT broker_alive AND {_STALLED}"),
        Unknown(reason="setting not known", evidence=Evidence.SETTINGS, when=f"NOT cleanable_known AND {_STALLED}"),
        Unknown(reason="compaction lag", evidence=None, when=f"compaction_lag_ms >= elapsed_ms AND {_STALLED}"),
    ),
    breach_when=_STALLED,
    derived=(("held_since", "open_first_offset"),),
    evidence=(
        "previous_snapshot_id",
        "elapsed_ms",
        "previous_cleaner_offset",
        "cleaner_offset",
        "previous_dirty_bytes",
        "dirty_bytes",
        "clean_bytes",
        "previous_dirty_permille",
        "dirty_permille",
        "cleanable_permille",
        "open_first_offset",
    ),
    start_offset="cleaner_offset",
    explanation=(
        "In {elapsed_ms} ms since snapshot {previous_snapshot_id} the cleaner of broker {broker_id} did not move on in "
        "{topic}-{partition}.",
        "{previous_dirty_bytes} bytes in closed segments were dirty then, {dirty_bytes} are now: {dirty_permille} of a "
        "thousand, and cleaning is due above {cleanable_permille}.",
        "A transaction has been open since offset {held_since}: nothing from there on can be cleaned.",
    ),
    next="grep -i 'log-cleaner\\|uncleanable' <broker {broker_id}'s log-cleaner.log>",
    points_to="cleaner_bug",
    diagnosis=(
        MARKER_LOST,
        PARTITION_NEVER_ADDED,
        NOBODY_ENDS_IT,
    ),
    reference="LogCleanerManager#grabFilthiestCompactedLog, LogCleaner.CleanerThread",
)
