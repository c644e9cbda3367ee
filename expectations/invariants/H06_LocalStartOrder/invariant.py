from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.remote_tier import NO_METADATA
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_DELETED_TOO_FAR: Final = "first_base_offset > log_start_offset AND first_base_offset > coalesce(remote_end_offset, 0)"

INVARIANT = Invariant(
    code="H06",
    key="LOCAL_START_ORDER",
    name="LocalStartOrder",
    severity=Severity.CRITICAL,
    relation="upkeep",
    statement="The first local segment begins no higher than where the remote tier ends.",
    because="Local segments go only when the tier has them. One that went before leaves offsets that are nowhere.",
    applies_when="remote_storage_enable AND first_base_offset IS NOT NULL",
    unknown=(
        NO_METADATA,
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"checkpoint_log_start_offset IS NULL AND {_DELETED_TOO_FAR}",
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_DELETED_TOO_FAR}"),
    ),
    breach_when=_DELETED_TOO_FAR,
    derived=(("tier_end_offset", "coalesce(remote_end_offset, log_start_offset)"),),
    evidence=("log_start_offset", "first_base_offset", "remote_end_offset", "checkpoint_log_start_offset"),
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset}; its first local segment begins at
          {first_base_offset}.
        The remote tier holds this history up to {tier_end_offset} only.
        So local segments were deleted that had not been copied.
    """),
    start_offset="greatest(coalesce(remote_end_offset, 0), log_start_offset)",
    end_offset="first_base_offset",
    records="first_base_offset - greatest(coalesce(remote_end_offset, 0), log_start_offset)",
    next=line("""
        bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time
        earliest-local
    """),
    implies=("H03",),
    one_event_on_all_replicas=True,
    points_to="remote_tier",
    reference="UnifiedLog#deletableSegments, UnifiedLog#isSegmentEligibleForDeletion; KIP-405",
)
