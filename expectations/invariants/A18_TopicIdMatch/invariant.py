from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import IDENTITY_OF_ANOTHER
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A18",
    key="TOPIC_ID_MATCH",
    name="TopicIdMatch",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="A replica's partition.metadata names the topic id that the metadata log gives its topic.",
    because=line("""
        A topic that was deleted and created again has its name and another id. A directory with the old id holds the
        old topic's records under the new one's name; the broker refuses to use it.
    """),
    unknown=(
        Unknown(reason="no partition.metadata", evidence=Evidence.REPLICA, when="topic_id IS NULL"),
        NO_METADATA_LOG,
        Unknown(
            reason="topic not in the metadata log",
            evidence=Evidence.METADATA_LOG,
            when="metadata_topic_id IS NULL AND topic <> '__cluster_metadata'",
        ),
        Unknown(
            reason="the broker was down when the topic was deleted",
            evidence=None,
            when="topic_id <> metadata_topic_id AND topic_id_deleted AND NOT broker_alive",
        ),
        Unknown(
            # A broker that was just started, or cut off, deletes the directory when it has caught up with the metadata.
            reason="the broker may not have heard of the deletion when it was copied",
            evidence=None,
            when="topic_id <> metadata_topic_id AND topic_id_deleted AND NOT broker_quiet",
        ),
    ),
    breach_when=line("""
        topic_id <> CASE WHEN topic = '__cluster_metadata' THEN 'AAAAAAAAAAAAAAAAAAAAAQ' ELSE metadata_topic_id END
    """),
    evidence=("topic_id", "metadata_topic_id", "log_dir", "log_start_offset", "log_end_offset"),
    explanation=lines("""
        Broker {broker_id}'s directory of {topic}-{partition} says that it belongs to topic id {topic_id}.
        In the metadata log {topic} has the id {metadata_topic_id}.
        Its offsets from {log_start_offset} to {log_end_offset} are another topic's: none of them may be served as
          {topic}'s.
    """),
    next="kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic {topic}",
    implies=("D02", "D03", "D05", "D06", "D07", "D10", "D14", "D15"),
    points_to="stale_disk",
    diagnosis=(IDENTITY_OF_ANOTHER,),
    reference="UnifiedLog#initializeTopicId (InconsistentTopicIdException); KIP-516, KAFKA-14616, KAFKA-16814",
)
