"""Family B, checkpoints: leader epochs, high watermark, recovery point and log start against the log.

In: the columns of `checkpoint_files`, `replicas` and `epoch_spans`. Out: invariants B12 to B18. The rule that must
hold here: a checkpoint lags behind the broker's memory by up to a minute, so only what contradicts the log in spite of
that is a breach; leader epochs alone are written before the batches they speak of.
"""

from typing import Final

from expectations.catalogue.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    HEADER_ROTTED_ALONE,
    LOST_ITS_TAIL,
    WRONG_AT_THE_LEADER,
)
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_MAY_BE_NEWER_THAN_THE_LOG: Final = "NOT broker_quiet AND NOT coalesce(checkpoint_older_than_log, false)"
"""A checkpoint read before the log cannot exceed it; read after it, or at an unknown time, it can."""

_ENTRY_WITHOUT_BATCHES: Final = (
    "start_offset IS NULL AND NOT ever_compacted AND checkpoint_start_offset >= log_start_offset "
    "AND checkpoint_start_offset >= coalesce(first_batch_offset, log_end_offset) "
    "AND checkpoint_start_offset < log_end_offset"
)
"""An epoch that should have batches here: not at the log end (a leader that wrote nothing), not below what is kept."""

_UNLISTED: Final = "checkpoint_start_offset IS NULL AND later_checkpoint_start_offset IS NULL"
"""A live capture reads leader-epoch-checkpoint before the log and again behind it: an epoch may begin in between."""

_LOG_START_MAY_LAG: Final = "(NOT coalesce(clean_shutdown, false) OR topic = '__cluster_metadata')"
"""The log start is checkpointed once a minute and at a clean stop; the metadata log's not at all."""

_NOT_COPIED: Final = Unknown(
    reason="leader-epoch-checkpoint not copied",
    evidence=Evidence.CHECKPOINT,
    when="NOT coalesce(epoch_checkpoints_copied, true)",
)

_FIRST_ENTRY_ABOVE_LOG_START: Final = (
    "is_first_entry AND checkpoint_start_offset > start_offset AND checkpoint_start_offset > log_start_offset"
)

EPOCH_CHECKPOINT_FORM = Invariant(
    code="B12",
    key="EPOCH_CHECKPOINT_FORM",
    name="LeaderEpochCheckpointForm",
    severity=Severity.WARNING,
    relation="checkpoint_files",
    statement=(
        "A leader-epoch-checkpoint is empty, or says version 0, a count, and as many lines of epoch and start offset."
    ),
    because=(
        "A broker refuses one that it cannot read, and reads one that was cut to its first line as no epochs at "
        "all: its "
        "next truncation falls back to the high watermark."
    ),
    applies_when="kind = 'leader-epoch-checkpoint' AND present",
    breach_when="NOT readable OR (NOT empty AND coalesce(declared_entries, -1) <> entries)",
    subject=("broker_id", "topic", "partition", "path"),
    derived=(("miscounted", "CASE WHEN readable AND declared_entries <> entries THEN declared_entries END"),),
    evidence=("readable", "declared_entries", "entries", "error"),
    explanation=(
        "{path} is not a well-formed leader-epoch-checkpoint; {entries} entries could be read.",
        "It says that it has {miscounted} entries and has {entries}.",
        "Reading it fails: {error}.",
    ),
    next="cat {path}",
    implies=("B13", "B14", "B15"),
    points_to="torn_write",
    reference="CheckpointFile.CheckpointReadBuffer#read; KAFKA-16541, KIP-101",
)

EPOCH_CACHE_MONOTONIC = Invariant(
    code="B13",
    key="EPOCH_CACHE_MONOTONIC",
    name="LeaderEpochCheckpointMonotonic",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement=(
        "In a leader-epoch-checkpoint epochs and start offsets both rise from entry to entry and are never negative."
    ),
    because=(
        "The broker drops whatever a new epoch contradicts before it writes the file. Where it does not rise, the "
        "answer to "
        "where an epoch ends depends on which line is looked at, and replicas truncate to different offsets."
    ),
    applies_when="(NOT epoch_checkpoint_missing AND epoch_checkpoint_entries IS NOT NULL) "
    "OR NOT coalesce(epoch_checkpoints_copied, true)",
    unknown=(_NOT_COPIED,),
    breach_when="epoch_checkpoint_disorder > 0",
    evidence=(
        "epoch_checkpoint_entries",
        "epoch_checkpoint_disorder",
        "checkpoint_last_leader_epoch",
        "checkpoint_last_epoch_start_offset",
        "last_leader_epoch",
    ),
    explanation=(
        "{epoch_checkpoint_disorder} of the {epoch_checkpoint_entries} entries in broker {broker_id}'s "
        "leader-epoch-checkpoint "
        "of {topic}-{partition} do not rise above the entry before them, or are negative.",
        "Its last entry is epoch {checkpoint_last_leader_epoch} from offset {checkpoint_last_epoch_start_offset}.",
        "The last batch of the log is of epoch {last_leader_epoch}.",
    ),
    next="find . -path \\*/{topic}-{partition}/leader-epoch-checkpoint | xargs head -n 100",
    implies=("B14", "B15"),
    points_to="restored_files",
    reference="LeaderEpochFileCache#assign, #maybeTruncateNonMonotonicEntries; KIP-101",
)

EPOCH_CACHE_VS_LOG = Invariant(
    code="B14",
    key="EPOCH_CACHE_VS_LOG",
    name="LeaderEpochCheckpointAgreesWithLog",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement=(
        "An epoch in leader-epoch-checkpoint starts where the log's first batch of that epoch does; only the first "
        "entry may "
        "be moved up to the log start, and one at the log end may have no batch."
    ),
    because=(
        "Replicas ask one another where an epoch ends and truncate to the answer, which comes from this file. A "
        "start that is "
        "off makes them cut too much, or keep what the leader does not have."
    ),
    applies_when="checkpoint_start_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_ENTRY_WITHOUT_BATCHES}"
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"log_starts_copied IS FALSE AND {_FIRST_ENTRY_ABOVE_LOG_START} "
            "AND checkpoint_start_offset <= log_end_offset",
        ),
        Unknown(
            reason="log start not yet checkpointed",
            evidence=None,
            # A broker that died before it was has its deleted records back, for good; and who led, a newer epoch.
            when=f"({_LOG_START_MAY_LAG} OR NOT is_last_entry) AND {_FIRST_ENTRY_ABOVE_LOG_START} "
            "AND checkpoint_start_offset <= log_end_offset",
        ),
    ),
    breach_when=(
        "CASE "
        f"WHEN start_offset IS NULL THEN {_ENTRY_WITHOUT_BATCHES} "
        "WHEN checkpoint_start_offset > start_offset THEN NOT is_first_entry OR checkpoint_start_offset > "
        "log_start_offset "
        "WHEN checkpoint_start_offset < start_offset THEN NOT ever_compacted AND start_offset <> first_batch_offset "
        "ELSE false END"
    ),
    derived=(
        ("late_by", "CASE WHEN checkpoint_start_offset > start_offset THEN checkpoint_start_offset - start_offset END"),
        (
            "early_by",
            "CASE WHEN checkpoint_start_offset < start_offset THEN start_offset - checkpoint_start_offset END",
        ),
        ("no_batch_from", "CASE WHEN start_offset IS NULL THEN checkpoint_start_offset END"),
    ),
    start_offset=(
        "CASE WHEN start_offset < checkpoint_start_offset THEN start_offset ELSE checkpoint_start_offset END"
    ),
    end_offset=(
        "CASE WHEN start_offset IS NULL THEN end_offset WHEN start_offset < checkpoint_start_offset "
        "THEN checkpoint_start_offset ELSE start_offset END"
    ),
    evidence=("checkpoint_start_offset", "start_offset", "end_offset", "log_start_offset", "log_end_offset"),
    explanation=(
        "Broker {broker_id}'s leader-epoch-checkpoint says that epoch {leader_epoch} of {topic}-{partition} starts "
        "at offset "
        "{checkpoint_start_offset}.",
        "In its log the first batch of epoch {leader_epoch} stands at {start_offset}.",
        "The entry is {late_by} offsets too high: batches of this epoch count as the one before's.",
        "The entry is {early_by} offsets too low: batches of an earlier epoch count as this one's.",
        "No batch is of that epoch, though the log goes on behind offset {no_batch_from} with other epochs: an "
        "epoch without "
        "records is dropped when the next one starts.",
        "The log runs from {log_start_offset} to {log_end_offset}; neither its start nor its end accounts for that.",
    ),
    next="find . -path \\*/{topic}-{partition}/leader-epoch-checkpoint | xargs head -n 100",
    implies=("D04", "D05"),
    points_to="header_rot",
    diagnosis=(
        WRONG_AT_THE_LEADER,
        HEADER_ROTTED_ALONE,
    ),
    reference="UnifiedLog#append (assigns the epoch before the write), LeaderEpochFileCache#assign; KIP-101, KIP-279",
)

EPOCH_CACHE_NO_MISSING = Invariant(
    code="B15",
    key="EPOCH_CACHE_NO_MISSING",
    name="LeaderEpochCheckpointNoMissing",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement="Every leader epoch of a batch at or above the log start is listed in leader-epoch-checkpoint.",
    because=(
        "The broker writes the entry, and forces it to disk, before it appends the epoch's first batch. Without it the "
        "replica cannot say where the epoch ends, and truncates to its high watermark instead."
    ),
    applies_when="start_offset IS NOT NULL AND end_offset > log_start_offset",
    unknown=(
        _NOT_COPIED,
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"{_UNLISTED} AND NOT epoch_checkpoint_missing AND NOT broker_quiet "
            "AND leader_epoch > coalesce(checkpoint_last_leader_epoch, -1) AND "
            "(NOT coalesce(epoch_checkpoint_read_again, false) OR later_checkpoint_last_leader_epoch > leader_epoch)",
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"log_starts_copied IS FALSE AND {_UNLISTED} AND NOT epoch_checkpoint_missing "
            "AND end_offset <= coalesce(checkpoint_first_start_offset, log_end_offset)",
        ),
        Unknown(
            reason="log start not yet checkpointed",
            evidence=None,
            when=f"{_UNLISTED} AND NOT epoch_checkpoint_missing AND {_LOG_START_MAY_LAG} "
            # An empty file: all records were deleted before the broker died, and its high watermark on disk is old.
            "AND end_offset <= coalesce(checkpoint_first_start_offset, log_end_offset)",
        ),
    ),
    breach_when=_UNLISTED,
    derived=(
        ("no_file", "CASE WHEN epoch_checkpoint_missing THEN 'leader-epoch-checkpoint' END"),
        ("unlisted_epoch", "CASE WHEN NOT epoch_checkpoint_missing THEN leader_epoch END"),
    ),
    start_offset="CASE WHEN start_offset < log_start_offset THEN log_start_offset ELSE start_offset END",
    end_offset="end_offset",
    evidence=(
        "start_offset",
        "end_offset",
        "batch_count",
        "checkpoint_last_leader_epoch",
        "epoch_checkpoint_missing",
        "log_start_offset",
    ),
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition} holds {batch_count} batches of leader epoch "
        "{leader_epoch}, from offset "
        "{start_offset} up to {end_offset}.",
        "Its leader-epoch-checkpoint does not list epoch {unlisted_epoch}.",
        "The file's last epoch is {checkpoint_last_leader_epoch}.",
        "There is no {no_file} in the replica's directory.",
        "The log start is {log_start_offset}, so these batches are in use and the epoch should be listed.",
    ),
    next="find . -path \\*/{topic}-{partition}/leader-epoch-checkpoint | xargs head -n 100",
    implies=("D04", "D05"),
    points_to="derived_file",
    reference="UnifiedLog#append, LeaderEpochFileCache#assign; KIP-101, KAFKA-15608",
)

HIGH_WATERMARK_CHECKPOINT = Invariant(
    code="B16",
    key="HW_CHECKPOINT",
    name="HighWatermarkWithinLog",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="A replica's checkpointed high watermark lies between its log start and its log end.",
    because=(
        "The broker clamps it to its own log end. Above the log end, this replica lost records that had been declared "
        "committed, and consumers may have read them."
    ),
    applies_when="high_watermark IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"high_watermark > log_end_offset AND {_MAY_BE_NEWER_THAN_THE_LOG}",
        ),
    ),
    breach_when=(
        "high_watermark > log_end_offset OR (coalesce(clean_shutdown, false) AND high_watermark < log_start_offset)"
    ),
    severity_when=((Severity.WARNING, "NOT coalesce(is_leader, false) AND NOT coalesce(is_reference, false)"),),
    derived=(
        ("committed_missing", "CASE WHEN high_watermark > log_end_offset THEN high_watermark - log_end_offset END"),
        ("leads", "CASE WHEN is_leader OR is_reference THEN broker_id END"),
        ("start_above", "CASE WHEN high_watermark < log_start_offset THEN log_start_offset END"),
        ("newer_log", "CASE WHEN checkpoint_older_than_log AND NOT broker_quiet THEN high_watermark END"),
    ),
    start_offset="CASE WHEN high_watermark > log_end_offset THEN log_end_offset END",
    end_offset="CASE WHEN high_watermark > log_end_offset THEN high_watermark END",
    records="CASE WHEN high_watermark > log_end_offset THEN high_watermark - log_end_offset END",
    evidence=(
        "log_start_offset",
        "high_watermark",
        "log_end_offset",
        "is_leader",
        "clean_shutdown",
        "elections_on_record",
    ),
    explanation=(
        "Broker {broker_id} declared the records of {topic}-{partition} below offset {high_watermark} committed.",
        "Its log ends at {log_end_offset}: {committed_missing} committed offsets are not on it.",
        "The checkpoint with {newer_log} was read before the log, and a log only grows: the copy does not explain it.",
        "Broker {leads} is the leader, or was the last one: followers will be cut to its log, and no other copy "
        "asked for.",
        "After a clean stop the checkpoint is up to date, and its log start {start_above} is above it: it starts "
        "behind what is "
        "known to be committed.",
    ),
    next="kafka-get-offsets.sh --bootstrap-server HOST:PORT --topic-partitions {topic}:{partition} --time latest",
    implies=(
        "B04",
        "B10",
        "C01",
        "D09",
        "D10",
    ),
    points_to="lost_flush",
    diagnosis=(
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="UnifiedLog#updateHighWatermark, ReplicaManager#checkpointHighWatermarks; KIP-101",
)

RECOVERY_POINT_CHECKPOINT = Invariant(
    code="B17",
    key="RECOVERY_POINT_CHECKPOINT",
    name="RecoveryPointWithinLog",
    severity=Severity.WARNING,
    relation="replicas",
    statement="A replica's recovery point is at or below its log end, and at it after a clean stop.",
    because=(
        "It is the offset below which everything had been forced to disk. Above the log end, records that were safe "
        "on disk "
        "are gone; below it after a clean stop, the stop was not clean."
    ),
    applies_when="recovery_point_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"recovery_point_offset > log_end_offset AND {_MAY_BE_NEWER_THAN_THE_LOG}",
        ),
    ),
    breach_when=(
        "recovery_point_offset > log_end_offset OR (coalesce(clean_shutdown, false) AND recovery_point_offset < "
        "log_end_offset)"
    ),
    derived=(
        (
            "flushed_missing",
            "CASE WHEN recovery_point_offset > log_end_offset THEN recovery_point_offset - log_end_offset END",
        ),
        (
            "unflushed",
            "CASE WHEN recovery_point_offset < log_end_offset THEN log_end_offset - recovery_point_offset END",
        ),
    ),
    start_offset="CASE WHEN recovery_point_offset > log_end_offset THEN log_end_offset END",
    end_offset="CASE WHEN recovery_point_offset > log_end_offset THEN recovery_point_offset END",
    records="CASE WHEN recovery_point_offset > log_end_offset THEN recovery_point_offset - log_end_offset END",
    evidence=("log_start_offset", "recovery_point_offset", "log_end_offset", "clean_shutdown", "elections_on_record"),
    explanation=(
        "Broker {broker_id} had forced {topic}-{partition} to disk up to offset {recovery_point_offset}.",
        "Its log ends at {log_end_offset}: {flushed_missing} offsets that were on disk are gone.",
        "It stopped cleanly, which forces everything to disk, yet {unflushed} offsets up to {log_end_offset} lie "
        "above it.",
    ),
    next="kafka-log-dirs.sh --bootstrap-server HOST:PORT --describe --broker-list {broker_id} --topic-list {topic}",
    points_to="lost_flush",
    diagnosis=(
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="LogManager#checkpointLogRecoveryOffsets, LogLoader#recoverLog",
)

LOG_START_CHECKPOINT = Invariant(
    code="B18",
    key="LOG_START_CHECKPOINT",
    name="LogStartCheckpointWithinLog",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement=(
        "A replica's checkpointed log start is at or below its log end, and after a clean stop at or below its high "
        "watermark."
    ),
    because=(
        "Records are deleted only below the high watermark. A log whose end lies below its start is deleted by the "
        "broker at "
        "the next start, all of it."
    ),
    applies_when="checkpoint_log_start_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"checkpoint_log_start_offset > log_end_offset AND {_MAY_BE_NEWER_THAN_THE_LOG}",
        ),
    ),
    breach_when=(
        "checkpoint_log_start_offset > log_end_offset "
        "OR (coalesce(clean_shutdown, false) AND checkpoint_log_start_offset > coalesce(high_watermark, "
        "checkpoint_log_start_offset))"
    ),
    derived=(
        (
            "wiped_from_offset",
            "CASE WHEN checkpoint_log_start_offset > log_end_offset THEN local_log_start_offset END",
        ),
        (
            "uncommitted_from",
            "CASE WHEN checkpoint_log_start_offset > high_watermark AND checkpoint_log_start_offset <= log_end_offset "
            "THEN high_watermark END",
        ),
    ),
    start_offset="CASE WHEN checkpoint_log_start_offset > log_end_offset THEN log_end_offset ELSE high_watermark END",
    end_offset="checkpoint_log_start_offset",
    evidence=(
        "checkpoint_log_start_offset",
        "local_log_start_offset",
        "high_watermark",
        "log_end_offset",
        "elections_on_record",
    ),
    explanation=(
        "Broker {broker_id}'s checkpoint says that {topic}-{partition} starts at offset "
        "{checkpoint_log_start_offset}; its log "
        "ends at {log_end_offset}.",
        "At its next start the broker deletes every segment of such a log, from {wiped_from_offset} on, and begins "
        "an empty one.",
        "After a clean stop both are up to date, and the high watermark is {uncommitted_from}: uncommitted records "
        "were deleted.",
    ),
    next="tidegauge salvage SNAPSHOT --topic {topic} --partition {partition} --out DIR",
    implies=("B16", "C01"),
    points_to="lost_flush",
    diagnosis=(
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="UnifiedLog#maybeIncrementLogStartOffset, LogLoader#deleteSegmentsIfLogStartGreaterThanLogEnd",
)
