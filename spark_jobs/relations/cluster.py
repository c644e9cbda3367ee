"""Relations about the cluster: brokers, topics, partitions and their history, groups, checkpoints, changes, losses."""

from typing import Final

from spark_jobs.relations.model import CAPTURE, REPLICA, Relation, columns_of

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
        clean_shutdown              bool     .kafka_cleanshutdown present in every log dir
        clean_shutdown_broker_epoch int64    broker epoch in .kafka_cleanshutdown
        broker_epoch                int64    offset of its last RegisterBrokerRecord
        registered                  bool     known to the metadata log
        fenced                      bool     fenced at the end of the metadata log
        captured                    bool     its directory is in the snapshot
        replica_count               int32    live partition directories
        size_bytes                  int64    bytes of its .log files
        read_started_at_ms          int64    when the capture began to read it (null for a plain copy)
        read_finished_at_ms         int64    when the capture finished reading it
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
        records_at_stake    int64   for an unclean election: records that replicas of the old lineage hold and the new leader does not (D18)
        records_at_stake_known bool all members of the ISR before it were captured, so that number is whole
        old_lineage_holders int32[] captured replicas that still hold them
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
        lost_from_offset  int64  first offset of a loss that the group had read; null if none
        """
        + CAPTURE
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
        continuity              string same: one replica at two moments; else created, recreated (another topic id), reassigned, removed, deleted (its topic), missing (assigned, not in the copy), not captured, not captured before
        previous_topic_id       string topic id in the earlier snapshot
        topic_id                string topic id now
        previous_log_start_offset int64 log start in the earlier snapshot
        log_start_offset        int64  log start now
        previous_last_leader_epoch int32 leader epoch of the last batch in the earlier snapshot
        last_leader_epoch       int32  leader epoch of the last batch now
        last_epoch_start_offset int64  where the newest leader epoch that it knows now starts
        previous_committed_end_offset int64 up to where its earlier log is proven to have been committed
        committed_proof         string by what: checkpoint (a high watermark), sole_isr (it was all of the ISR, by the metadata log)
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
    ),
)

LOSSES: Final = Relation(
    name="losses",
    grain="range of records that is at risk or lost",
    key=("topic", "partition", "start_offset"),
    columns=columns_of(
        """
        topic              string   topic name
        partition          int32    partition number
        start_offset       int64    first offset
        end_offset         int64    offset after the last one
        records            int64    data records in it
        leader_epoch       int32    leader epoch they were written in
        held_by            int32[]  brokers whose disks still hold them
        state              string   at_risk: on some disk, and Kafka will truncate it; lost: on no replica now
        declared_committed int64    of these records, how many are proven to have been declared committed
        cause              string   what cut them off
        groups_affected    string[] consumer groups that had committed past the first of them
        """
    ),
)
"""What the report's `losses` are written from; the store keeps them in table `loss`."""
