"""Relations about what becomes of a log while nobody writes: its files, retention, the cleaner, the remote tier."""

from typing import Annotated, TypedDict

from tidegauge.relations.model import BrokerQuiet, Int32, Int64, Json, ReplicaColumns, SnapshotQuiet

# fmt: off

class PartitionDirectoryRow(ReplicaColumns, total=False):
    """partition directory of a log dir that a broker serves or fills (-future)"""

    log_dir:                 Annotated[str, "log dir it lies in"]
    directory:               Annotated[str, "path below the snapshot"]
    state:                   Annotated[str, "live, or future (a move between log dirs)"]
    live_directories:        Annotated[Int32, "directories of this partition that the broker would serve, over all its log dirs"]
    future_directories:      Annotated[Int32, "its -future directories"]
    log_dirs:                Annotated[list[str], "log dirs that hold one that it would serve"]
    deleted_files:           Annotated[Int32, "files that wait to be deleted (.deleted)"]
    half_done_files:         Annotated[Int32, "files of a swap or a write that did not end (.cleaned, .swap, .tmp)"]
    oldest_deleted_age_ms:   Annotated[Int64 | None, "how long the oldest .deleted file had its name when it was read; null where the copy does not tell"]
    oldest_half_done_age_ms: Annotated[Int64 | None, "the same of the files of a swap or a write"]
    file_delete_delay_ms:    Annotated[Int64, "after how long the broker deletes such a file, by the topic's settings in force"]
    orphans:                 Annotated[Int32, "index files of a base offset of which there is no log"]
    clean_shutdown:          Annotated[bool, "the log dir has .kafka_cleanshutdown"]
    leftovers:               Annotated[Json, '[{"kind","path","detail"}]: the files counted here']
    broker_quiet:            BrokerQuiet
    snapshot_quiet:          SnapshotQuiet


class UpkeepRow(ReplicaColumns, total=False):
    """replica: what retention, the cleaner and the remote tier have made of its log"""

    cleanup_policy:              Annotated[str | None, "cleanup.policy in force"]
    remote_storage_enable:       Annotated[bool, "tiered topic"]
    clean_shutdown:              Annotated[bool, "its log dir has .kafka_cleanshutdown"]
    broker_alive:                Annotated[bool, "the broker is registered and not fenced at the end of the metadata log"]
    damaged:                     Annotated[bool, "a place of its log cannot be read"]
    captured_at_ms:              Annotated[Int64 | None, "newest instant known of the capture"]
    log_start_offset:            Annotated[Int64, "log start: the checkpoint's, else the first segment's base"]
    checkpoint_log_start_offset: Annotated[Int64 | None, "log-start-offset-checkpoint; null if not listed"]
    first_base_offset:           Annotated[Int64 | None, "base of the first segment on disk"]
    active_base_offset:          Annotated[Int64 | None, "base of the active segment"]
    log_end_offset:              Annotated[Int64, "log end"]
    high_watermark:              Annotated[Int64 | None, "as checkpointed; null if not listed"]
    open_first_offset:           Annotated[Int64 | None, "smallest first offset of a transaction without an end marker; null if none"]
    size_bytes:                  Annotated[Int64, "bytes of its .log files"]
    segments_below_log_start:    Annotated[Int32, "segments that lie wholly below the log start"]
    below_log_start_since_ms:    Annotated[Int64 | None, "how long they are known to: since the earlier snapshot; null without one, or if they did not then"]
    retention_check_interval_ms: Annotated[Int64, "log.retention.check.interval.ms if known, else Kafka's default"]
    retention_ms:                Annotated[Int64, "largest retention.ms in force since what is overdue was due; -1 for ever"]
    retention_bytes:             Annotated[Int64, "largest retention.bytes in force since then; -1 without limit"]
    retention_known:             Annotated[bool, "neither is a default that a broker's properties may have changed"]
    overdue_segments:            Annotated[Int32 | None, "first segments that time or size should have had deleted more than a check interval ago; null where nothing is to be deleted"]
    overdue_end_offset:          Annotated[Int64 | None, "where the last of them ends; null if there is none"]
    overdue_since_at_ms:         Annotated[Int64, "largest timestamp in them"]
    overdue_by:                  Annotated[str | None, "time, or size; null if none is"]
    cleaner_offset:              Annotated[Int64 | None, "cleaner-offset-checkpoint: what lies below is clean; null if not listed"]
    key_incomparable_reason:     Annotated[str | None, "why its records were not read; null if they were"]
    keys_sampled_permille:       Annotated[Int32, "of all keys, how many of a thousand were looked at; 1000 for all"]
    keys:                        Annotated[Int64, "different keys in its committed records"]
    duplicate_keys:              Annotated[Int64, "keys with more than one record from the log start up to cleaner_offset"]
    first_duplicate_offset:      Annotated[Int64 | None, "first offset of a record that a later one below cleaner_offset replaces"]
    unkeyed_records:             Annotated[Int64 | None, "committed records without a key; null if the policy is not compact now"]
    first_unkeyed_offset:        Annotated[Int64 | None, "offset of the first"]
    policy_changed_at_ms:        Annotated[Int64 | None, "since when cleanup.policy has been one of compaction, when it last became one; null where no record tells"]
    first_unkeyed_at_ms:         Annotated[Int64 | None, "timestamp of the batch with the first record without a key"]
    policy_history_known:        Annotated[bool, "the metadata log reaches back to the topic's creation"]
    producers_without_batch:     Annotated[Int32, "producers of the newest producer snapshot whose last batch, and whose last marker, the log has not (G06)"]
    first_missing_producer_id:   Annotated[Int64, "first of them"]
    first_missing_offset:        Annotated[Int64, "where its last batch should end"]
    expired_producers:           Annotated[Int32, "the same of producers idle for so long that they were forgotten, which is sound"]
    remote_known:                Annotated[bool, "the remote tier's metadata could be read"]
    remote_end_offset:           Annotated[Int64 | None, "where the last segment of this lineage that was copied to the tier ends; null if none was"]
    remote_gap_start_offset:     Annotated[Int64 | None, "first offset at or above the log start that neither the tier nor the local log holds; null if none"]
    remote_gap_end_offset:       Annotated[Int64 | None, "where that hole ends"]
    broker_quiet:                BrokerQuiet
    snapshot_quiet:              SnapshotQuiet
    retention_history_known:     Annotated[bool, "the metadata log tells of all values in force since then"]
    producers_perhaps_expired:   Annotated[Int32, "producers of which the log has no batch, and nothing tells whether their state had expired"]


class UpkeepChangeRow(ReplicaColumns, total=False):
    """replica between this snapshot and an earlier one: what retention and the cleaner took"""

    previous_snapshot_id:         Annotated[str, "the earlier snapshot"]
    previous_captured_at_ms:      Annotated[Int64 | None, "newest instant known of the earlier capture"]
    captured_at_ms:               Annotated[Int64 | None, "newest instant known of this one"]
    elapsed_ms:                   Annotated[Int64 | None, "between the two"]
    cleanup_policy:               Annotated[str | None, "cleanup.policy now"]
    directory_replaced:           Annotated[bool | None, "the log dir that held it is not among the broker's any more"]
    damaged:                      Annotated[bool, "a place of one of the two logs cannot be read"]
    remote_storage_enable:        Annotated[bool, "older segments are in the remote tier"]
    compacted:                    Annotated[bool, "cleaners work on it, or did"]
    previous_log_start_offset:    Annotated[Int64, "log start then"]
    log_start_offset:             Annotated[Int64, "log start now"]
    checkpointed_log_start:       Annotated[bool, "log-start-offset-checkpoint lists it now, and not below the first segment"]
    log_start_in_segment:         Annotated[bool | None, "the log start now lies inside the first segment, as DeleteRecords leaves it"]
    previous_log_end_offset:      Annotated[Int64, "log end then"]
    log_end_offset:               Annotated[Int64, "log end now"]
    previous_high_watermark:      Annotated[Int64 | None, "high watermark as checkpointed then"]
    high_watermark:               Annotated[Int64 | None, "as checkpointed now"]
    removed_start_offset:         Annotated[Int64 | None, "first offset that was there and is below the log start now; null if none"]
    removed_end_offset:           Annotated[Int64, "offset after the last one"]
    removed_newest_at_ms:         Annotated[Int64 | None, "largest timestamp of the segments removed"]
    retention_ms:                 Annotated[Int64, "smallest retention.ms in force at any time between the two; -1 for ever"]
    retention_bytes:              Annotated[Int64, "smallest retention.bytes in force at any time between; -1 without limit"]
    retention_known:              Annotated[bool, "neither is a default that a broker's properties may have changed"]
    largest_size_bytes:           Annotated[Int64 | None, "size of the largest of the partition's replicas now"]
    previous_cleaner_offset:      Annotated[Int64 | None, "cleaner-offset-checkpoint then"]
    cleaner_offset:               Annotated[Int64 | None, "now"]
    last_batch_end_offset:        Annotated[Int64 | None, "end of the last batch on disk now"]
    cleaned_by_release:           Annotated[str | None, "release of Kafka that the broker runs, by its registration; null if not known"]
    keeps_last_batch:             Annotated[bool | None, "that release keeps the last batch of what it cleans (4.0 on); null if not known"]
    key_incomparable_reason:      Annotated[str | None, "why records were not compared; null if they were"]
    keys_compared:                Annotated[Int64, "keys of which both snapshots were asked"]
    keys_lost:                    Annotated[Int64, "keys whose last record is gone, though nothing came after it"]
    first_lost_key_offset:        Annotated[Int64 | None, "smallest offset of such a record"]
    keys_changed:                 Annotated[Int64, "keys whose last record stands at its offset with another value"]
    first_changed_key_offset:     Annotated[Int64 | None, "smallest offset of such a record"]
    tombstone_may_have_passed:    Annotated[bool | None, "so long lies between the two, or so little is known of delete.retention.ms, that a deletion may have come, done its work and gone"]
    early_tombstones:             Annotated[Int64, "tombstones that went before their time"]
    first_early_tombstone_offset: Annotated[Int64 | None, "smallest offset of one"]
    early_tombstone_due_at_ms:    Annotated[Int64 | None, "when it might have gone: its batch's delete horizon, else delete.retention.ms after the earlier snapshot"]
    delete_retention_ms:          Annotated[Int64, "smallest delete.retention.ms in force at any time between the two"]
    previous_dirty_bytes:         Annotated[Int64, "closed segments that were not clean then"]
    dirty_bytes:                  Annotated[Int64, "now"]
    clean_bytes:                  Annotated[Int64, "closed segments that are clean now"]
    previous_dirty_permille:      Annotated[Int32, "dirty of closed bytes then, of a thousand"]
    dirty_permille:               Annotated[Int32, "now"]
    cleanable_permille:           Annotated[Int32, "largest min.cleanable.dirty.ratio in force at any time between, of a thousand"]
    cleanable_known:              Annotated[bool, "it is no default that a broker's properties may have changed, and all of its values are on record"]
    compaction_lag_ms:            Annotated[Int64, "largest min.compaction.lag.ms in force at any time between"]
    open_first_offset:            Annotated[Int64 | None, "smallest first offset of a transaction without an end marker now; null if none"]
    broker_alive:                 Annotated[bool, "the broker is registered and not fenced at the end of the metadata log"]
    broker_quiet:                 BrokerQuiet
    snapshot_quiet:               SnapshotQuiet
    retention_history_known:      Annotated[bool, "the metadata log tells of all values in force between the two"]
    epochs_start_offset:          Annotated[Int64 | None, "first start offset in leader-epoch-checkpoint: a broker that moves the log start raises it"]
    leader_log_start_offset:      Annotated[Int64 | None, "log start of the reference replica; null for itself"]
    deleted_by_request:           Annotated[bool, "the broker moved the log start above its first segment of then, as DeleteRecords does"]
    deletion_by_request_possible: Annotated[bool, "nothing tells that no request to delete records did"]


class KeyComparisonRow(TypedDict, total=False):
    """follower against the reference replica of a compacted partition, key by key"""

    topic:                  Annotated[str, "topic name"]
    partition:              Annotated[Int32, "partition number"]
    leader_id:              Annotated[Int32, "reference replica"]
    follower_id:            Annotated[Int32, "the other replica"]
    compared_from_offset:   Annotated[Int64, "keys whose last record lies at or above this offset were compared"]
    compared_to_end_offset: Annotated[Int64 | None, "by their last records below this one: committed on both"]
    incomparable_reason:    Annotated[str | None, "why they were not compared; null if they were"]
    keys_sampled_permille:  Annotated[Int32, "of all keys, how many of a thousand were compared"]
    keys_compared:          Annotated[Int64, "keys compared"]
    differing_keys:         Annotated[Int64, "keys whose last record stands at one offset with two values"]
    missing_keys:           Annotated[Int64, "keys whose last record only one of the two has, though nothing replaces it on the other"]
    revived_keys:           Annotated[Int64, "keys that one has deleted and the other shows with an older value"]
    first_differing_offset: Annotated[Int64 | None, "smallest offset of a record that they do not agree on"]
    only_on:                Annotated[Int32 | None, "the one that has that record; null if both have it"]
    damaged:                Annotated[bool, "a place of one of the two logs cannot be read"]
    leader_quiet:           Annotated[bool, "the reference's files are of one moment"]
    follower_quiet:         Annotated[bool, "the follower's files are of one moment"]
    broker_quiet:           BrokerQuiet
    snapshot_quiet:         SnapshotQuiet
