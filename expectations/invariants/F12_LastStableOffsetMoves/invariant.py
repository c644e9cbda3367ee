from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DESCRIBE_PRODUCERS
from tidegauge.expectations.invariants.shared.diagnoses import MARKER_LOST, NOBODY_ENDS_IT, PARTITION_NEVER_ADDED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_LATE_MS: Final = 300_000
"""A transaction is late this long after the longest timeout that a client may ask for."""

INVARIANT = Invariant(
    code="F12",
    key="LSO_PROGRESS",
    name="LastStableOffsetMoves",
    severity=Severity.WARNING,
    relation="changes",
    statement=line("""
        Where the high watermark has risen, the last stable offset does not stay for longer than a transaction may last.
    """),
    because=line("""
        Consumers of committed records read up to the last stable offset. A transaction may hold it for
        transaction.max.timeout.ms; after that its coordinator aborts it, so one that still holds it has nobody who will
        end it.
    """),
    # Only the row of the replica that speaks for the partition has them.
    applies_when=line("""
        last_stable_offset IS NOT NULL AND previous_last_stable_offset IS NOT NULL
        AND high_watermark > previous_high_watermark
    """),
    unknown=(
        Unknown(
            reason="the instants of the two captures are not known",
            evidence=Evidence.INSTANTS,
            when="stuck_producer_id IS NOT NULL AND (captured_at_ms IS NULL OR previous_captured_at_ms IS NULL)",
        ),
    ),
    breach_when=line(f"""
        stuck_producer_id IS NOT NULL AND last_stable_offset <= previous_last_stable_offset
        AND captured_at_ms - previous_captured_at_ms > max_transaction_timeout_ms + {_LATE_MS}
    """),
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
    explanation=lines("""
        In the earlier snapshot, of {previous_captured_at_ms}, the last stable offset of {topic}-{partition} was
          {previous_last_stable_offset}; at {captured_at_ms} it still is {last_stable_offset}.
        Meanwhile the high watermark rose from {previous_high_watermark} to {high_watermark}.
        Producer {stuck_producer_id} holds it: its transaction, last written to at {stuck_since_at_ms}, is open in both
          snapshots.
        {waiting} offsets wait behind it for consumers of committed records.
    """),
    start_offset="last_stable_offset",
    end_offset="high_watermark",
    next=DESCRIBE_PRODUCERS,
    points_to="hanging_transaction",
    diagnosis=(MARKER_LOST, PARTITION_NEVER_ADDED, NOBODY_ENDS_IT),
    reference="ProducerStateManager#hasLateTransaction, UnifiedLog#lastStableOffset; KIP-664",
)
