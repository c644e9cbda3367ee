from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import READ_REMOTE_METADATA
from tidegauge.expectations.invariants.shared.remote_tier import COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_NOT_WITHIN: Final = "NOT within_lineage"

INVARIANT = Invariant(
    code="H04",
    key="REMOTE_LINEAGE",
    name="RemoteLineage",
    severity=Severity.CRITICAL,
    relation="remote_segments",
    statement="A copied remote segment's leader epochs are those of the leader's history, up to its log end.",
    because=line("""
        A segment of another history holds other records at the same offsets: who reads from the tier gets what the
        partition never had, or no longer has.
    """),
    applies_when=f"{COPIED} AND end_offset > log_start_offset",
    unknown=(
        Unknown(
            reason="leader-epoch-checkpoint not copied",
            evidence=Evidence.CHECKPOINT,
            when="within_lineage IS NULL AND lineage_reason IS NOT NULL",
        ),
        Unknown(
            reason="not in the metadata log",
            evidence=Evidence.METADATA_LOG,
            when=f"lineage_cut IS NULL AND {_NOT_WITHIN}",
        ),
        Unknown(reason="unclean election", evidence=None, when=f"lineage_cut AND {_NOT_WITHIN}"),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND {_NOT_WITHIN} AND end_offset > log_end_offset",
        ),
    ),
    breach_when=_NOT_WITHIN,
    evidence=("leader_epochs", "lineage_reason", "start_offset", "end_offset", "log_start_offset", "log_end_offset"),
    explanation=lines("""
        Remote segment {segment_id} of {topic}-{partition} holds [{start_offset}, {end_offset}) of leader epochs
          {leader_epochs}.
        It is not of the leader's history: {lineage_reason}.
        After an unclean election such a segment waits for its deletion; none explains this one.
    """),
    start_offset="start_offset",
    end_offset="end_offset",
    records="end_offset - start_offset",
    next=READ_REMOTE_METADATA,
    implies=("H03", "H06"),
    points_to="remote_tier",
    reference="RemoteLogManager#isRemoteSegmentWithinLeaderEpochs; KIP-405",
)
