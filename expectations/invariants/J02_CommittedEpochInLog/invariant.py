from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import CUT_OR_LOST, LOST_ITS_TAIL, UNCLEAN_ELECTION_BESIDE
from tidegauge.expectations.invariants.shared.lacking import OLD_LINEAGE, UNTOLD_LINEAGE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_NEVER_GIVEN_OUT: Final = "coalesce(epoch_never_given_out, FALSE)"

INVARIANT = Invariant(
    code="J02",
    key="COMMITTED_EPOCH_VALID",
    name="CommittedEpochInLog",
    severity=Severity.CRITICAL,
    relation="committed_offsets",
    statement=line("""
        Under a leader epoch that a group committed with an offset, the log reaches at least to that offset, and the
        epoch is one that the controller has given out.
    """),
    because=line("""
        A commit carries the leader epoch of the last record that was read. If that epoch ends below the offset, the
        group has read records that were cut off afterwards: what it did with them cannot be repeated by anybody who
        reads the topic now. An epoch above the metadata log's newest was read from a leader that the cluster does not
        know any more.
    """),
    applies_when="leader_epoch IS NOT NULL OR read_leader_epoch IS NOT NULL OR highest_leader_epoch IS NOT NULL",
    unknown=(
        Unknown(
            reason="the commit is of an earlier topic of that name",
            evidence=None,
            when="topic_id <> metadata_topic_id AND read_end_offset > epoch_end_offset OR "
            # Before version 4 a commit does not say which topic of the name it is of.
            # And its earlier commits may be, whatever the newest one is of.
            "(topic_id <> metadata_topic_id OR name_reused AND (topic_id IS NULL OR leader_epoch IS NULL "
            f"OR highest_leader_epoch > leader_epoch)) AND {_NEVER_GIVEN_OUT}",
        ),
        Unknown(reason="metadata log damaged", evidence=None, when=f"metadata_damaged AND {_NEVER_GIVEN_OUT}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_NEVER_GIVEN_OUT}"),
        Unknown(
            reason="the partition's log was not captured",
            evidence=Evidence.BROKER,
            when=f"log_end_offset IS NULL AND NOT {_NEVER_GIVEN_OUT}",
        ),
        Unknown(
            reason=OLD_LINEAGE.reason,
            evidence=Evidence.BROKER,
            when=line(f"""
                {OLD_LINEAGE.when} AND NOT {_NEVER_GIVEN_OUT} AND coalesce(read_end_offset <= epoch_end_offset, TRUE)
            """),
        ),
        Unknown(
            reason=UNTOLD_LINEAGE.reason,
            evidence=Evidence.METADATA_LOG,
            # Where a newer epoch begins below what was read, that log has given it up, whoever leads.
            when=line(f"""
                {UNTOLD_LINEAGE.when} AND NOT coalesce(epoch_end_settled AND read_end_offset > epoch_end_offset, FALSE)
            """),
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # Where the epoch is still the newest, its end in an older copy of the log proves nothing.
            when="NOT snapshot_quiet AND NOT epoch_end_settled AND read_end_offset > epoch_end_offset",
        ),
    ),
    breach_when=line(f"""
        CASE WHEN {_NEVER_GIVEN_OUT} THEN TRUE WHEN epoch_end_offset IS NULL THEN NULL
        ELSE coalesce(read_end_offset > epoch_end_offset, FALSE) END
    """),
    derived=(
        ("cut_off", "read_end_offset - epoch_end_offset"),
        ("moved_on", "CASE WHEN committed_offset <> read_end_offset THEN committed_offset END"),
        ("unknown_epoch", f"CASE WHEN {_NEVER_GIVEN_OUT} THEN highest_leader_epoch END"),
    ),
    evidence=(
        "committed_offset",
        "leader_epoch",
        "highest_leader_epoch",
        "read_leader_epoch",
        "read_end_offset",
        "epoch_end_offset",
        "lost_from_offset",
        "metadata_leader_epoch",
        "committed_at_ms",
        "elections_on_record",
    ),
    explanation=lines("""
        Group {group} is at offset {committed_offset} of {topic}-{partition}, and its commits name leader epoch
          {unknown_epoch}. By the metadata log the partition has come to leader epoch {metadata_leader_epoch} only.
        Group {group} had committed {topic}-{partition} up to offset {read_end_offset} while it read records of leader
          epoch {read_leader_epoch}.
        In the log as it is now, leader epoch {read_leader_epoch} ends at {epoch_end_offset}.
        So the group read {cut_off} offsets, [{epoch_end_offset}, {read_end_offset}), that were cut off afterwards.
        It has gone on since, and is at {moved_on} now.
    """),
    start_offset="epoch_end_offset",
    end_offset="read_end_offset",
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    implies=("J01",),
    points_to="lost_flush",
    diagnosis=(UNCLEAN_ELECTION_BESIDE, LOST_ITS_TAIL, CUT_OR_LOST),
    reference=line("""
        KIP-320; LeaderEpochFileCache#endOffsetFor, OffsetsForLeaderEpochClient (checked by clients only);
        PartitionRegistration#merge
    """),
)
