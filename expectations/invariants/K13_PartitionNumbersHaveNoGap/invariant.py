from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K13",
    key="PARTITION_IDS_DENSE",
    name="PartitionNumbersHaveNoGap",
    severity=Severity.CRITICAL,
    relation="topics",
    statement="A topic has partitions 0 to n-1, and no two topics have its name at a time.",
    because=line("""
        Producers pick a partition by a key's hash and the count. A number that is missing has lost its record in the
        metadata, and with it its leader: what it holds cannot be reached.
    """),
    unknown=(
        Unknown(
            reason="metadata log damaged",
            evidence=None,
            when="metadata_damaged AND (cardinality(missing_partitions) > 0 OR namesakes > 0)",
        ),
    ),
    breach_when="cardinality(missing_partitions) > 0 OR namesakes > 0",
    derived=(
        ("missing", "CASE WHEN cardinality(missing_partitions) > 0 THEN missing_partitions END"),
        ("others", "CASE WHEN namesakes > 0 THEN namesakes END"),
    ),
    evidence=("topic_id", "partition_count", "missing_partitions", "namesakes", "node_id", "path"),
    explanation=lines("""
        Topic {topic} has {partition_count} partitions by the metadata log.
        Partitions {missing} are not among them, while higher numbers are.
        {others} other topic(s) have the same name, and were not deleted.
        The record that created the topic is in {path}, node {node_id}'s copy of the metadata log.
    """),
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}",
    points_to="controller_bug",
    reference="ReplicationControlManager#createTopic, #createPartitions, TopicsDelta",
)
