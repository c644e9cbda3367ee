from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D09",
    key="FOLLOWER_HW_LE_LEADER_HW",
    name="FollowerHighWatermarkNotAboveLeaders",
    severity=Severity.WARNING,
    relation="divergences",
    statement="A follower's high watermark never exceeds its leader's.",
    because=line("""
        A follower learns the high watermark from its leader. One that knows a higher one knows of committed records
        that the leader does not count as committed: consumers would be sent back (KAFKA-14704).
    """),
    applies_when="follower_high_watermark IS NOT NULL AND leader_high_watermark IS NOT NULL",
    unknown=(
        Unknown(
            reason="high watermarks are written every 5 s",
            evidence=Evidence.ONE_MOMENT,
            # Each broker writes by its own clock; only a clean stop writes the last one.
            when=line("""
                follower_high_watermark > leader_high_watermark AND NOT (broker_quiet AND follower_clean_shutdown
                AND coalesce(leader_clean_shutdown, false))
            """),
        ),
        Unknown(
            reason="just after a leader change",
            evidence=None,
            # A new leader begins with the high watermark it had as a follower, and raises it with the first fetches.
            when=line("""
                follower_high_watermark > leader_high_watermark
                AND leader_high_watermark <= coalesce(leader_epoch_start_offset, leader_high_watermark)
            """),
        ),
        Unknown(
            reason=NO_METADATA_LOG.reason,
            evidence=Evidence.METADATA_LOG,
            when="leader_known IS FALSE AND follower_high_watermark <= leader_high_watermark",
        ),
    ),
    breach_when="follower_high_watermark > leader_high_watermark",
    derived=(("above", "follower_high_watermark - leader_high_watermark"),),
    evidence=(
        "follower_high_watermark",
        "leader_high_watermark",
        "leader_epoch_start_offset",
        "follower_log_end_offset",
        "leader_log_end_offset",
    ),
    explanation=lines("""
        Both brokers stopped cleanly, so each one's checkpointed high watermark of {topic}-{partition} is its last.
        Broker {follower_id}'s is {follower_high_watermark}, {above} above broker {leader_id}'s, which is
          {leader_high_watermark}.
        Broker {leader_id} had been raising it in its own epoch, which starts at {leader_epoch_start_offset}, so this is
          no leftover of the election: it went back, or the follower's came from elsewhere.
    """),
    start_offset="leader_high_watermark",
    end_offset="follower_high_watermark",
    next=line("""
        grep -H '{topic} {partition} ' <log.dirs of brokers {leader_id} and {follower_id}>/replication-offset-checkpoint
    """),
    points_to="failover",
    reference="ReplicaFetcherThread#processPartitionData, UnifiedLog#updateHighWatermark; KAFKA-14704",
)
