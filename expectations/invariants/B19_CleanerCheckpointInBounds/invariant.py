from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_BEYOND: Final = line("""
    cleaner_offset > log_start_offset AND (cleaner_offset > active_base_offset
    OR coalesce(cleaner_offset > open_first_offset, FALSE) OR (clean_shutdown
    AND coalesce(cleaner_offset > high_watermark, FALSE)))
""")

INVARIANT = Invariant(
    code="B19",
    key="CLEANER_CHECKPOINT",
    name="CleanerCheckpointInBounds",
    severity=Severity.WARNING,
    relation="upkeep",
    statement=line("""
        The cleaner's checkpoint lies at or below the active segment, the high watermark and the first open transaction.
    """),
    because=line("""
        The cleaner must not look at what may still be truncated or aborted. One that did may have removed the last
        committed record of a key because of a newer one that never came to be.
    """),
    applies_when="cleaner_offset IS NOT NULL AND active_base_offset IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_BEYOND}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_BEYOND}"),
        # The cleaner writes at once what a broker that dies within the minute has not written of its log start.
        Unknown(
            reason="log start not yet checkpointed",
            evidence=None,
            when=line(f"""
                NOT coalesce(clean_shutdown, FALSE) AND {_BEYOND} AND cleaner_offset <= log_end_offset
                AND NOT coalesce(cleaner_offset > open_first_offset, FALSE)
            """),
        ),
    ),
    breach_when=_BEYOND,
    derived=(
        ("above_active", "CASE WHEN cleaner_offset > active_base_offset THEN active_base_offset END"),
        ("above_open", "CASE WHEN cleaner_offset > open_first_offset THEN open_first_offset END"),
        ("above_mark", "CASE WHEN cleaner_offset > high_watermark THEN high_watermark END"),
    ),
    evidence=(
        "cleaner_offset",
        "first_base_offset",
        "active_base_offset",
        "high_watermark",
        "open_first_offset",
        "log_end_offset",
    ),
    explanation=lines("""
        cleaner-offset-checkpoint says that broker {broker_id} has cleaned {topic}-{partition} up to {cleaner_offset}.
        The active segment, which is never cleaned, begins at {above_active}.
        The high watermark is {above_mark}: what lies above may still be truncated.
        A transaction has been open since offset {above_open}: it may still be aborted.
        An entry below the first segment, as retention leaves it, would be sound.
    """),
    start_offset=line("""
        least(active_base_offset, coalesce(high_watermark, active_base_offset), coalesce(open_first_offset,
        active_base_offset))
    """),
    end_offset="cleaner_offset",
    next="grep '^{topic} {partition} ' <log.dir of broker {broker_id}>/cleaner-offset-checkpoint",
    implies=("G02",),
    points_to="cleaner_bug",
    reference="LogCleanerManager#cleanableOffsets; KAFKA-13194",
)
