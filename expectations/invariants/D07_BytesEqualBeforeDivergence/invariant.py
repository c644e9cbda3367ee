from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DUMP_BATCHES
from tidegauge.expectations.invariants.shared.diagnoses import (
    HEADER_OF_ONE_ROTTED,
    NO_TRUNCATION_REPAIRS_IT,
    ONE_OF_TWO_ROTTED,
)
from tidegauge.expectations.invariants.shared.divergences import COMPACTED, HIDDEN, SOMETHING_TO_COMPARE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D07",
    key="BYTES_BEFORE_DIVERGENCE_EQUAL",
    name="BytesEqualBeforeDivergence",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="Below the point to which Kafka would truncate a follower, it holds the same batches as its leader.",
    because=line("""
        Truncation trusts that equal epochs mean equal bytes (KIP-101). Where they do not, a follower rejoins, enters
        the ISR, may lead, and serves other records than the leader did; nothing in Kafka will notice.
    """),
    applies_when=SOMETHING_TO_COMPARE,
    unknown=(
        *COMPACTED,
        HIDDEN,
        Unknown(
            # It fetches from there (ReplicaManager#initialFetchOffset), and what lies above is cut.
            reason="high watermark not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=line("""
                first_differing_undiverged_offset IS NOT NULL AND follower_last_leader_epoch IS NULL
                AND follower_high_watermark IS NULL
            """),
        ),
    ),
    breach_when="first_differing_undiverged_offset IS NOT NULL",
    derived=(
        ("epochs_of", "CASE WHEN follower_last_leader_epoch IS NOT NULL THEN follower_id END"),
        ("without_epochs", "CASE WHEN follower_last_leader_epoch IS NULL THEN follower_id END"),
    ),
    evidence=(
        "first_differing_undiverged_offset",
        "divergence_offset",
        "follower_last_leader_epoch",
        "leader_last_leader_epoch",
        "compared_from_offset",
        "compared_to_end_offset",
        "differing_batches",
    ),
    explanation=lines("""
        By leader epochs broker {epochs_of} and broker {leader_id} hold the same log of {topic}-{partition} up to
          {divergence_offset}; Kafka would cut nothing below.
        Broker {without_epochs} knows no leader epochs of {topic}-{partition}, and follows broker {leader_id} from its
          high watermark on, {divergence_offset}; Kafka would cut nothing below.
        Yet from offset {first_differing_undiverged_offset} on their batches differ.
        So broker {follower_id} keeps what it has when it follows broker {leader_id}, and the two stay different.
    """),
    details=("differing_batches",),
    start_offset="first_differing_undiverged_offset",
    end_offset="divergence_offset",
    next=DUMP_BATCHES,
    implies=("D02", "D15"),
    points_to="equal_lineage_other_bytes",
    diagnosis=(ONE_OF_TWO_ROTTED, HEADER_OF_ONE_ROTTED, NO_TRUNCATION_REPAIRS_IT),
    reference="AbstractFetcherThread#fetchOffsetAndTruncate (says that it does not fix such a mismatch), KIP-101",
)
