from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F05",
    key="COORDINATOR_EPOCH_MONOTONIC",
    name="CoordinatorEpochNeverFalls",
    severity=Severity.WARNING,
    relation="transactions",
    statement="The coordinator epoch of a producer's end markers never falls.",
    because=line("""
        A marker of an older coordinator epoch was sent by a coordinator that had been replaced: a zombie that may have
        decided otherwise than its successor.
    """),
    applies_when="outcome <> 'open'",
    breach_when="coordinator_epoch < coalesce(previous_coordinator_epoch, coordinator_epoch)",
    evidence=("transactional_id", "coordinator_epoch", "previous_coordinator_epoch", "marker_offset", "outcome"),
    explanation=lines("""
        Producer {producer_id}'s marker at {marker_offset} of {topic}-{partition} was written by coordinator epoch
          {coordinator_epoch}.
        Its marker before that came from coordinator epoch {previous_coordinator_epoch}, so the later marker is by a
          coordinator that had already been replaced.
        It ended offsets {first_offset}..{last_offset} as {outcome}; the coordinator in office may say otherwise.
    """),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    implies=("K19",),
    points_to="coordinator_bug",
    reference="ProducerAppendInfo#checkCoordinatorEpoch (on followers it only logs)",
)
