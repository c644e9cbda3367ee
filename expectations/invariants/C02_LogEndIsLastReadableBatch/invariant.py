from tidegauge.expectations.invariants.shared.diagnoses import ROTTED_TOO, TORN_ALONE
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="C02",
    key="LEO",
    name="LogEndIsLastReadableBatch",
    severity=Severity.INFO,
    relation="replicas",
    statement="A replica's log ends after its last readable batch: no batch comes after a damaged place.",
    because=line("""
        Kafka's recovery cuts a log at the first place that it cannot read. Batches behind it can be read today, and are
        gone after the next unclean start of this broker.
    """),
    breach_when="readable_end_offset > log_end_offset",
    derived=(("stranded", "readable_end_offset - log_end_offset"),),
    evidence=("log_end_offset", "readable_end_offset", "damaged_batches"),
    explanation=lines("""
        On broker {broker_id} {topic}-{partition} can be followed without a break up to {log_end_offset}.
        Behind the damaged place whole batches can be read again, up to {readable_end_offset}.
        If this broker recovers the segment after an unclean stop, it cuts the log at {log_end_offset}: {stranded}
          offsets go with it.
    """),
    start_offset="log_end_offset",
    end_offset="readable_end_offset",
    next=line("""
        tidegauge salvage <snapshot> --topic {topic} --partition {partition} --from {log_end_offset} --out salvaged
    """),
    consequence_of="A03",
    points_to="torn_write",
    diagnosis=(ROTTED_TOO, TORN_ALONE),
    reference="LogSegment#readNextOffset, LogSegment#recover",
)
