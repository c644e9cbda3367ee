from typing import Final

from tidegauge.expectations.causes import Rule
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import SALVAGE_FROM_DIVERGENCE
from tidegauge.expectations.invariants.shared.divergences import LACKING, ONLY_THE_END_DIFFERS, POSSIBLE
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG, OLDER_COPY
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_COMMITMENT_OPEN: Final = Rule(
    known=("commitment_lacks",),
    points_to="open_tail",
    because="What would tell whether these records were committed is not in the copy.",
)

INVARIANT = Invariant(
    code="D05",
    key="DIVERGENCE_POINT",
    name="FollowerKeepsItsSuffix",
    severity=Severity.INFO,
    relation="divergences",
    statement="A follower holds no records that Kafka will truncate when it follows its leader again.",
    because=line("""
        The exchange of epochs (KIP-279, KIP-320) decides what a follower keeps. What lies beyond goes without a trace;
        if it was never committed that is as it should be, and NoCommittedTruncation says when it is not.
    """),
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"records_at_stake > 0 AND {ONLY_THE_END_DIFFERS}"
        ),
        Unknown(
            reason=NO_METADATA_LOG.reason,
            evidence=Evidence.METADATA_LOG,
            when="leader_known IS FALSE AND records_at_stake = 0",
        ),
        Unknown(reason=OLDER_COPY, evidence=Evidence.ONE_MOMENT, when="of_an_earlier_moment AND records_at_stake = 0"),
    ),
    breach_when="records_at_stake > 0",
    derived=(
        ("last_held_offset", "follower_log_end_offset - 1"),
        ("shorter_leader", "CASE WHEN newer_epoch IS NULL THEN leader_log_end_offset END"),
        ("markers", "CASE WHEN markers_at_stake > 0 THEN markers_at_stake END"),
        POSSIBLE,
        LACKING,
    ),
    evidence=(
        "divergence_offset",
        "follower_log_end_offset",
        "leader_log_end_offset",
        "truncated_leader_epoch",
        "newer_epoch",
        "newer_epoch_start_offset",
        "truncation_rounds",
        "records_at_stake",
        "markers_at_stake",
        "possible_records",
        "commitment_lacks",
    ),
    explanation=lines("""
        Broker {follower_id} holds offsets {divergence_offset}..{last_held_offset} of {topic}-{partition} under leader
          epoch {truncated_leader_epoch}.
        Broker {leader_id}'s epoch {newer_epoch} starts at {newer_epoch_start_offset}, so older epochs end there for the
          cluster.
        Broker {leader_id}, which it is compared with, knows no newer epoch, but its log ends at {shorter_leader}.
        Broker {follower_id} will truncate to {divergence_offset} when it follows broker {leader_id}: {records_at_stake}
          records go.
        Among what goes are {markers} end markers of transactions, which are open again without them.
        {possible} of them may have been committed: {lacking}.
    """),
    start_offset="divergence_offset",
    end_offset="follower_log_end_offset",
    records="records_at_stake",
    next=SALVAGE_FROM_DIVERGENCE,
    points_to="uncommitted_tail",
    diagnosis=(_COMMITMENT_OPEN,),
    reference="Partition#readRecords, AbstractFetcherThread#getOffsetTruncationState (KIP-101, KIP-279, KIP-320)",
)
