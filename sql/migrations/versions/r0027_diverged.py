"""A replica has diverged where an invariant says so: `renew_summaries` counts D05's breaches (`r0027_diverged.sql`).

Revision ID: r0027
Revises: r0026
"""

import re
from pathlib import Path

from alembic import op

revision = "r0027"
down_revision = "r0026"
branch_labels = None
depends_on = None

_HERE = Path(__file__).parent


def upgrade() -> None:
    """From the next publishing on: what was counted before stays until then."""
    _run((_HERE / "r0027_diverged.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    """Counts in the facts again."""
    text = (_HERE / "r0025_summaries.sql").read_text(encoding="utf-8")
    found = re.search(r"CREATE FUNCTION (tidegauge\.renew_summaries.*?\$\$;)", text, re.DOTALL)
    assert found is not None, "r0025 makes the function"
    _run(f"CREATE OR REPLACE FUNCTION {found[1]}")


def _run(statement: str) -> None:
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
