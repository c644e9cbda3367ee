"""Acknowledged breaches, and counts and indices for whoever looks at a large store (`r0011_life.sql`).

Revision ID: r0011
Revises: r0010
"""

from pathlib import Path

from alembic import op

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None

_HERE = Path(__file__).parent
_OF_PARTITION = (
    "partitions", "replicas", "epoch_spans", "divergences", "transactions", "sequence_gaps", "partition_changes",
    "committed_offsets", "remote_segments",
)  # fmt: skip
"""Fact tables that are read partition by partition. The name is cut for the index: a hostile one is longer than an
entry may be, and no name that Kafka allows is longer than 249 characters."""


def upgrade() -> None:
    """The tables and functions; indices; counts of what is in the store already."""
    for table in _OF_PARTITION:
        op.execute(
            f"CREATE INDEX {table}_of_partition ON tidegauge.{table} "
            '(run_id, (left(topic, 249) COLLATE "C"), partition)'
        )
        op.execute(f"DROP INDEX tidegauge.{table}_of_run")
    op.get_bind().exec_driver_sql(
        (_HERE / "r0011_life.sql").read_text(encoding="utf-8"), execution_options={"no_parameters": True}
    )


def downgrade() -> None:
    """Without them; the views, which read them, are made anew by the next migration."""
    op.execute("""
        DO $$
        DECLARE
            view_name text;
        BEGIN
            FOR view_name IN SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge' LOOP
                EXECUTE format('DROP VIEW IF EXISTS tidegauge.%I CASCADE', view_name);
            END LOOP;
        END
        $$
    """)
    op.execute("DROP FUNCTION tidegauge.acknowledge(text, text, text, timestamptz, text)")
    op.execute("DROP FUNCTION tidegauge.withdraw_acknowledgement(text, text, text)")
    op.execute("DROP FUNCTION tidegauge.renew_summaries(text, text)")
    for table in ("acknowledgement", "breach_count", "finding_count", "topic_summary", "cluster_summary"):
        op.execute(f"DROP TABLE tidegauge.{table}")
    op.execute(
        "ALTER TABLE tidegauge.breach DROP COLUMN severity_rank, DROP COLUMN topic_key, DROP COLUMN partition_key"
    )
    op.execute("ALTER TABLE tidegauge.finding DROP COLUMN severity_rank")
    op.execute("DROP INDEX tidegauge.audit_run_by_capture")
    op.execute("DROP INDEX tidegauge.transactions_open")
    op.execute("DROP INDEX tidegauge.loss_of_partition")
    op.execute("CREATE INDEX loss_of_run ON tidegauge.loss (run_id)")
    for table in _OF_PARTITION:
        op.execute(f"CREATE INDEX {table}_of_run ON tidegauge.{table} (run_id)")
        op.execute(f"DROP INDEX tidegauge.{table}_of_partition")
