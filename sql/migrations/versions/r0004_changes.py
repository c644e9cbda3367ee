"""What became of each replica since an earlier snapshot: what was compared, what changed, what is lost.

Revision ID: r0004
Revises: r0003
"""

from alembic import op

revision = "r0004"
down_revision = "r0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The relation `changes` in full; no run of before has rows in it."""
    op.execute("""
        ALTER TABLE tidegauge.changes
            ADD COLUMN change_kind text,
            ADD COLUMN previous_snapshot_id text,
            ADD COLUMN continuity text,
            ADD COLUMN previous_topic_id text,
            ADD COLUMN topic_id text,
            ADD COLUMN previous_log_start_offset bigint,
            ADD COLUMN log_start_offset bigint,
            ADD COLUMN previous_last_leader_epoch integer,
            ADD COLUMN last_leader_epoch integer,
            ADD COLUMN last_epoch_start_offset bigint,
            ADD COLUMN previous_committed_end_offset bigint,
            ADD COLUMN committed_proof text,
            ADD COLUMN compared_from_offset bigint,
            ADD COLUMN compared_to_end_offset bigint,
            ADD COLUMN comparable boolean,
            ADD COLUMN incomparable_reason text,
            ADD COLUMN first_changed_committed_offset bigint,
            ADD COLUMN identity_violation_offset bigint,
            ADD COLUMN changed_batches jsonb,
            ADD COLUMN first_lost_offset bigint,
            ADD COLUMN lost_end_offset bigint,
            ADD COLUMN loss_undecided_reason text,
            ADD COLUMN unclean_election_offset bigint,
            ADD COLUMN unclean_election_at_ms bigint,
            ADD COLUMN isr_before_election integer[],
            ADD COLUMN directory_replaced boolean,
            ADD COLUMN damaged boolean,
            ADD COLUMN clean_shutdown boolean,
            ADD COLUMN ever_compacted boolean,
            ADD COLUMN remote_storage_enable boolean,
            ADD COLUMN checkpointed_log_start boolean,
            ADD COLUMN is_leader boolean,
            ADD COLUMN broker_quiet boolean,
            ADD COLUMN snapshot_quiet boolean
    """)


def downgrade() -> None:
    """The six columns that it began with."""
    op.execute("""
        ALTER TABLE tidegauge.changes
            DROP COLUMN change_kind,
            DROP COLUMN previous_snapshot_id,
            DROP COLUMN continuity,
            DROP COLUMN previous_topic_id,
            DROP COLUMN topic_id,
            DROP COLUMN previous_log_start_offset,
            DROP COLUMN log_start_offset,
            DROP COLUMN previous_last_leader_epoch,
            DROP COLUMN last_leader_epoch,
            DROP COLUMN last_epoch_start_offset,
            DROP COLUMN previous_committed_end_offset,
            DROP COLUMN committed_proof,
            DROP COLUMN compared_from_offset,
            DROP COLUMN compared_to_end_offset,
            DROP COLUMN comparable,
            DROP COLUMN incomparable_reason,
            DROP COLUMN first_changed_committed_offset,
            DROP COLUMN identity_violation_offset,
            DROP COLUMN changed_batches,
            DROP COLUMN first_lost_offset,
            DROP COLUMN lost_end_offset,
            DROP COLUMN loss_undecided_reason,
            DROP COLUMN unclean_election_offset,
            DROP COLUMN unclean_election_at_ms,
            DROP COLUMN isr_before_election,
            DROP COLUMN directory_replaced,
            DROP COLUMN damaged,
            DROP COLUMN clean_shutdown,
            DROP COLUMN ever_compacted,
            DROP COLUMN remote_storage_enable,
            DROP COLUMN checkpointed_log_start,
            DROP COLUMN is_leader,
            DROP COLUMN broker_quiet,
            DROP COLUMN snapshot_quiet
    """)
