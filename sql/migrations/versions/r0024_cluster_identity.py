"""Which cluster a name stands for, by its cluster.id; and snapshots that said otherwise, which were refused.

Revision ID: r0024
Revises: r0023
"""

from alembic import op

revision = "r0024"
down_revision = "r0023"
branch_labels = None
depends_on = None

_TABLES = ("cluster_identity", "cluster_contradiction")


def upgrade() -> None:
    """A name that results were published under stands for the cluster that its newest facts are of."""
    op.execute("ALTER TABLE tidegauge.audit_run ADD COLUMN cluster_id text")
    op.execute("""
        CREATE TABLE tidegauge.cluster_identity (
            cluster     text NOT NULL,
            cluster_id  text NOT NULL,
            snapshot_id text,                  -- the first that was published of it; null: somebody named it before
            known_at    timestamptz NOT NULL,
            retired_at  timestamptz,           -- another cluster took the name; what was captured before is its own
            settled_by  text,                  -- who said so, where somebody did
            note        text,
            PRIMARY KEY (cluster, cluster_id)
        )
    """)
    op.execute(
        "CREATE UNIQUE INDEX cluster_identity_now ON tidegauge.cluster_identity (cluster) WHERE retired_at IS NULL"
    )
    op.execute("CREATE INDEX cluster_identity_names ON tidegauge.cluster_identity (cluster_id)")
    op.execute("""
        CREATE TABLE tidegauge.cluster_contradiction (
            cluster          text NOT NULL,
            cluster_id       text NOT NULL,    -- what the refused snapshots say
            opening          integer NOT NULL,
            known_cluster_id text NOT NULL,    -- what the name stood for
            snapshot_id      text NOT NULL,    -- the last one that was refused
            place            text,
            captured_at      timestamptz NOT NULL,
            began_at         timestamptz NOT NULL,
            refused_at       timestamptz NOT NULL,
            refusals         integer NOT NULL,
            settled_at       timestamptz,
            settled_by       text,
            outcome          text CHECK (outcome IN ('rebuilt', 'not_ours')),
            note             text,
            PRIMARY KEY (cluster, cluster_id, opening)
        )
    """)
    op.execute("COMMENT ON TABLE tidegauge.cluster_identity IS 'Which cluster a name stands for, by its cluster.id.'")
    op.execute("COMMENT ON TABLE tidegauge.cluster_contradiction IS 'Snapshots refused for another cluster.id.'")
    op.execute("""
        UPDATE tidegauge.audit_run r SET cluster_id = b.cluster_id
        FROM (SELECT run_id, min(cluster_id) AS cluster_id FROM tidegauge.brokers
              WHERE captured AND cluster_id IS NOT NULL AND length(cluster_id) <= 200
              GROUP BY run_id HAVING min(cluster_id) = max(cluster_id)) AS b
        WHERE b.run_id = r.run_id AND r.status = 'published'
    """)
    op.execute("""
        INSERT INTO tidegauge.cluster_identity (cluster, cluster_id, snapshot_id, known_at)
        SELECT DISTINCT ON (cluster) cluster, cluster_id, snapshot_id, published_at FROM tidegauge.audit_run
        WHERE status = 'published' AND cluster_id IS NOT NULL
        ORDER BY cluster, captured_at DESC, snapshot_id DESC, published_at DESC
    """)
    granted = "; ".join(f"GRANT SELECT, INSERT, UPDATE, DELETE ON tidegauge.{t} TO tidegauge_writer" for t in _TABLES)
    op.execute(f"""
        DO $$
        BEGIN
            IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_writer')
               AND has_schema_privilege('tidegauge_writer', 'tidegauge', 'USAGE') THEN
                {granted};
            END IF;
        END
        $$
    """)


def downgrade() -> None:
    """A name stands for whatever is published under it."""
    for table in _TABLES:
        op.execute(f"DROP TABLE tidegauge.{table} CASCADE")  # views are made anew
    op.execute("ALTER TABLE tidegauge.audit_run DROP COLUMN cluster_id CASCADE")
