from typing import Final

from tidegauge.expectations.invariants.shared.commands import READ_REMOTE_METADATA
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_FIRST_RECORD_GONE: Final = Unknown(reason="its first record is gone", evidence=None, when="start_offset IS NULL")

INVARIANT = Invariant(
    code="H01",
    key="REMOTE_RANGE",
    name="RemoteRange",
    severity=Severity.WARNING,
    relation="remote_segments",
    statement="A remote segment begins at 0 or above, ends no lower, and names the leader epochs of its records.",
    because=line("""
        Whoever fetches from the tier looks a segment up by leader epoch and offset; one that names none, or an empty
        range, is never found, and its records are as good as gone.
    """),
    unknown=(_FIRST_RECORD_GONE,),
    breach_when="start_offset < 0 OR end_offset <= start_offset OR cardinality(leader_epochs) = 0",
    derived=(
        ("last_offset", "end_offset - 1"),
        ("no_epoch", "CASE WHEN cardinality(leader_epochs) = 0 THEN 'no leader epoch' END"),
    ),
    evidence=("start_offset", "end_offset", "leader_epochs", "state", "broker_id"),
    explanation=lines("""
        Remote segment {segment_id} of {topic}-{partition} says that it holds offsets {start_offset} to {last_offset}.
        It names {no_epoch}.
        Broker {broker_id} copied it.
    """),
    start_offset="start_offset",
    end_offset="end_offset",
    next=READ_REMOTE_METADATA,
    implies=("H03", "H04"),
    points_to="remote_tier",
    reference="RemoteLogSegmentMetadata (its constructor refuses them); KIP-405",
)
