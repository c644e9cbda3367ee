from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F03",
    key="MARKER_EPOCH_TV2",
    name="MarkerEpochBumpedOnce",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement=line("""
        Under transaction version 2 an end marker's producer epoch is its data's plus one, but for one that an operator
        sent.
    """),
    because=line("""
        Version 2 bumps the epoch with every transaction, so that a late marker can be told from a right one. A marker
        of any other epoch ended a transaction that it was not meant for. kafka-transactions.sh abort alone sends the
        data's own epoch, for a transaction that nobody else will end.
    """),
    applies_when="outcome <> 'open' AND coalesce(client_transaction_version, 2) >= 2",
    unknown=(
        Unknown(
            reason="the coordinator's records were not captured",
            evidence=Evidence.COORDINATOR_LOG,
            when=line("""
                aborted_by_hand IS NULL AND outcome = 'aborted' AND marker_producer_epoch = producer_epoch
                AND NOT coordinator_known
            """),
        ),
        Unknown(
            reason="transaction version not known",
            evidence=Evidence.METADATA_LOG,
            when=line("""
                client_transaction_version IS NULL AND marker_producer_epoch <> producer_epoch + 1
                AND NOT coalesce(aborted_by_hand, FALSE)
            """),
        ),
        Unknown(
            reason="an older coordinator bumps twice when it fences (KAFKA-19367)",
            evidence=None,
            when="outcome = 'aborted' AND marker_producer_epoch = producer_epoch + 2",
        ),
    ),
    # A lower epoch is MarkerEpochNotBelowData's.
    breach_when=line("""
        marker_producer_epoch <> producer_epoch + 1 AND marker_producer_epoch >= producer_epoch
        AND NOT coalesce(aborted_by_hand, FALSE)
    """),
    derived=(("expected_epoch", "producer_epoch + 1"),),
    evidence=(
        "transactional_id",
        "producer_epoch",
        "marker_producer_epoch",
        "client_transaction_version",
        "marker_offset",
        "outcome",
    ),
    explanation=lines("""
        Producer {producer_id} (transactional id {transactional_id}) uses transaction version
          {client_transaction_version}.
        It wrote offsets {first_offset}..{last_offset} of {topic}-{partition} in producer epoch {producer_epoch}, so
          their marker must carry epoch {expected_epoch}.
        The marker at {marker_offset} ({outcome}) carries epoch {marker_producer_epoch}: it is another transaction's,
          come late, or was sent by hand while this one ran.
    """),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    points_to="coordinator_bug",
    reference=line("""
        ProducerAppendInfo#checkProducerEpoch (strict at the leader since 4.2), TransactionsCommand, KIP-664, KIP-890,
        KAFKA-19999
    """),
)
