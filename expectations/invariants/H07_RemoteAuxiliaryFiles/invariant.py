from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import READ_REMOTE_METADATA
from tidegauge.expectations.invariants.shared.remote_tier import COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="H07",
    key="REMOTE_AUX_FILES",
    name="RemoteAuxiliaryFiles",
    severity=Severity.WARNING,
    relation="remote_segments",
    statement="A copied remote segment has its log, indexes, producer snapshot and epochs in the store, all sound.",
    because=line("""
        A broker that reads from the tier fetches the indexes first; one that becomes leader takes producers and epochs
        from there. Without them, or with broken ones, the segment cannot be read or the leader starts wrong.
    """),
    applies_when=COPIED,
    unknown=(
        Unknown(reason="remote store not captured", evidence=Evidence.REMOTE_STORE, when="NOT store_captured"),
        # Deleted while the rest was copied: nothing of it is left.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT snapshot_quiet AND cardinality(missing_files) = 5",
        ),
    ),
    breach_when="cardinality(missing_files) > 0 OR damaged_files > 0",
    derived=(
        ("absent", "CASE WHEN cardinality(missing_files) > 0 THEN missing_files END"),
        ("broken", "CASE WHEN damaged_files > 0 THEN damaged_files END"),
    ),
    evidence=("missing_files", "damaged_files", "start_offset", "end_offset", "size_bytes"),
    explanation=lines("""
        Remote segment {segment_id} of {topic}-{partition}, [{start_offset}, {end_offset}), was looked up in the remote
          store.
        It has no {absent} there.
        {broken} of its files are damaged.
        A transaction index is there only where a transaction was aborted, and is not asked for.
    """),
    details=("log", "index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint"),
    start_offset="start_offset",
    end_offset="end_offset",
    next=READ_REMOTE_METADATA,
    points_to="remote_tier",
    reference="RemoteLogManager.RLMCopyTask#copyLogSegment; KAFKA-15401",
)
