"""A store says which older versions may still read it, so that a console that was rolled back shows what there is.

Each later migration adds its own revision here. One after which a view lacks a column, or a function that the console
calls takes other arguments, removes those before it. tests/sql/test_readers.py holds every revision to its views.

Revision ID: r0031
Revises: r0030
"""

from alembic import op

revision = "r0031"
down_revision = "r0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Versions before this one do not ask."""
    op.execute("CREATE TABLE tidegauge.readable_by (revision text PRIMARY KEY)")
    op.execute("INSERT INTO tidegauge.readable_by VALUES ('r0031')")


def downgrade() -> None:
    """With the view that shows it."""
    op.execute("DROP TABLE tidegauge.readable_by CASCADE")
