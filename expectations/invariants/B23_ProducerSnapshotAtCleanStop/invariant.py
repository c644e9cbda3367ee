from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B23",
    key="CLEAN_STOP_PRODUCER_SNAPSHOT",
    name="ProducerSnapshotAtCleanStop",
    severity=Severity.WARNING,
    relation="replicas",
    statement="After a clean stop there is a producer snapshot at the log end.",
    because=line("""
        A broker writes one as it closes the log, and reads the log from its newest one on when it starts. If there is
        none at all it reads nothing after a clean stop: it takes every producer for new, accepts a retry a second time
        and forgets which transactions are open.
    """),
    applies_when="clean_shutdown AND NOT is_future AND topic <> '__cluster_metadata' "
    "AND (batch_count > 0 OR log_end_offset IS NULL) "
    # One above the log end was at the end that the log had: that it no longer has it is B10's.
    "AND NOT coalesce(newest_producer_snapshot > log_end_offset, false)",
    unknown=(
        Unknown(
            reason="producer snapshots not copied",
            evidence=Evidence.PRODUCER_SNAPSHOT,
            when="NOT producer_snapshots_copied",
        ),
        Unknown(
            reason="log damaged", evidence=None, when="damaged_batches > 0 AND NOT coalesce(snapshot_at_end, false)"
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND NOT coalesce(snapshot_at_end, false)",
        ),
    ),
    breach_when="NOT snapshot_at_end",
    severity_when=((Severity.CRITICAL, "newest_producer_snapshot IS NULL AND producer_ids > 0"),),
    derived=(
        ("forgotten", "CASE WHEN newest_producer_snapshot IS NULL AND producer_ids > 0 THEN producer_ids END"),
        ("replayed_from", "newest_producer_snapshot"),
    ),
    evidence=("log_start_offset", "log_end_offset", "newest_producer_snapshot", "producer_ids", "clean_shutdown"),
    explanation=lines("""
        Broker {broker_id} stopped cleanly, and its log of {topic}-{partition} ends at offset {log_end_offset}: no
          producer snapshot is there.
        Its newest one is at offset {replayed_from}; the next start replays the log from there.
        There is none at all: the next start does not read the log for it, and forgets the {forgotten} producers whose
          batches are in it, with their sequences and open transactions.
        Kafka removes one only with the records before it; somebody, or a backup tool, took it away.
    """),
    next="ls -l <log.dir of broker {broker_id}>/{topic}-{partition}/*.snapshot",
    implies=("B11", "D16"),
    points_to="restored_files",
    reference="UnifiedLog#close, #rebuildProducerState (reloadFromCleanShutdown); KIP-98",
)
