from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K19",
    key="FENCING_EPOCHS",
    name="FencingEpochsNeverFall",
    severity=Severity.CRITICAL,
    relation="fencing_epochs",
    statement=line("""
        Each of the seven epochs by which Kafka fences (producer, leader, partition, coordinator, broker, quorum, group)
        never falls along a log, or along the records about one broker, group or partition.
    """),
    because=line("""
        Whoever comes with an older epoch is refused: that is how Kafka keeps the living from the dead. Where an epoch
        falls, somebody was let in who had been replaced.
    """),
    unknown=(Unknown(reason="not followed", evidence=Evidence.COORDINATOR_LOG, when="regressions IS NULL"),),
    breach_when="regressions > 0",
    derived=(
        ("from_epoch", "epoch_before"),
        ("of_group", "name"),
        ("holder", "CASE WHEN broker_id IS NOT NULL THEN broker_id END"),
        ("in_metadata", "CASE WHEN broker_id IS NULL THEN 'in the metadata log' END"),
        ("log_path", "CASE WHEN node_id IS NULL THEN path END"),
    ),
    evidence=("epoch", "regressions", "first_offset", "epoch_before", "epoch_after", "node_id", "path"),
    explanation=lines("""
        In {topic}-{partition} on broker {holder} a lower {epoch} epoch comes after a higher one, {regressions}
          time(s).
        For {topic}-{partition} a lower {epoch} epoch comes after a higher one {in_metadata}, {regressions} time(s).
        It fell from {from_epoch} to {epoch_after}, at offset {first_offset}.
        The group is {of_group}.
        It first does so in {log_path}.
        The record that says so is in {path}, node {node_id}'s copy of the metadata log.
    """),
    start_offset="first_offset",
    next="bin/kafka-dump-log.sh --deep-iteration --files $(ls -d <log.dirs>/{topic}-{partition})/*.log",
    points_to="controller_bug",
    reference=line("""
        ProducerAppendInfo#checkProducerEpoch, Partition#makeLeader, ClusterControlManager, KIP-101, KIP-903
    """),
)
