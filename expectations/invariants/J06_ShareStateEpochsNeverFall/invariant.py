from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DUMP_SHARE_STATES
from tidegauge.expectations.invariants.shared.coordinators import SHARE_SUBJECT
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="J06",
    key="SHARE_STATE_EPOCHS",
    name="ShareStateEpochsNeverFall",
    severity=Severity.WARNING,
    relation="share_states",
    subject=SHARE_SUBJECT,
    statement=line("""
        Snapshot, state and leader epoch of a share group's state never fall, and the leader epoch is not above the
        partition's.
    """),
    because=line("""
        The share coordinator refuses a write of an older leader or state. One that is in its log came from a zombie: a
        former leader of the partition that still delivers its records.
    """),
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="leader_epoch > metadata_leader_epoch AND NOT snapshot_quiet AND epoch_faults = 0",
        ),
    ),
    breach_when="epoch_faults > 0 OR coalesce(leader_epoch > metadata_leader_epoch, FALSE)",
    derived=(
        ("fallen", "CASE WHEN epoch_faults > 0 THEN epoch_faults END"),
        ("ahead", "CASE WHEN leader_epoch > metadata_leader_epoch THEN leader_epoch END"),
    ),
    evidence=("snapshot_epoch", "state_epoch", "leader_epoch", "metadata_leader_epoch", "epoch_faults"),
    explanation=lines("""
        The state of share group {group} for {topic}-{partition} is in __share_group_state-{state_partition}: snapshot
          epoch {snapshot_epoch}, leader epoch {leader_epoch}.
        In its history {fallen} epochs went back.
        It was written under leader epoch {ahead}; the partition's is {metadata_leader_epoch}.
    """),
    details=("epoch",),
    next=DUMP_SHARE_STATES,
    implies=("J07",),
    points_to="coordinator_bug",
    reference="ShareCoordinatorShard#maybeGetWriteStateError (FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH); KIP-932",
)
