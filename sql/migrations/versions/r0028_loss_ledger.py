"""The loss ledger: losses that last over runs, and what people decide of them.

Revision ID: r0028
Revises: r0027
"""

from pathlib import Path

from alembic import op

revision = "r0028"
down_revision = "r0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs that are published already are carried into it by `store.migrate`."""
    statements = Path(__file__).with_name("r0028_loss_ledger.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def downgrade() -> None:
    """With the views that read it; what people decided is gone."""
    for function in ("decide_loss", "keep_loss_decisions"):
        op.execute(f"DROP FUNCTION tidegauge.{function} CASCADE")
    for table in ("loss_decision", "loss_stretch", "loss_ledger"):
        op.execute(f"DROP TABLE tidegauge.{table} CASCADE")
    op.execute("ALTER TABLE tidegauge.audit_run DROP COLUMN losses_carried CASCADE")
