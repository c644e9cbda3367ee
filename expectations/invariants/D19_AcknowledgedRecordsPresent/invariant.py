from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import UNCLEAN_ELECTION_BESIDE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D19",
    key="ACKED_PRESENT",
    name="AcknowledgedRecordsPresent",
    severity=Severity.CRITICAL,
    relation="partitions",
    statement="What a producer with acks=all was told is written, the leader and every member of the ISR have.",
    because=line("""
        That is the promise of an acknowledgement. No file of a cluster tells what producers were told; a simulated
        cluster's ledger does, and this is judged beside it alone, to put the other verdicts to the test.
    """),
    applies_when="acknowledged_records > 0",
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT snapshot_quiet AND acknowledged_missing > 0"
        ),
    ),
    breach_when="acknowledged_missing > 0",
    evidence=(
        "acknowledged_records",
        "acknowledged_missing",
        "acknowledged_missing_on",
        "leader_id",
        "isr",
        "log_end_offset",
        "high_watermark_lower",
    ),
    explanation=lines("""
        By the simulated cluster's ledger {acknowledged_records} records of {topic}-{partition} were acknowledged under
          acks=all.
        {acknowledged_missing} of them, from offset {first_acknowledged_missing_offset} on, are not in the logs of
          brokers {acknowledged_missing_on}, which lead the partition or are in its ISR {isr}.
        They are above the log start, so retention did not take them.
    """),
    start_offset="first_acknowledged_missing_offset",
    end_offset="acknowledged_missing_end_offset",
    records="acknowledged_missing",
    next="tidegauge salvage <snapshot> --topic {topic} --partition {partition} --out salvaged",
    points_to="cut_or_lost",
    diagnosis=(UNCLEAN_ELECTION_BESIDE,),
    reference="ReplicaManager#appendRecords, DelayedProduce; Vanlightly's TLA+ NoCommittedRecordLostGlobally",
)
