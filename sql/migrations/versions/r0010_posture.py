"""Posture and risks, brokers' registrations over time, how many disks hold what is committed; what a breach points to,
and where an audited snapshot lies.

Revision ID: r0010
Revises: r0009
"""

from alembic import op

revision = "r0010"
down_revision = "r0009"
branch_labels = None
depends_on = None

_TABLES = {
    "postures": """
        topic text, topic_id text, partition_count integer, replication_factor integer, min_insync_replicas integer,
        min_insync_replicas_source text, unclean_leader_election_enable boolean, unclean_leader_election_source text,
        acknowledged_copies integer, refusal_after integer, loss_after integer, eligible_leader_replicas boolean,
        smallest_isr integer, partitions_below_minimum integer, rack_count integer, one_rack_partitions integer,
        cluster_stopped boolean
    """,
    "risks": """
        topic text, failure text, brokers integer[], racks text[], partition_count integer, losing integer,
        unavailable integer, unclean integer, refusing integer, records_at_risk bigint, records_at_risk_known boolean,
        losing_partitions integer[], unavailable_partitions integer[], unclean_partitions integer[],
        refusing_partitions integer[]
    """,
    "broker_changes": """
        broker_id integer, metadata_offset bigint, sequence_in_log integer, from_snapshot boolean, at_ms bigint,
        change text, broker_epoch bigint, incarnation_id text, rack text, fenced boolean,
        in_controlled_shutdown boolean
    """,
}


def upgrade() -> None:
    """New relations; new columns of `partitions` and `divergences`, of what a run found, and of a run itself."""
    for name, columns in _TABLES.items():
        op.execute(
            f"CREATE TABLE tidegauge.{name} (run_id text NOT NULL, "
            f"cluster text NOT NULL, snapshot_id text NOT NULL, {columns})"
        )
        op.execute(f"CREATE INDEX {name}_of_run ON tidegauge.{name} (run_id)")
    op.execute("""
        ALTER TABLE tidegauge.partitions
            ADD COLUMN holdings jsonb,
            ADD COLUMN complete_replicas integer[],
            ADD COLUMN acknowledged_records bigint,
            ADD COLUMN acknowledged_missing bigint,
            ADD COLUMN acknowledged_missing_on integer[],
            ADD COLUMN first_acknowledged_missing_offset bigint,
            ADD COLUMN acknowledged_missing_end_offset bigint
    """)
    op.execute("""
        ALTER TABLE tidegauge.divergences
            ADD COLUMN current_epoch_start_offset bigint,
            ADD COLUMN joined_isr_in_current_epoch boolean
    """)
    for table in ("finding", "breach"):
        op.execute(
            f"ALTER TABLE tidegauge.{table} ADD COLUMN points_to text, ADD COLUMN believe integer[], "
            "ADD COLUMN diagnosis text"
        )
    op.execute("ALTER TABLE tidegauge.audit_run ADD COLUMN place text")


def downgrade() -> None:
    """Without them."""
    op.execute("ALTER TABLE tidegauge.audit_run DROP COLUMN place")
    for table in ("breach", "finding"):
        op.execute(f"ALTER TABLE tidegauge.{table} DROP COLUMN points_to, DROP COLUMN believe, DROP COLUMN diagnosis")
    op.execute("""
        ALTER TABLE tidegauge.divergences
            DROP COLUMN current_epoch_start_offset,
            DROP COLUMN joined_isr_in_current_epoch
    """)
    op.execute("""
        ALTER TABLE tidegauge.partitions
            DROP COLUMN holdings,
            DROP COLUMN complete_replicas,
            DROP COLUMN acknowledged_records,
            DROP COLUMN acknowledged_missing,
            DROP COLUMN acknowledged_missing_on,
            DROP COLUMN first_acknowledged_missing_offset,
            DROP COLUMN acknowledged_missing_end_offset
    """)
    for name in reversed(_TABLES):
        op.execute(f"DROP TABLE tidegauge.{name} CASCADE")
