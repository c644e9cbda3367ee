"""Snapshots that are dated in the future, which no audit takes: what they claimed, and what was believed instead.

Revision ID: r0025
Revises: r0024
"""

from alembic import op

revision = "r0025"
down_revision = "r0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One row for each time that a cluster began to have such snapshots and somebody had not settled it."""
    op.execute("""
        CREATE TABLE tidegauge.dated_ahead (
            cluster     text NOT NULL,
            opening     integer NOT NULL,
            snapshot_id text NOT NULL,         -- the last one that was met
            place       text,
            claimed_at  timestamptz NOT NULL,  -- when it says that it was captured
            believed_at timestamptz NOT NULL,  -- what time it was instead, by the clock of who met it
            met_by      text NOT NULL,         -- the run directory of the audit, or the command
            began_at    timestamptz NOT NULL,
            met_at      timestamptz NOT NULL,
            times_met   integer NOT NULL,
            settled_at  timestamptz,
            settled_by  text,
            note        text,
            PRIMARY KEY (cluster, opening)
        )
    """)
    op.execute("COMMENT ON TABLE tidegauge.dated_ahead IS 'Snapshots refused for a date in the future.'")
    op.execute("""
        DO $$
        BEGIN
            IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_writer')
               AND has_schema_privilege('tidegauge_writer', 'tidegauge', 'USAGE') THEN
                GRANT SELECT, INSERT, UPDATE, DELETE ON tidegauge.dated_ahead TO tidegauge_writer;
            END IF;
        END
        $$
    """)


def downgrade() -> None:
    """Only whoever reads an audit's last words hears of such snapshots."""
    op.execute("DROP TABLE tidegauge.dated_ahead CASCADE")  # views are made anew
