from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.lacking import INDEXES_GONE, TRANSACTION_INDEXES_NOT_COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_ABORTS_WRONG: Final = "(aborted_unlisted > 0 OR aborted_unmarked > 0)"

INVARIANT = Invariant(
    code="G08",
    key="ABORT_MARKER_KEPT",
    name="AbortMarkerKept",
    severity=Severity.CRITICAL,
    relation="index_files",
    statement=line("""
        In a compacted log a record of an aborted transaction has its ABORT marker behind it, and an entry in the
        transaction index.
    """),
    because=line("""
        The cleaner removes aborted records first, then the entry, then the marker. In another order aborted records
        become committed ones, or belong to a transaction that never ends.
    """),
    applies_when="kind = 'txnindex' AND aborted_unlisted IS NOT NULL",
    unknown=(
        INDEXES_GONE,
        TRANSACTION_INDEXES_NOT_COPIED,
        Unknown(
            reason="log damaged", evidence=None, when=f"uncheckable_reason = 'the log is damaged' AND {_ABORTS_WRONG}"
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_ABORTS_WRONG}"),
    ),
    breach_when=_ABORTS_WRONG,
    derived=(
        ("unlisted", "CASE WHEN aborted_unlisted > 0 THEN aborted_unlisted END"),
        ("unmarked", "CASE WHEN aborted_unmarked > 0 THEN aborted_unmarked END"),
    ),
    evidence=("entries", "aborted_unlisted", "aborted_unmarked", "base_offset", "size_bytes"),
    explanation=lines("""
        {path} was compared with the aborted transactions of the cleaned log that still have records.
        {unlisted} of them are not in it: read_committed consumers get their records.
        {unmarked} transactions that it names have records left, and no ABORT marker at the offset that it names.
        Transactions of which the cleaner has left no record need neither.
    """),
    details=("unlisted", "unmarked"),
    next="kafka-dump-log.sh --files {path}",
    implies=("B06", "B07", "F06", "F08", "F09"),
    points_to="cleaner_bug",
    reference="CleanedTransactionMetadata#onControlBatchRead; KAFKA-13727, KAFKA-14055",
)
