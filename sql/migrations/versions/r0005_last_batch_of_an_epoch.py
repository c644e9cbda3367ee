"""Where the last batch of a leader epoch ends, which is not where the next epoch begins once a cleaner was at work.

Revision ID: r0005
Revises: r0004
"""

from alembic import op

revision = "r0005"
down_revision = "r0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Null in runs of before."""
    op.execute("ALTER TABLE tidegauge.epoch_spans ADD COLUMN last_batch_end_offset bigint")


def downgrade() -> None:
    """Without it."""
    op.execute("ALTER TABLE tidegauge.epoch_spans DROP COLUMN last_batch_end_offset CASCADE")
