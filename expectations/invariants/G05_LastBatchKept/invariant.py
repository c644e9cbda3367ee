from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_END_LOST: Final = line("""
    coalesce(last_batch_end_offset, 0) < log_end_offset AND cleaner_offset >= log_end_offset
    AND log_start_offset < log_end_offset
""")

INVARIANT = Invariant(
    code="G05",
    key="LAST_BATCH_KEPT",
    name="LastBatchKept",
    severity=Severity.WARNING,
    relation="upkeep_changes",
    statement="Where the cleaner has come to the end of a log, the log's last batch is still there, be it empty.",
    because=line("""
        Only that batch tells where the log ends. A follower that copies the log without it ends at a lower offset than
        its leader, and never gets into the ISR.
    """),
    applies_when="compacted AND cleaner_offset IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_END_LOST}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_END_LOST}"),
        Unknown(
            reason="written by a release before 4.0",
            evidence=None,
            when=f"NOT coalesce(keeps_last_batch, FALSE) AND {_END_LOST}",
        ),
    ),
    breach_when=_END_LOST,
    evidence=(
        "previous_snapshot_id",
        "previous_log_end_offset",
        "log_end_offset",
        "last_batch_end_offset",
        "cleaner_offset",
        "cleaned_by_release",
    ),
    explanation=lines("""
        Broker {broker_id} has cleaned {topic}-{partition} up to {cleaner_offset}, which is where its log ends
          ({log_end_offset}, by the active segment's name).
        The last batch on its disk ends at {last_batch_end_offset}.
        It runs Kafka {cleaned_by_release}, whose cleaner keeps the last batch.
        In snapshot {previous_snapshot_id} the log ended at {previous_log_end_offset}.
    """),
    start_offset="last_batch_end_offset",
    end_offset="log_end_offset",
    next="kafka-dump-log.sh --files <log.dir of broker {broker_id}>/{topic}-{partition}/<last segments>.log",
    points_to="cleaner_bug",
    reference="Cleaner#checkBatchRetention; KAFKA-17076, KAFKA-20452",
)
