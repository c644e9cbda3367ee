from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.batches import HALF_COPIED
from tidegauge.expectations.invariants.shared.diagnoses import HEADER_ROTTED_ALONE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A09",
    key="EPOCH_PRESENT",
    name="LeaderEpochPresent",
    severity=Severity.WARNING,
    relation="segments",
    statement=line("""
        Every batch of message format 2 carries the leader epoch under which it was appended, those apart that a cleaner
        wrote of batches of an older format.
    """),
    because=line("""
        The leader stamps it on append, outside the checksum. Without it a follower cannot tell which history a batch
        belongs to, and truncation goes wrong after the next election.
    """),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"epoch_missing_errors = 1 AND {HALF_COPIED}"),
        # If the topic was compacted once, a cleaner of Kafka 4 may have written them of batches that had no epoch.
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="NOT policy_history_known AND epoch_missing_errors > 0 AND epoch_missing_errors = epochless_first",
        ),
    ),
    breach_when="epoch_missing_errors > 0",
    evidence=("epoch_missing_errors", "batch_count", "first_leader_epoch", "last_leader_epoch"),
    explanation=lines("""
        {epoch_missing_errors} of the {batch_count} batches in {path} have no leader epoch.
        The other batches of this file are of epochs {first_leader_epoch} to {last_leader_epoch}.
        The field is not under the checksum: it rotted, or the file was not written by a broker.
    """),
    details=("epoch_missing",),
    next="kafka-dump-log.sh --files {path} | grep 'partitionLeaderEpoch: -'",
    implies=("B14", "D01"),
    points_to="header_rot",
    diagnosis=(HEADER_ROTTED_ALONE,),
    reference="LogValidator (sets the partition leader epoch); KIP-101",
)
