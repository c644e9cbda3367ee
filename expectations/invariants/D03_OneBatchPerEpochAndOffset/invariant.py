from typing import Final

from tidegauge.expectations.causes import Believe, Rule
from tidegauge.expectations.invariants.shared.commands import DUMP_BATCHES
from tidegauge.expectations.invariants.shared.diagnoses import HEADER_OF_ONE_ROTTED, ONE_OF_TWO_ROTTED
from tidegauge.expectations.invariants.shared.divergences import COMPACTED, HIDDEN, SOMETHING_TO_COMPARE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_TWO_WRITERS: Final = Rule(
    points_to="two_writers",
    because=line("""
        Both checksums are right, and the leader epoch is the same: nothing in the files says which is true. Escalate
        before any of the two is deleted.
    """),
    believe=Believe.MAJORITY,
)

INVARIANT = Invariant(
    code="D03",
    key="EPOCH_OFFSET_IDENTITY",
    name="OneBatchPerEpochAndOffset",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="Two replicas that hold an offset under the same leader epoch hold the same batch there.",
    because=line("""
        An epoch has one leader, and only it hands out offsets. Two batches for one offset and one epoch mean two
        writers in one epoch, or a replica whose bytes were changed after they were written.
    """),
    applies_when=SOMETHING_TO_COMPARE,
    unknown=(
        *COMPACTED,
        HIDDEN,
        # Nobody can tell whether one leader wrote both, or two did, one after the other.
        Unknown(
            reason="message format without leader epochs",
            evidence=None,
            when="differs_without_epochs AND identity_violation_offset IS NULL",
        ),
    ),
    breach_when="identity_violation_offset IS NOT NULL",
    evidence=(
        "identity_violation_offset",
        "first_differing_offset",
        "compared_from_offset",
        "compared_to_end_offset",
        "differing_batches",
    ),
    explanation=lines("""
        At offset {identity_violation_offset} of {topic}-{partition} broker {follower_id} and broker {leader_id} hold
          batches of the same leader epoch.
        The two batches are not the same, and an epoch has one leader, which wrote one of them at most.
        Kafka's own truncation compares epochs and offsets, so it will never repair this.
    """),
    details=("differing_batches",),
    start_offset="identity_violation_offset",
    next=DUMP_BATCHES,
    implies=("D02", "D07", "G07"),
    points_to="two_writers",
    diagnosis=(ONE_OF_TWO_ROTTED, HEADER_OF_ONE_ROTTED, _TWO_WRITERS),
    reference="one leader per epoch: ReplicationControlManager, PartitionRegistration#merge",
)
