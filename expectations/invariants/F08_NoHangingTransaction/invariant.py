from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import MARKER_LOST, PARTITION_NEVER_ADDED
from tidegauge.expectations.invariants.shared.producers import COORDINATOR_NOT_CAPTURED, COPY_SKEW_MS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F08",
    key="HANGING_TXN",
    name="NoHangingTransaction",
    severity=Severity.WARNING,
    relation="transactions",
    statement=line("""
        No transaction stays open for longer than the longest timeout while its coordinator does not know it.
    """),
    because=line("""
        Nobody will ever end it: the last stable offset stands still, read_committed consumers wait, and neither the
        cleaner nor retention of consumer offsets gets past it.
    """),
    unknown=(
        COORDINATOR_NOT_CAPTURED,
        Unknown(
            reason="the instant of the capture is not known",
            evidence=Evidence.INSTANTS,
            when="hanging AND captured_at_ms IS NULL",
        ),
        Unknown(
            reason="too young to tell",
            evidence=None,
            # Until the longest timeout has passed, the coordinator may still be about to write.
            when="hanging AND last_timestamp_ms >= captured_at_ms - max_transaction_timeout_ms",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=line(f"""
                hanging AND NOT snapshot_quiet
                AND last_timestamp_ms >= captured_at_ms - max_transaction_timeout_ms - {COPY_SKEW_MS}
            """),
        ),
    ),
    breach_when="outcome = 'open' AND hanging AND last_timestamp_ms < captured_at_ms - max_transaction_timeout_ms",
    derived=(
        ("idle_for_ms", "CASE WHEN last_timestamp_ms >= 0 THEN captured_at_ms - last_timestamp_ms END"),
        ("may_run_for_ms", "max_transaction_timeout_ms"),
        ("nobody", "CASE WHEN transactional_id IS NULL THEN 'No transactional id' END"),
        ("not_listed", "CASE WHEN coordinator_lists_partition IS NOT TRUE THEN 'does not list this partition' END"),
    ),
    evidence=(
        "transactional_id",
        "coordinator_state",
        "coordinator_lists_partition",
        "last_timestamp_ms",
        "captured_at_ms",
    ),
    explanation=lines("""
        Producer {producer_id}, epoch {producer_epoch}, has a transaction open on {topic}-{partition} since offset
          {first_offset}.
        {nobody} at any coordinator has that producer id, so no coordinator will end it.
        Its coordinator's record of {transactional_id} is in state {coordinator_state} and {not_listed}, so it will not
          end it.
        Its last record is {idle_for_ms} old; no transaction may run for longer than {may_run_for_ms}.
        The last stable offset of {topic}-{partition} stays at {first_offset} until somebody aborts it.
    """),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    records="record_count",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> abort --topic {topic} --partition {partition}
        --start-offset {first_offset}
    """),
    implies=("F12",),
    points_to="hanging_transaction",
    diagnosis=(MARKER_LOST, PARTITION_NEVER_ADDED),
    reference="kafka-transactions find-hanging, ProducerStateManager#hasLateTransaction, KIP-664",
)
