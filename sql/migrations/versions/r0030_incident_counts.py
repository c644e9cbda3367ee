"""What is open of each incident is counted when it changes: a list of ten thousand of them took longer than a page may.

Revision ID: r0030
Revises: r0029
"""

import re
from pathlib import Path
from typing import Final

from alembic import op

revision = "r0030"
down_revision = "r0029"
branch_labels = None
depends_on = None

_HERE: Final = Path(__file__).parent
_COUNT: Final = "    PERFORM tidegauge.count_incidents({}, ARRAY[{}]);\n"
_LOSSES: Final = "    PERFORM pg_advisory_xact_lock(hashtextextended('tidegauge:losses:' || found_cluster, 0));\n"
_DECIDED: Final = "    RETURN QUERY SELECT CASE WHEN what = 'reopened' THEN 'reopened' ELSE 'decided' END"
_SPLIT: Final = "    RETURN QUERY SELECT 'split'"
_MERGED: Final = "    RETURN QUERY SELECT 'merged'"
_OF_THE_LOSS: Final = """\
    PERFORM tidegauge.count_incidents(m.cluster, ARRAY[m.incident_id]) FROM tidegauge.incident_member m
    WHERE m.cluster = found_cluster AND m.kind = 'loss' AND m.member = of_loss;
"""


def upgrade() -> None:
    """A decision takes the incidents' lock after the losses', as publishing does."""
    _run(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
    decide, split, merge = _before()
    decide = _with(decide, _LOSSES, after="    PERFORM tidegauge.lock_incidents(found_cluster);\n")
    _replace(_with(decide, _DECIDED, before=_OF_THE_LOSS))
    _replace(_with(split, _SPLIT, before=_COUNT.format("present.cluster", "of_incident, made")))
    _replace(_with(merge, _MERGED, before=_COUNT.format("one.cluster", "into_incident")))


def downgrade() -> None:
    """The functions as they were."""
    for function in _before():
        _replace(function)
    op.execute("DROP FUNCTION tidegauge.count_incidents(text, text[])")
    op.execute("DROP TABLE tidegauge.incident_count CASCADE")
    op.execute("DROP INDEX tidegauge.loss_possible")


def _before() -> tuple[str, str, str]:
    """`decide_loss`, `split_incident` and `merge_incidents` as r0028 and r0029 make them."""
    return (
        _function("r0028_loss_ledger.sql", "decide_loss"),
        _function("r0029_incidents.sql", "split_incident"),
        _function("r0029_incidents.sql", "merge_incidents"),
    )


def _function(file: str, name: str) -> str:
    """From its name on."""
    text = (_HERE / file).read_text(encoding="utf-8")
    found = re.search(rf"CREATE FUNCTION (tidegauge\.{name}\(.*?\n\$\$;)", text, re.DOTALL)
    assert found is not None, f"{file} makes {name}"
    return found[1]


def _with(function: str, line: str, *, before: str = "", after: str = "") -> str:
    assert function.count(line) == 1, line
    return function.replace(line, before + line + after)


def _replace(function: str) -> None:
    _run(f"CREATE OR REPLACE FUNCTION {function}")


def _run(statements: str) -> None:
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
