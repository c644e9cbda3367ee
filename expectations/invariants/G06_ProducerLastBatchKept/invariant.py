from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.lacking import POLICY_UNTOLD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_WITHOUT: Final = "producers_without_batch > 0"

INVARIANT = Invariant(
    code="G06",
    key="PRODUCER_LAST_BATCH_KEPT",
    name="ProducerLastBatchKept",
    severity=Severity.WARNING,
    relation="upkeep",
    statement="Of each producer that the newest producer snapshot knows, the log has the last batch, be it empty.",
    because=line("""
        A replica without that snapshot rebuilds its producers from the log. One that finds no batch of a producer takes
        its next one for out of sequence, or a retry for something new.
    """),
    applies_when=f"producers_without_batch IS NOT NULL OR {POLICY_UNTOLD}",
    unknown=(
        Unknown(
            reason="policy not known",
            evidence=Evidence.METADATA_LOG,
            when=f"producers_without_batch IS NULL AND {POLICY_UNTOLD}",
        ),
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_WITHOUT}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_WITHOUT}"),
        Unknown(
            reason="setting not known",
            evidence=Evidence.SETTINGS,
            when=f"producers_perhaps_expired > 0 AND NOT {_WITHOUT}",
        ),
    ),
    breach_when=_WITHOUT,
    evidence=(
        "producers_without_batch",
        "first_missing_producer_id",
        "first_missing_offset",
        "expired_producers",
        "log_start_offset",
    ),
    explanation=lines("""
        The newest producer snapshot of broker {broker_id}'s {topic}-{partition} names {producers_without_batch}
          producers whose last batch is not in the log.
        The first is producer {first_missing_producer_id}: a batch that ends at offset {first_missing_offset} should be
          there.
        The cleaner keeps that batch, without records if need be, until the producer's state expires.
    """),
    start_offset="first_missing_offset",
    next="kafka-dump-log.sh --files <log.dir of broker {broker_id}>/{topic}-{partition}/<newest>.snapshot",
    implies=("B11", "D16"),
    points_to="cleaner_bug",
    reference="Cleaner#checkBatchRetention; KAFKA-5490, KAFKA-8335",
)
