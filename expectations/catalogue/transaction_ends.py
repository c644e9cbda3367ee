"""Invariants about how transactions end: one outcome everywhere, every marker written, none that waits (family F).

In: rows of `transaction_outcomes`, `transaction_ends`, and of `changes` for what does not move. The rule that must hold
here: a decision whose markers are still on their way is sound; so is a marker that retention or a cleaner took.
"""

from typing import Final

from expectations.catalogue.diagnoses import MARKER_LOST, NOBODY_ENDS_IT, PARTITION_NEVER_ADDED
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_COPY_SKEW_MS: Final = 3_600_000
_CLOCKS_APART_MS: Final = 300_000
"""Machines whose clocks nobody keeps in step are minutes apart before anybody notices."""
_LATE_MS: Final = 300_000
"""A transaction is late this long after the longest timeout that a client may ask for."""
_DESCRIBE: Final = "bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} "
"--partition {partition}"

TXN_ATOMIC = Invariant(
    code="F07",
    key="TXN_ATOMIC",
    name="TransactionEndsAlikeEverywhere",
    severity=Severity.CRITICAL,
    relation="transaction_outcomes",
    statement="The end markers of a transaction say the same in all of its partitions, and what its coordinator "
    "decided.",
    because="A transaction is all or nothing. Where its partitions disagree, consumers of committed records see one "
    "half of "
    "it, and no retry brings the other.",
    # A partition that has both counts as either: that it contradicts itself is told of it alone (F06).
    breach_when="(partitions > committed_partitions AND partitions > aborted_partitions) "
    "OR coalesce(decided_outcome = 'committed' AND partitions > committed_partitions, FALSE) "
    "OR coalesce(decided_outcome = 'aborted' AND partitions > aborted_partitions, FALSE)",
    applies_when="partitions > 1 OR decided_outcome IS NOT NULL",
    evidence=(
        "transactional_id",
        "decided_outcome",
        "committed_partitions",
        "aborted_partitions",
        "committed_on",
        "aborted_on",
    ),
    explanation=(
        "A transaction of producer {producer_id} (end markers of producer epoch {marker_epoch}) has markers in "
        "{partitions} "
        "partitions.",
        "It belongs to transactional id {transactional_id}.",
        "It is committed on {committed_on}.",
        "It is aborted on {aborted_on}.",
        "Its coordinator's log says {decided_outcome}.",
    ),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    points_to="coordinator_bug",
    reference="TransactionCoordinator#endTransaction, TransactionMarkerChannelManager; KIP-98, KIP-890",
)

COMPLETE_HAS_MARKERS = Invariant(
    code="F10",
    key="COMPLETE_HAS_MARKERS",
    name="CompletedTransactionHasMarkers",
    severity=Severity.CRITICAL,
    relation="transaction_ends",
    statement="When a coordinator has completed a transaction, each of its partitions has the end marker, below the "
    "high "
    "watermark.",
    because="The coordinator completes a transaction once all in-sync replicas of every partition have the marker, and "
    "never sends it again. A partition that lacks it keeps the transaction open for ever: consumers of committed "
    "records "
    "stop there, and the cleaner too.",
    applies_when="completed",
    unknown=(
        Unknown(reason="the partition's log was not captured", evidence=Evidence.BROKER, when="log_end_offset IS NULL"),
        Unknown(
            reason="the topic was created again since",
            evidence=None,
            # The controller's clock against the coordinator's.
            when="marker_offset IS NULL AND open_first_offset IS NULL AND name_reused "
            f"AND coalesce(created_at_ms > completed_at_ms - {_CLOCKS_APART_MS}, TRUE)",
        ),
        Unknown(
            reason="begun before the metadata log",
            evidence=Evidence.METADATA_LOG_START,
            when="marker_offset IS NULL AND open_first_offset IS NULL AND name_reused IS NULL "
            f"AND coalesce(created_at_ms > completed_at_ms - {_CLOCKS_APART_MS}, TRUE)",
        ),
        Unknown(
            reason="the log's head is gone, or in the remote tier",
            evidence=None,
            when="marker_offset IS NULL AND open_first_offset IS NULL AND first_held_offset > 0",
        ),
        Unknown(
            reason="the cleaner removes markers whose records are gone",
            evidence=None,
            when="marker_offset IS NULL AND open_first_offset IS NULL AND ever_compacted",
        ),
        Unknown(
            reason="an unclean election may have cut the marker off",
            evidence=None,
            when=f"marker_offset IS NULL AND unclean_election_at_ms >= decided_at_ms - {_CLOCKS_APART_MS}",
        ),
        Unknown(reason="the log is damaged", evidence=None, when="marker_offset IS NULL AND log_damaged"),
        Unknown(
            reason="clocks alone tell that it has no marker",
            evidence=None,
            when="marker_offset IS NULL AND by_clocks",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND (marker_offset IS NOT NULL AND marker_offset >= high_watermark_upper "
            f"OR marker_offset IS NULL AND coalesce(captured_at_ms - completed_at_ms <= {_COPY_SKEW_MS}, TRUE))",
        ),
    ),
    breach_when="marker_offset IS NULL OR coalesce(marker_offset >= high_watermark_upper, FALSE)",
    derived=(
        ("missing", "CASE WHEN marker_offset IS NULL THEN log_end_offset END"),
        ("above", "CASE WHEN marker_offset >= high_watermark_upper THEN high_watermark_upper END"),
    ),
    evidence=(
        "decided_outcome",
        "decided_at_ms",
        "completed_at_ms",
        "marker_offset",
        "open_first_offset",
        "high_watermark_upper",
        "log_end_offset",
    ),
    explanation=(
        "The coordinator of {transactional_id} decided at {decided_at_ms} that the transaction of producer "
        "{producer_id} is "
        "{decided_outcome} (__transaction_state-{record_partition}, offset {record_offset}).",
        "It completed it at {completed_at_ms}, so every partition had answered that the marker is written.",
        "{topic}-{partition} has no end marker of producer {producer_id} in epoch {marker_epoch} up to its log end at "
        "{missing}.",
        "The marker at {marker_offset} is not below the high watermark, which is {above} at most.",
        "The producer's records from offset {open_first_offset} on are open: consumers of committed records stop "
        "there.",
    ),
    start_offset="coalesce(marker_offset, open_first_offset)",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> abort --topic {topic} --partition {partition} "
    "--start-offset {open_first_offset}",
    implies=("F09", "F08", "F12"),
    points_to="lost_marker",
    reference="TransactionMarkerChannelManager#addTxnMarkersToSend, TransactionMarkerRequestCompletionHandler",
)

LSO_PROGRESS = Invariant(
    code="F12",
    key="LSO_PROGRESS",
    name="LastStableOffsetMoves",
    severity=Severity.WARNING,
    relation="changes",
    statement="Where the high watermark has risen, the last stable offset does not stay for longer than a "
    "transaction may "
    "last.",
    because="Consumers of committed records read up to the last stable offset. A transaction may hold it for "
    "transaction.max.timeout.ms; after that its coordinator aborts it, so one that still holds it has nobody who will "
    "end it.",
    # Only the row of the replica that speaks for the partition has them.
    applies_when="last_stable_offset IS NOT NULL AND previous_last_stable_offset IS NOT NULL "
    "AND high_watermark > previous_high_watermark",
    unknown=(
        Unknown(
            reason="the instants of the two captures are not known",
            evidence=Evidence.INSTANTS,
            when="stuck_producer_id IS NOT NULL AND (captured_at_ms IS NULL OR previous_captured_at_ms IS NULL)",
        ),
    ),
    breach_when="stuck_producer_id IS NOT NULL AND last_stable_offset <= previous_last_stable_offset "
    f"AND captured_at_ms - previous_captured_at_ms > max_transaction_timeout_ms + {_LATE_MS}",
    derived=(("waiting", "high_watermark - last_stable_offset"),),
    evidence=(
        "previous_high_watermark",
        "high_watermark",
        "previous_last_stable_offset",
        "last_stable_offset",
        "stuck_producer_id",
        "stuck_since_at_ms",
        "max_transaction_timeout_ms",
    ),
    explanation=(
        "In the earlier snapshot, of {previous_captured_at_ms}, the last stable offset of {topic}-{partition} was "
        "{previous_last_stable_offset}; at {captured_at_ms} it still is {last_stable_offset}.",
        "Meanwhile the high watermark rose from {previous_high_watermark} to {high_watermark}.",
        "Producer {stuck_producer_id} holds it: its transaction, last written to at {stuck_since_at_ms}, is open in "
        "both "
        "snapshots.",
        "{waiting} offsets wait behind it for consumers of committed records.",
    ),
    start_offset="last_stable_offset",
    end_offset="high_watermark",
    next=_DESCRIBE,
    points_to="hanging_transaction",
    diagnosis=(
        MARKER_LOST,
        PARTITION_NEVER_ADDED,
        NOBODY_ENDS_IT,
    ),
    reference="ProducerStateManager#hasLateTransaction, UnifiedLog#lastStableOffset; KIP-664",
)
