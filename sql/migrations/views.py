"""The views: `sql/views/*.sql` in, the same views in the store out.

Views hold no data, so they are not migrated step by step: when their text has changed, all are dropped and made again,
in the order of their files' names, and the roles that read them get their rights back.
"""

from hashlib import sha256
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import Connection

VIEWS: Final = Path(__file__).parent.parent / "views"
READER: Final = "tidegauge_reader"
WRITER: Final = "tidegauge_writer"

_VERSION_TABLE: Final = """
CREATE TABLE IF NOT EXISTS tidegauge.view_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), digest text NOT NULL
)
"""
_DROP_VIEWS: Final = """
DO $$
DECLARE
    view_name text;
BEGIN
    FOR view_name IN SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge' LOOP
        EXECUTE format('DROP VIEW IF EXISTS tidegauge.%I CASCADE', view_name);
    END LOOP;
END
$$
"""
_SET_VERSION: Final = """
INSERT INTO tidegauge.view_version (digest) VALUES (:digest)
ON CONFLICT (only_row) DO UPDATE SET digest = excluded.digest
"""

_GRANT_WRITER: Final = text("""
    SELECT tidegauge.grant_reading(rolname) FROM pg_roles
    WHERE rolname = :writer AND has_schema_privilege(rolname, 'tidegauge', 'USAGE')
""")
"""Only where it writes to this store: a server's databases share their roles."""


def renew_views(connection: Connection) -> None:
    """Makes the views again if the files differ from what stands there."""
    statements = _statements()
    wanted = _digest(statements)
    if _present(connection) == wanted and _all_there(connection, len(statements)):
        return  # And nothing was asked for that a role which only writes rows may not do.
    connection.execute(text(_VERSION_TABLE))
    for statement in (_DROP_VIEWS, *statements):
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    connection.execute(text(_SET_VERSION), {"digest": wanted})
    grant = text("SELECT tidegauge.grant_reading(rolname) FROM pg_roles WHERE rolname = :reader")
    connection.execute(grant, {"reader": READER})
    connection.execute(_GRANT_WRITER, {"writer": WRITER})


def digest() -> str:
    """Of the files: what a store says of its views when it has these."""
    return _digest(_statements())


def _statements() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(VIEWS.glob("*.sql"))]


def _digest(statements: list[str]) -> str:
    return sha256("\0".join(statements).encode()).hexdigest()


def _present(connection: Connection) -> str | None:
    """The digest of the views that stand there."""
    if connection.execute(text("SELECT to_regclass('tidegauge.view_version')")).scalar_one() is None:
        return None
    found: str | None = connection.execute(text("SELECT digest FROM tidegauge.view_version")).scalar_one_or_none()
    return found


def _all_there(connection: Connection, count: int) -> bool:
    """A changed table may have taken its views along."""
    found = connection.execute(text("SELECT count(*) FROM pg_views WHERE schemaname = 'tidegauge'")).scalar_one()
    return bool(found == count)
