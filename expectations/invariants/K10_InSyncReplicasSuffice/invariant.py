from typing import Final

from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

_EFFECTIVE_MIN_ISR: Final = line("""
    CASE WHEN min_insync_replicas > cardinality(replicas) THEN cardinality(replicas) ELSE min_insync_replicas END
""")
"""A topic with fewer replicas than min.insync.replicas needs no more than it has (Partition#effectiveMinIsr)."""

INVARIANT = Invariant(
    code="K10",
    key="MIN_ISR",
    name="InSyncReplicasSuffice",
    severity=Severity.WARNING,
    relation="partitions",
    statement=line("""
        A partition has as many in-sync replicas as min.insync.replicas asks for; while it has not, its high watermark
        stands still.
    """),
    because=line("""
        Below the minimum, writes with acks=all are refused and nothing more is committed. A high watermark that moved
        still declared records committed that too few brokers hold.
    """),
    # A stopped cluster leaves every ISR empty, on purpose.
    breach_when=f"NOT cluster_stopped AND cardinality(isr) < {_EFFECTIVE_MIN_ISR}",
    severity_when=(
        # Ordinary while a broker is down, and the controller keeps the ELR for it. A high watermark above what every
        # member of ISR and ELR holds is not.
        (
            Severity.INFO,
            line("""
                NOT snapshot_quiet OR high_watermark_lower IS NULL OR high_watermark_upper IS NULL
                OR high_watermark_lower <= high_watermark_upper
            """),
        ),
    ),
    derived=(
        ("in_sync", "cardinality(isr)"),
        ("needed", _EFFECTIVE_MIN_ISR),
        (
            "moved",
            line("""
                CASE WHEN snapshot_quiet
                AND high_watermark_lower > high_watermark_upper THEN high_watermark_lower - high_watermark_upper END
            """),
        ),
        ("leaderless", "CASE WHEN leader_id IS NULL THEN 'no leader' END"),
    ),
    evidence=(
        "leader_id",
        "replicas",
        "isr",
        "elr",
        "min_insync_replicas",
        "active_replicas",
        "high_watermark_lower",
        "high_watermark_upper",
    ),
    explanation=lines("""
        {topic}-{partition}, led by broker {leader_id}, has {in_sync} in-sync replica(s), {isr}; it needs {needed}.
        {topic}-{partition} has {leaderless} and {in_sync} in-sync replica(s), {isr}; it needs {needed}.
        {active_replicas} of its replicas {replicas} are on registered, unfenced brokers; the ELR is {elr}.
        Until the ISR grows, producers with acks=all get NOT_ENOUGH_REPLICAS and the high watermark stays where it is.
        Yet a checkpointed high watermark, {high_watermark_lower}, is {moved} above {high_watermark_upper}, the most
          that all of ISR and ELR hold: it moved while too few were in sync.
    """),
    start_offset=line("""
        CASE WHEN snapshot_quiet AND high_watermark_lower > high_watermark_upper THEN high_watermark_upper END
    """),
    end_offset=line("""
        CASE WHEN snapshot_quiet AND high_watermark_lower > high_watermark_upper THEN high_watermark_lower END
    """),
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --under-min-isr-partitions",
    points_to="broker_down",
    reference="Partition#isUnderMinIsr in #maybeIncrementLeaderHW, KIP-966",
)
