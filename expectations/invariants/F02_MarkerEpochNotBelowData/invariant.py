from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F02",
    key="MARKER_EPOCH_TV01",
    name="MarkerEpochNotBelowData",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement="A transaction's end marker never has a lower producer epoch than the data it ends.",
    because=line("""
        A marker of an older epoch belongs to an older transaction. Where it ends a newer one, records were committed or
        aborted by a decision that was not about them (KIP-890).
    """),
    applies_when="outcome <> 'open'",
    breach_when="marker_producer_epoch < producer_epoch",
    evidence=(
        "transactional_id",
        "producer_epoch",
        "marker_producer_epoch",
        "marker_offset",
        "outcome",
        "coordinator_epoch",
    ),
    explanation=lines("""
        Producer {producer_id} wrote offsets {first_offset}..{last_offset} of {topic}-{partition} in producer epoch
          {producer_epoch}.
        The marker at {marker_offset} that ended them ({outcome}) carries producer epoch {marker_producer_epoch}, an
          older one.
        So an earlier transaction's decision ended this one: its {record_count} records are {outcome} by mistake.
    """),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    points_to="coordinator_bug",
    reference="ProducerAppendInfo#checkProducerEpoch, KIP-890",
)
