from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_LOG_DIR: Final = "<metadata.log.dir of node {broker_id}>/__cluster_metadata-0"

INVARIANT = Invariant(
    code="K16",
    key="QUORUM_STATE",
    name="QuorumStateKeepsVote",
    severity=Severity.CRITICAL,
    relation="metadata_logs",
    statement=line("""
        A node's quorum-state is of the newest epoch in its metadata log or a later one, names the leader that the epoch
        had, and no other candidate than the one who was elected with its vote.
    """),
    because=line("""
        The file is all that keeps a node from voting twice in an epoch. One that went back, or tells of another vote,
        may have made two leaders of the quorum.
    """),
    unknown=(
        Unknown(
            reason="no quorum-state",
            evidence=Evidence.METADATA_LOG,
            when="quorum_state_present IS NOT TRUE OR quorum_leader_epoch IS NULL",
        ),
        Unknown(
            reason="copied while it ran",
            evidence=Evidence.ONE_MOMENT,
            when=line("""
                NOT broker_quiet AND quorum_leader_epoch < last_leader_epoch
                AND NOT coalesce(quorum_leader_id <> elected_leader_id, false)
            """),
        ),
    ),
    breach_when=line("""
        quorum_leader_epoch < coalesce(last_leader_epoch, 0) OR coalesce(quorum_leader_id <> elected_leader_id, false)
        OR coalesce(vote_granted AND voted_id <> elected_leader_id, false)
    """),
    derived=(
        ("went_back", "CASE WHEN quorum_leader_epoch < last_leader_epoch THEN last_leader_epoch END"),
        ("other_leader", "CASE WHEN quorum_leader_id <> elected_leader_id THEN quorum_leader_id END"),
        ("other_vote", "CASE WHEN vote_granted AND voted_id <> elected_leader_id THEN voted_id END"),
    ),
    evidence=("quorum_leader_epoch", "quorum_leader_id", "voted_id", "last_leader_epoch", "elected_leader_id"),
    explanation=lines("""
        Node {broker_id}'s quorum-state is of epoch {quorum_leader_epoch}.
        Its metadata log already holds records of epoch {went_back}.
        It names node {other_leader} as that epoch's leader, which was node {elected_leader_id}.
        It says that the vote of that epoch went to node {other_vote}, while node {elected_leader_id} was elected with
          it: it voted twice.
    """),
    next=f"cat {_LOG_DIR}/quorum-state",
    points_to="controller_bug",
    reference="FileQuorumStateStore, QuorumState, KIP-595",
)
