from tidegauge.expectations.invariants.shared.commands import DESCRIBE_PRODUCERS
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D16",
    key="PRODUCER_STATE_AGREEMENT",
    name="ProducerStatesAgree",
    severity=Severity.WARNING,
    relation="divergences",
    statement=line("""
        Producer snapshots that two replicas took at one offset tell the same of each producer that both know.
    """),
    because=line("""
        Each replica works the state out of the same batches. A follower whose state is another one refuses sound
        batches as out of order, or stores duplicates, once it leads.
    """),
    applies_when="compared_producer_snapshots > 0",
    breach_when="producer_state_differences > 0",
    evidence=(
        "producer_state_differences",
        "differing_snapshot_offset",
        "differing_producer_id",
        "leader_producer_state",
        "follower_producer_state",
        "compared_producer_snapshots",
    ),
    explanation=lines("""
        Brokers {leader_id} and {follower_id} each have a producer snapshot of {topic}-{partition} at offset
          {differing_snapshot_offset}.
        Of producer {differing_producer_id}, broker {leader_id}'s says: {leader_producer_state}.
        Broker {follower_id}'s says: {follower_producer_state}.
        {producer_state_differences} such differences were found in {compared_producer_snapshots} pairs of snapshots.
    """),
    start_offset="differing_snapshot_offset",
    next=DESCRIBE_PRODUCERS,
    points_to="derived_file",
    reference="ProducerStateManager#takeSnapshot, UnifiedLog#rebuildProducerState",
)
