"""Breaches are counted as they change, not all of a cluster's at each publication (`r0016_counts.sql`).

Revision ID: r0016
Revises: r0015
"""

import re
from pathlib import Path

from alembic import op

revision = "r0016"
down_revision = "r0015"
branch_labels = None
depends_on = None

_HERE = Path(__file__).parent


def upgrade() -> None:
    """Counts of what is there; triggers that keep them right."""
    _run((_HERE / "r0016_counts.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    """Counted anew at each publication, as r0011 has it."""
    for trigger in ("count_added", "count_removed", "count_changed", "count_none"):
        _run(f"DROP TRIGGER {trigger} ON tidegauge.breach")
    _run("DROP FUNCTION tidegauge.count_breaches()")
    _run("DROP FUNCTION tidegauge.add_breaches(tidegauge.breach_change[])")
    _run("DROP TYPE tidegauge.breach_change")
    _run("DROP TABLE tidegauge.topic_breach_count")
    before = (_HERE / "r0011_life.sql").read_text(encoding="utf-8")
    function = re.search(r"CREATE (FUNCTION tidegauge\.renew_summaries\(.*?\$\$;)", before, re.DOTALL)
    assert function is not None, "r0011 makes it"
    _run(f"CREATE OR REPLACE {function[1]}")


def _run(statement: str) -> None:
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
