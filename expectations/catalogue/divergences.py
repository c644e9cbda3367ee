"""Invariants between a follower and its partition's reference replica, the leader or the last one (family D).

In: rows of `divergences`. The rule that must hold here: leader epochs order copies of different moments, offsets do
not. What rests on epochs and on what both had declared committed is judged in a fuzzy copy too; what compares two log
ends or two high watermarks is unknown there when it looks wrong.
"""

from typing import Final

from expectations.catalogue.diagnoses import (
    COMMITMENT_OPEN,
    DISK_OF_ANOTHER_MOMENT,
    HEADER_OF_ONE_ROTTED,
    LEADER_CUT_OR_LOST,
    LEADER_LOST_ITS_TAIL,
    NO_TRUNCATION_REPAIRS_IT,
    ONE_OF_TWO_ROTTED,
    TRUNCATION_WAS_DUE,
    TWO_WRITERS,
    UNCLEAN_ELECTION_NAMED,
)
from expectations.catalogue.elections import GIVEN_UP_BY, IN_SYNC_THEN, NOT_ALL_ON_RECORD
from expectations.catalogue.lacking import CLEANED_END_UNTOLD, NO_METADATA_LOG, OLDER_COPY
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_SOMETHING_TO_COMPARE: Final = "coalesce(incomparable_reason, '') NOT IN ('no batches', 'no common range')"

_COMPACTED: Final = (
    CLEANED_END_UNTOLD,
    Unknown(reason="compacted", evidence=None, when="NOT comparable"),
)
"""Cleaners rewrite batches, each broker by its own clock: nothing is left that must be equal byte for byte."""

_HIDDEN: Final = Unknown(
    reason="log damaged",
    evidence=None,
    when="damage_hides AND first_differing_offset IS NULL AND identity_violation_offset IS NULL",
)
"""What stands behind a damaged place of one of the logs cannot be compared."""

_ONLY_THE_END_DIFFERS: Final = (
    "newer_epoch IS NULL AND first_differing_offset IS NULL AND NOT snapshot_quiet "
    "AND coalesce(follower_copied_after_leader, true)"
)
"""No newer epoch cuts the follower off, its log is only longer: read later, it may soundly be."""

_SALVAGE: Final = (
    "tidegauge salvage <snapshot> --topic {topic} --partition {partition} --from {divergence_offset} --out salvaged"
)
_DUMP: Final = "bin/kafka-dump-log.sh --deep-iteration --files $(ls -d <log.dirs>/{topic}-{partition})/*.log"

_POSSIBLE: Final = ("possible", "CASE WHEN possible_records > 0 THEN possible_records END")
_LACKING: Final = (
    "lacking",
    "CASE commitment_lacks "
    "WHEN 'metadata_log' THEN 'no metadata log at hand tells who led then, or what that broker knew of the ISR' "
    "WHEN 'metadata_log_start' THEN 'the election is not on record, the metadata log begins behind it' "
    "WHEN 'broker' THEN 'the disk of the broker that led then is not in the copy' "
    "WHEN 'settings' THEN 'min.insync.replicas is not known' "
    "WHEN 'checkpoint' THEN 'its checkpointed high watermark is not at hand' "
    "WHEN 'ledger' THEN 'they are above every checkpoint, and no file tells what producers were told' END",
)

LOG_MATCHING = Invariant(
    code="D02",
    key="LOG_MATCHING",
    name="ReplicasMatchBelowHighWatermark",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="Below both checkpointed high watermarks a follower and its leader hold the same batches.",
    because="What is below a high watermark was copied to every in-sync replica and shown to consumers. Where two "
    "replicas differ there, what a consumer reads depends on which of them leads.",
    applies_when=_SOMETHING_TO_COMPARE,
    unknown=(
        *_COMPACTED,
        _HIDDEN,
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            when="first_differing_offset IS NOT NULL AND (follower_high_watermark IS NULL OR leader_high_watermark IS "
            "NULL)",
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
    explanation=(
        "Broker {follower_id} and broker {leader_id} both hold offsets {compared_from_offset} up to "
        "{compared_to_end_offset} of {topic}-{partition}.",
        "From offset {first_differing_committed_offset} on their batches differ (base offset, last offset, epoch, CRC "
        "or length).",
        "Broker {follower_id} had checkpointed high watermark {follower_high_watermark}, broker {leader_id} "
        "{leader_high_watermark}: both had declared that offset committed.",
        "By their leader epochs the two part at {divergence_offset}.",
    ),
    start_offset="first_differing_committed_offset",
    end_offset="CASE WHEN follower_high_watermark < leader_high_watermark THEN follower_high_watermark ELSE "
    "leader_high_watermark END",
    details=("differing_batches",),
    next=_DUMP,
    implies=("D10", "G07"),
    points_to="untruncated_divergence",
    diagnosis=(
        ONE_OF_TWO_ROTTED,
        HEADER_OF_ONE_ROTTED,
        TRUNCATION_WAS_DUE,
        NO_TRUNCATION_REPAIRS_IT,
    ),
    reference="KIP-101, KIP-279; ReplicaVerificationTool compared CRCs on live brokers",
)

EPOCH_OFFSET_IDENTITY = Invariant(
    code="D03",
    key="EPOCH_OFFSET_IDENTITY",
    name="OneBatchPerEpochAndOffset",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="Two replicas that hold an offset under the same leader epoch hold the same batch there.",
    because="An epoch has one leader, and only it hands out offsets. Two batches for one offset and one epoch mean two "
    "writers in one epoch, or a replica whose bytes were changed after they were written.",
    applies_when=_SOMETHING_TO_COMPARE,
    unknown=(
        *_COMPACTED,
        _HIDDEN,
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
    explanation=(
        "At offset {identity_violation_offset} of {topic}-{partition} broker {follower_id} and broker {leader_id} hold "
        "batches of the same leader epoch.",
        "The two batches are not the same, and an epoch has one leader, which wrote one of them at most.",
        "Kafka's own truncation compares epochs and offsets, so it will never repair this.",
    ),
    start_offset="identity_violation_offset",
    details=("differing_batches",),
    next=_DUMP,
    implies=("D02", "D07", "G07"),
    points_to="two_writers",
    diagnosis=(
        ONE_OF_TWO_ROTTED,
        HEADER_OF_ONE_ROTTED,
        TWO_WRITERS,
    ),
    reference="one leader per epoch: ReplicationControlManager, PartitionRegistration#merge",
)

DIVERGENCE_POINT = Invariant(
    code="D05",
    key="DIVERGENCE_POINT",
    name="FollowerKeepsItsSuffix",
    severity=Severity.INFO,
    relation="divergences",
    statement="A follower holds no records that Kafka will truncate when it follows its leader again.",
    because="The exchange of epochs (KIP-279, KIP-320) decides what a follower keeps. What lies beyond goes without a "
    "trace; if it was never committed that is as it should be, and NoCommittedTruncation says when it is not.",
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"records_at_stake > 0 AND {_ONLY_THE_END_DIFFERS}"
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
        _POSSIBLE,
        _LACKING,
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
    explanation=(
        "Broker {follower_id} holds offsets {divergence_offset}..{last_held_offset} of {topic}-{partition} under "
        "leader epoch {truncated_leader_epoch}.",
        "Broker {leader_id}'s epoch {newer_epoch} starts at {newer_epoch_start_offset}, so older epochs end there for "
        "the cluster.",
        "Broker {leader_id}, which it is compared with, knows no newer epoch, but its log ends at {shorter_leader}.",
        "Broker {follower_id} will truncate to {divergence_offset} when it follows broker {leader_id}: "
        "{records_at_stake} records go.",
        "Among what goes are {markers} end markers of transactions, which are open again without them.",
        "{possible} of them may have been committed: {lacking}.",
    ),
    start_offset="divergence_offset",
    end_offset="follower_log_end_offset",
    records="records_at_stake",
    next=_SALVAGE,
    points_to="uncommitted_tail",
    diagnosis=(COMMITMENT_OPEN,),
    reference="Partition#readRecords, AbstractFetcherThread#getOffsetTruncationState (KIP-101, KIP-279, KIP-320)",
)

NO_COMMITTED_TRUNCATION = Invariant(
    code="D06",
    key="NO_COMMITTED_TRUNCATION",
    name="NoCommittedTruncation",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="No record that was declared committed lies where Kafka will truncate a follower.",
    because="Producers were told that these records are safe, and consumers may have read them. When the follower "
    "rejoins, the only copy goes.",
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"declared_committed > 0 AND {_ONLY_THE_END_DIFFERS}"
        ),
        Unknown(
            reason="checkpoint may be newer than the log",
            evidence=Evidence.ONE_MOMENT,
            # A live follower that truncated, and got a new high watermark, between the copying of its log and of its
            # checkpoint. An unclean election on record makes the loss credible all the same.
            when="declared_committed > 0 AND committed_proof = 'checkpoint' AND unclean_election_offset IS NULL AND "
            "follower_alive AND NOT broker_quiet",
        ),
        Unknown(
            reason=OLDER_COPY, evidence=Evidence.ONE_MOMENT, when="of_an_earlier_moment AND declared_committed = 0"
        ),
        *(
            Unknown(
                reason=reason,
                evidence=evidence,
                when=f"declared_committed = 0 AND possible_records > 0 AND commitment_lacks = '{evidence}'",
            )
            for evidence, reason in (
                (Evidence.METADATA_LOG, "no metadata log tells whether they were committed"),
                (Evidence.METADATA_LOG_START, "the election is not on record"),
                (Evidence.BROKER, "the leader of that epoch was not captured"),
                (Evidence.SETTINGS, "min.insync.replicas not known"),
                (Evidence.CHECKPOINT, "high watermark not checkpointed"),
                (Evidence.LEDGER, "commitment not known"),
            )
        ),
    ),
    # A leader that holds the very same batches gives them back: nothing goes with the follower's copy.
    breach_when="declared_committed > 0 AND NOT coalesce("
    "incomparable_reason IS NULL AND first_differing_offset IS NULL "
    "AND compared_from_offset <= divergence_offset AND compared_to_end_offset >= follower_log_end_offset, "
    "false)",
    derived=(
        ("last_held_offset", "follower_log_end_offset - 1"),
        (
            "by_checkpoint",
            "CASE WHEN follower_high_watermark > divergence_offset THEN CASE WHEN "
            "committed_proof = 'checkpoint' THEN declared_committed "
            # Where segments are missing there are fewer records than offsets.
            "ELSE least(follower_high_watermark, follower_log_end_offset, divergence_offset + records_at_stake) - "
            "divergence_offset END END",
        ),
        (
            "by_another",
            "CASE WHEN committed_proof = 'checkpoint' AND coalesce(follower_high_watermark, 0) <= divergence_offset "
            "THEN declared_committed END",
        ),
        ("by_metadata", "CASE WHEN committed_proof = 'sole_isr' THEN declared_committed END"),
        ("by_readers", "CASE WHEN committed_proof = 'read' THEN declared_committed END"),
        ("shorter_leader", "CASE WHEN newer_epoch IS NULL THEN leader_log_end_offset END"),
        (
            "no_election",
            "CASE WHEN unclean_election_offset IS NULL AND elections_on_record THEN 'No unclean election' END",
        ),
        ("not_on_record", "CASE WHEN NOT elections_on_record THEN 'not every' END"),
        *IN_SYNC_THEN,
        ("who", "CASE WHEN leader_is_elected THEN 'Leader' ELSE 'Broker' END"),
        _POSSIBLE,
        _LACKING,
    ),
    evidence=(
        "divergence_offset",
        "follower_log_end_offset",
        "follower_high_watermark",
        "truncated_leader_epoch",
        "newer_epoch",
        "newer_epoch_start_offset",
        "records_at_stake",
        "declared_committed",
        "committed_proof",
        "unclean_election_offset",
        "unclean_election_at_ms",
        "isr_before_election",
        "elections_on_record",
    ),
    explanation=(
        "Broker {follower_id} holds offsets {divergence_offset}..{last_held_offset} under leader epoch "
        "{truncated_leader_epoch}.",
        "{who} {leader_id}'s epoch {newer_epoch} starts at {newer_epoch_start_offset}, so epoch "
        "{truncated_leader_epoch} ends there for the cluster: broker {follower_id} will truncate to "
        "{divergence_offset} when it rejoins.",
        "Broker {leader_id}'s log ends at {shorter_leader}, in no newer epoch: broker {follower_id} will truncate to "
        "{divergence_offset} when it follows it.",
        "Broker {follower_id}'s checkpointed high watermark was {follower_high_watermark}: at least {by_checkpoint} of "
        "these {records_at_stake} records had been declared committed.",
        "By the checkpointed high watermark of another replica of that lineage at least {by_another} of these "
        "{records_at_stake} records had been declared committed.",
        "The leader of epoch {truncated_leader_epoch} was the only in-sync replica and, by its own copy of the "
        "metadata log, knew it, so each of its records was committed as it was written: {by_metadata} of "
        "{records_at_stake}.",
        "Consumer groups had read them under that leader epoch, and nobody reads what is not committed: {by_readers} "
        "of {records_at_stake}.",
        "{possible} more may have been committed: {lacking}.",
        *GIVEN_UP_BY,
        "{no_election} is on record that would explain it.",
        NOT_ALL_ON_RECORD,
    ),
    start_offset="divergence_offset",
    end_offset="follower_log_end_offset",
    records="records_at_stake",
    next="keep broker {follower_id} down; " + _SALVAGE,
    implies=("D02", "D05", "D09", "D15", "D18", "D19", "F10", "J02", "J07"),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_NAMED,
        DISK_OF_ANOTHER_MOMENT,
        LEADER_LOST_ITS_TAIL,
        LEADER_CUT_OR_LOST,
    ),
    reference="leader completeness: Partition#maybeIncrementLeaderHW; KIP-101, KIP-966",
)

BYTES_BEFORE_DIVERGENCE_EQUAL = Invariant(
    code="D07",
    key="BYTES_BEFORE_DIVERGENCE_EQUAL",
    name="BytesEqualBeforeDivergence",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="Below the point to which Kafka would truncate a follower, it holds the same batches as its leader.",
    because="Truncation trusts that equal epochs mean equal bytes (KIP-101). Where they do not, a follower rejoins, "
    "enters the ISR, may lead, and serves other records than the leader did; nothing in Kafka will notice.",
    applies_when=_SOMETHING_TO_COMPARE,
    unknown=(
        *_COMPACTED,
        _HIDDEN,
        Unknown(
            # It fetches from there (ReplicaManager#initialFetchOffset), and what lies above is cut.
            reason="high watermark not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when="first_differing_undiverged_offset IS NOT NULL AND follower_last_leader_epoch IS NULL "
            "AND follower_high_watermark IS NULL",
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
    explanation=(
        "By leader epochs broker {epochs_of} and broker {leader_id} hold the same log of {topic}-{partition} up to "
        "{divergence_offset}; Kafka would cut nothing below.",
        "Broker {without_epochs} knows no leader epochs of {topic}-{partition}, and follows broker {leader_id} from "
        "its high watermark on, {divergence_offset}; Kafka would cut nothing below.",
        "Yet from offset {first_differing_undiverged_offset} on their batches differ.",
        "So broker {follower_id} keeps what it has when it follows broker {leader_id}, and the two stay different.",
    ),
    start_offset="first_differing_undiverged_offset",
    end_offset="divergence_offset",
    details=("differing_batches",),
    next=_DUMP,
    implies=("D02", "D15"),
    points_to="equal_lineage_other_bytes",
    diagnosis=(
        ONE_OF_TWO_ROTTED,
        HEADER_OF_ONE_ROTTED,
        NO_TRUNCATION_REPAIRS_IT,
    ),
    reference="AbstractFetcherThread#fetchOffsetAndTruncate (says that it does not fix such a mismatch), KIP-101",
)

FOLLOWER_NOT_AHEAD = Invariant(
    code="D08",
    key="FOLLOWER_NOT_AHEAD",
    name="FollowerNotAheadOfLeader",
    severity=Severity.WARNING,
    relation="divergences",
    statement="Within one leader epoch an in-sync follower's log never reaches beyond its leader's.",
    because="A follower only copies. One that is in sync and longer than its leader holds a tail that nobody took from "
    "it, or the leader lost one.",
    # Out of the ISR, or where the leader has begun a newer epoch (or was elected for one and has not written yet), a
    # longer log is FollowerKeepsItsSuffix's matter.
    applies_when="leader_is_elected AND follower_in_isr AND newer_epoch IS NULL "
    "AND coalesce(reference_led_last_epoch, true)",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="follower_log_end_offset > leader_log_end_offset AND NOT snapshot_quiet AND "
            "coalesce(follower_copied_after_leader, true)",
        ),
    ),
    breach_when="follower_log_end_offset > leader_log_end_offset",
    derived=(("ahead", "follower_log_end_offset - leader_log_end_offset"),),
    evidence=(
        "follower_log_end_offset",
        "leader_log_end_offset",
        "follower_last_leader_epoch",
        "leader_last_leader_epoch",
        "leader_epoch_start_offset",
    ),
    explanation=(
        "Broker {leader_id} leads {topic}-{partition}; its log ends at {leader_log_end_offset}.",
        "Broker {follower_id} is in its ISR; its log ends at {follower_log_end_offset}, {ahead} offsets further, and "
        "no newer leader epoch cuts it off.",
        "A follower has only what its leader had: the leader's log has become shorter, or the follower kept a tail "
        "that it should have truncated.",
    ),
    start_offset="leader_log_end_offset",
    end_offset="follower_log_end_offset",
    next=_SALVAGE,
    implies=("D05",),
    points_to="uncommitted_tail",
    reference="AbstractFetcherThread#processPartitionData, Partition#readRecords",
)

FOLLOWER_HIGH_WATERMARK = Invariant(
    code="D09",
    key="FOLLOWER_HW_LE_LEADER_HW",
    name="FollowerHighWatermarkNotAboveLeaders",
    severity=Severity.WARNING,
    relation="divergences",
    statement="A follower's high watermark never exceeds its leader's.",
    because="A follower learns the high watermark from its leader. One that knows a higher one knows of committed "
    "records that the leader does not count as committed: consumers would be sent back (KAFKA-14704).",
    applies_when="follower_high_watermark IS NOT NULL AND leader_high_watermark IS NOT NULL",
    unknown=(
        Unknown(
            reason="high watermarks are written every 5 s",
            evidence=Evidence.ONE_MOMENT,
            # Each broker writes by its own clock; only a clean stop writes the last one.
            when="follower_high_watermark > leader_high_watermark AND NOT (broker_quiet AND follower_clean_shutdown "
            "AND coalesce(leader_clean_shutdown, false))",
        ),
        Unknown(
            reason="just after a leader change",
            evidence=None,
            # A new leader begins with the high watermark it had as a follower, and raises it with the first fetches.
            when="follower_high_watermark > leader_high_watermark AND leader_high_watermark <= "
            "coalesce(leader_epoch_start_offset, leader_high_watermark)",
        ),
        Unknown(
            reason=NO_METADATA_LOG.reason,
            evidence=Evidence.METADATA_LOG,
            when="leader_known IS FALSE AND follower_high_watermark <= leader_high_watermark",
        ),
    ),
    breach_when="follower_high_watermark > leader_high_watermark",
    derived=(("above", "follower_high_watermark - leader_high_watermark"),),
    evidence=(
        "follower_high_watermark",
        "leader_high_watermark",
        "leader_epoch_start_offset",
        "follower_log_end_offset",
        "leader_log_end_offset",
    ),
    explanation=(
        "Both brokers stopped cleanly, so each one's checkpointed high watermark of {topic}-{partition} is its last.",
        "Broker {follower_id}'s is {follower_high_watermark}, {above} above broker {leader_id}'s, which is "
        "{leader_high_watermark}.",
        "Broker {leader_id} had been raising it in its own epoch, which starts at {leader_epoch_start_offset}, so this "
        "is no leftover of the election: it went back, or the follower's came from elsewhere.",
    ),
    start_offset="leader_high_watermark",
    end_offset="follower_high_watermark",
    next="grep -H '{topic} {partition} ' <log.dirs of brokers {leader_id} and "
    "{follower_id}>/replication-offset-checkpoint",
    points_to="failover",
    reference="ReplicaFetcherThread#processPartitionData, UnifiedLog#updateHighWatermark; KAFKA-14704",
)
