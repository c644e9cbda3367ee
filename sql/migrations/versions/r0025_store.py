"""The store, from an empty schema: what each SQL file of `_FILES` makes, in the order in which they rest on each other.

Revision ID: r0025
Revises:
"""

from pathlib import Path
from typing import Final

from alembic import op

revision = "r0025"
down_revision = None
branch_labels = None
depends_on = None

_HERE: Final = Path(__file__).parent
_FILES: Final = (
    "r0025_runs.sql",
    "r0025_breaches.sql",
    "r0025_facts/cluster.sql",
    "r0025_facts/logs.sql",
    "r0025_facts/storage.sql",
    "r0025_facts/metadata.sql",
    "r0025_facts/coordinators.sql",
    "r0025_facts/posture.sql",
    "r0025_facts/answers.sql",
    "r0025_summaries.sql",
    "r0025_acknowledgements.sql",
    "r0025_alerts.sql",
    "r0025_clusters.sql",
    "r0025_score.sql",
    "r0025_rights.sql",
    "r0025_partitions.sql",
)
"""Facts stand column by column as in `relations/`; a test compares the two. What grows with replicas, segments or
history is partitioned; the others have a row a broker, a topic, a group, or fewer.

They have no primary keys: a sound snapshot may hold what looks like one subject twice (a replica on its way between two
log dirs), and a hostile one names that are longer than an index entry. That no part is stored twice is the work of
`staged_part`. A run's rows are found by run_id and stand together; most relations have few enough of them to be read
through. Some are read partition by partition. Their index cuts the topic's name: no name that Kafka allows is longer
than 249 characters.
"""

_EMPTIED: Final = """
    DO $$
    DECLARE
        made record;
    BEGIN
        FOR made IN SELECT viewname AS name FROM pg_views WHERE schemaname = 'tidegauge' LOOP
            EXECUTE format('DROP VIEW IF EXISTS tidegauge.%I CASCADE', made.name);
        END LOOP;
        FOR made IN SELECT tablename AS name FROM pg_tables
            WHERE schemaname = 'tidegauge' AND tablename NOT IN ('alembic_version', 'view_version') LOOP
            EXECUTE format('DROP TABLE IF EXISTS tidegauge.%I CASCADE', made.name);  -- its partitions go with it
        END LOOP;
        DROP FUNCTION tidegauge.acknowledge, tidegauge.withdraw_acknowledgement, tidegauge.keep_acknowledgement_events,
            tidegauge.add_breaches, tidegauge.count_breaches, tidegauge.count_risks, tidegauge.renew_summaries,
            tidegauge.make_partitions, tidegauge.empty_partitions, tidegauge.grant_reading;
        DROP TYPE tidegauge.breach_change;
    END
    $$
"""


def upgrade() -> None:
    """Everything, from an empty schema."""
    for name in _FILES:
        _run((_HERE / name).read_text(encoding="utf-8"))


def downgrade() -> None:
    """Back to an empty schema; the views go with their tables."""
    _run(_EMPTIED)


def _run(statements: str) -> None:
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
