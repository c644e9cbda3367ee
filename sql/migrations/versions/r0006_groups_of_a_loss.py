"""Who had read the records that a replica lost since an earlier snapshot.

Revision ID: r0006
Revises: r0005
"""

from alembic import op

revision = "r0006"
down_revision = "r0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One column more in `changes`."""
    op.execute("ALTER TABLE tidegauge.changes ADD COLUMN groups_affected text[]")


def downgrade() -> None:
    """Without it."""
    op.execute("ALTER TABLE tidegauge.changes DROP COLUMN groups_affected")
