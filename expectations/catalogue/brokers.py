"""Invariants about a broker's disks: whose they are, and which replicas lie on them (families B and D).

In: rows of `brokers`. The rule that must hold here: a broker that was not captured is not judged, and what a broker is
about to put right is not called wrong.
"""

from typing import Final

from expectations.catalogue.diagnoses import FILE_EDITED, IDENTITY_OF_ANOTHER, LOG_DIR_OFFLINE
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_OTHER_CLUSTER: Final = "cardinality(cluster_ids) > 1 OR coalesce(cluster_ids[1] <> expected_cluster_id, false)"
_OTHER_NODE: Final = "cardinality(node_ids) > 1 OR coalesce(node_ids[1] <> broker_id, false)"
_OTHER_DISK: Final = "cardinality(shared_directory_ids) > 0 OR cardinality(foreign_directory_ids) > 0"
_UNREGISTERED: Final = "coalesce(cardinality(unregistered_directory_ids) > 0, false)"
_WRONG: Final = "coalesce(cardinality(wrong_properties) > 0, false)"

META_PROPERTIES = Invariant(
    code="B22",
    key="META_PROPERTIES",
    name="DisksBelongToTheBroker",
    severity=Severity.WARNING,
    relation="brokers",
    statement="Every log directory of a broker has the cluster's id, the broker's id, and a directory id that is its "
    "own and registered for that broker.",
    because="A disk of another cluster or another broker brings logs that nobody here wrote. A directory id that two "
    "disks share makes the controller take a replica on the one for a replica on the other.",
    # A log dir that is somebody else's does not count as captured, and this is where that is said.
    applies_when=f"captured OR {_WRONG}",
    unknown=(
        Unknown(
            reason="no meta.properties",
            evidence=Evidence.META_PROPERTIES,
            when="cardinality(cluster_ids) = 0 AND cardinality(node_ids) = 0 AND cardinality(directory_ids) = 0 "
            f"AND NOT {_WRONG}",
        ),
        Unknown(
            reason="cluster id not settled",
            evidence=None,
            when=f"expected_cluster_id IS NULL AND cardinality(cluster_ids) = 1 AND NOT ({_OTHER_NODE} OR "
            f"{_OTHER_DISK} OR {_WRONG})",
        ),
        Unknown(
            reason="broker has not come back",
            evidence=None,
            # A new disk is registered when the broker starts with it.
            when=f"NOT alive AND {_UNREGISTERED} AND NOT ({_OTHER_CLUSTER} OR {_OTHER_NODE} OR {_OTHER_DISK} OR "
            f"{_WRONG})",
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
    explanation=(
        "Broker {broker_id} has log dirs {log_dirs}, with directory ids {directory_ids}.",
        "Their meta.properties name cluster {other_cluster}, while most brokers' name {expected_cluster_id}.",
        "Their meta.properties name node {other_node}, not broker {broker_id}.",
        "Directory ids {shared} are also those of another log dir in the snapshot.",
        "Directory ids {foreign_ids} are registered for another broker.",
        "Directory ids {unregistered} are registered for no broker.",
        "The files: {wrong}.",
    ),
    next="cat <each log.dir of broker {broker_id}>/meta.properties",
    points_to="foreign_disk",
    diagnosis=(
        FILE_EDITED,
        IDENTITY_OF_ANOTHER,
    ),
    reference="MetaPropertiesEnsemble#verify, KIP-858",
)

_OFFLINE: Final = "coalesce(cardinality(offline_replicas) > 0, false)"

REPLICA_PLACEMENT = Invariant(
    code="D17",
    key="REPLICA_PLACEMENT",
    name="ReplicasLieWhereAssigned",
    severity=Severity.WARNING,
    relation="brokers",
    statement="A broker's log directories hold the replicas that the metadata log assigns to it, in the directory that "
    "it names, and no others.",
    because="A replica that is missing leaves one copy fewer than everybody counts on. One that nobody assigned is "
    "what came back with an old disk: if it is served, it serves what was deleted or moved away.",
    applies_when="captured AND registered",
    unknown=(
        Unknown(
            reason="metadata log of the broker not in the copy",
            evidence=Evidence.METADATA_LOG,
            when="seen_until_ms IS NULL AND unsettled_replicas > 0",
        ),
        Unknown(
            reason="about to be settled, or not in the copy",
            evidence=Evidence.REPLICA,
            when="unsettled_replicas > 0 AND cardinality(stray_replicas) = 0 AND cardinality(missing_replicas) = 0 "
            f"AND cardinality(misplaced_replicas) = 0 AND NOT {_OFFLINE}",
        ),
    ),
    breach_when="cardinality(stray_replicas) > 0 OR cardinality(missing_replicas) > 0 OR "
    f"cardinality(misplaced_replicas) > 0 OR {_OFFLINE}",
    severity_when=(
        # The broker tells the controller which directory it is when it starts, and nothing is lost until then. Of a
        # directory that failed the controller knows, and counts on none of its replicas.
        (Severity.INFO, "cardinality(stray_replicas) = 0 AND cardinality(missing_replicas) = 0"),
    ),
    derived=(
        ("stray", "CASE WHEN cardinality(stray_replicas) > 0 THEN stray_replicas END"),
        ("missing", "CASE WHEN cardinality(missing_replicas) > 0 THEN missing_replicas END"),
        ("misplaced", "CASE WHEN cardinality(misplaced_replicas) > 0 THEN misplaced_replicas END"),
        ("offline", f"CASE WHEN {_OFFLINE} THEN offline_replicas END"),
    ),
    evidence=(
        "replica_count",
        "stray_replicas",
        "missing_replicas",
        "misplaced_replicas",
        "seen_until_ms",
        "missing",
        "offline",
        "stray",
    ),
    explanation=(
        "Broker {broker_id} knew the metadata log up to {seen_until_ms}.",
        "It serves {stray}, which the metadata log has not assigned to it for more than a minute.",
        "It was in sync for {missing}, and neither holds them nor lists them in replication-offset-checkpoint.",
        "It holds {misplaced} in another log dir than the metadata log names.",
        "Of {offline} the metadata log names a log dir that the broker has registered no longer: the disk failed, or "
        "was taken out of log.dirs. The controller has taken them out of the ISR, and the broker makes them anew in "
        "another log dir only when it starts without that one.",
    ),
    next="bin/kafka-log-dirs.sh --bootstrap-server <host:port> --describe --broker-list {broker_id}",
    points_to="interrupted_cleanup",
    diagnosis=(LOG_DIR_OFFLINE,),
    reference="LogManager (stray replicas), ReplicaManager#applyDelta, KIP-858",
)
