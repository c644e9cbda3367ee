from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.derived_files import MAY_DIFFER_IN_A_COPY
from tidegauge.expectations.invariants.shared.lacking import INDEXES_GONE, TRANSACTION_INDEXES_NOT_COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_ABORTED_DIFFER: Final = "(missing_entries > 0 OR extra_entries > 0)"

INVARIANT = Invariant(
    code="B06",
    key="TXN_INDEX_COMPLETE",
    name="TransactionIndexComplete",
    severity=Severity.CRITICAL,
    relation="index_files",
    statement=line("""
        A segment's transaction index names exactly the transactions with records that were aborted in the segment.
    """),
    because=line("""
        A read_committed consumer filters by this list and nothing else. A missing entry hands it aborted records; an
        entry too many hides committed ones.
    """),
    applies_when="kind = 'txnindex'",
    unknown=(
        INDEXES_GONE,
        TRANSACTION_INDEXES_NOT_COPIED,
        Unknown(reason="log damaged", evidence=None, when="NOT content_checkable AND NOT ever_compacted"),
        Unknown(reason="compacted", evidence=None, when=f"NOT content_checkable AND {_ABORTED_DIFFER}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"{_ABORTED_DIFFER} AND {MAY_DIFFER_IN_A_COPY}"),
    ),
    breach_when=_ABORTED_DIFFER,
    derived=(
        ("unlisted", "CASE WHEN missing_entries > 0 THEN missing_entries END"),
        ("unfounded", "CASE WHEN extra_entries > 0 THEN extra_entries END"),
        ("no_file", "CASE WHEN size_bytes = 0 THEN base_offset END"),
    ),
    evidence=("entries", "missing_entries", "extra_entries", "size_bytes", "base_offset"),
    explanation=lines("""
        A replay of the log found the aborted transactions whose end marker is in the segment at {base_offset}; they
          were compared with the {entries} entries of {path}.
        There is no such file, or it is empty, for the segment at {no_file}.
        {unlisted} aborted transactions are not in it: read_committed consumers of broker {broker_id} get their records.
        {unfounded} entries name transactions that were not aborted: their records are hidden from read_committed
          consumers.
        Abort markers without records, and transactions that began below the log start, are allowed for.
    """),
    details=("missing", "extra"),
    next="kafka-dump-log.sh --files {path}",
    implies=("B07",),
    points_to="derived_file",
    reference="LogSegment#updateTxnIndex, TransactionIndex#collectAbortedTxns; KIP-98",
)
