from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_COPY_SKEW_MS: Final = 3_600_000
_CLOCKS_APART_MS: Final = 300_000
"""Machines whose clocks nobody keeps in step are minutes apart before anybody notices."""

INVARIANT = Invariant(
    code="F10",
    key="COMPLETE_HAS_MARKERS",
    name="CompletedTransactionHasMarkers",
    severity=Severity.CRITICAL,
    relation="transaction_ends",
    statement=line("""
        When a coordinator has completed a transaction, each of its partitions has the end marker, below the high
        watermark.
    """),
    because=line("""
        The coordinator completes a transaction once all in-sync replicas of every partition have the marker, and never
        sends it again. A partition that lacks it keeps the transaction open forever: consumers of committed records
        stop there, and the cleaner too.
    """),
    applies_when="completed",
    unknown=(
        Unknown(reason="the partition's log was not captured", evidence=Evidence.BROKER, when="log_end_offset IS NULL"),
        Unknown(
            reason="the topic was created again since",
            evidence=None,
            # The controller's clock against the coordinator's.
            when=line(f"""
                marker_offset IS NULL AND open_first_offset IS NULL AND name_reused
                AND coalesce(created_at_ms > completed_at_ms - {_CLOCKS_APART_MS}, TRUE)
            """),
        ),
        Unknown(
            reason="begun before the metadata log",
            evidence=Evidence.METADATA_LOG_START,
            when=line(f"""
                marker_offset IS NULL AND open_first_offset IS NULL AND name_reused IS NULL
                AND coalesce(created_at_ms > completed_at_ms - {_CLOCKS_APART_MS}, TRUE)
            """),
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
            when=line(f"""
                NOT snapshot_quiet AND (marker_offset IS NOT NULL AND marker_offset >= high_watermark_upper
                OR marker_offset IS NULL AND coalesce(captured_at_ms - completed_at_ms <= {_COPY_SKEW_MS}, TRUE))
            """),
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
    explanation=lines("""
        The coordinator of {transactional_id} decided at {decided_at_ms} that the transaction of producer {producer_id}
          is {decided_outcome} (__transaction_state-{record_partition}, offset {record_offset}).
        It completed it at {completed_at_ms}, so every partition had answered that the marker is written.
        {topic}-{partition} has no end marker of producer {producer_id} in epoch {marker_epoch} up to its log end at
          {missing}.
        The marker at {marker_offset} is not below the high watermark, which is {above} at most.
        The producer's records from offset {open_first_offset} on are open: consumers of committed records stop there.
    """),
    start_offset="coalesce(marker_offset, open_first_offset)",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> abort --topic {topic} --partition {partition}
        --start-offset {open_first_offset}
    """),
    implies=("F09", "F08", "F12"),
    points_to="lost_marker",
    reference="TransactionMarkerChannelManager#addTxnMarkersToSend, TransactionMarkerRequestCompletionHandler",
)
