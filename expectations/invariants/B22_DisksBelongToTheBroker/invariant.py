from typing import Final

from tidegauge.expectations.causes import Rule
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import IDENTITY_OF_ANOTHER
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OTHER_CLUSTER: Final = "cardinality(cluster_ids) > 1 OR coalesce(cluster_ids[1] <> expected_cluster_id, false)"
_OTHER_NODE: Final = "cardinality(node_ids) > 1 OR coalesce(node_ids[1] <> broker_id, false)"
_OTHER_DISK: Final = "cardinality(shared_directory_ids) > 0 OR cardinality(foreign_directory_ids) > 0"
_UNREGISTERED: Final = "coalesce(cardinality(unregistered_directory_ids) > 0, false)"
_WRONG: Final = "coalesce(cardinality(wrong_properties) > 0, false)"
_FILE_EDITED: Final = Rule(
    true=("own_disk",),
    points_to="restored_files",
    because=line("""
        The directory id, where one can be read, is the broker's own, and so is the disk: it is the file that was edited
        or damaged.
    """),
)

INVARIANT = Invariant(
    code="B22",
    key="META_PROPERTIES",
    name="DisksBelongToTheBroker",
    severity=Severity.WARNING,
    relation="brokers",
    statement=line("""
        Every log directory of a broker has the cluster's id, the broker's id, and a directory id that is its own and
        registered for that broker.
    """),
    because=line("""
        A disk of another cluster or another broker brings logs that nobody here wrote. A directory id that two disks
        share makes the controller take a replica on the one for a replica on the other.
    """),
    # A log dir that is somebody else's does not count as captured, and this is where that is said.
    applies_when=f"captured OR {_WRONG}",
    unknown=(
        Unknown(
            reason="no meta.properties",
            evidence=Evidence.META_PROPERTIES,
            when=line(f"""
                cardinality(cluster_ids) = 0 AND cardinality(node_ids) = 0 AND cardinality(directory_ids) = 0
                AND NOT {_WRONG}
            """),
        ),
        Unknown(
            reason="cluster id not settled",
            evidence=None,
            when=line(f"""
                expected_cluster_id IS NULL AND cardinality(cluster_ids) = 1 AND NOT ({_OTHER_NODE} OR {_OTHER_DISK}
                OR {_WRONG})
            """),
        ),
        Unknown(
            reason="broker has not come back",
            evidence=None,
            # A new disk is registered when the broker starts with it.
            when=line(f"""
                NOT alive AND {_UNREGISTERED} AND NOT ({_OTHER_CLUSTER} OR {_OTHER_NODE} OR {_OTHER_DISK} OR {_WRONG})
            """),
        ),
    ),
    breach_when=f"{_OTHER_CLUSTER} OR {_OTHER_NODE} OR {_OTHER_DISK} OR {_UNREGISTERED} OR {_WRONG}",
    derived=(
        ("other_cluster", f"CASE WHEN {_OTHER_CLUSTER} THEN cluster_ids END"),
        ("other_node", f"CASE WHEN {_OTHER_NODE} THEN node_ids END"),
        ("shared", "CASE WHEN cardinality(shared_directory_ids) > 0 THEN shared_directory_ids END"),
        ("foreign_ids", "CASE WHEN cardinality(foreign_directory_ids) > 0 THEN foreign_directory_ids END"),
        ("unregistered", f"CASE WHEN {_UNREGISTERED} THEN unregistered_directory_ids END"),
        ("wrong", f"CASE WHEN {_WRONG} THEN wrong_properties END"),
        # What counts as captured is the broker's own disk, whatever the file says.
        ("own_disk", f"CASE WHEN {_WRONG} AND captured AND NOT ({_OTHER_DISK} OR {_UNREGISTERED}) THEN true END"),
    ),
    evidence=(
        "cluster_ids",
        "expected_cluster_id",
        "node_ids",
        "directory_ids",
        "log_dirs",
        "wrong_properties",
        "own_disk",
    ),
    explanation=lines("""
        Broker {broker_id} has log dirs {log_dirs}, with directory ids {directory_ids}.
        Their meta.properties name cluster {other_cluster}, while most brokers' name {expected_cluster_id}.
        Their meta.properties name node {other_node}, not broker {broker_id}.
        Directory ids {shared} are also those of another log dir in the snapshot.
        Directory ids {foreign_ids} are registered for another broker.
        Directory ids {unregistered} are registered for no broker.
        The files: {wrong}.
    """),
    next="cat <each log.dir of broker {broker_id}>/meta.properties",
    points_to="foreign_disk",
    diagnosis=(_FILE_EDITED, IDENTITY_OF_ANOTHER),
    reference="MetaPropertiesEnsemble#verify, KIP-858",
)
