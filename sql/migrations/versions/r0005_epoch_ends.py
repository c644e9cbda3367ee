"""Where a leader epoch's last batch ends, which a cleaner makes differ from the next one's start; and who led whom.

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
    op.execute("ALTER TABLE tidegauge.divergences ADD COLUMN reference_led_last_epoch boolean")


def downgrade() -> None:
    """Without them."""
    op.execute("ALTER TABLE tidegauge.epoch_spans DROP COLUMN last_batch_end_offset CASCADE")
    op.execute("ALTER TABLE tidegauge.divergences DROP COLUMN reference_led_last_epoch CASCADE")
