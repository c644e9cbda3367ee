from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.lacking import CLEANED_END
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_CONTENT_DIFFERS: Final = "(missing_entries > 0 OR extra_entries > 0 OR wrong_entries > 0)"
_ONLY_MISSING: Final = "missing_entries > 0 AND extra_entries = 0 AND wrong_entries = 0"

INVARIANT = Invariant(
    code="B11",
    key="SNAPSHOT_CONTENT",
    name="ProducerSnapshotContent",
    severity=Severity.WARNING,
    relation="index_files",
    statement="A producer snapshot holds the state that replaying the log up to its offset gives.",
    because=line("""
        A broker loads it instead of reading the log. A wrong state makes it accept a duplicate, refuse a good batch, or
        keep a transaction open that is over.
    """),
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
    explanation=lines("""
        The log from {log_start_offset} to {base_offset} was replayed and compared with the {entries} producers in
          {path}.
        {absent} producers that wrote shortly before are not in it: the broker would take their next batch for a new
          producer's.
        {unfounded} producers in it have no batch in the log, though nothing was deleted from it.
        {different} producers are in it with another epoch, sequence, offset or transaction than the log says.
    """),
    details=("missing", "extra", "wrong"),
    next="kafka-dump-log.sh --files {path}",
    implies=("C03", "D16"),
    points_to="derived_file",
    reference="UnifiedLog#rebuildProducerState, ProducerStateManager#takeSnapshot; KAFKA-12520, KIP-98",
)
