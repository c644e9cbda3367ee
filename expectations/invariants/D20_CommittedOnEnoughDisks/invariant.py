from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_NEEDED: Final = line("""
    CASE WHEN min_insync_replicas > cardinality(replicas) THEN cardinality(replicas) ELSE min_insync_replicas END
""")

INVARIANT = Invariant(
    code="D20",
    key="MATERIAL_LOSS_RISK",
    name="CommittedOnEnoughDisks",
    severity=Severity.WARNING,
    relation="partitions",
    statement=line("""
        At least as many replicas as min.insync.replicas asks for hold everything that is committed, undamaged.
    """),
    because=line("""
        An acknowledgement promised that many copies. Where logs were damaged, cut short or lost, the metadata log still
        counts their replicas as in sync: one more disk, and acknowledged records are gone.
    """),
    # Without enough members in the ISR (K10) nobody believes the copies to be there; and retention may leave nothing.
    applies_when=line(f"""
        topic <> '__cluster_metadata' AND (cluster_stopped OR min_insync_replicas IS NULL
        OR cardinality(isr) >= {_NEEDED}) AND coalesce(high_watermark_lower > log_start_offset, true)
    """),
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND coalesce(cardinality(complete_replicas), 0) < {_NEEDED}",
        ),
        Unknown(
            reason="not every replica was captured",
            evidence=Evidence.BROKER,
            when=line(f"""
                cardinality(captured_replicas) < cardinality(replicas) AND cardinality(complete_replicas) < {_NEEDED}
            """),
        ),
        Unknown(reason="min.insync.replicas not known", evidence=Evidence.SETTINGS, when="min_insync_replicas IS NULL"),
        Unknown(reason="high watermark not known", evidence=Evidence.CHECKPOINT, when="complete_replicas IS NULL"),
        Unknown(
            # Brokers stop one after the other. Without an ELR the last of them goes on to commit what only it has.
            reason="the ISR had shrunk below the minimum before the cluster stopped, and no ELR was kept",
            evidence=None,
            when=line(f"""
                cluster_stopped AND cardinality(isr) BETWEEN 1 AND {_NEEDED} - 1 AND coalesce(cardinality(elr), 0) = 0
                AND cardinality(complete_replicas) < {_NEEDED}
            """),
        ),
    ),
    breach_when=f"cardinality(complete_replicas) < {_NEEDED}",
    derived=(("needed", _NEEDED), ("held_by", "cardinality(complete_replicas)")),
    evidence=(
        "replicas",
        "isr",
        "elr",
        "complete_replicas",
        "captured_replicas",
        "min_insync_replicas",
        "log_start_offset",
        "high_watermark_lower",
    ),
    explanation=lines("""
        Offsets {log_start_offset} to {high_watermark_lower} of {topic}-{partition} are committed, and
          min.insync.replicas asks for {needed} copies.
        Of the captured replicas {captured_replicas}, {held_by} hold all of it undamaged: {complete_replicas}.
        The ISR is {isr}, so the controller counts more copies than there are.
    """),
    start_offset="log_start_offset",
    end_offset="high_watermark_lower",
    next=DESCRIBE_TOPIC,
    points_to="cut_or_lost",
    reference="KIP-966; Partition#maybeIncrementLeaderHW waits for the ISR, and reads no log again",
)
