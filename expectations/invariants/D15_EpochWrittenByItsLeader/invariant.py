from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DUMP_LOG_OF_BROKER
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_NEVER_GIVEN_OUT: Final = line("""
    (elected_leader_id IS NULL AND election_known IS NOT TRUE
    AND coalesce(leader_epoch > max_metadata_leader_epoch, FALSE))
""")

INVARIANT = Invariant(
    code="D15",
    key="EPOCH_WRITER",
    name="EpochWrittenByItsLeader",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement=line("""
        What a replica holds of a leader epoch, the leader elected for that epoch holds too, as far as it is committed;
        of an epoch that nobody led no replica holds anything.
    """),
    because=line("""
        Only the elected leader hands out offsets in its epoch. Committed records of an epoch that its leader closed
        earlier, that had no leader or that was never given out were written by nobody who was entitled to.
    """),
    # The quorum elects the metadata log's own leaders; no record of the controller says so.
    applies_when=line("""
        start_offset IS NOT NULL AND start_offset < coalesce(high_watermark, start_offset + 1)
        AND start_offset >= log_start_offset AND topic <> '__cluster_metadata'
    """),
    unknown=(
        NO_METADATA_LOG,
        Unknown(reason="metadata log damaged", evidence=None, when=f"metadata_damaged AND {_NEVER_GIVEN_OUT}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_NEVER_GIVEN_OUT}"),
        Unknown(
            reason="election not on record",
            evidence=Evidence.METADATA_LOG_START,
            when=f"elected_leader_id IS NULL AND election_known IS NOT TRUE AND NOT {_NEVER_GIVEN_OUT}",
        ),
        Unknown(
            reason="the elected leader's log is not there, or no longer has that epoch",
            evidence=None,
            when="elected_leader_id <> broker_id AND (writer_start_offset IS NULL OR writer_end_offset IS NULL)",
        ),
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            when=line("""
                elected_leader_id <> broker_id AND high_watermark IS NULL AND (last_batch_end_offset > writer_end_offset
                OR start_offset < writer_start_offset)
            """),
        ),
        Unknown(
            reason="compacted",
            evidence=None,
            when="ever_compacted AND elected_leader_id <> broker_id AND start_offset < writer_start_offset",
        ),
        Unknown(
            reason="the elected leader's log begins later",
            evidence=None,
            when=line("""
                elected_leader_id <> broker_id AND start_offset < writer_start_offset
                AND writer_start_offset <= coalesce(writer_first_batch_offset, writer_start_offset)
            """),
        ),
        Unknown(
            reason="the elected leader's log ends earlier",
            evidence=None,
            # It was copied earlier, lost its tail, or is being filled again; none of it says that somebody else wrote.
            when=line("""
                elected_leader_id <> broker_id AND start_offset >= writer_start_offset
                AND last_batch_end_offset > writer_end_offset AND high_watermark > writer_end_offset
                AND writer_end_offset >= coalesce(writer_log_end_offset, writer_end_offset)
            """),
        ),
    ),
    breach_when="""elected_leader_id IS NULL OR elected_leader_id <> broker_id AND (
        start_offset < writer_start_offset
        OR (last_batch_end_offset > writer_end_offset AND high_watermark > writer_end_offset
            AND coalesce(reference_high_watermark, high_watermark) > writer_end_offset
            AND coalesce(divergence_offset, last_batch_end_offset) > writer_end_offset))""",
    derived=(
        ("leaderless_epoch", "CASE WHEN elected_leader_id IS NULL AND election_known THEN leader_epoch END"),
        ("highest_epoch", f"CASE WHEN {_NEVER_GIVEN_OUT} THEN max_metadata_leader_epoch END"),
        ("unled_epoch", "CASE WHEN elected_leader_id IS NULL THEN leader_epoch END"),
        ("led_epoch", "CASE WHEN elected_leader_id IS NOT NULL THEN leader_epoch END"),
    ),
    evidence=(
        "elected_leader_id",
        "max_metadata_leader_epoch",
        "start_offset",
        "last_batch_end_offset",
        "writer_start_offset",
        "writer_end_offset",
        "high_watermark",
        "reference_high_watermark",
    ),
    explanation=lines("""
        By the metadata log {topic}-{partition} had no leader in leader epoch {leaderless_epoch}.
        By the metadata log {topic}-{partition} has come to leader epoch {highest_epoch}; epoch {leader_epoch} was never
          given out.
        By the metadata log broker {elected_leader_id} was the leader of {topic}-{partition} in leader epoch
          {leader_epoch}.
        Broker {broker_id} holds offsets [{start_offset}, {last_batch_end_offset}) under that epoch; its high watermark
          is {high_watermark}.
        So nobody was entitled to write in epoch {unled_epoch}: a broker that only believed it led wrote them, or the
          epochs in this log are wrong.
        Broker {elected_leader_id}'s own log has that epoch from {writer_start_offset}, and ends it at
          {writer_end_offset}, where a newer epoch begins.
        So somebody else wrote the rest of epoch {led_epoch}, or the epochs in one of the two logs are wrong.
    """),
    start_offset=line("""
        coalesce(CASE WHEN start_offset < writer_start_offset THEN start_offset
        ELSE writer_end_offset END, start_offset)
    """),
    end_offset=line("""
        CASE WHEN start_offset < writer_start_offset THEN writer_start_offset ELSE last_batch_end_offset END
    """),
    next=DUMP_LOG_OF_BROKER,
    points_to="two_writers",
    reference="one leader per epoch: ReplicationControlManager, PartitionRegistration#merge",
)
