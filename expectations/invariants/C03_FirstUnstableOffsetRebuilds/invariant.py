from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="C03",
    key="LSO",
    name="FirstUnstableOffsetRebuilds",
    severity=Severity.INFO,
    relation="replicas",
    statement=line("""
        Replaying the whole log finds the same first open transaction as replaying from the newest producer snapshot.
    """),
    because=line("""
        A broker rebuilds its producers from the newest snapshot. If that leads elsewhere than the log itself, the last
        stable offset, and with it what read_committed consumers see, depends on which file the broker happens to load.
    """),
    # Both replays know open transactions only, so the column compared is the open one.
    applies_when="snapshot_replay_possible",
    unknown=(
        Unknown(
            reason="log damaged",
            evidence=None,
            when=line("""
                damaged_batches > 0
                AND coalesce(open_first_unstable_offset, -1) <> coalesce(snapshot_first_unstable_offset, -1)
            """),
        ),
        Unknown(
            reason="compacted",
            evidence=None,
            when=line("""
                ever_compacted
                AND coalesce(open_first_unstable_offset, -1) <> coalesce(snapshot_first_unstable_offset, -1)
            """),
        ),
        Unknown(
            reason="head of the log is gone",
            evidence=None,
            when=line("""
                (log_start_offset > 0 OR local_log_start_offset > 0)
                AND coalesce(open_first_unstable_offset, -1) <> coalesce(snapshot_first_unstable_offset, -1)
            """),
        ),
    ),
    breach_when="coalesce(open_first_unstable_offset, -1) <> coalesce(snapshot_first_unstable_offset, -1)",
    derived=(
        ("open_by_log", "CASE WHEN open_first_unstable_offset IS NULL THEN 'no open transaction' END"),
        ("open_by_snapshot", "CASE WHEN snapshot_first_unstable_offset IS NULL THEN 'no open transaction' END"),
    ),
    evidence=("open_first_unstable_offset", "snapshot_first_unstable_offset", "last_stable_offset", "high_watermark"),
    explanation=lines("""
        Read from its first batch on, {topic}-{partition} on broker {broker_id} has its first open transaction at
          {open_first_unstable_offset}.
        Read from its first batch on, {topic}-{partition} on broker {broker_id} has {open_by_log}.
        Read from the newest producer snapshot on, it has its first open transaction at
          {snapshot_first_unstable_offset}.
        Read from the newest producer snapshot on, it has {open_by_snapshot}.
        A broker that loads that snapshot computes another last stable offset than the log warrants.
    """),
    start_offset="coalesce(open_first_unstable_offset, snapshot_first_unstable_offset)",
    next="bin/kafka-dump-log.sh --files <log.dir of broker {broker_id}>/{topic}-{partition}/<newest>.snapshot",
    consequence_of="B11",
    points_to="derived_file",
    reference="ProducerStateManager#firstUnstableOffset, UnifiedLog#maybeIncrementFirstUnstableOffset",
)
