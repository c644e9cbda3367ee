"""An address in, a store with today's tables and views out."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

import sql
from spark_jobs.errors import StoreError
from spark_jobs.store.connection import CONNECT_TIMEOUT_SECONDS, connect, normalised, shown, store_errors

_ONE_AT_A_TIME: Final = text("SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:migrate', 0))")


def migrate(url: str) -> None:
    """Brings the store to this version's schema, in one transaction; does nothing to one that is there already.

    May be called by several processes at once: the others wait. Raises `StoreError`.
    """
    where = normalised(url)
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(sql.__file__).parent / "migrations").replace("%", "%%"))
    engine = create_engine(where, poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS})
    with store_errors(where, "be brought to this version's schema"), engine.begin() as connection:
        connection.execute(_ONE_AT_A_TIME)
        configuration.attributes["connection"] = connection
        try:
            command.upgrade(configuration, "head")
        except CommandError as error:
            raise StoreError(
                f"The store at {shown(where)} has a schema that this version of Tidegauge does not know ({error}). "
                "A newer version made it: use that one, or another database."
            ) from None


def grant_roles(url: str) -> None:
    """Makes the two roles that are all that anybody but the owner needs, or gives them what is new: `tidegauge_reader`
    for dashboards, `tidegauge_writer` for audits. Raises `StoreError`.
    """
    with connect(url, "make its roles") as connection, connection.cursor() as cursor:
        for role in ("reader", "writer"):
            cursor.execute((Path(sql.__file__).parent / "roles" / f"{role}.sql").read_text(encoding="utf-8"))
