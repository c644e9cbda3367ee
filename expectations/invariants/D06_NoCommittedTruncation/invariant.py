from typing import Final

from tidegauge.expectations.causes import Believe, Rule
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import SALVAGE_FROM_DIVERGENCE
from tidegauge.expectations.invariants.shared.diagnoses import DISK_OF_ANOTHER_MOMENT, UNCLEAN_ELECTION_NAMED
from tidegauge.expectations.invariants.shared.divergences import LACKING, ONLY_THE_END_DIFFERS, POSSIBLE
from tidegauge.expectations.invariants.shared.elections import GIVEN_UP_BY, IN_SYNC_THEN, NOT_ALL_ON_RECORD
from tidegauge.expectations.invariants.shared.lacking import OLDER_COPY
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_LEADER_LOST_ITS_TAIL: Final = Rule(
    true=("elections_on_record",),
    points_to="lost_flush",
    because=line("""
        No unclean election is on record, and the leader lacks what was declared committed: its log lost its tail.
    """),
    believe=Believe.HOLDER,
)
_LEADER_CUT_OR_LOST: Final = Rule(
    points_to="cut_or_lost",
    because="The leader lacks what was declared committed, and not every election since is on record.",
    believe=Believe.HOLDER,
)

INVARIANT = Invariant(
    code="D06",
    key="NO_COMMITTED_TRUNCATION",
    name="NoCommittedTruncation",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="No record that was declared committed lies where Kafka will truncate a follower.",
    because=line("""
        Producers were told that these records are safe, and consumers may have read them. When the follower rejoins,
        the only copy goes.
    """),
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"declared_committed > 0 AND {ONLY_THE_END_DIFFERS}"
        ),
        Unknown(
            reason="checkpoint may be newer than the log",
            evidence=Evidence.ONE_MOMENT,
            # A live follower that truncated, and got a new high watermark, between the copying of its log and of its
            # checkpoint. An unclean election on record makes the loss credible all the same.
            when=line("""
                declared_committed > 0 AND committed_proof = 'checkpoint' AND unclean_election_offset IS NULL
                AND follower_alive AND NOT broker_quiet
            """),
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
    breach_when=line("""
        declared_committed > 0 AND NOT coalesce(incomparable_reason IS NULL AND first_differing_offset IS NULL
        AND compared_from_offset <= divergence_offset AND compared_to_end_offset >= follower_log_end_offset, false)
    """),
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
            line("""
                CASE WHEN committed_proof = 'checkpoint'
                AND coalesce(follower_high_watermark, 0) <= divergence_offset THEN declared_committed END
            """),
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
        POSSIBLE,
        LACKING,
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
        *lines("""
            Broker {follower_id} holds offsets {divergence_offset}..{last_held_offset} under leader epoch
              {truncated_leader_epoch}.
            {who} {leader_id}'s epoch {newer_epoch} starts at {newer_epoch_start_offset}, so epoch
              {truncated_leader_epoch} ends there for the cluster: broker {follower_id} will truncate to
              {divergence_offset} when it rejoins.
            Broker {leader_id}'s log ends at {shorter_leader}, in no newer epoch: broker {follower_id} will truncate to
              {divergence_offset} when it follows it.
            Broker {follower_id}'s checkpointed high watermark was {follower_high_watermark}: at least {by_checkpoint}
              of these {records_at_stake} records had been declared committed.
            By the checkpointed high watermark of another replica of that lineage at least {by_another} of these
              {records_at_stake} records had been declared committed.
            The leader of epoch {truncated_leader_epoch} was the only in-sync replica and, by its own copy of the
              metadata log, knew it, so each of its records was committed as it was written: {by_metadata} of
              {records_at_stake}.
            Consumer groups had read them under that leader epoch, and nobody reads what is not committed: {by_readers}
              of {records_at_stake}.
            {possible} more may have been committed: {lacking}.
        """),
        *GIVEN_UP_BY,
        "{no_election} is on record that would explain it.",
        NOT_ALL_ON_RECORD,
    ),
    start_offset="divergence_offset",
    end_offset="follower_log_end_offset",
    records="records_at_stake",
    next="keep broker {follower_id} down; " + SALVAGE_FROM_DIVERGENCE,
    implies=("D02", "D05", "D09", "D15", "D18", "D19", "F10", "J02", "J07"),
    points_to="lost_flush",
    diagnosis=(UNCLEAN_ELECTION_NAMED, DISK_OF_ANOTHER_MOMENT, _LEADER_LOST_ITS_TAIL, _LEADER_CUT_OR_LOST),
    reference="leader completeness: Partition#maybeIncrementLeaderHW; KIP-101, KIP-966",
)
