"""An address in, a store with today's tables and views out; or with those of an older version."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, Connection
from sqlalchemy.pool import NullPool

from tidegauge import sql
from tidegauge.runs.errors import StoreError
from tidegauge.runs.store_address import normalised, shown
from tidegauge.sql.migrations.views import digest
from tidegauge.store.connection import CONNECT_TIMEOUT_SECONDS, connect, store_errors
from tidegauge.store.loss_ledger import carry_all_losses

VERSION: Final = "SELECT to_jsonb(v) AS said FROM tidegauge.v_schema_version v"
"""What a store says of its schema, for `schema_problem`; older versions' view has fewer columns."""
_SAYS_IT: Final = text("SELECT to_regclass('tidegauge.v_schema_version') IS NOT NULL")
_WHAT_TO_DO: Final = "use that version, or publish into a new database"
"""With a store of another version, newer or older: the steps of development versions are no longer known."""
_ONE_AT_A_TIME: Final = text("SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:migrate', 0))")


class NewerStoreError(StoreError):
    """A newer version made the store. This one may read it, and writes nothing into it."""


def migrate(url: str) -> None:
    """Brings the store to this version's schema, in one transaction; does nothing to one that is there already.

    May be called by several processes at once: the others wait. Raises `NewerStoreError`, `StoreError`.
    """
    where = normalised(url)
    with _changing(where, "be brought to this version's schema") as (connection, configuration):
        try:
            command.upgrade(configuration, "head")
        except CommandError as error:
            if _may_read(connection):
                raise NewerStoreError(
                    f"A newer version of Tidegauge made the store at {shown(where)} ({error}). This one shows what "
                    f"is in it, and publishes nothing: to audit, {_WHAT_TO_DO}."
                ) from None
            raise StoreError(
                f"Another version of Tidegauge made the store at {shown(where)} ({error}): {_WHAT_TO_DO}."
            ) from None
        with closing(connection.connection.cursor()) as cursor:
            carry_all_losses(cursor)


@contextmanager
def unmigrated(url: str) -> Iterator[None]:
    """Nobody brings the store to any schema during the block: who wants to, waits. Raises `StoreError`."""
    where = normalised(url)
    with connect(where, "be kept from others") as connection, connection.cursor() as cursor:
        cursor.execute(str(_ONE_AT_A_TIME))
        yield


def downgrade(url: str, revision: str, *, dry_run: bool) -> Sequence[str]:
    """Takes the store back to the tables of an older version, in one transaction, and returns the tables that go, with
    all that is in them. Who runs that version makes its views by `tidegauge store migrate`. Raises `StoreError`.
    """
    where = normalised(url)
    with _changing(where, f"be taken back to {revision}") as (connection, configuration):
        present = connection.execute(text("SELECT version_num FROM tidegauge.alembic_version")).scalar_one_or_none()
        older = _older_than(present)
        if revision not in older:
            raise StoreError(
                f"The store at {shown(where)} has the tables of {present}, from which this version knows the way back "
                f"to {', '.join(older) or 'none'}, and not to {revision}. Nothing was changed."
            )
        before = _tables(connection)
        with connection.begin_nested() as trial:
            command.downgrade(configuration, revision)
            gone = sorted(before - _tables(connection))
            if dry_run:
                trial.rollback()
    return gone


@contextmanager
def _changing(where: URL, doing: str) -> Iterator[tuple[Connection, Config]]:
    """A connection that nobody else changes the schema beside, and Alembic's configuration for it."""
    configuration = _configuration()
    engine = create_engine(where, poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS})
    with store_errors(where, doing), engine.begin() as connection:
        connection.execute(_ONE_AT_A_TIME)
        configuration.attributes["connection"] = connection
        yield connection, configuration


def _may_read(connection: Connection) -> bool:
    # By the view, which a role that only writes rows may ask, too.
    says_it = connection.execute(_SAYS_IT).scalar_one()
    return says_it and schema_problem(connection.execute(text(VERSION)).scalar_one_or_none()) is None


def _older_than(revision: str | None) -> Sequence[str]:
    """The revisions before it that this version knows, the newest first."""
    if revision is None or not knows(revision):
        return ()
    scripts = ScriptDirectory.from_config(_configuration())
    return tuple(s.revision for s in scripts.iterate_revisions(revision, "base") if s.revision != revision)


def _tables(connection: Connection) -> set[str]:
    # Of a table by month, the table alone.
    found = connection.execute(
        text(
            "SELECT relname FROM pg_class WHERE relnamespace = 'tidegauge'::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relispartition"
        )
    )
    return {name for (name,) in found}


class SchemaVersion(TypedDict, total=False):
    """What a store says of its schema. Versions before r0031 name no readers."""

    revision: str
    views: str
    readers: list[str] | None


def schema_problem(said: SchemaVersion | None) -> str | None:
    """What keeps this version from reading a store of which `VERSION` says this (None: it has no such view); None if
    nothing does. A newer one may be read if it says so.
    """
    revision, views, readers = (said.get("revision"), said.get("views"), said.get("readers")) if said else (None,) * 3
    wanted, wanted_views, _ = _carried()
    if revision == wanted and views == wanted_views:
        return None
    if revision is not None and not knows(revision):
        if wanted in (readers or ()):
            return None
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
