"""Risks that somebody may be told of: when each began, and when it was over.

Revision ID: r0017
Revises: r0016
"""

from alembic import op

revision = "r0017"
down_revision = "r0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One row for each time that a risk began."""
    op.execute("""
        CREATE TABLE tidegauge.alert_risk (
            cluster text NOT NULL,
            name text NOT NULL,
            opening integer NOT NULL,
            failures text NOT NULL,
            subject jsonb NOT NULL,
            began_at timestamptz NOT NULL,
            ended_at timestamptz,
            PRIMARY KEY (cluster, name, opening)
        )
    """)
    op.execute("COMMENT ON TABLE tidegauge.alert_risk IS 'Risks as `tidegauge alerts send` met them: new, and over.'")
    op.execute("""
        DO $$
        BEGIN
            IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_writer')
               AND has_schema_privilege('tidegauge_writer', 'tidegauge', 'USAGE') THEN
                GRANT SELECT, INSERT, UPDATE, DELETE ON tidegauge.alert_risk TO tidegauge_writer;
            END IF;
        END
        $$
    """)


def downgrade() -> None:
    """No risk was ever met."""
    op.execute("DROP TABLE tidegauge.alert_risk")
