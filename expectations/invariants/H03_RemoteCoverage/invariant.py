from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.remote_tier import NO_METADATA
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_HOLE: Final = "remote_gap_start_offset IS NOT NULL"
_NOT_LISTED: Final = Unknown(
    reason="log start not checkpointed",
    evidence=Evidence.CHECKPOINT,
    when=f"checkpoint_log_start_offset IS NULL AND {_HOLE}",
)

INVARIANT = Invariant(
    code="H03",
    key="REMOTE_COVERAGE",
    name="RemoteCoverage",
    severity=Severity.CRITICAL,
    relation="upkeep",
    statement="From the log start to the first local segment, the remote tier holds every offset.",
    because="What is in neither place is lost, and a consumer that comes to the hole gets stuck there.",
    applies_when="remote_storage_enable AND first_base_offset IS NOT NULL",
    unknown=(
        NO_METADATA,
        _NOT_LISTED,
        # The tier's metadata were read before a segment was copied, the local log after it was deleted.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND {_HOLE} AND remote_gap_end_offset = first_base_offset",
        ),
    ),
    breach_when=_HOLE,
    derived=(("last_missing_offset", "remote_gap_end_offset - 1"),),
    evidence=(
        "log_start_offset",
        "first_base_offset",
        "remote_end_offset",
        "remote_gap_start_offset",
        "remote_gap_end_offset",
    ),
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset}; its first local segment begins at
          {first_base_offset}.
        Of what lies between, the remote tier has no segment with offsets
          {remote_gap_start_offset}..{last_missing_offset}: they are nowhere.
        Segments that overlap, and those that the tier has deleted from the head on, are allowed for.
    """),
    start_offset="remote_gap_start_offset",
    end_offset="remote_gap_end_offset",
    records="remote_gap_end_offset - remote_gap_start_offset",
    next=line("""
        bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time
        earliest-local
    """),
    one_event_on_all_replicas=True,
    points_to="remote_tier",
    reference="UnifiedLog#isSegmentEligibleForDeletion, RemoteLogManager#read; KIP-405",
)
