"""The store as it begins: runs, findings and the life of a breach (`r0001_runs.sql`), facts (`r0001_facts.sql`).

Revision ID: r0001
Revises:
"""

from pathlib import Path

from alembic import op

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None

_HERE = Path(__file__).parent


def upgrade() -> None:
    """Everything, from an empty schema."""
    for name in ("r0001_runs.sql", "r0001_facts.sql"):
        op.get_bind().exec_driver_sql(
            (_HERE / name).read_text(encoding="utf-8"), execution_options={"no_parameters": True}
        )


def downgrade() -> None:
    """Back to an empty schema; the views go with their tables."""
    op.execute("""
        DO $$
        DECLARE
            table_name text;
        BEGIN
            FOR table_name IN SELECT tablename FROM pg_tables
                WHERE schemaname = 'tidegauge' AND tablename NOT IN ('alembic_version', 'view_version') LOOP
                EXECUTE format('DROP TABLE tidegauge.%I CASCADE', table_name);
            END LOOP;
            DROP FUNCTION tidegauge.grant_reading(text);
        END
        $$
    """)
