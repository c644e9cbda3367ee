from typing import Final

from tidegauge.expectations.causes import Rule
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OFFLINE: Final = "coalesce(cardinality(offline_replicas) > 0, false)"
_LOG_DIR_OFFLINE: Final = Rule(
    known=("offline",),
    missing=("missing", "stray"),
    points_to="failed_disk",
    because=line("""
        The broker has no longer registered the log dir that these replicas are assigned to: nothing was interrupted,
        they went with it.
    """),
)

INVARIANT = Invariant(
    code="D17",
    key="REPLICA_PLACEMENT",
    name="ReplicasLieWhereAssigned",
    severity=Severity.WARNING,
    relation="brokers",
    statement=line("""
        A broker's log directories hold the replicas that the metadata log assigns to it, in the directory that it
        names, and no others.
    """),
    because=line("""
        A replica that is missing leaves one copy fewer than everybody counts on. One that nobody assigned is what came
        back with an old disk: if it is served, it serves what was deleted or moved away.
    """),
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
            when=line(f"""
                unsettled_replicas > 0 AND cardinality(stray_replicas) = 0 AND cardinality(missing_replicas) = 0
                AND cardinality(misplaced_replicas) = 0 AND NOT {_OFFLINE}
            """),
        ),
    ),
    breach_when=line(f"""
        cardinality(stray_replicas) > 0 OR cardinality(missing_replicas) > 0 OR cardinality(misplaced_replicas) > 0
        OR {_OFFLINE}
    """),
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
    explanation=lines("""
        Broker {broker_id} knew the metadata log up to {seen_until_ms}.
        It serves {stray}, which the metadata log has not assigned to it for more than a minute.
        It was in sync for {missing}, and neither holds them nor lists them in replication-offset-checkpoint.
        It holds {misplaced} in another log dir than the metadata log names.
        For {offline} the metadata log names a log dir that the broker no longer registers: the disk failed, or was
          taken out of log.dirs. The controller has taken them out of the ISR. The broker makes them again in another
          log dir only when it starts without that one.
    """),
    next="bin/kafka-log-dirs.sh --bootstrap-server <host:port> --describe --broker-list {broker_id}",
    points_to="interrupted_cleanup",
    diagnosis=(_LOG_DIR_OFFLINE,),
    reference="LogManager (stray replicas), ReplicaManager#applyDelta, KIP-858",
)
