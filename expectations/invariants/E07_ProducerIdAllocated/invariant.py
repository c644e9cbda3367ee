from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import IDENTITY_OF_ANOTHER
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="E07",
    key="PID_ALLOCATED",
    name="ProducerIdAllocated",
    severity=Severity.WARNING,
    relation="producers",
    statement="Every producer id in a log is below the next one that the controller would hand out.",
    because=line("""
        Brokers get producer ids from the controller in blocks. An id that was never handed out is foreign data, or the
        metadata log went back: then the id will be given to a second producer.
    """),
    unknown=(
        NO_METADATA_LOG,
        Unknown(
            reason="the metadata log names no producer id block",
            evidence=Evidence.METADATA_LOG,
            when="next_producer_id IS NULL",
        ),
        # Blocks handed out while the copy was made are in the logs and not in the metadata log read before them.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="producer_id >= next_producer_id AND NOT snapshot_quiet",
        ),
    ),
    breach_when="producer_id >= next_producer_id",
    derived=(("above_by", "producer_id - next_producer_id"),),
    evidence=("producer_id", "next_producer_id", "first_offset", "last_offset"),
    explanation=lines("""
        {topic}-{partition} on broker {broker_id} has batches of producer {producer_id}, offsets {first_offset} to
          {last_offset}.
        By the metadata log the next producer id to be handed out is {next_producer_id}: this one was not handed out
          yet.
    """),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    next=line("""
        kafka-dump-log.sh --cluster-metadata-decoder --files __cluster_metadata-0/00000000000000000000.log | grep
        PRODUCER_IDS_RECORD
    """),
    points_to="foreign_disk",
    diagnosis=(IDENTITY_OF_ANOTHER,),
    reference="ProducerIdControlManager#generateNextProducerId; KIP-730, KAFKA-15552",
)
