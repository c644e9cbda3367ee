from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.metadata import DAMAGED, DELETED, RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_EFFECTIVE_MIN_ISR: Final = "least(min_insync_replicas, cardinality(replicas))"

INVARIANT = Invariant(
    code="K06",
    key="ELR_EMPTY_ABOVE_MINISR",
    name="EligibleLeadersOnlyBelowMinIsr",
    severity=Severity.WARNING,
    relation="partition_changes",
    statement=line("""
        A partition with as many in-sync replicas as min.insync.replicas asks for has no eligible leader replicas beside
        them.
    """),
    because=line("""
        The ELR vouches that its members hold everything committed. That is so only while nothing more can be committed
        without them: members kept beyond that may lack what came later, and can still be elected.
    """),
    applies_when="cardinality(elr) > 0 OR cardinality(last_known_elr) > 0",
    unknown=(
        Unknown(reason="min.insync.replicas not known", evidence=Evidence.SETTINGS, when="min_insync_replicas IS NULL"),
        Unknown(reason=DAMAGED, evidence=None, when=f"after_damage AND cardinality(isr) >= {_EFFECTIVE_MIN_ISR}"),
    ),
    breach_when=f"cardinality(isr) >= {_EFFECTIVE_MIN_ISR}",
    severity_when=DELETED,
    derived=(
        ("in_sync", "cardinality(isr)"),
        ("kept", "CASE WHEN cardinality(elr) > 0 THEN elr END"),
        ("kept_last_known", "CASE WHEN cardinality(last_known_elr) > 0 THEN last_known_elr END"),
    ),
    evidence=(
        "metadata_offset",
        "isr",
        "elr",
        "last_known_elr",
        "min_insync_replicas",
        "replicas",
        "at_ms",
        "node_id",
        "path",
    ),
    explanation=(
        *lines("""
            Record {metadata_offset} of the metadata log left {topic}-{partition} with {in_sync} in-sync replicas,
              {isr}; min.insync.replicas was {min_insync_replicas}.
            Its ELR still is {kept}: these brokers may be elected without what was committed since.
            Its last known leader still is {kept_last_known}.
        """),
        RECORD_STANDS,
    ),
    next=DESCRIBE_TOPIC,
    points_to="controller_bug",
    reference="PartitionChangeBuilder#maybePopulateTargetElr, KIP-966",
)
