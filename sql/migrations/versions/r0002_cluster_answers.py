"""A table for what a cluster answered while it was captured, beside what its files say.

Revision ID: r0002
Revises: r0001
"""

from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The relation `cluster_answers`; runs of before have no rows in it."""
    op.execute("""
        CREATE TABLE tidegauge.cluster_answers (
            run_id                 text NOT NULL,
            cluster                text NOT NULL,
            snapshot_id            text NOT NULL,
            kind                   text,
            name                   text,
            broker_id              integer,
            topic                  text,
            partition              integer,
            "group"                text,
            transactional_id       text,
            producer_id            bigint,
            asked_before_at_ms     bigint,
            asked_after_at_ms      bigint,
            answered_before        bigint,
            answered_after         bigint,
            recomputed_lowest      bigint,
            recomputed_highest     bigint,
            answered_before_text   text,
            answered_after_text    text,
            recomputed_values      text[],
            comparable             boolean,
            incomparable_reason    text,
            error                  text
        )
    """)
    op.execute("CREATE INDEX cluster_answers_of_run ON tidegauge.cluster_answers (run_id)")


def downgrade() -> None:
    """As if nobody had asked."""
    op.execute("DROP TABLE tidegauge.cluster_answers CASCADE")
