"""An address in, a store with today's tables and views out."""

from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tidegauge import sql
from tidegauge.runs.errors import StoreError
from tidegauge.runs.store_address import normalised, shown
from tidegauge.sql.migrations.views import digest
from tidegauge.store.connection import CONNECT_TIMEOUT_SECONDS, connect, store_errors
from tidegauge.store.loss_ledger import carry_all_losses

_WHAT_TO_DO: Final = "use that version, or publish into a new database"
"""With a store of another version, newer or older: the steps of development versions are no longer known."""
_ONE_AT_A_TIME: Final = text("SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:migrate', 0))")


def migrate(url: str) -> None:
    """Brings the store to this version's schema, in one transaction; does nothing to one that is there already.

    May be called by several processes at once: the others wait. Raises `StoreError`.
    """
    where = normalised(url)
    configuration = _configuration()
    engine = create_engine(where, poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS})
    with store_errors(where, "be brought to this version's schema"), engine.begin() as connection:
        connection.execute(_ONE_AT_A_TIME)
        configuration.attributes["connection"] = connection
        try:
            command.upgrade(configuration, "head")
        except CommandError as error:
            raise StoreError(
                f"Another version of Tidegauge made the store at {shown(where)} ({error}): {_WHAT_TO_DO}."
            ) from None
        with closing(connection.connection.cursor()) as cursor:
            carry_all_losses(cursor)


def schema_problem(revision: str | None, views: str | None) -> str | None:
    """What keeps this version from using a store whose `v_schema_version` says this (None: it has none); None if
    nothing does.
    """
    wanted, wanted_views, _ = _carried()
    if revision == wanted and views == wanted_views:
        return None
    if revision is not None and not knows(revision):
        return (
            f"Another version of Tidegauge made the store (its tables are of {revision}, this one knows {wanted}): "
            f"{_WHAT_TO_DO}."
        )
    found = f"the tables of {revision}" if revision is not None else "no schema that says its version"
    if revision == wanted:
        found += ", and other views"
    return f"The store has {found}; this version needs {wanted} and its views. Run `tidegauge store migrate`."


def knows(revision: str) -> bool:
    """Whether this version can use tables of that revision, or bring them to its own."""
    return revision in _carried()[2]


@cache
def _carried() -> tuple[str, str, frozenset[str]]:
    """The newest revision, the views' digest, every revision there is."""
    scripts = ScriptDirectory.from_config(_configuration())
    newest = scripts.get_current_head()
    assert newest is not None, "the migrations have one end"
    return newest, digest(), frozenset(script.revision for script in scripts.walk_revisions())


def _configuration() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(sql.__file__).parent / "migrations").replace("%", "%%"))
    return configuration


def grant_roles(url: str) -> None:
    """Makes the two roles that are all that anybody but the owner needs, or gives them what is new: `tidegauge_reader`
    for dashboards, `tidegauge_writer` for audits. Raises `StoreError`.
    """
    with connect(url, "make its roles") as connection, connection.cursor() as cursor:
        for role in ("reader", "writer"):
            cursor.execute((Path(sql.__file__).parent / "roles" / f"{role}.sql").read_text(encoding="utf-8"))
