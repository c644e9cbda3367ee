"""Family B, indexes: `.index`, `.timeindex` and `.txnindex` against the segment they were derived from.

In: the columns of `index_files`, for B03 of `segments`. Out: invariants B01 to B07. The rule that must hold here: an
active segment's index is memory-mapped, preallocated, and not cut when the log is; what that leaves behind is no
breach.
"""

from typing import Final

from expectations.catalogue.lacking import INDEXES_GONE, NO_TRANSACTION_INDEX_COPIED, TRANSACTION_INDEXES_NOT_COPIED
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_MAY_DIFFER_IN_A_COPY: Final = "NOT broker_quiet AND (is_active OR ever_compacted)"
"""Index and log are copied one after the other; in between an active segment grows and a cleaned one is replaced."""

_POINTERS_IN_A_DAMAGED_LOG: Final = Unknown(
    reason="log damaged", evidence=None, when="log_damaged AND pointer_errors > 0 AND form_errors = 0"
)
_POINTERS_COPIED_LATER: Final = Unknown(
    reason="copy skew",
    evidence=Evidence.ONE_MOMENT,
    when=f"pointer_errors > 0 AND form_errors = 0 AND {_MAY_DIFFER_IN_A_COPY}",
)

_ABORTED_DIFFER: Final = "(missing_entries > 0 OR extra_entries > 0)"

OFFSET_INDEX_FORM = Invariant(
    code="B01",
    key="OFFSET_INDEX_FORM",
    name="OffsetIndexForm",
    severity=Severity.WARNING,
    relation="index_files",
    statement="An offset index is a run of 8-byte entries whose offsets and positions both rise.",
    because=(
        "The broker searches it by halves and does not check it at start-up (KAFKA-7283): in an index that does not "
        "rise "
        "a lookup ends at the wrong byte, and a fetch misses records or fails."
    ),
    applies_when="kind = 'index'",
    breach_when="form_errors > 0 OR NOT readable",
    evidence=("size_bytes", "entries", "form_errors", "is_active"),
    details=("form",),
    explanation=(
        "{path} ({size_bytes} bytes, {entries} usable entries) breaks its own form in {form_errors} places.",
        "Zero padding and stale entries of an active segment are allowed for; this is neither.",
    ),
    next="kafka-dump-log.sh --files {path} --index-sanity-check",
    implies=("B02", "B03"),
    points_to="derived_file",
    reference="OffsetIndex#append, OffsetIndex#sanityCheck; KAFKA-7283",
)

OFFSET_INDEX_POINTS = Invariant(
    code="B02",
    key="OFFSET_INDEX_POINTS",
    name="OffsetIndexPointsAtBatches",
    severity=Severity.WARNING,
    relation="index_files",
    statement="Each entry of an offset index leads to a batch, and reading on from there reaches the entry's offset.",
    because=(
        "A fetch begins at the position of the last entry not above its offset. If that is no batch, or one behind the "
        "offset, the consumer gets an error or silently misses records."
    ),
    applies_when="kind = 'index' AND has_log",
    unknown=(_POINTERS_IN_A_DAMAGED_LOG, _POINTERS_COPIED_LATER),
    breach_when="pointer_errors > 0",
    evidence=("entries", "pointer_errors", "is_active", "base_offset"),
    details=("pointer",),
    explanation=(
        "{pointer_errors} of the {entries} entries of {path} do not lead to the batch that they name.",
        "Both ways of writing an entry were tried: one a batch (since 4.1) and one an append (before).",
        "The log is what it is; the index is derived from it and can be built again.",
    ),
    next="kafka-dump-log.sh --files {path} --verify-index-only",
    points_to="derived_file",
    reference="LogSegment#append, LogSegment#translateOffset",
)

_WIDE: Final = "widest_index_gap_bytes > 4 * index_interval_bytes + largest_batch_bytes"
"""A broker counts anew from zero when it loads or truncates a log, so several intervals may pass without an entry."""

OFFSET_INDEX_COMPLETE = Invariant(
    code="B03",
    key="OFFSET_INDEX_COMPLETE",
    name="OffsetIndexComplete",
    severity=Severity.INFO,
    relation="segments",
    statement="A closed segment's offset index has entries about every index.interval.bytes, be it a few intervals "
    "apart where the broker was restarted.",
    because=(
        "A lookup reads on from the last entry below its offset. Where there is none for megabytes, each fetch that "
        "begins there reads them all. Nothing is lost; the index was emptied, or built under another setting."
    ),
    applies_when="NOT is_active AND batch_count > 0 AND index_interval_bytes IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"length_errors > 0 AND {_WIDE}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_WIDE}"),
        Unknown(
            reason="written append by append",
            evidence=None,
            when=f"index_entries > 0 AND NOT index_entry_per_batch AND {_WIDE}",
        ),
        Unknown(
            reason="release not known",
            evidence=Evidence.METADATA_LOG_START,
            when=f"index_entry_per_batch IS NULL AND {_WIDE}",
        ),
    ),
    breach_when=_WIDE,
    derived=(
        ("no_file", "CASE WHEN index_entries IS NULL THEN 'no .index file' END"),
        ("empty", "CASE WHEN index_entries = 0 THEN 'empty' END"),
    ),
    evidence=("index_entries", "widest_index_gap_bytes", "index_interval_bytes", "largest_batch_bytes", "size_bytes"),
    explanation=(
        "{path} ({size_bytes} bytes) has a stretch of {widest_index_gap_bytes} bytes without an entry in its offset "
        "index.",
        "There is {no_file} beside it.",
        "Its .index is {empty}.",
        "index.interval.bytes is {index_interval_bytes}, the largest batch has {largest_batch_bytes} bytes; restarts "
        "and truncations, after which the broker counts anew, are allowed for.",
    ),
    next="kafka-dump-log.sh --files {path} --index-sanity-check",
    points_to="derived_file",
    reference="LogSegment#append, LogSegment#recover",
)

TIME_INDEX = Invariant(
    code="B04",
    key="TIME_INDEX",
    name="TimeIndex",
    severity=Severity.WARNING,
    relation="index_files",
    statement=(
        "A time index is a run of 12-byte entries that rise, each naming the largest timestamp of the segment up to "
        "its offset."
    ),
    because=(
        "Retention by time, and lookups by time, read it: where it is wrong, segments are deleted too early or kept "
        "too "
        "long, and a consumer that starts at an instant starts elsewhere."
    ),
    applies_when="kind = 'timeindex'",
    unknown=(_POINTERS_IN_A_DAMAGED_LOG, _POINTERS_COPIED_LATER),
    breach_when="form_errors > 0 OR NOT readable OR pointer_errors > 0",
    derived=(
        ("disordered", "CASE WHEN form_errors > 0 THEN form_errors END"),
        ("untrue", "CASE WHEN pointer_errors > 0 THEN pointer_errors END"),
    ),
    evidence=("size_bytes", "entries", "form_errors", "pointer_errors", "is_active"),
    details=("form", "pointer"),
    explanation=(
        "{path} has {entries} usable entries.",
        "It breaks its own form in {disordered} places.",
        "{untrue} entries name a timestamp that is not the largest one of the batches up to their offset.",
    ),
    next="kafka-dump-log.sh --files {path} --index-sanity-check",
    points_to="derived_file",
    reference="TimeIndex#maybeAppend, LogSegment#append",
)

TRANSACTION_INDEX_FORM = Invariant(
    code="B05",
    key="TXN_INDEX_FORM",
    name="TransactionIndexForm",
    severity=Severity.WARNING,
    relation="index_files",
    statement=(
        "A transaction index is a run of whole 34-byte entries of version 0, in the order of their end markers, all "
        "inside "
        "the segment."
    ),
    because=(
        "The broker checks little of it and silently ignores a partial last entry: an aborted transaction that "
        "falls out "
        "of it is delivered to read_committed consumers."
    ),
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
    details=("form",),
    explanation=(
        "{path} ({size_bytes} bytes, {entries} entries) breaks its own form in {form_errors} places.",
        "The broker verifies only that an entry does not lie below the segment's base offset {base_offset}.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("B06", "B07"),
    points_to="torn_write",
    reference="TransactionIndex#append, TransactionIndex#sanityCheck; KIP-98",
)

TRANSACTION_INDEX_COMPLETE = Invariant(
    code="B06",
    key="TXN_INDEX_COMPLETE",
    name="TransactionIndexComplete",
    severity=Severity.CRITICAL,
    relation="index_files",
    statement=(
        "A segment's transaction index names exactly the transactions with records that were aborted in the segment."
    ),
    because=(
        "A read_committed consumer filters by this list and nothing else. A missing entry hands it aborted records; an "
        "entry too many hides committed ones."
    ),
    applies_when="kind = 'txnindex'",
    unknown=(
        INDEXES_GONE,
        TRANSACTION_INDEXES_NOT_COPIED,
        Unknown(reason="log damaged", evidence=None, when="NOT content_checkable AND NOT ever_compacted"),
        Unknown(reason="compacted", evidence=None, when=f"NOT content_checkable AND {_ABORTED_DIFFER}"),
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"{_ABORTED_DIFFER} AND {_MAY_DIFFER_IN_A_COPY}"
        ),
    ),
    breach_when=_ABORTED_DIFFER,
    derived=(
        ("unlisted", "CASE WHEN missing_entries > 0 THEN missing_entries END"),
        ("unfounded", "CASE WHEN extra_entries > 0 THEN extra_entries END"),
        ("no_file", "CASE WHEN size_bytes = 0 THEN base_offset END"),
    ),
    evidence=("entries", "missing_entries", "extra_entries", "size_bytes", "base_offset"),
    details=("missing", "extra"),
    explanation=(
        "The log was replayed, and the aborted transactions whose end marker lies in the segment at {base_offset} "
        "compared "
        "with the {entries} entries of {path}.",
        "There is no such file, or it is empty, for the segment at {no_file}.",
        "{unlisted} aborted transactions are not in it: read_committed consumers of broker {broker_id} get their "
        "records.",
        "{unfounded} entries speak of transactions that were not aborted: their records are hidden from "
        "read_committed consumers.",
        "Abort markers without records, and transactions that began below the log start, are allowed for.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("B07",),
    points_to="derived_file",
    reference="LogSegment#updateTxnIndex, TransactionIndex#collectAbortedTxns; KIP-98",
)

TRANSACTION_INDEX_LAST_STABLE_OFFSET = Invariant(
    code="B07",
    key="TXN_INDEX_LSO",
    name="TransactionIndexLastStableOffset",
    severity=Severity.WARNING,
    relation="index_files",
    statement=(
        "Each entry of a transaction index carries the last stable offset of that moment: where the earliest other "
        "open "
        "transaction began, else the offset behind the end marker."
    ),
    because=(
        "A search for aborted transactions stops at the first entry whose last stable offset is past the fetched "
        "range: "
        "if it is too high, later entries are never looked at, and aborted records come through."
    ),
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
            when=f"last_stable_offset_errors > 0 AND {_MAY_DIFFER_IN_A_COPY}",
        ),
    ),
    breach_when="last_stable_offset_errors > 0",
    evidence=("entries", "last_stable_offset_errors", "base_offset"),
    details=("last_stable_offset",),
    explanation=(
        "In {last_stable_offset_errors} of the {entries} entries of {path} the last stable offset is not what a "
        "replay of "
        "the log gives for the moment of the abort marker.",
        "Which transactions were open then is in the log itself, so the index is what is wrong.",
    ),
    next="kafka-dump-log.sh --files {path}",
    points_to="derived_file",
    reference="ProducerStateManager#lastStableOffset, TransactionIndex#collectAbortedTxns",
)
