"""Relations replayed from the coordinators' logs: transactional ids, groups, share partitions, ends of transactions."""

from typing import Final

from tidegauge.relations.model import CAPTURE, Relation, columns_of

_LOG: Final = """
    topic              string topic of the coordinator's log
    partition          int32  its partition
    broker_id          int32  broker whose copy was read
"""
_KEYED: Final = """
    expected_partition int32  partition that the key's hash names: abs(hashCode) mod partition count; null if that cannot be told
    partition_count    int32  partitions of that topic by the metadata log
    names_hashed       bool   names were replaced when the snapshot was taken: nobody can tell the key's hash
    first_record_offset int64 offset of its first record that is still in the log
    last_record_offset int64  offset of its newest record
    record_count       int64  its records
"""

TRANSACTIONAL_IDS: Final = Relation(
    name="transactional_ids",
    grain="transactional id x partition of __transaction_state that has records of it",
    key=("transactional_id", "topic", "partition"),
    columns=columns_of(
        "transactional_id string transactional id"
        + _LOG
        + _KEYED
        + """
        producer_id        int64  producer id of its newest record; null if that is a tombstone
        producer_epoch     int32  producer epoch of its newest record
        previous_producer_id int64 producer id before the last rotation, where the record says so
        next_producer_id   int64  producer id that the transaction's end will hand over to
        state              string Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort; Dead: a tombstone
        partitions         string[] partitions that its transaction lists
        timeout_ms         int64  transaction timeout
        started_at_ms      int64  when the transaction began
        updated_at_ms      int64  when the newest record was written
        client_transaction_version int32 transaction version of its client, where the record says so (2 on)
        judged_steps       int64  pairs of neighbouring records that could be judged
        unjudged_steps     int64  pairs with a hole between them, which a cleaner may have left
        broken_steps       int64  pairs of which the later may not follow the earlier (F11)
        decided_transactions int64 transactions in its history that were decided
        undelivered_transactions int64 of these, how many never were completed although another followed
        largest_data_epoch int32  largest producer epoch of any data batch of its producer id; null if there is none
        anomalies          json   the broken steps as [{kind, offset, previous_offset, detail}]
        history            json   its newest records as [{offset, state, producer_id, producer_epoch, at_ms, partitions}]
        """
        + CAPTURE
        + "metadata_log_captured bool a copy of the metadata log is in the snapshot"
    ),
)

GROUPS: Final = Relation(
    name="groups",
    grain="group x partition of __consumer_offsets that has records of it",
    key=("group", "topic", "partition"),
    columns=columns_of(
        "group              string group id"
        + _LOG
        + _KEYED
        + """
        kind               string classic, consumer (KIP-848), share, streams; null: it has only offsets
        generation         int32  generation of a classic group
        group_epoch        int32  group epoch of another one
        assignment_epoch   int32  epoch of its target assignment
        largest_member_epoch int32 largest epoch of a member that it has
        member_count       int32  members
        committed_partitions int32 partitions that it has a committed offset of
        epoch_regressions  int64  group, assignment or member epochs, or generations, that went back (J09)
        pending_commits    int32  offsets committed in transactions that had no end marker yet
        orphaned_commits   int32  of these, how many belong to a transaction that no coordinator has open (F14)
        orphaned_producer_id int64 producer id of the first such transaction
        orphaned_first_offset int64 offset of the first such commit
        transactions_known bool   __transaction_state could be read
        anomalies          json   the epochs that went back as [{kind, member_id, offset, previous_offset, detail}]
        """
        + CAPTURE
        + "metadata_log_captured bool a copy of the metadata log is in the snapshot"
    ),
)

SHARE_STATES: Final = Relation(
    name="share_states",
    grain="share group x partition that it consumes",
    key=("group", "topic_id", "partition"),
    columns=columns_of(
        """
        group              string share group
        topic              string topic that it consumes; null if the metadata log does not have it
        topic_id           string its id
        partition          int32  partition that it consumes
        state_partition    int32  partition of __share_group_state that has its records
        expected_state_partition int32 partition that the hash of group:topic id:partition names; null if that cannot be told
        names_hashed       bool   names were replaced when the snapshot was taken
        first_record_offset int64 offset of its first record that is still in the log
        last_record_offset int64  offset of its newest record
        record_count       int64  its records
        deleted            bool   its newest record is a tombstone
        snapshot_epoch     int32  of its newest record
        state_epoch        int32  of its newest snapshot record
        leader_epoch       int32  leader epoch of the partition under which it was written
        metadata_leader_epoch int32 leader epoch of the partition by the metadata log; null if not known
        start_offset       int64  share-partition start offset; null before it has one
        delivery_complete_count int32 offsets at or above the start that are acknowledged or archived, as written; null if not written (before 4.2)
        completed_offsets  int64  the same, counted in its batches since the newest snapshot record; null if there is none to begin from
        largest_delivery_count int32 largest delivery count since the newest snapshot record
        delivery_count_limit int32 group.share.delivery.count.limit where known, else the largest that may be set
        range_faults       int64  batches that end before they begin, overlap, lie below the start, or have a state that is never written (J05)
        epoch_faults       int64  snapshot, state or leader epochs that went back (J06)
        log_start_offset   int64  of the consumed partition's reference replica
        high_watermark_upper int64 upper bound of its high watermark
        log_end_offset     int64  of the reference replica
        anomalies          json   these faults as [{kind, offset, detail}]
        """
        + CAPTURE
        + """
        read_committed     bool   the group reads, or has read, committed records only; null where the metadata log does not tell
        aborted_offsets    int64  at most how many offsets from the start on are of aborted transactions, which the partition's leader counts as complete for such a group and does not have written; null without the partition's log
        read_leader_epoch  int32  leader epoch under which it was delivered more than the log has of that epoch now; null if none
        read_end_offset    int64  behind the furthest offset that it was delivered under that epoch
        epoch_end_offset   int64  where that epoch ends in the reference's log
        epoch_end_settled  bool   a newer epoch begins there, so it will not move
        lineage_captured   bool   no election that may have given up what the replica it is held against has lacks the log of who was elected; null where neither the metadata log nor an answer tells who leads
        log_starts_copied  bool   the log dir of the replica it is held against has a log-start-offset-checkpoint; null if there is none
        metadata_log_captured bool a copy of the metadata log is in the snapshot
        """
    ),
)

TRANSACTION_ENDS: Final = Relation(
    name="transaction_ends",
    grain="partition x transaction that its coordinator decided",
    key=("topic", "partition", "transactional_id", "record_partition", "record_offset"),
    columns=columns_of(
        """
        topic              string topic name
        partition          int32  partition number
        broker_id          int32  reference replica in which the end marker was looked for; null if none was captured
        transactional_id   string transactional id
        producer_id        int64  producer id
        marker_epoch       int32  producer epoch that the end marker must carry
        client_transaction_version int32 transaction version of its client, where the record says so (2 on)
        decided_outcome    string committed, aborted: what the coordinator's record says
        record_partition   int32  partition of __transaction_state that has the decision
        record_offset      int64  its offset there
        decided_at_ms      int64  when it was decided
        completed          bool   the coordinator took every partition's marker as written
        completed_at_ms    int64  when
        marker_offset      int64  offset of the end marker found; null if there is none
        marker_outcome     string committed, aborted: what that marker says
        marker_count       int32  end markers of this transaction
        open_first_offset  int64  first offset of the producer's data that still have no end marker; null if there are none
        first_held_offset  int64  of the reference replica: its log start, or where its local log begins
        log_end_offset     int64  of the reference replica
        high_watermark_upper int64 upper bound of the high watermark
        created_at_ms      int64  when the partition was created, if the metadata log reaches back to it
        unclean_election_at_ms int64 newest unclean election of the partition, if the metadata log tells of one
        log_damaged        bool   the reference replica has a place that could not be read
        ever_compacted     bool   the topic is or was compacted
        captured_at_ms     int64  newest instant known of the capture
        """
        + CAPTURE
        + """
        by_clocks          bool   that it has no end marker is said by two brokers' clocks alone: by order and outcome each decision has one
        name_reused        bool   another topic had the name before, so that decisions may be of that; null where the metadata log does not reach back so far
        """
    ),
)

TRANSACTION_OUTCOMES: Final = Relation(
    name="transaction_outcomes",
    grain="transaction with end markers, over all partitions",
    key=("producer_id", "marker_epoch", "record_partition", "record_offset"),
    columns=columns_of(
        """
        producer_id        int64    producer id
        marker_epoch       int32    producer epoch of its end markers
        transactional_id   string   transactional id, if a coordinator's record names it
        record_partition   int32    partition of __transaction_state that has the decision, where the epoch alone does not name the transaction (version 1)
        record_offset      int64    its offset there, likewise
        decided_outcome    string   committed, aborted: what the coordinator's record says; null if it is not in its log any more
        partitions         int32    partitions with an end marker of it
        committed_partitions int32  of these, how many say committed
        aborted_partitions int32    how many say aborted
        committed_on       string[] their names where the partitions, or they and the coordinator, do not agree; else null
        aborted_on         string[] likewise
        """
    ),
)
