"""Incidents: breaches, losses and risks of one cause, which last over runs, and what people say of them.

Revision ID: r0029
Revises: r0028
"""

from pathlib import Path

from alembic import op

revision = "r0029"
down_revision = "r0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What is open already is put together by the next audit that sees it."""
    for name in ("r0029_incidents.sql", "r0029_what_is_left.sql"):
        statements = Path(__file__).with_name(name).read_text(encoding="utf-8")
        op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def downgrade() -> None:
    """With the views that read them; what people said is gone."""
    for function in (
        "split_incident", "merge_incidents", "acknowledge_incident", "note_incident_step", "note_incident",
        "lock_incidents", "keep_incident_events",
    ):  # fmt: skip
        op.execute(f"DROP FUNCTION IF EXISTS tidegauge.{function} CASCADE")
    for table in ("incident_event", "incident_member", "incident"):
        op.execute(f"DROP TABLE tidegauge.{table} CASCADE")
