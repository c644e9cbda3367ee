"""What leader-epoch-checkpoint held when a capture read it again, behind the log.

Revision ID: r0003
Revises: r0002
"""

from alembic import op

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Null in runs of before: nothing was read again then."""
    op.execute("""
        ALTER TABLE tidegauge.epoch_spans
            ADD COLUMN epoch_checkpoint_read_again        boolean,
            ADD COLUMN later_checkpoint_start_offset      bigint,
            ADD COLUMN later_checkpoint_last_leader_epoch integer
    """)


def downgrade() -> None:
    """As if it had been read once."""
    op.execute("""
        ALTER TABLE tidegauge.epoch_spans
            DROP COLUMN epoch_checkpoint_read_again CASCADE,
            DROP COLUMN later_checkpoint_start_offset CASCADE,
            DROP COLUMN later_checkpoint_last_leader_epoch CASCADE
    """)
