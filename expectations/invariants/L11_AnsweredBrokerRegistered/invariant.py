from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import OTHER_VALUE, unless_sound
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="L11",
    key="ANSWERED_BROKER",
    name="AnsweredBrokerRegistered",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("kind", "broker_id"),
    statement=line("""
        Every broker that takes part is registered in the metadata log with its rack, and every captured broker is of
        the cluster that answered.
    """),
    because="Otherwise log directories of one cluster were captured with the answers of another.",
    applies_when="kind IN ('broker', 'cluster_id')",
    unknown=unless_sound(
        OTHER_VALUE,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "no answer": Evidence.ANSWERS,
        },
    ),
    breach_when=OTHER_VALUE,
    derived=(
        (
            "cluster_before",
            "CASE WHEN kind = 'cluster_id' THEN coalesce(answered_before_text, answered_after_text) END",
        ),
        ("rack_answered", "CASE WHEN kind = 'broker' THEN coalesce(answered_after_text, answered_before_text) END"),
        ("not_registered", "CASE WHEN cardinality(recomputed_values) = 0 THEN broker_id END"),
    ),
    evidence=("kind", "answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=lines("""
        The cluster that answered has the id {cluster_before}; meta.properties of broker {broker_id} says
          {recomputed_values}.
        Broker {broker_id} takes part, with {rack_answered}; the metadata log says {recomputed_values}.
        The metadata log has no registration of broker {not_registered}.
    """),
    next="bin/kafka-cluster.sh cluster-id --bootstrap-server <host:port>",
    points_to="answered_otherwise",
    reference="ClusterControlManager#registerBroker, MetaPropertiesEnsemble#verify",
)
