"""Relations about the cluster: brokers, topics, partitions and their history, groups, checkpoints, changes, losses."""

from typing import Final

from tidegauge.relations.model import CAPTURE, REPLICA, Relation, columns_of

BROKERS: Final = Relation(
    name="brokers",
    grain="broker",
    key=("broker_id",),
    columns=columns_of(
        """
        broker_id                   int32    broker id (node.id)
        rack                        string   rack, from its registration
        cluster_id                  string   cluster.id of meta.properties
        directory_ids               string[] directory.id of each log dir
        log_dirs                    string[] its log dirs' names in the snapshot ("." where there is one)
        clean_shutdown              bool     .kafka_cleanshutdown present in every log dir (a metadata.log.dir aside)
        clean_shutdown_broker_epoch int64    broker epoch in .kafka_cleanshutdown
        broker_epoch                int64    offset of its last RegisterBrokerRecord
        registered                  bool     known to the metadata log
        fenced                      bool     fenced at the end of the metadata log
        captured                    bool     its log dirs are in the snapshot, and are taken for its own
        replica_count               int32    live partition directories
        size_bytes                  int64    bytes of its .log files
        read_started_at_ms          int64    when the capture began to read it (null for a plain copy)
        read_finished_at_ms         int64    when the capture finished reading it
        cluster_ids                 string[] cluster.id of each log dir's meta.properties
        expected_cluster_id         string   cluster id that most captured nodes have; null if none is ahead
        node_ids                    int32[]  node.id of each log dir's meta.properties
        shared_directory_ids        string[] directory.id values that another log dir of the snapshot has, too
        foreign_directory_ids       string[] directory.id values that another broker has registered
        unregistered_directory_ids  string[] directory.id values that no broker has registered or had a replica in, a metadata.log.dir's aside; null where registrations name none
        uncaptured_directories      int32    log dirs that it registered and that are not in the snapshot
        alive                       bool     registered, not fenced, not in controlled shutdown at the log's end
        seen_until_ms               int64    newest record in its own copy of the metadata log; null without one
        stray_replicas              string[] partitions that it serves and that the metadata log does not assign to it, longer than a minute
        missing_replicas            string[] partitions for which it was in the ISR, that it neither serves nor lists in its checkpoint
        misplaced_replicas          string[] partitions that the metadata log places in another of its log dirs
        unsettled_replicas          int32    of all these, how many may be about to be put right, or are not told by the copy
        offline_replicas            string[] partitions that lie in a directory which the broker has no longer registered, out of the ISR: it failed or was taken out
        metadata_log_captured       bool     a copy of the metadata log is in the snapshot
        wrong_properties            string[] its meta.properties that contradict where they lie or the cluster, or cannot be made out: path and what is wrong
        """
    ),
)

TOPICS: Final = Relation(
    name="topics",
    grain="topic",
    key=("topic",),
    columns=columns_of(
        """
        topic                          string topic name
        topic_id                       string topic id, Kafka's base64 form
        partition_count                int32  partitions
        replication_factor             int32  replicas of partition 0
        cleanup_policy                 string effective cleanup.policy
        min_insync_replicas            int32  effective min.insync.replicas
        unclean_leader_election_enable bool   effective unclean.leader.election.enable
        remote_storage_enable          bool   effective remote.storage.enable
        ever_compacted                 bool   cleanup.policy has held "compact" at some time, or a replica shows traces of cleaning
        configs                        json   the topic's own configs as [{"name":…,"value":…}]
        missing_partitions             int32[] partition numbers below the largest that the metadata log does not have
        namesakes                      int32  other topics of this name that are not deleted
        metadata_damaged               bool   records of the metadata log could not be read
        node_id                        int32  node whose copy of the metadata log it was read from
        path                           string file in which its TopicRecord stands: a segment, or the metadata snapshot
        """
    ),
)

PARTITIONS: Final = Relation(
    name="partitions",
    grain="partition",
    key=("topic", "partition"),
    columns=columns_of(
        """
        topic                 string  topic name
        topic_id              string  topic id
        partition             int32   partition number
        leader_id             int32   leader; null when there is none
        last_leader_id        int32   the last leader there was
        leader_epoch          int32   leader epoch, metadata log
        partition_epoch       int32   partition epoch, metadata log
        replicas              int32[] assigned replicas
        isr                   int32[] in-sync replicas
        elr                   int32[] eligible leader replicas
        last_known_elr        int32[] last known eligible leader
        adding_replicas       int32[] being added
        removing_replicas     int32[] being removed
        captured_replicas     int32[] replicas that the snapshot holds
        log_start_offset      int64   of the reference replica
        log_end_offset        int64   of the reference replica
        high_watermark_lower  int64   largest checkpointed high watermark of the current lineage
        high_watermark_upper  int64   smallest log end over the ISR (ELR when it is empty), or lower when the ISR is below the minimum; null when a member was not captured
        last_stable_offset    int64   of the reference replica at high_watermark_lower
        first_unstable_offset int64   of the reference replica
        min_insync_replicas   int32   effective min.insync.replicas
        cleanup_policy        string  effective cleanup.policy
        unclean_leader_election_enable bool effective setting
        cluster_stopped       bool    every broker is fenced or in controlled shutdown: a stopped cluster, not a breach
        active_replicas       int32   registered, unfenced brokers among the replicas
        """
        + CAPTURE
        + """
        reassigning_since_ms  int64   when its adding and removing replicas became what they are; null if there are none, or the log does not tell
        reassigning_ms        int64   how long that was before the capture
        """
        + """
        holdings              json    [{"broker_id","log_start_offset","shared_end_offset","damaged"}]: what each captured replica holds of the reference's log, [log start, shared end)
        complete_replicas     int32[] captured replicas that hold all of [log_start_offset, high_watermark_lower) undamaged; null where these offsets are not known
        acknowledged_records  int64   records that producers with acks=all were told are written; null where no ledger was kept, as of any real cluster
        acknowledged_missing  int64   of those, how many the leader, or the ISR member that lacks most, does not have; not those below its log start; null if the epochs do not tell
        acknowledged_missing_on int32[] leader and ISR members that lack any
        first_acknowledged_missing_offset int64 where the missing ones begin; null if none is missing
        acknowledged_missing_end_offset int64 where they end
        """
    ),
)

PARTITION_CHANGES: Final = Relation(
    name="partition_changes",
    grain="metadata record that creates or changes a partition",
    key=("topic", "topic_id", "partition", "metadata_offset", "sequence_in_log"),
    columns=columns_of(
        """
        topic               string  topic name
        topic_id            string  topic id
        partition           int32   partition number
        metadata_offset     int64   offset of the record in __cluster_metadata (of the snapshot's end for a record out of a metadata snapshot)
        sequence_in_log     int32   position among the partition's changes, from 0
        from_snapshot       bool    read out of a metadata snapshot: the changes before it are not known
        at_ms               int64   when it was written
        leader_id           int32   leader after it; null when there is none
        previous_leader_id  int32   leader before it
        leader_epoch        int32   leader epoch after it
        partition_epoch     int32   partition epoch after it
        replicas            int32[] replicas after it
        isr                 int32[] ISR after it
        previous_isr        int32[] ISR before it
        elr                 int32[] ELR after it
        previous_elr        int32[] ELR before it
        last_known_elr      int32[] last known ELR after it
        adding_replicas     int32[] after it
        removing_replicas   int32[] after it
        recovering          bool    LeaderRecoveryState is RECOVERING after it
        election            string  clean (from the ISR), elr, last_known (ISR and ELR were empty, and who led last leads again), unclean, none
        isr_not_replicas    int32[] ISR, ELR, last known ELR, adding or removing members that are not replicas (K04)
        isr_and_elr         int32[] brokers both in ISR and ELR (K04)
        leader_in_isr       bool    leader is in the ISR; null when there is no leader
        topic_deleted       bool    the topic was deleted later
        records_at_stake    int64   for an election that gave records up: those that were committed, or may have been, and that replicas of the old lineage hold and the new leader does not (D18)
        records_at_stake_known bool all members of the ISR and ELR before it were captured, so that number is whole
        old_lineage_holders int32[] captured replicas that still hold them
        created             bool    the record that creates the partition
        restated            bool    a PartitionRecord of a partition that is there already
        previous_leader_epoch int32 leader epoch before it; null if there was none
        previous_partition_epoch int32 partition epoch before it
        previous_recovering bool    RECOVERING before it
        min_insync_replicas int32   min.insync.replicas in force then; null where the metadata log does not tell
        directory_count     int32   directory ids that it has; 0 before metadata version 3.7
        snapshot_end_offset int64   end of a metadata snapshot that holds this state: of the first that contradicts it, else of the last
        snapshot_partition_epoch int32 partition epoch in that snapshot
        snapshot_leader_epoch int32 leader epoch in that snapshot
        isr_inactive        int32[] members of the ISR that were fenced, in controlled shutdown or unregistered while it was in force
        isr_without_directory int32[] members of the ISR whose replica is in a directory that their broker does not have
        out_of_place_offset int64   record since when that was so
        out_of_place_ms     int64   for how long
        migrated            bool    the metadata came from ZooKeeper
        after_damage        bool    records before it could not be read
        isr_joined_inactive int32[] of isr_inactive those whom this record took into the ISR, or elected, when they had gone in an earlier batch
        node_id             int32   node whose copy of the metadata log it was read from
        path                string  file in which it stands: a segment, or the metadata snapshot
        snapshot_nodes      int32[] nodes that have that metadata snapshot; of those that contradict, all that do in the same words
        snapshot_paths      string[] its path on each of them
        elected_log_captured bool   of an election that may give records up: the log of who was elected, or of a later leader, is in the copy
        """
    ),
)

COMMITTED_OFFSETS: Final = Relation(
    name="committed_offsets",
    grain="group x partition",
    key=("group", "topic", "partition"),
    columns=columns_of(
        """
        group             string consumer group
        topic             string topic name
        partition         int32  partition number
        committed_offset  int64  committed offset
        leader_epoch      int32  leader epoch committed with it; null if none
        committed_at_ms   int64  commit timestamp
        topic_id          string topic id in the commit (v4 on); null before
        metadata_topic_id string topic id by the metadata log; null: topic does not exist
        partition_exists  bool   the partition is in the metadata log
        log_start_offset  int64  of the reference replica
        high_watermark_upper int64 upper bound of the high watermark
        log_end_offset    int64  of the reference replica
        in_range          bool   log start <= committed offset <= log end
        below_log_start   bool   retention or DeleteRecords passed it
        above_log_end     bool   beyond the log end
        lost_from_offset  int64  first offset of a loss, not only a possible one, that the group had read; null if none
        """
        + CAPTURE
        + """
        metadata_leader_epoch int32 leader epoch of the partition by the metadata log
        read_leader_epoch int32  leader epoch under which the group had read furthest beyond what its log has of that epoch; null if nowhere
        read_end_offset   int64  up to where it had committed in that epoch
        epoch_end_offset  int64  where that epoch, or the one committed with the offset, ends in the reference replica; null if it has none
        epoch_end_settled bool   a newer epoch starts there, so it will not move
        previous_committed_offset int64 committed offset in the earlier snapshot; null if there is none
        previous_committed_at_ms int64 its commit timestamp
        previous_topic_id string topic id in the earlier commit
        names_hashed      bool   names were replaced when the snapshot was taken
        elections_on_record bool every election since the leader epoch that was read is in the metadata log
        highest_leader_epoch int32 highest leader epoch that the group's commits name; null if they name none
        epoch_never_given_out bool that is above the partition's leader epoch by the metadata log; null where either is not known
        name_reused       bool   a topic of this name was deleted before, by the metadata log
        metadata_damaged  bool   records of the metadata log could not be read: an epoch may have been given out by one of them
        commit_steps      int32  how many of its commits in the coordinator's log follow another that is there, too
        falls             int32  how many of these are below the one before
        step_from_offset  int64  the step that fell most, or rose least: the commit before it; null if there is no step
        step_from_at_ms   int64  its commit timestamp
        step_to_offset    int64  the commit that followed
        step_to_at_ms     int64  its commit timestamp
        step_record_offset int64 where that one stands in the coordinator's log
        lineage_captured  bool   no election that may have given up what the replica it is held against has lacks the log of who was elected; null where neither the metadata log nor an answer tells who leads
        log_starts_copied  bool   the log dir of the replica it is held against has a log-start-offset-checkpoint; null if there is none
        metadata_log_captured bool a copy of the metadata log is in the snapshot
        """
    ),
)

CHECKPOINT_FILES: Final = Relation(
    name="checkpoint_files",
    grain="checkpoint or property file",
    key=("broker_id", "path"),
    columns=columns_of(
        """
        broker_id        int32  broker
        log_dir          string log dir
        topic            string topic, for a partition's own files
        partition        int32  partition, for a partition's own files
        path             string path below the snapshot
        kind             string leader-epoch-checkpoint, replication-offset-checkpoint, recovery-point-offset-checkpoint, log-start-offset-checkpoint, cleaner-offset-checkpoint, partition.metadata, meta.properties, quorum-state, .kafka_cleanshutdown
        present          bool   the file is there
        empty            bool   0 bytes, or only "0\\n0\\n": normal for an untouched file
        readable         bool   it parses
        error            string why it does not
        declared_entries int32  count in its second line
        entries          int32  entries read
        disordered_entries int32 epochs or start offsets that do not rise (leader-epoch-checkpoint)
        duplicate_entries int32 entries for one partition twice
        """
        + CAPTURE
        + """
        entries_without_directory int32 entries for partitions of which the log dir holds no directory; of offset checkpoints
        """
    ),
)

REMOTE_SEGMENTS: Final = Relation(
    name="remote_segments",
    grain="remote segment (KIP-405)",
    key=("topic", "partition", "segment_id"),
    columns=columns_of(
        """
        topic        string topic name
        topic_id     string topic id
        partition    int32  partition number
        segment_id   string remote segment id
        start_offset int64  first offset
        end_offset   int64  offset after the last one
        state        string COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STARTED, DELETE_SEGMENT_FINISHED
        size_bytes   int64  size
        max_timestamp_ms int64 largest timestamp
        """
        + """
        broker_id    int32  broker that copied it
        leader_epochs string[] its leader epochs, each as <epoch>@<start offset>
        invalid_transitions int32 changes of its state that Kafka's rules do not know, over its records
        states       string[] the states that its records went through
        history_whole bool  the log of its records reaches back to the topic's creation, so its first one must say that the copy began
        within_lineage bool its leader epochs are those of the reference replica (RemoteLogManager); null without one
        lineage_reason string why it is not
        lineage_cut  bool   an unclean election started an epoch above its last one: it may wait for its deletion
        log_start_offset int64 log start of the reference replica
        log_end_offset int64 log end of the reference replica
        high_watermark_upper int64 upper bound of the high watermark
        first_unstable_offset int64 smallest first offset of a transaction that is open there; null if none
        store_captured bool the snapshot holds the remote store's files
        missing_files string[] kinds of file that it should have there and has not
        damaged_files int32 files of it there that are damaged
        damages      json   [{"kind","path","detail"}]: what of them
        """
        + CAPTURE
    ),
)

CHANGES: Final = Relation(
    name="changes",
    grain="replica between this snapshot and an earlier one",
    key=("broker_id", "topic", "partition"),
    columns=columns_of(
        REPLICA
        + """
        previous_log_end_offset int64 log end in the earlier snapshot; null: the broker held no such replica, or was not captured
        log_end_offset          int64  log end now; null likewise
        previous_high_watermark int64  checkpointed high watermark in the earlier snapshot
        high_watermark          int64  checkpointed high watermark now
        first_changed_offset    int64  first offset whose batch is not what it was; null if none. What retention, DeleteRecords or a cleaner took is no change
        records_lost            int64  of the committed records that it held, how many are on no replica now; null where that cannot be told
        change_kind             string what is at that offset: rewritten (other bytes, same epoch), replaced (another epoch), missing, inserted, truncated (the log ends before)
        previous_snapshot_id    string the earlier snapshot
        continuity              string same: one replica at two moments; else created, recreated (another topic id), reassigned, removed, deleted (its topic), missing (assigned, not in the copy), unread (the end of its log could not be read), not captured, missing before, unread before, not captured before (as in the earlier snapshot)
        previous_topic_id       string topic id in the earlier snapshot
        topic_id                string topic id now
        previous_log_start_offset int64 log start in the earlier snapshot
        log_start_offset        int64  log start now
        previous_last_leader_epoch int32 leader epoch of the last batch in the earlier snapshot
        last_leader_epoch       int32  leader epoch of the last batch now
        last_epoch_start_offset int64  where the newest leader epoch that it knows now starts
        previous_committed_end_offset int64 up to where its earlier log is proven to have been committed
        committed_proof         string by what: checkpoint (a high watermark), sole_isr (it was all of the ISR, by the metadata log), read (by a group)
        compared_from_offset    int64  batches were compared from here
        compared_to_end_offset  int64  up to here
        comparable              bool   there was something to compare
        incomparable_reason     string why not
        first_changed_committed_offset int64 that offset, where a log still reaches it and it had been committed
        identity_violation_offset int64 first offset with other bytes under the same leader epoch
        changed_batches         json   the first that changed, as [{offset, previous_batch, batch}]
        first_lost_offset       int64  first of the records lost
        lost_end_offset         int64  offset after the last of them
        loss_undecided_reason   string why it cannot be told whether records are on no replica now
        unclean_election_offset int64  metadata record of the first unclean election behind its earlier last epoch
        unclean_election_at_ms  int64  when that was
        isr_before_election     int32[] the ISR before it
        directory_replaced      bool   the log dir that held it is not among the broker's any more, by directory.id
        damaged                 bool   one of the two logs has a place that could not be read
        clean_shutdown          bool   the broker had stopped cleanly when it was captured now
        ever_compacted          bool   cleaners work on it
        remote_storage_enable   bool   older segments are in the remote tier
        checkpointed_log_start  bool   log-start-offset-checkpoint lists it now
        is_leader               bool   leader now
        """
        + CAPTURE
        + """
        groups_affected         string[] consumer groups that had committed past the first of the records lost; null where these cannot be told
        """
        + """
        previous_last_stable_offset int64 last stable offset in the earlier snapshot, recomputed
        last_stable_offset      int64  last stable offset now
        previous_captured_at_ms int64  newest instant known of the earlier capture
        captured_at_ms          int64  newest instant known of the capture
        max_transaction_timeout_ms int64 transaction.max.timeout.ms if known, else Kafka's default
        stuck_producer_id       int64  producer of the transaction that is open at the last stable offset in both; null if there is none
        stuck_since_at_ms       int64  timestamp of its last batch
        elections_on_record bool every election since the last leader epoch of the earlier log is in the metadata log
        changed_without_epochs bool what changed first bears no leader epoch, then or now (message formats 0 and 1)
        """
    ),
)

LOSSES: Final = Relation(
    name="losses",
    grain="range of records that is lost, at risk, or may be, and set of brokers that hold it",
    key=("topic", "partition", "start_offset"),
    columns=columns_of(
        """
        topic              string   topic name
        partition          int32    partition number
        start_offset       int64    first offset
        end_offset         int64    offset after the last one
        records            int64    records that producers wrote; of a range that holds none, its end markers of transactions
        leader_epoch       int32    leader epoch they were written in
        held_by            int32[]  brokers whose disks still hold them
        state              string   at_risk: on some disk, and Kafka will truncate it; lost: on no replica now; possible: Kafka may cut it, and what evidence is missing leaves open whether it was committed, or who cuts it
        declared_committed int64    of these records, how many are proven to have been declared committed
        cause              string   what cut them off
        groups_affected    string[] consumer groups that had committed past the first of them
        markers            int64    end markers of transactions in it
        """
    ),
)
"""What the report's `losses` are written from; the store keeps them in table `loss`."""
