from typing import Final

from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_FELL: Final = "coalesce(falls > 0, FALSE)"
_BELOW_EARLIER: Final = "coalesce(committed_offset < previous_committed_offset, FALSE)"

INVARIANT = Invariant(
    code="J04",
    key="COMMITTED_MONOTONIC",
    name="CommittedOffsetNeverFalls",
    severity=Severity.INFO,
    relation="committed_offsets",
    statement=line("""
        A group's committed offset does not fall: not from commit to commit in its coordinator's log, nor below what it
        was in the earlier snapshot.
    """),
    because=line("""
        Kafka takes any commit. One that goes back makes the group read again what it had read: somebody reset its
        offsets, a consumer went back, or an old member committed late.
    """),
    applies_when="previous_committed_offset IS NOT NULL OR commit_steps > 0",
    unknown=(
        Unknown(
            reason="the topic was created again",
            evidence=None,
            when=f"{_BELOW_EARLIER} AND NOT {_FELL} AND coalesce(topic_id <> previous_topic_id, FALSE)",
        ),
    ),
    breach_when=f"{_BELOW_EARLIER} OR {_FELL}",
    derived=(
        ("fallen", f"CASE WHEN {_BELOW_EARLIER} THEN previous_committed_offset - committed_offset END"),
        ("fell_from", f"CASE WHEN {_FELL} THEN step_from_offset END"),
        ("fell_by", f"CASE WHEN {_FELL} THEN step_from_offset - step_to_offset END"),
        ("times", "CASE WHEN falls > 1 THEN falls END"),
    ),
    evidence=(
        "falls",
        "step_from_offset",
        "step_to_offset",
        "step_to_at_ms",
        "step_record_offset",
        "previous_committed_offset",
        "committed_offset",
        "previous_committed_at_ms",
        "committed_at_ms",
        "log_end_offset",
    ),
    explanation=lines("""
        Group {group} committed offset {fell_from} of {topic}-{partition} at {step_from_at_ms}, and after that
          {step_to_offset} at {step_to_at_ms} (its coordinator's log, offset {step_record_offset}): from there it read
          {fell_by} offsets again.
        Its coordinator's log holds {times} such falls; this is the deepest.
        In the earlier snapshot group {group} had committed offset {previous_committed_offset} of {topic}-{partition},
          at {previous_committed_at_ms}.
        At {committed_at_ms} it committed {committed_offset}: it will read {fallen} offsets again.
    """),
    start_offset=f"CASE WHEN {_BELOW_EARLIER} THEN committed_offset ELSE step_to_offset END",
    end_offset=f"CASE WHEN {_BELOW_EARLIER} THEN previous_committed_offset ELSE step_from_offset END",
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    points_to="client_behaviour",
    reference="OffsetMetadataManager#commitOffset checks no offset",
)
