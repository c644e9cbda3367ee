from typing import Final

from tidegauge.expectations.causes import Believe, Rule
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

_TRUNCATION_WAS_DUE: Final = Rule(
    less=(("divergence_offset", "first_differing_committed_offset"),),
    points_to="untruncated_divergence",
    because="By their epochs the replicas part below the first difference: a truncation was due and was not made.",
    believe=Believe.LEADER,
)

INVARIANT = Invariant(
    code="D02",
    key="LOG_MATCHING",
    name="ReplicasMatchBelowHighWatermark",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="Below both checkpointed high watermarks a follower and its leader hold the same batches.",
    because=line("""
        What is below a high watermark was copied to every in-sync replica and shown to consumers. Where two replicas
        differ there, what a consumer reads depends on which of them leads.
    """),
    applies_when=SOMETHING_TO_COMPARE,
    unknown=(
        *COMPACTED,
        HIDDEN,
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            when=line("""
                first_differing_offset IS NOT NULL AND (follower_high_watermark IS NULL
                OR leader_high_watermark IS NULL)
            """),
        ),
    ),
    breach_when="first_differing_committed_offset IS NOT NULL",
    evidence=(
        "first_differing_committed_offset",
        "follower_high_watermark",
        "leader_high_watermark",
        "compared_from_offset",
        "compared_to_end_offset",
        "divergence_offset",
        "differing_batches",
    ),
    explanation=lines("""
        Broker {follower_id} and broker {leader_id} both hold offsets {compared_from_offset} up to
          {compared_to_end_offset} of {topic}-{partition}.
        From offset {first_differing_committed_offset} on their batches differ (base offset, last offset, epoch, CRC or
          length).
        Broker {follower_id} had checkpointed high watermark {follower_high_watermark}, broker {leader_id}
          {leader_high_watermark}: both had declared that offset committed.
        By their leader epochs the two part at {divergence_offset}.
    """),
    details=("differing_batches",),
    start_offset="first_differing_committed_offset",
    end_offset=line("""
        CASE WHEN follower_high_watermark < leader_high_watermark THEN follower_high_watermark
        ELSE leader_high_watermark END
    """),
    next=DUMP_BATCHES,
    implies=("D10", "G07"),
    consequence_of="D07",
    points_to="untruncated_divergence",
    diagnosis=(ONE_OF_TWO_ROTTED, HEADER_OF_ONE_ROTTED, _TRUNCATION_WAS_DUE, NO_TRUNCATION_REPAIRS_IT),
    reference="KIP-101, KIP-279; ReplicaVerificationTool compared CRCs on live brokers",
)
