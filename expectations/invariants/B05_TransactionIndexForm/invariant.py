from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.lacking import (
    INDEXES_GONE,
    NO_TRANSACTION_INDEX_COPIED,
    TRANSACTION_INDEXES_NOT_COPIED,
)
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B05",
    key="TXN_INDEX_FORM",
    name="TransactionIndexForm",
    severity=Severity.WARNING,
    relation="index_files",
    statement=line("""
        A transaction index is a run of whole 34-byte entries of version 0, in the order of their end markers, all
        inside the segment.
    """),
    because=line("""
        The broker checks little of it and silently ignores a partial last entry: an aborted transaction that falls out
        of it is delivered to read_committed consumers.
    """),
    applies_when=f"kind = 'txnindex' AND (size_bytes > 0 OR {NO_TRANSACTION_INDEX_COPIED})",
    unknown=(
        INDEXES_GONE,
        TRANSACTION_INDEXES_NOT_COPIED,
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="form_errors = 1 AND mod(size_bytes, 34) <> 0 AND is_active AND NOT broker_quiet",
        ),
    ),
    breach_when="form_errors > 0 OR NOT readable",
    evidence=("size_bytes", "entries", "form_errors", "base_offset"),
    explanation=lines("""
        {path} ({size_bytes} bytes, {entries} entries) breaks its own form in {form_errors} places.
        The broker verifies only that an entry does not lie below the segment's base offset {base_offset}.
    """),
    details=("form",),
    next="kafka-dump-log.sh --files {path}",
    implies=("B06", "B07"),
    points_to="torn_write",
    reference="TransactionIndex#append, TransactionIndex#sanityCheck; KIP-98",
)
