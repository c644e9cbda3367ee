"""Alembic's environment: the caller's connection in, an up-to-date schema out, in the caller's transaction.

The connection comes in `config.attributes["connection"]`; whoever calls holds the lock that keeps two migrations apart.
"""

from alembic import context
from sqlalchemy import text
from sqlalchemy.engine import Connection

from tidegauge.sql.migrations.views import renew_views

SCHEMA = "tidegauge"


def _run(connection: Connection) -> None:
    if connection.execute(text("SELECT to_regnamespace(:schema)"), {"schema": SCHEMA}).scalar_one() is None:
        # Only then: IF NOT EXISTS would still ask for the right to make one, which a role that writes rows has not.
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    context.configure(connection=connection, version_table_schema=SCHEMA)
    context.run_migrations()
    if context.get_head_revision() == context.get_context().get_current_revision():
        renew_views(connection)  # only today's tables have today's views


_run(context.config.attributes["connection"])
