"""What was told to whom of an alert: each channel is told once.

Revision ID: r0013
Revises: r0012
"""

from alembic import op

revision = "r0013"
down_revision = "r0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One row for each thing that a channel was told."""
    op.execute("""
        CREATE TABLE tidegauge.alert_told (
            channel text NOT NULL,
            cluster text NOT NULL,
            name text NOT NULL,
            opening text NOT NULL,
            word text NOT NULL CHECK (word IN ('firing', 'resolved')),
            told_at timestamptz NOT NULL,
            PRIMARY KEY (channel, cluster, name, opening, word)
        )
    """)
    op.execute("COMMENT ON TABLE tidegauge.alert_told IS 'What each channel was told of each alert.'")


def downgrade() -> None:
    """Nothing is known to have been told."""
    op.execute("DROP TABLE tidegauge.alert_told")
