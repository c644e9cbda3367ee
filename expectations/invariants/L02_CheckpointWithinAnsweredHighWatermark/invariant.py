from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import LEADERSHIP, unless_sound
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_CHECKPOINT_ABOVE_WATERMARK: Final = "recomputed_lowest > answered_after"

INVARIANT = Invariant(
    code="L02",
    key="CHECKPOINT_WITHIN_ANSWERED_HIGH_WATERMARK",
    name="CheckpointWithinAnsweredHighWatermark",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("broker_id", "topic", "partition"),
    statement="No in-sync replica has checkpointed a high watermark above the one that the leader answers later.",
    because=line("""
        A high watermark only grows while nobody else is elected, and a follower learns it from the leader. One on disk
        above the answer was edited, or the leader went back behind what it had declared committed.
    """),
    applies_when="kind = 'high_watermark' AND recomputed_lowest IS NOT NULL",
    unknown=(
        Unknown(reason="not asked after the copy", evidence=Evidence.ANSWERS, when="asked_after_at_ms IS NULL"),
        *unless_sound(_CHECKPOINT_ABOVE_WATERMARK, LEADERSHIP),
    ),
    breach_when=_CHECKPOINT_ABOVE_WATERMARK,
    evidence=("recomputed_lowest", "answered_before", "answered_after", "asked_after_at_ms"),
    explanation=lines("""
        Broker {broker_id} has checkpointed a high watermark of {recomputed_lowest} for {topic}-{partition}.
        The leader, asked at {asked_after_at_ms}, answered {answered_after}: a high watermark went back.
    """),
    start_offset="answered_after",
    end_offset="recomputed_lowest",
    next="grep '^{topic} {partition} ' <log.dir of broker {broker_id}>/replication-offset-checkpoint",
    points_to="answered_otherwise",
    reference="ReplicaManager#checkpointHighWatermarks, UnifiedLog#updateHighWatermark",
)
