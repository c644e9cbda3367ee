from tidegauge.expectations.invariants.shared.metadata import RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K20",
    key="ONE_IMAGE",
    name="PrincipalsAndQuotasAgree",
    severity=Severity.CRITICAL,
    relation="metadata_entries",
    statement=line("""
        An ACL, a SCRAM credential, a delegation token or a quota is the same on every node that replays its own
        snapshot and log.
    """),
    because=line("""
        Each broker authorizes and throttles by its own image. Where they differ, what one broker refuses another
        allows.
    """),
    applies_when="kind IN ('acl', 'scram', 'token', 'quota')",
    unknown=(
        Unknown(reason="metadata log damaged", evidence=None, when="after_damage AND cardinality(nodes_otherwise) > 0"),
    ),
    breach_when="cardinality(nodes_otherwise) > 0",
    derived=(
        ("recorded", "CASE WHEN value IS NOT NULL THEN metadata_offset END"),
        ("nothing", "CASE WHEN value IS NULL THEN 'no such entry' END"),
    ),
    evidence=("kind", "name", "value", "metadata_offset", "nodes_otherwise", "node_id", "path", "paths_otherwise"),
    explanation=(
        *lines("""
            By record {recorded} of the metadata log the {kind} {name} is {value}.
            By the metadata log there is {nothing}: {kind} {name}.
            Nodes {nodes_otherwise} begin with a metadata snapshot that has it otherwise, and the log behind that does
              not put it right.
            These snapshots are {paths_otherwise}.
        """),
        RECORD_STANDS,
    ),
    next="bin/kafka-acls.sh --bootstrap-server <host:port of each broker> --list",
    implies=("K03",),
    points_to="controller_bug",
    reference="AclsImage, ScramImage, DelegationTokenImage, ClientQuotasImage, MetadataLoader",
)
