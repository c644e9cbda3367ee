"""A damaged record may bear any number of 64 bits as its instant: the views show one that a calendar has, or none.

Revision ID: r0026
Revises: r0025
"""

from alembic import op

revision = "r0026"
down_revision = "r0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """`to_timestamp` ends a query beyond the year 294276, and most programs that read one beyond 9999 or before 1. A
    day is left at either end for their time zones.
    """
    op.execute("""
        CREATE FUNCTION tidegauge.instant(at_ms bigint) RETURNS timestamptz
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE WHEN at_ms BETWEEN -62135510400000 AND 253402214400000 THEN to_timestamp(at_ms / 1000.0) END
    """)
    op.execute("COMMENT ON FUNCTION tidegauge.instant(bigint) IS 'From milliseconds; null beyond any calendar.'")


def downgrade() -> None:
    """With the views that use it."""
    op.execute("DROP FUNCTION tidegauge.instant(bigint) CASCADE")
