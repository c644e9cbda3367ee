"""Who vouches for the name under an acknowledgement, and a trail of all of them (`r0023_who_said_it.sql`).

Revision ID: r0023
Revises: r0022
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import op
from sqlalchemy import text

revision = "r0023"
down_revision = "r0022"
branch_labels = None
depends_on = None

_HERE = Path(__file__).parent
_ACKNOWLEDGE = "tidegauge.acknowledge(text, text, text, timestamptz, text{})"
_WITHDRAW = "tidegauge.withdraw_acknowledgement(text, text, text{})"
_MORE = ", text, inet"
_GRANTEES = text("""
    SELECT quote_ident(r.rolname) FROM pg_proc p
    CROSS JOIN aclexplode(p.proacl) AS a JOIN pg_roles r ON r.oid = a.grantee
    WHERE p.oid = CAST(:function AS regprocedure) AND a.grantee <> p.proowner ORDER BY 1
""")


def upgrade() -> None:
    """The columns, the trail, the functions that fill both; whoever could call them still can."""
    with _callers_kept("", _MORE):
        _run((_HERE / "r0023_who_said_it.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    """Without them, and without the trail; the views are made anew by the next migration."""
    older = (_HERE / "r0011_life.sql").read_text(encoding="utf-8")
    start, end = older.index("-- Says who takes care of a breach"), older.index("-- Worst first,")
    with _callers_kept(_MORE, ""):
        op.execute(f"DROP FUNCTION {_ACKNOWLEDGE.format(_MORE)}")
        op.execute(f"DROP FUNCTION {_WITHDRAW.format(_MORE)}")
        _run(older[start:end])
    op.execute("DROP TABLE tidegauge.acknowledgement_event CASCADE")
    op.execute("DROP FUNCTION tidegauge.keep_acknowledgement_events()")
    op.execute(
        "ALTER TABLE tidegauge.acknowledgement DROP COLUMN verification CASCADE, DROP COLUMN ended_verification CASCADE"
    )
    op.execute("""
        DO $$
        BEGIN
            IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_writer')
               AND has_schema_privilege('tidegauge_writer', 'tidegauge', 'USAGE') THEN
                GRANT INSERT, UPDATE, DELETE ON tidegauge.acknowledgement TO tidegauge_writer;
            END IF;
        END
        $$
    """)


@contextmanager
def _callers_kept(before: str, after: str) -> Iterator[None]:
    """Functions with other parameters are other functions: those who were granted the former are granted the latter."""
    kept = {
        function: op.get_bind().execute(_GRANTEES, {"function": function.format(before)}).scalars().all()
        for function in (_ACKNOWLEDGE, _WITHDRAW)
    }
    yield
    for function, roles in kept.items():
        for role in roles:
            op.execute(f"GRANT EXECUTE ON FUNCTION {function.format(after)} TO {role}")


def _run(statements: str) -> None:
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
