from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.remote_tier import COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_UNSTABLE: Final = "(end_offset > high_watermark_upper OR coalesce(end_offset > first_unstable_offset, FALSE))"

INVARIANT = Invariant(
    code="H05",
    key="REMOTE_BELOW_LSO",
    name="RemoteBelowLastStableOffset",
    severity=Severity.CRITICAL,
    relation="remote_segments",
    statement="A remote segment was copied only when all of it lay below the last stable offset.",
    because=line("""
        What is not committed may be truncated, and what is in an open transaction may be aborted; in the tier it stays,
        and has no entry in the transaction index that was copied with it.
    """),
    applies_when=f"{COPIED} AND within_lineage AND end_offset > log_start_offset",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_UNSTABLE}"),),
    breach_when=_UNSTABLE,
    derived=(
        ("mark", "CASE WHEN end_offset > high_watermark_upper THEN high_watermark_upper END"),
        ("held_since", "CASE WHEN end_offset > first_unstable_offset THEN first_unstable_offset END"),
    ),
    evidence=("start_offset", "end_offset", "high_watermark_upper", "first_unstable_offset", "state"),
    explanation=lines("""
        Remote segment {segment_id} of {topic}-{partition} holds [{start_offset}, {end_offset}).
        The high watermark is not above {mark}.
        A transaction that began at {held_since} is still open, so it was when the segment was copied.
    """),
    start_offset="start_offset",
    end_offset="end_offset",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    points_to="remote_tier",
    reference="RemoteLogManager.RLMCopyTask#candidateLogSegments; KIP-405",
)
