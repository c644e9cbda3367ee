"""Relations about what becomes of a log while nobody writes: its files, retention, the cleaner, the remote tier."""

from typing import Final

from tidegauge.relations.model import CAPTURE, REPLICA, Relation, columns_of

PARTITION_DIRECTORIES: Final = Relation(
    name="partition_directories",
    grain="partition directory of a log dir that a broker serves or fills (-future)",
    key=("broker_id", "log_dir", "directory"),
    columns=columns_of(
        REPLICA
        + """
        log_dir                    string log dir it lies in
        directory                  string path below the snapshot
        state                      string live, or future (a move between log dirs)
        live_directories           int32  directories of this partition that the broker would serve, over all its log dirs
        future_directories         int32  its -future directories
        log_dirs                   string[] log dirs that hold one that it would serve
        deleted_files              int32  files that wait to be deleted (.deleted)
        half_done_files            int32  files of a swap or a write that did not end (.cleaned, .swap, .tmp)
        oldest_deleted_age_ms      int64  how long the oldest .deleted file had its name when it was read; null where the copy does not tell
        oldest_half_done_age_ms    int64  the same of the files of a swap or a write
        file_delete_delay_ms       int64  after how long the broker deletes such a file, by the topic's settings in force
        orphans                    int32  index files of a base offset of which there is no log
        clean_shutdown             bool   the log dir has .kafka_cleanshutdown
        leftovers                  json   [{"kind","path","detail"}]: the files counted here
        """
        + CAPTURE
    ),
)

UPKEEP: Final = Relation(
    name="upkeep",
    grain="replica: what retention, the cleaner and the remote tier have made of its log",
    key=("broker_id", "topic", "partition"),
    columns=columns_of(
        REPLICA
        + """
        cleanup_policy             string cleanup.policy in force
        remote_storage_enable      bool   tiered topic
        clean_shutdown             bool   its log dir has .kafka_cleanshutdown
        broker_alive               bool   the broker is registered and not fenced at the end of the metadata log
        damaged                    bool   a place of its log cannot be read
        captured_at_ms             int64  newest instant known of the capture
        log_start_offset           int64  log start: the checkpoint's, else the first segment's base
        checkpoint_log_start_offset int64 log-start-offset-checkpoint; null if not listed
        first_base_offset          int64  base of the first segment on disk
        active_base_offset         int64  base of the active segment
        log_end_offset             int64  log end
        high_watermark             int64  as checkpointed; null if not listed
        open_first_offset          int64  smallest first offset of a transaction without an end marker; null if none
        size_bytes                 int64  bytes of its .log files
        segments_below_log_start   int32  segments that lie wholly below the log start
        below_log_start_since_ms   int64  how long they are known to: since the earlier snapshot; null without one, or if they did not then
        retention_check_interval_ms int64 log.retention.check.interval.ms if known, else Kafka's default
        retention_ms               int64  largest retention.ms in force since what is overdue was due; -1 for ever
        retention_bytes            int64  largest retention.bytes in force since then; -1 without limit
        retention_known            bool   neither is a default that a broker's properties may have changed
        overdue_segments           int32  first segments that time or size should have had deleted more than a check interval ago; null where nothing is to be deleted
        overdue_end_offset         int64  where the last of them ends; null if there is none
        overdue_since_at_ms        int64  largest timestamp in them
        overdue_by                 string time, or size; null if none is
        cleaner_offset             int64  cleaner-offset-checkpoint: what lies below is clean; null if not listed
        key_incomparable_reason    string why its records were not read; null if they were
        keys_sampled_permille      int32  of all keys, how many of a thousand were looked at; 1000 for all
        keys                       int64  different keys in its committed records
        duplicate_keys             int64  keys with more than one record from the log start up to cleaner_offset
        first_duplicate_offset     int64  first offset of a record that a later one below cleaner_offset replaces
        unkeyed_records            int64  committed records without a key; null if the policy is not compact now
        first_unkeyed_offset       int64  offset of the first
        policy_changed_at_ms       int64  since when cleanup.policy has been one of compaction, when it last became one; null where no record tells
        first_unkeyed_at_ms        int64  timestamp of the batch with the first record without a key
        policy_history_known       bool   the metadata log reaches back to the topic's creation
        producers_without_batch    int32  producers of the newest producer snapshot whose last batch, and whose last marker, the log has not (G06)
        first_missing_producer_id  int64  first of them
        first_missing_offset       int64  where its last batch should end
        expired_producers          int32  the same of producers idle for so long that they were forgotten, which is sound
        remote_known               bool   the remote tier's metadata could be read
        remote_end_offset          int64  where the last segment of this lineage that was copied to the tier ends; null if none was
        remote_gap_start_offset    int64  first offset at or above the log start that neither the tier nor the local log holds; null if none
        remote_gap_end_offset      int64  where that hole ends
        """
        + CAPTURE
        + """
        retention_history_known    bool   the metadata log tells of all values in force since then
        producers_perhaps_expired  int32  producers of which the log has no batch, and nothing tells whether their state had expired
        """
    ),
)

UPKEEP_CHANGES: Final = Relation(
    name="upkeep_changes",
    grain="replica between this snapshot and an earlier one: what retention and the cleaner took",
    key=("broker_id", "topic", "partition"),
    columns=columns_of(
        REPLICA
        + """
        previous_snapshot_id       string the earlier snapshot
        previous_captured_at_ms    int64  newest instant known of the earlier capture
        captured_at_ms             int64  newest instant known of this one
        elapsed_ms                 int64  between the two
        cleanup_policy             string cleanup.policy now
        directory_replaced         bool   the log dir that held it is not among the broker's any more
        damaged                    bool   a place of one of the two logs cannot be read
        remote_storage_enable      bool   older segments are in the remote tier
        compacted                  bool   cleaners work on it, or did
        previous_log_start_offset  int64  log start then
        log_start_offset           int64  log start now
        checkpointed_log_start     bool   log-start-offset-checkpoint lists it now, and not below the first segment
        log_start_in_segment       bool   the log start now lies inside the first segment, as DeleteRecords leaves it
        previous_log_end_offset    int64  log end then
        log_end_offset             int64  log end now
        previous_high_watermark    int64  high watermark as checkpointed then
        high_watermark             int64  as checkpointed now
        removed_start_offset       int64  first offset that was there and is below the log start now; null if none
        removed_end_offset         int64  offset after the last one
        removed_newest_at_ms       int64  largest timestamp of the segments removed
        retention_ms               int64  smallest retention.ms in force at any time between the two; -1 for ever
        retention_bytes            int64  smallest retention.bytes in force at any time between; -1 without limit
        retention_known            bool   neither is a default that a broker's properties may have changed
        largest_size_bytes         int64  size of the largest of the partition's replicas now
        previous_cleaner_offset    int64  cleaner-offset-checkpoint then
        cleaner_offset             int64  now
        last_batch_end_offset      int64  end of the last batch on disk now
        cleaned_by_release         string release of Kafka that the broker runs, by its registration; null if not known
        keeps_last_batch           bool   that release keeps the last batch of what it cleans (4.0 on); null if not known
        key_incomparable_reason    string why records were not compared; null if they were
        keys_compared              int64  keys of which both snapshots were asked
        keys_lost                  int64  keys whose last record is gone, though nothing came after it
        first_lost_key_offset      int64  smallest offset of such a record
        keys_changed               int64  keys whose last record stands at its offset with another value
        first_changed_key_offset   int64  smallest offset of such a record
        tombstone_may_have_passed  bool   so long lies between the two, or so little is known of delete.retention.ms, that a deletion may have come, done its work and gone
        early_tombstones           int64  tombstones that went before their time
        first_early_tombstone_offset int64 smallest offset of one
        early_tombstone_due_at_ms  int64  when it might have gone: its batch's delete horizon, else delete.retention.ms after the earlier snapshot
        delete_retention_ms        int64  smallest delete.retention.ms in force at any time between the two
        previous_dirty_bytes       int64  closed segments that were not clean then
        dirty_bytes                int64  now
        clean_bytes                int64  closed segments that are clean now
        previous_dirty_permille    int32  dirty of closed bytes then, of a thousand
        dirty_permille             int32  now
        cleanable_permille         int32  largest min.cleanable.dirty.ratio in force at any time between, of a thousand
        cleanable_known            bool   it is no default that a broker's properties may have changed, and all of its values are on record
        compaction_lag_ms          int64  largest min.compaction.lag.ms in force at any time between
        open_first_offset          int64  smallest first offset of a transaction without an end marker now; null if none
        broker_alive               bool   the broker is registered and not fenced at the end of the metadata log
        """
        + CAPTURE
        + """
        retention_history_known    bool   the metadata log tells of all values in force between the two
        epochs_start_offset        int64  first start offset in leader-epoch-checkpoint: a broker that moves the log start raises it
        leader_log_start_offset    int64  log start of the reference replica; null for itself
        deleted_by_request         bool   the broker moved the log start above its first segment of then, as DeleteRecords does
        deletion_by_request_possible bool nothing tells that no request to delete records did
        """
    ),
)

KEY_COMPARISONS: Final = Relation(
    name="key_comparisons",
    grain="follower against the reference replica of a compacted partition, key by key",
    key=("topic", "partition", "leader_id", "follower_id"),
    columns=columns_of(
        """
        topic                      string topic name
        partition                  int32  partition number
        leader_id                  int32  reference replica
        follower_id                int32  the other replica
        compared_from_offset       int64  keys whose last record lies at or above this offset were compared
        compared_to_end_offset     int64  by their last records below this one: committed on both
        incomparable_reason        string why they were not compared; null if they were
        keys_sampled_permille      int32  of all keys, how many of a thousand were compared
        keys_compared              int64  keys compared
        differing_keys             int64  keys whose last record stands at one offset with two values
        missing_keys               int64  keys whose last record only one of the two has, though nothing replaces it on the other
        revived_keys               int64  keys that one has deleted and the other shows with an older value
        first_differing_offset     int64  smallest offset of a record that they do not agree on
        only_on                    int32  the one that has that record; null if both have it
        damaged                    bool   a place of one of the two logs cannot be read
        leader_quiet               bool   the reference's files are of one moment
        follower_quiet             bool   the follower's files are of one moment
        """
        + CAPTURE
    ),
)
