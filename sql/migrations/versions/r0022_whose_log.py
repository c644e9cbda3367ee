"""Whose log commits are held against, and whether two logs are of one moment: what ruleset 9 reads.

Revision ID: r0022
Revises: r0021
"""

from alembic import op

revision = "r0022"
down_revision = "r0021"
branch_labels = None
depends_on = None

_COLUMNS = {
    "committed_offsets": "metadata_log_captured",
    "share_states": "metadata_log_captured",
    "divergences": "of_an_earlier_moment",
}


def upgrade() -> None:
    """The new columns; null in runs of before."""
    for relation, column in _COLUMNS.items():
        op.execute(f"ALTER TABLE tidegauge.{relation} ADD COLUMN {column} boolean")


def downgrade() -> None:
    """Without them."""
    for relation, column in _COLUMNS.items():
        op.execute(f"ALTER TABLE tidegauge.{relation} DROP COLUMN {column} CASCADE")  # views are made anew
