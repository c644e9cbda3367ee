"""What is known to be committed, in `divergences`: by any replica's checkpoint, not the leader's alone.

Revision ID: r0020
Revises: r0019
"""

from alembic import op

revision = "r0020"
down_revision = "r0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two columns; null in runs of before."""
    op.execute(
        "ALTER TABLE tidegauge.divergences ADD COLUMN known_high_watermark bigint, "
        "ADD COLUMN known_high_watermark_broker integer"
    )


def downgrade() -> None:
    """Without them."""
    op.execute(
        "ALTER TABLE tidegauge.divergences DROP COLUMN known_high_watermark, DROP COLUMN known_high_watermark_broker"
    )
