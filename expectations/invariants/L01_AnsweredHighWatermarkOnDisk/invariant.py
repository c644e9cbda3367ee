from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import LEADERSHIP, unless_sound
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_WATERMARK_ABOVE_LOG: Final = "answered_before > recomputed_highest"

INVARIANT = Invariant(
    code="L01",
    key="ANSWERED_HIGH_WATERMARK_ON_DISK",
    name="AnsweredHighWatermarkOnDisk",
    severity=Severity.CRITICAL,
    relation="cluster_answers",
    subject=("broker_id", "topic", "partition"),
    statement=line("""
        The log of every in-sync replica, copied after the leader was asked, reaches the high watermark that it
        answered.
    """),
    because=line("""
        Everything below the high watermark is on every in-sync replica. A log on disk that ends below it lacks records
        that producers were told are safe and that consumers may have read.
    """),
    applies_when="kind = 'high_watermark'",
    unknown=(
        Unknown(reason="not asked before the copy", evidence=Evidence.ANSWERS, when="asked_before_at_ms IS NULL"),
        *unless_sound(_WATERMARK_ABOVE_LOG, LEADERSHIP),
    ),
    breach_when=_WATERMARK_ABOVE_LOG,
    derived=(("missing", "answered_before - recomputed_highest"),),
    evidence=("answered_before", "answered_after", "recomputed_highest", "asked_before_at_ms"),
    explanation=lines("""
        The leader of {topic}-{partition} answered a high watermark of {answered_before} at {asked_before_at_ms}.
        Broker {broker_id} was in the ISR before and after, and its log, copied later, ends at {recomputed_highest}.
        {missing} offsets that count as committed are not on its disk.
    """),
    start_offset="recomputed_highest",
    end_offset="answered_before",
    records="answered_before - recomputed_highest",
    next=line("""
        bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time latest
    """),
    points_to="answered_otherwise",
    reference="Partition#maybeIncrementLeaderHW, KIP-101",
)
