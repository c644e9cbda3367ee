from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import FIND_PRODUCER
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_BACK_IN_EPOCH: Final = Unknown(
    reason="setting not known", evidence=Evidence.SETTINGS, when="unsettled_batches > 0 AND epoch_regressions = 0"
)

INVARIANT = Invariant(
    code="E03",
    key="PRODUCER_EPOCH_MONOTONIC",
    name="ProducerEpochMonotonic",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="A producer id's epoch never falls as offsets rise.",
    because=line("""
        A higher epoch fences every older instance of the producer. A batch of a lower one behind it is a zombie's write
        that should have been refused: exactly-once is broken.
    """),
    unknown=(_BACK_IN_EPOCH,),
    breach_when="epoch_regressions > 0",
    evidence=("epoch_regressions", "producer_epoch", "first_offset", "last_offset", "last_timestamp_ms"),
    explanation=lines("""
        {epoch_regressions} batches of producer {producer_id} in epoch {producer_epoch} come after batches or markers
          of a higher epoch of the same producer.
        The last of them is at offset {last_offset} of {topic}-{partition}, written at {last_timestamp_ms}.
        The producer's state had not expired in between, so the leader knew that the epoch was fenced.
    """),
    details=("epoch_regression",),
    next=FIND_PRODUCER,
    implies=("F02", "K19"),
    points_to="producer_bug",
    reference="ProducerAppendInfo#checkProducerEpoch; KIP-98, KIP-360",
)
