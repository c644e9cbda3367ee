from tidegauge.expectations.invariants.shared.commands import DUMP_OFFSETS_LOG
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="J09",
    key="GROUP_EPOCHS_MONOTONIC",
    name="GroupEpochsNeverFall",
    severity=Severity.WARNING,
    relation="groups",
    statement=line("""
        In a group's history its generation, its group and assignment epoch, and each member's epoch never fall.
    """),
    because=line("""
        The epoch fences members that missed a rebalance. If it goes back, an old member is taken for a current one, and
        two consumers own the same partition.
    """),
    breach_when="epoch_regressions > 0",
    evidence=("kind", "generation", "group_epoch", "assignment_epoch", "largest_member_epoch", "epoch_regressions"),
    explanation=lines("""
        In the history of group {group} in {topic}-{partition} {epoch_regressions} epochs went back.
        Between the two records the group, or the member, was not removed.
    """),
    details=("generation", "group epoch", "assignment epoch", "member epoch"),
    next=DUMP_OFFSETS_LOG,
    implies=("K19",),
    points_to="coordinator_bug",
    reference="GroupMetadataManager#replay, ClassicGroup#initNextGeneration; KIP-848",
)
