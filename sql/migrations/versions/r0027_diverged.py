"""A replica has diverged where an invariant says so: `renew_summaries` counts D05's breaches.

Counted in the facts, a copy of a moving cluster had some whose logs were only read later than their leaders'.

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

_BEFORE = Path(__file__).with_name("r0025_summaries.sql")
_IN_FACTS = "(SELECT count(*) FROM tidegauge.divergences WHERE run_id = latest AND records_at_stake > 0)"
_JUDGED = "coalesce((SELECT breached FROM tidegauge.invariant_result WHERE run_id = latest AND code = 'D05'), 0)"


def upgrade() -> None:
    """From the next publishing on: what was counted before stays until then."""
    before = _before()
    assert before.count(_IN_FACTS) == 1, "r0025 counts in the facts"
    _replace(before.replace(_IN_FACTS, _JUDGED))


def downgrade() -> None:
    """Counts in the facts again."""
    _replace(_before())


def _before() -> str:
    """The function as r0025 makes it, from its name on."""
    found = re.search(r"CREATE FUNCTION (tidegauge\.renew_summaries.*?\$\$;)", _BEFORE.read_text("utf-8"), re.DOTALL)
    assert found is not None, "r0025 makes the function"
    return found[1]


def _replace(function: str) -> None:
    op.get_bind().exec_driver_sql(f"CREATE OR REPLACE FUNCTION {function}", execution_options={"no_parameters": True})
