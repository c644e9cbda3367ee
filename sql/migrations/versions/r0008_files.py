"""Records beside their headers, files left lying about, what retention, cleaners and the remote tier made of a log.

Revision ID: r0008
Revises: r0007
"""

from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None

_ADDED = {
    "segments": """
        record_batches_read bigint, record_batches_passed_over bigint, record_form_errors bigint,
        record_offset_errors bigint, record_timestamp_errors bigint, index_entries bigint,
        widest_index_gap_bytes bigint, largest_batch_bytes bigint, index_interval_bytes bigint,
        index_entry_per_batch boolean, segment_limit_bytes bigint, segment_limit_known boolean,
        segment_limit_changed_at_ms bigint""",
    "index_files": "aborted_unlisted integer, aborted_unmarked integer",
    "checkpoint_files": "entries_without_directory integer",
    "remote_segments": """
        broker_id integer, leader_epochs text[], invalid_transitions integer, states text[], history_whole boolean,
        within_lineage boolean, lineage_reason text, lineage_cut boolean, log_start_offset bigint,
        log_end_offset bigint, high_watermark_upper bigint, first_unstable_offset bigint, store_captured boolean,
        missing_files text[], damaged_files integer, damages jsonb, broker_quiet boolean, snapshot_quiet boolean""",
}

_RUN = "run_id text NOT NULL, cluster text NOT NULL, snapshot_id text NOT NULL"
_REPLICA = "broker_id integer, topic text, partition integer"
_CAPTURE = "broker_quiet boolean, snapshot_quiet boolean"

_MADE = {
    "partition_directories": """
        log_dir text, directory text, state text, live_directories integer, future_directories integer,
        log_dirs text[], deleted_files integer, half_done_files integer, oldest_deleted_age_ms bigint,
        oldest_half_done_age_ms bigint, file_delete_delay_ms bigint, orphans integer, clean_shutdown boolean,
        leftovers jsonb""",
    "upkeep": """
        cleanup_policy text, remote_storage_enable boolean, clean_shutdown boolean, broker_alive boolean,
        damaged boolean, captured_at_ms bigint, log_start_offset bigint, checkpoint_log_start_offset bigint,
        first_base_offset bigint, active_base_offset bigint, log_end_offset bigint, high_watermark bigint,
        open_first_offset bigint, size_bytes bigint, segments_below_log_start integer,
        below_log_start_since_ms bigint, retention_check_interval_ms bigint, retention_ms bigint,
        retention_bytes bigint, retention_known boolean, overdue_segments integer, overdue_end_offset bigint,
        overdue_since_at_ms bigint, overdue_by text, cleaner_offset bigint, key_incomparable_reason text,
        keys_sampled_permille integer, keys bigint, duplicate_keys bigint, first_duplicate_offset bigint,
        unkeyed_records bigint, first_unkeyed_offset bigint, policy_changed_at_ms bigint, first_unkeyed_at_ms bigint,
        policy_history_known boolean, producers_without_batch integer, first_missing_producer_id bigint,
        first_missing_offset bigint, expired_producers integer, remote_known boolean,
        remote_end_offset bigint, remote_gap_start_offset bigint, remote_gap_end_offset bigint""",
    "upkeep_changes": """
        previous_snapshot_id text, previous_captured_at_ms bigint, captured_at_ms bigint, elapsed_ms bigint,
        cleanup_policy text, directory_replaced boolean, damaged boolean, remote_storage_enable boolean,
        compacted boolean, previous_log_start_offset bigint, log_start_offset bigint, checkpointed_log_start boolean,
        log_start_in_segment boolean, previous_log_end_offset bigint, log_end_offset bigint,
        previous_high_watermark bigint, high_watermark bigint, removed_start_offset bigint,
        removed_end_offset bigint, removed_newest_at_ms bigint, retention_ms bigint, retention_bytes bigint,
        retention_known boolean, largest_size_bytes bigint, previous_cleaner_offset bigint, cleaner_offset bigint,
        last_batch_end_offset bigint, cleaned_by_release text, keeps_last_batch boolean,
        key_incomparable_reason text, keys_compared bigint, keys_lost bigint, first_lost_key_offset bigint,
        keys_changed bigint, first_changed_key_offset bigint, tombstone_may_have_passed boolean,
        early_tombstones bigint, first_early_tombstone_offset bigint, early_tombstone_due_at_ms bigint,
        delete_retention_ms bigint, previous_dirty_bytes bigint, dirty_bytes bigint, clean_bytes bigint,
        previous_dirty_permille integer, dirty_permille integer, cleanable_permille integer,
        cleanable_known boolean, compaction_lag_ms bigint, open_first_offset bigint, broker_alive boolean""",
}
_COMPARED = """
    topic text, partition integer, leader_id integer, follower_id integer, compared_from_offset bigint,
    compared_to_end_offset bigint, incomparable_reason text, keys_sampled_permille integer, keys_compared bigint,
    differing_keys bigint, missing_keys bigint, revived_keys bigint, first_differing_offset bigint, only_on integer,
    damaged boolean, leader_quiet boolean, follower_quiet boolean"""


def upgrade() -> None:
    """Columns that are null, and relations that are empty, in runs of before."""
    for table, columns in _ADDED.items():
        added = ", ".join(f"ADD COLUMN {column.strip()}" for column in columns.split(","))
        op.execute(f"ALTER TABLE tidegauge.{table} {added}")
    for table, columns in _MADE.items():
        op.execute(f"CREATE TABLE tidegauge.{table} ({_RUN}, {_REPLICA}, {columns}, {_CAPTURE})")
    op.execute(f"CREATE TABLE tidegauge.key_comparisons ({_RUN}, {_COMPARED}, {_CAPTURE})")
    for table in (*_MADE, "key_comparisons"):
        op.execute(f"CREATE INDEX {table}_of_run ON tidegauge.{table} (run_id)")


def downgrade() -> None:
    """Without them."""
    for table in (*_MADE, "key_comparisons"):
        op.execute(f"DROP TABLE tidegauge.{table} CASCADE")
    for table, columns in _ADDED.items():
        dropped = ", ".join(f"DROP COLUMN {column.split()[0]} CASCADE" for column in columns.split(","))
        op.execute(f"ALTER TABLE tidegauge.{table} {dropped}")
