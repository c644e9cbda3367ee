"""Risks are counted when a run becomes the latest of its cluster, not each time that somebody asks for metrics.

An index has them in the order in which pages show them.

Revision ID: r0019
Revises: r0018
"""

from alembic import op

revision = "r0019"
down_revision = "r0018"
branch_labels = None
depends_on = None

_FAILURES = """CASE WHEN failure = 'now' THEN 'now'
                    WHEN cardinality(brokers) < 2 OR failure = 'rack' THEN 'single' ELSE 'double' END"""
_COUNT = """
    INSERT INTO tidegauge.risk_count (cluster, failures, risks, losing, unavailable, unclean, refusing)
    SELECT {cluster}, kind.failures, coalesce(sum(t.risks), 0), count(*) FILTER (WHERE t.losing),
           count(*) FILTER (WHERE t.unavailable), count(*) FILTER (WHERE t.unclean), count(*) FILTER (WHERE t.refusing)
    FROM unnest(ARRAY['now', 'single', 'double']) AS kind(failures)
    LEFT JOIN (
        SELECT {failures} AS failures,
               topic, count(*) AS risks, bool_or(losing > 0) AS losing, bool_or(unavailable > 0) AS unavailable,
               bool_or(unclean > 0) AS unclean, bool_or(refusing > 0) AS refusing
        FROM tidegauge.risks WHERE run_id = {run} GROUP BY 1, 2) AS t ON t.failures = kind.failures
    WHERE EXISTS (SELECT FROM tidegauge.postures WHERE run_id = {run})
    GROUP BY kind.failures
"""


def upgrade() -> None:
    """A row for each kind of failure, of clusters that could be judged; it goes with the cluster's summary."""
    op.execute("""
        CREATE TABLE tidegauge.risk_count (
            cluster     text NOT NULL REFERENCES tidegauge.cluster_summary ON DELETE CASCADE,
            failures    text NOT NULL,        -- what has to fail: now, single, double
            risks       bigint NOT NULL,
            losing      bigint NOT NULL,      -- topics, as the other three
            unavailable bigint NOT NULL,
            unclean     bigint NOT NULL,
            refusing    bigint NOT NULL,
            PRIMARY KEY (cluster, failures)
        )
    """)
    counting = _COUNT.format(failures=_FAILURES, cluster="NEW.cluster", run="NEW.run_id")
    op.execute(f"""
        CREATE FUNCTION tidegauge.count_risks() RETURNS trigger LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            {counting};
            RETURN NULL;
        END
        $$
    """)
    op.execute("""
        CREATE TRIGGER count_risks AFTER INSERT ON tidegauge.cluster_summary
        FOR EACH ROW EXECUTE FUNCTION tidegauge.count_risks()
    """)
    op.execute("REVOKE ALL ON FUNCTION tidegauge.count_risks() FROM PUBLIC")
    op.execute(f"""
        CREATE INDEX risks_by_cost ON tidegauge.risks (
            run_id, (({_FAILURES}) = 'double'), (failure <> 'now'), losing DESC, unavailable DESC, refusing DESC,
            unclean DESC, (left(topic, 249) COLLATE "C"))
    """)
    op.execute(f"""
        DO $$
        DECLARE
            latest record;
        BEGIN
            FOR latest IN SELECT cluster, run_id FROM tidegauge.cluster_summary LOOP
                {_COUNT.format(failures=_FAILURES, cluster="latest.cluster", run="latest.run_id")};
            END LOOP;
            IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_writer')
               AND has_schema_privilege('tidegauge_writer', 'tidegauge', 'USAGE') THEN
                GRANT SELECT, INSERT, UPDATE, DELETE ON tidegauge.risk_count TO tidegauge_writer;
            END IF;
        END
        $$
    """)


def downgrade() -> None:
    """Counted by whoever asks."""
    op.execute("DROP TRIGGER count_risks ON tidegauge.cluster_summary")
    op.execute("DROP FUNCTION tidegauge.count_risks()")
    op.execute("DROP TABLE tidegauge.risk_count CASCADE")
    op.execute("DROP INDEX tidegauge.risks_by_cost")
