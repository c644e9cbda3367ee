from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="J03",
    key="COMMITTED_TOPIC_ID",
    name="CommittedTopicId",
    severity=Severity.WARNING,
    relation="committed_offsets",
    statement="A committed offset is of the topic that has its name now.",
    because=line("""
        Offsets of a deleted topic mean nothing in another one that was created under its name. A group that goes on
        from them skips records of the new topic, or is out of range at once.
    """),
    applies_when="topic_id IS NOT NULL AND partition_exists",
    unknown=(
        # The offsets are removed when the group's coordinator learns of the deletion.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="topic_id <> metadata_topic_id AND NOT snapshot_quiet",
        ),
    ),
    breach_when="topic_id <> metadata_topic_id",
    evidence=(
        "topic_id",
        "metadata_topic_id",
        "committed_offset",
        "log_start_offset",
        "log_end_offset",
        "committed_at_ms",
    ),
    explanation=lines("""
        Group {group} committed offset {committed_offset} of {topic}-{partition} at {committed_at_ms}, for topic id
          {topic_id}.
        The topic of that name has id {metadata_topic_id} now: it was deleted and created again.
        The group's coordinator should have dropped the offset with the old topic.
    """),
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    points_to="client_behaviour",
    reference="OffsetMetadataManager#onPartitionsDeleted; KIP-848, KAFKA-12257",
)
