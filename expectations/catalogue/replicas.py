"""Invariants about leader epochs: in one log, against other replicas, and against the metadata log (family D).

In: rows of `segments`, `replicas`, `epoch_spans`, `partition_changes`. The rule that must hold here: an epoch has one
leader, elected by a record of the metadata log, and every replica that has records of the epoch got them from it.
What follower and leader hold, compared with one another, is in `divergences`.
"""

from typing import Final

from expectations.catalogue.diagnoses import (
    DISK_OF_ANOTHER_MOMENT,
    HEADER_ROTTED_ALONE,
    IDENTITY_OF_ANOTHER,
    OUT_OF_SYNC_ELECTED,
    WRONG_AT_THE_LEADER,
)
from expectations.catalogue.lacking import NO_METADATA_LOG
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_DUMP: Final = "bin/kafka-dump-log.sh --files $(ls -d <log.dirs of broker {broker_id}>/{topic}-{partition})/*.log"
_EPOCHS: Final = "cat <log.dirs of broker {broker_id}>/{topic}-{partition}/leader-epoch-checkpoint"

EPOCH_MONOTONIC_IN_LOG = Invariant(
    code="D01",
    key="EPOCH_MONOTONIC_IN_LOG",
    name="LeaderEpochNeverFalls",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="From batch to batch of a log the leader epoch never falls.",
    because="Epochs order leaders. A batch of an older epoch behind a newer one was appended by a leader that had been "
    "replaced, or its header rotted: the epoch is not covered by the CRC. Truncation by epochs goes wrong either way.",
    breach_when="epoch_order_errors > 0",
    evidence=(
        "epoch_order_errors",
        "first_leader_epoch",
        "last_leader_epoch",
        "first_offset",
        "last_offset",
        "batch_count",
    ),
    explanation=(
        "{path} holds {batch_count} batches of {topic}-{partition}, offsets {first_offset}..{last_offset}, as broker "
        "{broker_id} has them.",
        "{epoch_order_errors} of them bear a lower leader epoch than the batch before.",
        "If the other replicas have the same, a replaced leader wrote them; if only this one has it, its header "
        "rotted.",
    ),
    details=("epoch_order",),
    next=_DUMP,
    implies=(
        "B14",
        "B15",
        "D02",
        "D04",
        "D07",
        "D15",
        "K19",
    ),
    points_to="leader_epoch_wrong",
    diagnosis=(
        WRONG_AT_THE_LEADER,
        HEADER_ROTTED_ALONE,
    ),
    reference="LeaderEpochFileCache#assign (drops what contradicts it, with a warning), KAFKA-18723",
)

EPOCH_BOUNDARY_AGREEMENT = Invariant(
    code="D04",
    key="EPOCH_BOUNDARY_AGREEMENT",
    name="EpochBoundariesAgree",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement="A leader epoch that two replicas hold below both high watermarks starts at the same offset on both.",
    because="Truncation looks for the end of an epoch in the leader's list (KIP-101, KIP-279). Where the lists "
    "disagree about what is committed, it cuts too much or too little.",
    # Retention, DeleteRecords and tiering clip the first epoch of a log; what starts above a high watermark may go yet.
    applies_when="start_offset IS NOT NULL AND reference_start_offset IS NOT NULL AND NOT is_first_entry AND NOT "
    "reference_is_first AND start_offset > log_start_offset AND start_offset > coalesce(first_batch_offset, "
    "start_offset - 1) AND start_offset < coalesce(high_watermark, start_offset + 1) AND reference_start_offset < "
    "coalesce(reference_high_watermark, reference_start_offset + 1)",
    unknown=(
        Unknown(reason="compacted", evidence=None, when="ever_compacted AND start_offset <> reference_start_offset"),
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="policy_history_known IS FALSE AND start_offset <> reference_start_offset",
        ),
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            when="(high_watermark IS NULL OR reference_high_watermark IS NULL) AND start_offset <> "
            "reference_start_offset",
        ),
    ),
    breach_when="start_offset <> reference_start_offset",
    evidence=(
        "start_offset",
        "reference_start_offset",
        "reference_broker_id",
        "checkpoint_start_offset",
        "high_watermark",
        "reference_high_watermark",
        "divergence_offset",
    ),
    explanation=(
        "On broker {broker_id} the batches of leader epoch {leader_epoch} of {topic}-{partition} start at "
        "{start_offset}.",
        "On broker {reference_broker_id} the same epoch starts at {reference_start_offset}.",
        "Both lie below both high watermarks ({high_watermark} and {reference_high_watermark}), and an epoch has one "
        "leader and one start.",
        "By these epochs Kafka would truncate broker {broker_id} to {divergence_offset}, which may be too far or not "
        "far enough.",
    ),
    start_offset="CASE WHEN start_offset < reference_start_offset THEN start_offset ELSE reference_start_offset END",
    end_offset="CASE WHEN start_offset < reference_start_offset THEN reference_start_offset ELSE start_offset END",
    next=_EPOCHS,
    implies=("D07", "D19"),
    points_to="untruncated_divergence",
    reference="LeaderEpochFileCache#endOffsetFor, KIP-101, KIP-279",
)

LEADER_CACHE_HAS_CURRENT = Invariant(
    code="D13",
    key="LEADER_CACHE_HAS_CURRENT",
    name="LeaderKnowsItsEpoch",
    severity=Severity.WARNING,
    relation="replicas",
    statement="A leader's newest checkpointed leader epoch is the one the metadata log gave it.",
    because="A broker writes its epoch down before it appends as leader. One that did not is a leader that does not "
    "know it, or has lost its checkpoint; followers that ask it where an epoch ends get a wrong answer.",
    applies_when="is_leader AND metadata_known AND broker_alive AND NOT is_future AND topic <> '__cluster_metadata'",
    unknown=(
        Unknown(
            reason="leader-epoch-checkpoint missing or empty",
            evidence=Evidence.CHECKPOINT,
            when="checkpoint_last_leader_epoch IS NULL",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # Between the record in the metadata log and the leader's checkpoint lies the time of one image update.
            when="NOT snapshot_quiet AND checkpoint_last_leader_epoch <> metadata_leader_epoch",
        ),
        Unknown(
            # A broker that is started drops epochs at its log end (LeaderEpochFileCache#truncateFromEnd), and is named
            # leader until its registration arrives, or its session is over.
            reason="nothing was written in its epoch: a leader that was just started forgets such an epoch",
            evidence=None,
            when="checkpoint_last_leader_epoch < metadata_leader_epoch "
            "AND COALESCE(last_leader_epoch, -1) <= checkpoint_last_leader_epoch",
        ),
    ),
    breach_when="checkpoint_last_leader_epoch <> metadata_leader_epoch",
    evidence=(
        "metadata_leader_epoch",
        "checkpoint_last_leader_epoch",
        "checkpoint_last_epoch_start_offset",
        "last_leader_epoch",
    ),
    explanation=(
        "By the metadata log broker {broker_id} leads {topic}-{partition} in leader epoch {metadata_leader_epoch}.",
        "Its leader-epoch-checkpoint ends with epoch {checkpoint_last_leader_epoch}, which starts at "
        "{checkpoint_last_epoch_start_offset}.",
        "A leader writes its epoch into that file before its first append, so it has not taken this one up, or the "
        "file was replaced.",
    ),
    start_offset="checkpoint_last_epoch_start_offset",
    next=_EPOCHS,
    points_to="derived_file",
    reference="Partition#makeLeader, UnifiedLog#assignEpochStartOffset (KAFKA-7415)",
)

_ABOVE_METADATA: Final = (
    "(last_leader_epoch > metadata_leader_epoch OR checkpoint_last_leader_epoch > metadata_leader_epoch)"
)

EPOCH_LE_METADATA = Invariant(
    code="D14",
    key="EPOCH_LE_METADATA",
    name="LeaderEpochKnownToMetadata",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="No log holds a leader epoch above the one in the metadata log.",
    because="Epochs are handed out by the controller. A higher one means that the metadata went back in time, or that "
    "the log comes from another cluster; the controller will hand out the same epochs again, and two leaders share "
    "one.",
    # A directory of an earlier topic of the same name has its own epochs.
    applies_when="metadata_known AND metadata_leader_epoch IS NOT NULL AND topic <> '__cluster_metadata' "
    "AND (last_leader_epoch IS NOT NULL OR checkpoint_last_leader_epoch IS NOT NULL) "
    "AND (topic_id IS NULL OR metadata_topic_id IS NULL OR topic_id = metadata_topic_id)",
    unknown=(
        Unknown(reason="metadata log damaged", evidence=None, when=f"metadata_damaged AND {_ABOVE_METADATA}"),
        # A broker that finds it when it starts takes it for a stray (LogManager#isStrayKraftReplica).
        Unknown(
            reason="no partition.metadata",
            evidence=Evidence.REPLICA,
            when=f"coalesce(may_be_earlier_topics, false) AND {_ABOVE_METADATA}",
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_ABOVE_METADATA}"),
    ),
    breach_when="coalesce(last_leader_epoch, -1) > metadata_leader_epoch OR coalesce(checkpoint_last_leader_epoch, -1) "
    "> metadata_leader_epoch",
    evidence=(
        "last_leader_epoch",
        "checkpoint_last_leader_epoch",
        "metadata_leader_epoch",
        "topic_id",
        "metadata_topic_id",
        "elections_on_record",
    ),
    derived=(
        ("batch_epoch", "CASE WHEN last_leader_epoch > metadata_leader_epoch THEN last_leader_epoch END"),
        (
            "checkpoint_epoch",
            "CASE WHEN checkpoint_last_leader_epoch > metadata_leader_epoch THEN checkpoint_last_leader_epoch END",
        ),
    ),
    explanation=(
        "By the metadata log {topic}-{partition} is in leader epoch {metadata_leader_epoch}, the highest ever given "
        "out.",
        "The last batch on broker {broker_id} bears leader epoch {batch_epoch}.",
        "The leader-epoch-checkpoint on broker {broker_id} ends with epoch {checkpoint_epoch}.",
        "So the metadata log has lost records, or this log was written in another cluster.",
    ),
    next="bin/kafka-metadata-quorum.sh --bootstrap-server <host:port> describe --replication",
    implies=("D13", "D15", "J02"),
    points_to="foreign_disk",
    diagnosis=(
        DISK_OF_ANOTHER_MOMENT,
        IDENTITY_OF_ANOTHER,
    ),
    reference="ReplicationControlManager, PartitionRegistration#merge: an epoch only rises",
)

_NEVER_GIVEN_OUT: Final = (
    "(elected_leader_id IS NULL AND election_known IS NOT TRUE "
    "AND coalesce(leader_epoch > max_metadata_leader_epoch, FALSE))"
)

EPOCH_WRITER = Invariant(
    code="D15",
    key="EPOCH_WRITER",
    name="EpochWrittenByItsLeader",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement="What a replica holds of a leader epoch, the leader elected for that epoch holds too, as far as it is "
    "committed; of an epoch that nobody led no replica holds anything.",
    because="Only the elected leader hands out offsets in its epoch. Committed records of an epoch that its leader "
    "closed earlier, that had no leader or that was never given out were written by nobody who was entitled to.",
    # The quorum elects the metadata log's own leaders; no record of the controller says so.
    applies_when="start_offset IS NOT NULL AND start_offset < coalesce(high_watermark, start_offset + 1) "
    "AND start_offset >= log_start_offset AND topic <> '__cluster_metadata'",
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
            when="elected_leader_id <> broker_id AND high_watermark IS NULL "
            "AND (last_batch_end_offset > writer_end_offset OR start_offset < writer_start_offset)",
        ),
        Unknown(
            reason="compacted",
            evidence=None,
            when="ever_compacted AND elected_leader_id <> broker_id AND start_offset < writer_start_offset",
        ),
        Unknown(
            reason="the elected leader's log begins later",
            evidence=None,
            when="elected_leader_id <> broker_id AND start_offset < writer_start_offset AND writer_start_offset <= "
            "coalesce(writer_first_batch_offset, writer_start_offset)",
        ),
        Unknown(
            reason="the elected leader's log ends earlier",
            evidence=None,
            # It was copied earlier, lost its tail, or is being filled again; none of it says that somebody else wrote.
            when="elected_leader_id <> broker_id AND start_offset >= writer_start_offset "
            "AND last_batch_end_offset > writer_end_offset AND high_watermark > writer_end_offset "
            "AND writer_end_offset >= coalesce(writer_log_end_offset, writer_end_offset)",
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
    explanation=(
        "By the metadata log {topic}-{partition} had no leader in leader epoch {leaderless_epoch}.",
        "By the metadata log {topic}-{partition} has come to leader epoch {highest_epoch}; epoch {leader_epoch} was "
        "never given out.",
        "By the metadata log broker {elected_leader_id} was the leader of {topic}-{partition} in leader epoch "
        "{leader_epoch}.",
        "Broker {broker_id} holds offsets [{start_offset}, {last_batch_end_offset}) under that epoch; its high "
        "watermark is {high_watermark}.",
        "So nobody was entitled to write in epoch {unled_epoch}: a broker that only believed it led wrote them, or the "
        "epochs in this log are wrong.",
        "Broker {elected_leader_id}'s own log has that epoch from {writer_start_offset}, and ends it at "
        "{writer_end_offset}, where a newer epoch begins.",
        "So somebody else wrote the rest of epoch {led_epoch}, or the epochs in one of the two logs are wrong.",
    ),
    start_offset="coalesce(CASE WHEN start_offset < writer_start_offset THEN start_offset ELSE writer_end_offset END, "
    "start_offset)",
    end_offset="CASE WHEN start_offset < writer_start_offset THEN writer_start_offset ELSE last_batch_end_offset END",
    next=_DUMP,
    points_to="two_writers",
    reference="one leader per epoch: ReplicationControlManager, PartitionRegistration#merge",
)

UNCLEAN_LOSS_SIZE = Invariant(
    code="D18",
    key="UNCLEAN_LOSS_SIZE",
    name="UncleanElectionLostNothing",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="No replica of the old lineage still holds records that were committed, or may have been, and that the "
    "leader of an unclean election does not have.",
    because="An unclean election makes a replica leader that was not in sync. What the replicas in sync had beyond it "
    "is cut off, and truncated as they return; until then it can be saved.",
    applies_when="election IN ('unclean', 'last_known') AND NOT topic_deleted",
    unknown=(
        Unknown(
            reason="leader not captured",
            evidence=Evidence.BROKER,
            when="elected_log_captured IS FALSE AND coalesce(records_at_stake, 0) = 0",
        ),
        Unknown(
            reason="not every replica that was in sync was captured",
            evidence=Evidence.BROKER,
            when="coalesce(records_at_stake, 0) = 0 AND NOT coalesce(records_at_stake_known, false)",
        ),
    ),
    breach_when="records_at_stake > 0",
    evidence=(
        "metadata_offset",
        "at_ms",
        "leader_id",
        "previous_leader_id",
        "leader_epoch",
        "previous_isr",
        "isr",
        "records_at_stake",
        "records_at_stake_known",
        "old_lineage_holders",
    ),
    derived=(
        ("not_all", "CASE WHEN NOT records_at_stake_known THEN 'not all of these' END"),
        ("returned", "CASE WHEN election = 'last_known' THEN ', had led last, and came back recovering' ELSE '' END"),
    ),
    explanation=(
        "Offset {metadata_offset} of the metadata log made broker {leader_id} leader of {topic}-{partition}, leader "
        "epoch {leader_epoch}, while ISR was {previous_isr}: broker {leader_id} was not in it{returned}.",
        "Brokers {old_lineage_holders} still hold {records_at_stake} records of the old lineage that broker "
        "{leader_id} does not have.",
        "Of the brokers that were in sync, {not_all} were captured: there may be more.",
        "Kafka truncates them as those brokers return: keep them down until the records are saved.",
    ),
    records="records_at_stake",
    next="tidegauge salvage <snapshot> --topic {topic} --partition {partition} --out salvaged",
    implies=("D05",),
    points_to="unclean_loss",
    diagnosis=(OUT_OF_SYNC_ELECTED,),
    reference="PartitionChangeBuilder#electLeader, KIP-966; KAFKA-10751 asked for this number",
)
