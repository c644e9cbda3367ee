from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    DISK_REPLACED,
    LOST_ITS_TAIL,
    UNCLEAN_ELECTION_BESIDE,
    UNCLEAN_ELECTION_NAMED,
)
from tidegauge.expectations.invariants.shared.elections import GIVEN_UP_BY, NOT_ALL_ON_RECORD
from tidegauge.expectations.invariants.shared.history import (
    LOST,
    NOT_IN_THE_EARLIER_COPY,
    ON_RECORD,
    OTHER_DISK,
    SAME_REPLICA,
)
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="C07",
    key="HW_MONOTONIC",
    name="HighWatermarkNeverFalls",
    severity=Severity.WARNING,
    relation="changes",
    statement="A replica's checkpointed high watermark is not below the one that it had in the earlier snapshot.",
    because=line("""
        What is below it was declared committed and shown to consumers. Kafka takes a lower one with no more than a line
        in its log; consumers that had read further are then beyond the end of what they may read.
    """),
    # The metadata log's high watermark is never checkpointed.
    applies_when=f"topic <> '__cluster_metadata' AND {SAME_REPLICA}",
    unknown=(
        NOT_IN_THE_EARLIER_COPY,
        Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when="continuity = 'missing'"),
        Unknown(reason="a segment could not be read", evidence=Evidence.SEGMENT, when="continuity = 'unread'"),
        Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="continuity = 'not captured'"),
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            when="previous_high_watermark IS NULL OR high_watermark IS NULL",
        ),
        Unknown(
            reason="just after a leader change",
            evidence=None,
            # A new leader begins with what it knew as a follower, and its followers with it; the first fetches raise
            # it. A leader of clean election has all that was committed, so its epoch starts above.
            when="high_watermark < previous_high_watermark AND last_epoch_start_offset >= previous_high_watermark",
        ),
        Unknown(
            reason="log dir replaced",
            evidence=None,
            when="high_watermark < previous_high_watermark AND directory_replaced AND records_lost IS NULL",
        ),
    ),
    breach_when="high_watermark < previous_high_watermark",
    severity_when=(
        (Severity.CRITICAL, LOST),
        (Severity.INFO, "directory_replaced AND records_lost = 0"),
    ),
    derived=(("below", "previous_high_watermark - high_watermark"), *ON_RECORD),
    evidence=(
        "previous_snapshot_id",
        "previous_high_watermark",
        "high_watermark",
        "previous_log_end_offset",
        "log_end_offset",
        "last_epoch_start_offset",
        "records_lost",
        "unclean_election_offset",
        "directory_replaced",
        "elections_on_record",
    ),
    explanation=(
        *lines("""
            In snapshot {previous_snapshot_id} broker {broker_id} had checkpointed high watermark
              {previous_high_watermark} of {topic}-{partition}.
            Now it is {high_watermark}, {below} lower; its log ends at {log_end_offset}.
        """),
        *GIVEN_UP_BY,
        OTHER_DISK,
        "{no_election} is on record that would explain it.",
        NOT_ALL_ON_RECORD,
    ),
    start_offset="high_watermark",
    end_offset="previous_high_watermark",
    next=line("""
        bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time latest
    """),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_NAMED,
        UNCLEAN_ELECTION_BESIDE,
        DISK_REPLACED,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="UnifiedLog#updateHighWatermarkMetadata (warns of a non-monotonic update)",
)
