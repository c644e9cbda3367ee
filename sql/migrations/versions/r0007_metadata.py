"""The metadata log: each node's copy and its snapshots, what it says entry by entry, and epochs wherever they stand.

Revision ID: r0007
Revises: r0006
"""

from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None

_ADDED = {
    "brokers": """
        cluster_ids text[], expected_cluster_id text, node_ids integer[], shared_directory_ids text[],
        foreign_directory_ids text[], unregistered_directory_ids text[], uncaptured_directories integer,
        alive boolean, seen_until_ms bigint, stray_replicas text[], missing_replicas text[],
        misplaced_replicas text[], unsettled_replicas integer""",
    "topics": """
        missing_partitions integer[], namesakes integer, metadata_damaged boolean""",
    "partitions": """
        reassigning_since_ms bigint, reassigning_ms bigint""",
    "partition_changes": """
        created boolean, restated boolean, previous_leader_epoch integer, previous_partition_epoch integer,
        previous_recovering boolean, min_insync_replicas integer, directory_count integer,
        snapshot_end_offset bigint, snapshot_partition_epoch integer, snapshot_leader_epoch integer,
        isr_inactive integer[], isr_without_directory integer[], out_of_place_offset bigint, out_of_place_ms
        bigint, migrated boolean, after_damage boolean""",
    "divergences": """
        metadata_committed_end_offset bigint""",
}

_RUN = "run_id text NOT NULL, cluster text NOT NULL, snapshot_id text NOT NULL"

_TABLES = {
    "metadata_logs": """
        topic text, partition integer, broker_id integer, replayed boolean, log_start_offset bigint,
        log_end_offset bigint, first_leader_epoch integer, last_leader_epoch integer, epoch_order_errors
        integer, epoch_order_offset bigint, unannounced_epochs integer, unannounced_offset bigint, damaged
        boolean, quorum_state_present boolean, quorum_leader_epoch integer, quorum_leader_id integer,
        voted_id integer, elected_leader_id integer, vote_granted boolean, transactions integer,
        transaction_errors integer, transaction_error_offset bigint, transaction_error text,
        open_transaction_offset bigint, broker_quiet boolean, snapshot_quiet boolean""",
    "metadata_snapshots": """
        topic text, partition integer, broker_id integer, path text, end_offset bigint, leader_epoch
        integer, newest boolean, whole boolean, entries integer, comparable boolean, incomparable_reason
        text, differing_entries integer, differing_epochs integer, differing_principals integer,
        differences jsonb, after_damage boolean""",
    "metadata_entries": """
        topic text, partition integer, kind text, name text, value jsonb, metadata_offset bigint, at_ms
        bigint, nodes_otherwise integer[], after_damage boolean""",
    "broker_registrations": """
        topic text, partition integer, broker_id integer, metadata_offset bigint, batch_offset bigint,
        from_snapshot boolean, at_ms bigint, broker_epoch bigint, previous_broker_epoch bigint,
        same_incarnation boolean, metadata_version integer, release text, stale_records integer,
        stale_record_offset bigint, after_damage boolean""",
    "fencing_epochs": """
        epoch text, topic text, partition integer, broker_id integer, name text, regressions bigint,
        first_offset bigint, epoch_before bigint, epoch_after bigint""",
}


def upgrade() -> None:
    """Five relations more, and columns in five that are there."""
    for table, columns in _ADDED.items():
        for column in columns.split(","):
            op.execute(f"ALTER TABLE tidegauge.{table} ADD COLUMN {column.strip()}")
    for table, columns in _TABLES.items():
        op.execute(f"CREATE TABLE tidegauge.{table} ({_RUN}, {columns})")
        op.execute(f"CREATE INDEX {table}_of_run ON tidegauge.{table} (run_id)")


def downgrade() -> None:
    """Without them."""
    for table in reversed(_TABLES):
        op.execute(f"DROP TABLE tidegauge.{table} CASCADE")
    for table, columns in _ADDED.items():
        for column in columns.split(","):
            op.execute(f"ALTER TABLE tidegauge.{table} DROP COLUMN {column.split()[0]} CASCADE")
