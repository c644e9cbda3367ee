"""A store's URL in, connections and readable errors out.

The rule that must hold: whatever goes wrong with Postgres leaves here as a `StoreError` that says what was being done,
at which address, and what to do; never a password, neither ours nor one that a driver's message repeats.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg2
import psycopg2.extensions
from sqlalchemy.dialects.postgresql import psycopg2 as dialect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from spark_jobs.errors import AddressError, RefusedError, StoreError

CONNECT_TIMEOUT_SECONDS: Final = 10

_SECRETS: Final = frozenset({"password", "sslpassword", "passfile"})
_ADVICE: Final = (
    "Check that this Postgres runs and can be reached, and the store's address (--store, TIDEGAUGE_STORE_URL)."
)


def normalised(url: str) -> URL:
    """The URL with the one driver that is used here. Raises `AddressError` if it names no Postgres."""
    try:
        parsed: URL | None = make_url(url)
        _, named = dialect.dialect().create_connect_args(parsed)  # type: ignore[no-untyped-call]
        if b"\0" in "".join(map(str, named.values())).encode("utf-8"):
            parsed = None  # libpq's words end there
    except (SQLAlchemyError, ValueError):  # its text repeats the URL, and with it the password
        parsed = None
    if parsed is None or parsed.get_backend_name() not in ("postgresql", "postgres"):
        kind = f"{parsed.get_backend_name()!r} is no Postgres" if parsed is not None else "it cannot be read as a URL"
        raise AddressError(
            f"The store's address is not usable: {kind}. Give postgresql+psycopg2://USER@HOST:PORT/DATABASE."
        )
    return parsed.set(drivername="postgresql+psycopg2")


def without_secrets(url: str) -> str:
    """The address alone, as a file may hold it that others can read."""
    parsed = normalised(url)
    query = {name: value for name, value in parsed.query.items() if name not in _SECRETS}
    return URL.create(
        parsed.drivername, parsed.username, None, parsed.host, parsed.port, parsed.database, query
    ).render_as_string()


def with_secrets(address: str, given: str | None) -> str:
    """An address that was kept `without_secrets`, as this process was given it; else alone: libpq may know the password
    from PGPASSWORD or ~/.pgpass.
    """
    if given is not None and given != address and without_secrets(given) == address:
        return given
    return address


def shown(url: URL) -> str:
    """The URL as a message may show it."""
    query = {name: "***" if name in _SECRETS else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


@contextmanager
def store_errors(url: URL, doing: str) -> Iterator[None]:
    """Whatever the driver or SQLAlchemy raises inside comes out as a `StoreError`; `doing` completes "cannot …"."""
    try:
        yield
    except (psycopg2.Error, SQLAlchemyError) as error:
        told = f"The store at {shown(url)} cannot {doing}: {_told(error, url)}."
        if isinstance(getattr(error, "orig", None) or error, psycopg2.DataError):
            raise RefusedError(told) from None
        raise StoreError(f"{told} {_ADVICE}") from None  # the cause's text may hold what this one leaves out


NamedValues = dict[str, Any]
"""What a query found: a value by its column's name."""


@contextmanager
def connect(url: URL | str, doing: str) -> Iterator[Any]:
    """A psycopg2 connection and its one transaction: committed at the block's end, rolled back if it raises."""
    where = normalised(url) if isinstance(url, str) else url
    with store_errors(where, doing):
        connection = open_connection(where)
        try:
            with connection:
                yield connection
        finally:
            connection.close()


def by_column(cursor: Any) -> list[NamedValues]:
    """What a query found, a row by its columns' names."""
    names = [column.name for column in cursor.description]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def open_connection(url: URL) -> Any:
    """A new connection, the caller's to close. Raises psycopg2's errors: to be used inside `store_errors`."""
    positional, named = dialect.dialect().create_connect_args(url)  # type: ignore[no-untyped-call]
    named.setdefault("connect_timeout", CONNECT_TIMEOUT_SECONDS)
    named.setdefault("application_name", "tidegauge")
    connection = psycopg2.connect(*positional, **named)
    connection.set_client_encoding("UTF8")
    return connection


def _told(error: Exception, url: URL) -> str:
    """The driver's message on one line, without any secret."""
    original = getattr(error, "orig", None) or error
    message = " ".join(str(original).split()).rstrip(".") or type(original).__name__
    secrets = [url.password, *(value for name, value in url.query.items() if name in _SECRETS)]
    for secret in secrets:
        if isinstance(secret, str) and secret:
            message = message.replace(secret, "***")
    return message
