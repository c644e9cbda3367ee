from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.derived_files import MAY_DIFFER_IN_A_COPY
from tidegauge.expectations.invariants.shared.lacking import (
    INDEXES_GONE,
    NO_TRANSACTION_INDEX_COPIED,
    TRANSACTION_INDEXES_NOT_COPIED,
)
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B07",
    key="TXN_INDEX_LSO",
    name="TransactionIndexLastStableOffset",
    severity=Severity.WARNING,
    relation="index_files",
    statement=line("""
        Each entry of a transaction index carries the last stable offset of that moment: where the earliest other open
        transaction began, else the offset behind the end marker.
    """),
    because=line("""
        A search for aborted transactions stops at the first entry whose last stable offset is past the fetched range:
        if it is too high, later entries are never looked at, and aborted records come through.
    """),
    applies_when=f"kind = 'txnindex' AND (entries > 0 OR {NO_TRANSACTION_INDEX_COPIED})",
    unknown=(
        INDEXES_GONE,
        TRANSACTION_INDEXES_NOT_COPIED,
        Unknown(
            reason="records below the log start are gone",
            evidence=None,
            when="log_start_offset > 0 OR local_log_start_offset > 0",
        ),
        Unknown(reason="log damaged", evidence=None, when="NOT content_checkable AND NOT ever_compacted"),
        Unknown(reason="compacted", evidence=None, when="NOT content_checkable AND last_stable_offset_errors > 0"),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"last_stable_offset_errors > 0 AND {MAY_DIFFER_IN_A_COPY}",
        ),
    ),
    breach_when="last_stable_offset_errors > 0",
    evidence=("entries", "last_stable_offset_errors", "base_offset"),
    explanation=lines("""
        In {last_stable_offset_errors} of the {entries} entries of {path} the last stable offset is not what a replay of
          the log gives for the moment of the abort marker.
        Which transactions were open then is in the log itself, so the index is what is wrong.
    """),
    details=("last_stable_offset",),
    next="kafka-dump-log.sh --files {path}",
    points_to="derived_file",
    reference="ProducerStateManager#lastStableOffset, TransactionIndex#collectAbortedTxns",
)
