from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.producers import COORDINATOR_NOT_CAPTURED, COPY_SKEW_MS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F09",
    key="OPEN_TXN_KNOWN",
    name="OpenTransactionKnownToCoordinator",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement="Each open transaction is ongoing, or about to end, at its coordinator, which lists the partition.",
    because=line("""
        Data came into a partition outside of any transaction (KIP-890): a later transaction of the same producer may
        commit it, or nobody ever ends it.
    """),
    unknown=(
        COORDINATOR_NOT_CAPTURED,
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # Copied before the partition, the coordinator may not know the transaction yet, if it is young. Copied
            # after it, it may have ended the transaction meanwhile; not so if it never heard of it, or still is where
            # InitProducerId left it.
            when=f"""hanging AND NOT snapshot_quiet AND (
                first_timestamp_ms >= captured_at_ms - {COPY_SKEW_MS}
                OR NOT (coordinator_state IS NULL
                        OR (coordinator_state = 'Empty' AND coordinator_producer_epoch <= producer_epoch)))""",
        ),
        Unknown(
            reason="the instant of the capture is not known",
            evidence=Evidence.INSTANTS,
            when="hanging AND NOT snapshot_quiet AND captured_at_ms IS NULL",
        ),
    ),
    breach_when="outcome = 'open' AND hanging",
    derived=(
        ("nobody", "CASE WHEN transactional_id IS NULL THEN 'No transactional id' END"),
        ("not_listed", "CASE WHEN coordinator_lists_partition IS NOT TRUE THEN 'does not list this partition' END"),
    ),
    evidence=(
        "transactional_id",
        "coordinator_state",
        "coordinator_producer_epoch",
        "coordinator_lists_partition",
        "first_timestamp_ms",
        "captured_at_ms",
    ),
    explanation=lines("""
        Producer {producer_id}, epoch {producer_epoch}, has a transaction open on {topic}-{partition}: offsets
          {first_offset}..{last_offset}.
        {nobody} at any coordinator has that producer id.
        Its coordinator's record of {transactional_id} is in state {coordinator_state}, producer epoch
          {coordinator_producer_epoch}.
        That record {not_listed}, and a coordinator writes it before the first record of the transaction may be
          appended.
        So these {record_count} records were written outside of a transaction.
    """),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    records="record_count",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    implies=("F08", "F14", "F04"),
    points_to="write_outside_transaction",
    reference="AddPartitionsToTxnManager (transaction verification, KIP-890 part 1), KAFKA-14402",
)
