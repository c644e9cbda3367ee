from tidegauge.expectations.invariants.shared.commands import READ_REMOTE_METADATA
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="H02",
    key="REMOTE_STATE",
    name="RemoteStateMachine",
    severity=Severity.WARNING,
    relation="remote_segments",
    statement="A remote segment's copy starts, finishes, and its deletion starts and finishes, in this order.",
    because=line("""
        A record out of order is not applied by the brokers: objects stay in the store that no one knows, or a segment
        is read that is being deleted.
    """),
    unknown=(
        Unknown(reason="its first record is gone", evidence=None, when="start_offset IS NULL AND NOT history_whole"),
    ),
    breach_when="invalid_transitions > 0",
    evidence=("states", "invalid_transitions", "history_whole", "start_offset", "end_offset"),
    explanation=lines("""
        Remote segment {segment_id} of {topic}-{partition} went through {states}.
        {invalid_transitions} of these steps are none that a segment may take.
        The same state twice is a retry, and allowed for.
    """),
    start_offset="start_offset",
    end_offset="end_offset",
    next=READ_REMOTE_METADATA,
    points_to="remote_tier",
    reference="RemoteLogSegmentState#isValidTransition; KIP-405",
)
