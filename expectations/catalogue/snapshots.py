"""Family B, producer snapshots: the `.snapshot` files against the log that they sum up.

In: the columns of `index_files`, kind snapshot, and of `replicas`. Out: invariants B08 to B11, and B23. The rule that
must hold here: a restart or a truncation soundly leaves a snapshot at any offset that the log had reached (retention
then only deletes those at segment bases; the next start clears up), and expired producers are soundly missing.
"""

from typing import Final

from expectations.catalogue.lacking import CLEANED_END
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_CONTENT_DIFFERS: Final = "(missing_entries > 0 OR extra_entries > 0 OR wrong_entries > 0)"
_ONLY_MISSING: Final = "missing_entries > 0 AND extra_entries = 0 AND wrong_entries = 0"

PRODUCER_SNAPSHOT_FORM = Invariant(
    code="B08",
    key="SNAPSHOT_FORM",
    name="ProducerSnapshotForm",
    severity=Severity.WARNING,
    relation="index_files",
    statement="A producer snapshot is of version 1, its checksum is right, and its size is that of its entries.",
    because=(
        "A broker that meets a broken one at start-up deletes it, falls back to an older one and replays the log from "
        "there: a slow start, and producers forgotten if there is no older one."
    ),
    applies_when="kind = 'snapshot'",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="size_bytes = 0 AND NOT broker_quiet"),),
    breach_when="form_errors > 0 OR NOT readable",
    evidence=("size_bytes", "entries", "form_errors", "base_offset"),
    details=("form",),
    explanation=(
        "{path} ({size_bytes} bytes) cannot be read as a producer snapshot: {form_errors} things are wrong with it.",
        "The broker would delete it at its next start and rebuild the producers' state from an older one.",
    ),
    next="kafka-dump-log.sh --files {path}",
    points_to="torn_write",
    reference="ProducerStateManager#readSnapshot (CorruptSnapshotException); KAFKA-9892",
)

PRODUCER_SNAPSHOT_ENTRY_RANGE = Invariant(
    code="B09",
    key="SNAPSHOT_ENTRY_RANGE",
    name="ProducerSnapshotEntryRange",
    severity=Severity.WARNING,
    relation="index_files",
    statement="A producer snapshot speaks only of offsets below the one in its name.",
    because=(
        "It is the state before that offset. A broker that loads a later state takes batches that it is about to "
        "replay "
        "for duplicates or for gaps."
    ),
    applies_when="kind = 'snapshot' AND readable AND form_errors = 0",
    breach_when="range_errors > 0",
    evidence=("entries", "range_errors", "base_offset"),
    details=("range",),
    explanation=(
        "{path} is the producers' state before offset {base_offset}.",
        "{range_errors} of its {entries} entries name offsets at or above it, or below 0: the state is ahead of its "
        "log.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("B11",),
    points_to="lost_flush",
    reference="ProducerStateManager#takeSnapshot",
)

PRODUCER_SNAPSHOT_POSITIONS = Invariant(
    code="B10",
    key="SNAPSHOT_POSITIONS",
    name="ProducerSnapshotPositions",
    severity=Severity.WARNING,
    relation="index_files",
    statement="No producer snapshot stands above the end of its log.",
    because=(
        "Snapshots are taken of what has been appended: at a roll, at a clean stop, after a truncation. One above "
        "the log "
        "end is left from a log that was longer."
    ),
    applies_when="kind = 'snapshot'",
    unknown=(
        Unknown(
            reason="log damaged",
            evidence=None,
            when="misplaced AND base_offset > log_end_offset AND NOT content_checkable",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="misplaced AND base_offset > log_end_offset AND NOT broker_quiet",
        ),
    ),
    breach_when="misplaced AND base_offset > log_end_offset",
    start_offset="log_end_offset",
    end_offset="base_offset",
    evidence=("base_offset", "log_start_offset", "log_end_offset", "entries"),
    explanation=(
        "{path} is the producers' state before offset {base_offset}; broker {broker_id}'s log of "
        "{topic}-{partition} ends at "
        "{log_end_offset}.",
        "When it was taken the log reached {base_offset}; a truncation would have removed it together with the "
        "records.",
        "So the log lost its end in some other way than by Kafka's own truncation.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("B11",),
    points_to="interrupted_cleanup",
    reference="ProducerStateManager#truncateAndReload, #removeStraySnapshots",
)

PRODUCER_SNAPSHOT_CONTENT = Invariant(
    code="B11",
    key="SNAPSHOT_CONTENT",
    name="ProducerSnapshotContent",
    severity=Severity.WARNING,
    relation="index_files",
    statement="A producer snapshot holds the state that replaying the log up to its offset gives.",
    because=(
        "A broker loads it instead of reading the log. A wrong state makes it accept a duplicate, refuse a good "
        "batch, or "
        "keep a transaction open that is over."
    ),
    applies_when="kind = 'snapshot' AND readable AND form_errors = 0",
    unknown=(
        Unknown(reason="the log cannot be replayed up to it", evidence=None, when="NOT content_checkable"),
        Unknown(reason="compacted", evidence=None, when=f"ever_compacted AND {_CONTENT_DIFFERS}"),
        Unknown(
            reason=CLEANED_END, evidence=Evidence.CHECKPOINT, when=f"cleaning_known IS FALSE AND {_CONTENT_DIFFERS}"
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"base_offset > log_end_offset AND NOT broker_quiet AND {_CONTENT_DIFFERS}",
        ),
        Unknown(
            reason="empty, as an upgrade writes it",
            evidence=None,
            when=f"entries = 0 AND NOT coalesce(older_has_entries, false) AND {_ONLY_MISSING}",
        ),
        Unknown(
            reason="records were deleted inside the first segment",
            evidence=None,
            when=f"{_ONLY_MISSING} AND log_start_offset > local_log_start_offset",
        ),
        Unknown(
            reason="setting not known",
            evidence=Evidence.SETTINGS,
            when=f"undecided_entries > 0 AND NOT ({_CONTENT_DIFFERS})",
        ),
    ),
    breach_when=_CONTENT_DIFFERS,
    derived=(
        ("absent", "CASE WHEN missing_entries > 0 THEN missing_entries END"),
        ("unfounded", "CASE WHEN extra_entries > 0 THEN extra_entries END"),
        ("different", "CASE WHEN wrong_entries > 0 THEN wrong_entries END"),
    ),
    evidence=("entries", "missing_entries", "extra_entries", "wrong_entries", "base_offset", "log_start_offset"),
    details=("missing", "extra", "wrong"),
    explanation=(
        "The log from {log_start_offset} to {base_offset} was replayed and compared with the {entries} producers in "
        "{path}.",
        "{absent} producers that wrote shortly before are not in it: the broker would take their next batch for a "
        "new producer's.",
        "{unfounded} producers in it have no batch in the log, though nothing was deleted from it.",
        "{different} producers are in it with another epoch, sequence, offset or transaction than the log says.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("C03", "D16"),
    points_to="derived_file",
    reference="UnifiedLog#rebuildProducerState, ProducerStateManager#takeSnapshot; KAFKA-12520, KIP-98",
)

PRODUCER_SNAPSHOT_AT_CLEAN_STOP = Invariant(
    code="B23",
    key="CLEAN_STOP_PRODUCER_SNAPSHOT",
    name="ProducerSnapshotAtCleanStop",
    severity=Severity.WARNING,
    relation="replicas",
    statement="After a clean stop a producer snapshot stands at the log end.",
    because=(
        "A broker writes one as it closes the log, and reads the log from its newest one on when it starts. If there "
        "is none at all it reads nothing after a clean stop: it takes every producer for new, accepts a retry a second "
        "time and forgets which transactions are open."
    ),
    applies_when=(
        "clean_shutdown AND NOT is_future AND topic <> '__cluster_metadata' "
        "AND (batch_count > 0 OR log_end_offset IS NULL) "
        # One above the log end was at the end that the log had: that it no longer has it is B10's.
        "AND NOT coalesce(newest_producer_snapshot > log_end_offset, false)"
    ),
    unknown=(
        Unknown(
            reason="producer snapshots not copied",
            evidence=Evidence.PRODUCER_SNAPSHOT,
            when="NOT producer_snapshots_copied",
        ),
        Unknown(
            reason="log damaged", evidence=None, when="damaged_batches > 0 AND NOT coalesce(snapshot_at_end, false)"
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND NOT coalesce(snapshot_at_end, false)",
        ),
    ),
    breach_when="NOT snapshot_at_end",
    severity_when=((Severity.CRITICAL, "newest_producer_snapshot IS NULL AND producer_ids > 0"),),
    derived=(
        ("forgotten", "CASE WHEN newest_producer_snapshot IS NULL AND producer_ids > 0 THEN producer_ids END"),
        ("replayed_from", "newest_producer_snapshot"),
    ),
    evidence=("log_start_offset", "log_end_offset", "newest_producer_snapshot", "producer_ids", "clean_shutdown"),
    explanation=(
        "Broker {broker_id} stopped cleanly, and its log of {topic}-{partition} ends at offset {log_end_offset}: no "
        "producer snapshot stands there.",
        "Its newest one is at offset {replayed_from}; the next start replays the log from there.",
        "There is none at all: the next start does not read the log for it, and forgets the {forgotten} producers "
        "whose batches are in it, with their sequences and open transactions.",
        "Kafka removes one only with the records before it; somebody, or a backup tool, took it away.",
    ),
    next="ls -l <log.dir of broker {broker_id}>/{topic}-{partition}/*.snapshot",
    implies=("B11", "D16"),
    points_to="restored_files",
    reference="UnifiedLog#close, #rebuildProducerState (reloadFromCleanShutdown); KIP-98",
)
