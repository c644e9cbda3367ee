from tidegauge.expectations.invariants.shared.commands import DUMP_LOG_OF_BROKER
from tidegauge.expectations.invariants.shared.diagnoses import HEADER_ROTTED_ALONE, WRONG_AT_THE_LEADER
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D01",
    key="EPOCH_MONOTONIC_IN_LOG",
    name="LeaderEpochNeverFalls",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="From batch to batch of a log the leader epoch never falls.",
    because=line("""
        Epochs order leaders. A batch of an older epoch behind a newer one was appended by a leader that had been
        replaced, or its header rotted: the epoch is not covered by the CRC. Truncation by epochs goes wrong either way.
    """),
    breach_when="epoch_order_errors > 0",
    evidence=(
        "epoch_order_errors",
        "first_leader_epoch",
        "last_leader_epoch",
        "first_offset",
        "last_offset",
        "batch_count",
    ),
    explanation=lines("""
        {path} holds {batch_count} batches of {topic}-{partition}, offsets {first_offset}..{last_offset}, as broker
          {broker_id} has them.
        {epoch_order_errors} of them have a lower leader epoch than the batch before.
        If the other replicas have the same, a replaced leader wrote them; if only this one has it, its header rotted.
    """),
    details=("epoch_order",),
    next=DUMP_LOG_OF_BROKER,
    implies=("B14", "B15", "D02", "D04", "D07", "D15", "K19"),
    points_to="leader_epoch_wrong",
    diagnosis=(WRONG_AT_THE_LEADER, HEADER_ROTTED_ALONE),
    reference="LeaderEpochFileCache#assign (drops what contradicts it, with a warning), KAFKA-18723",
)
