"""Room in the pages of `breach`: every audit says again of each open breach that it is there.

Revision ID: r0018
Revises: r0017
"""

from alembic import op

revision = "r0018"
down_revision = "r0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Half of a page stays free, so that a row's next version fits beside it.

    Nine indices stand on the table, and none on what changes of a breach that stays open: a version on the same page
    needs no entry in any of them, and one on another page needs nine. Full pages of before are left as they are; what
    is written from now on has room.
    """
    op.execute("ALTER TABLE tidegauge.breach SET (fillfactor = 50)")


def downgrade() -> None:
    """Pages are filled again."""
    op.execute("ALTER TABLE tidegauge.breach RESET (fillfactor)")
