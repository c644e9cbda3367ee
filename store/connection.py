"""A store's URL in, connections and readable errors out.

The rule that must hold: whatever goes wrong with Postgres leaves here as a `StoreError` that says what was being done,
at which address, and what to do; never a password, neither ours nor one that a driver's message repeats.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

import psycopg2
import psycopg2.extensions
from sqlalchemy.dialects.postgresql import psycopg2 as dialect
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from tidegauge.runs.errors import RefusedError, StoreError
from tidegauge.runs.store_address import normalised, secrets_of, shown

CONNECT_TIMEOUT_SECONDS: Final = 10

_ADVICE: Final = (
    "Check that this Postgres runs and can be reached, and the store's address (--store, TIDEGAUGE_STORE_URL)."
)


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


def by_column(cursor: Any) -> Iterator[NamedValues]:
    """What a query found, a row by its columns' names."""
    names = [column.name for column in cursor.description]
    for values in cursor:
        yield dict(zip(names, values, strict=True))


def open_connection(url: URL) -> Any:
    """A new connection, the caller's to close. Raises psycopg2's errors: to be used inside `store_errors`."""
    positional, named = dialect.dialect().create_connect_args(url)  # type: ignore[no-untyped-call]
    named.setdefault("connect_timeout", CONNECT_TIMEOUT_SECONDS)
    named.setdefault("application_name", "tidegauge")
    connection = psycopg2.connect(*positional, **named)
    connection.set_client_encoding("UTF8")
    return connection


@contextmanager
def errors_told_once() -> Iterator[None]:
    """For the time of a COPY. A server that ends while it takes one says why, and is gone: psycopg2 (2.9) stumbles over
    the second while it raises the first, prints that stumble by `sys.excepthook`, and raises what is to be told. What
    it prints would stand on the terminal beside our own paragraph.
    """
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not (isinstance(error, SystemError) and isinstance(error.__cause__, psycopg2.Error)):
            before(kind, error, trace)

    sys.excepthook = hook
    try:
        yield
    finally:
        sys.excepthook = before


def _told(error: Exception, url: URL) -> str:
    """The driver's message on one line, without any secret."""
    original = getattr(error, "orig", None) or error
    message = " ".join(str(original).split()).rstrip(".") or type(original).__name__
    for secret in secrets_of(url):
        message = message.replace(secret, "***")
    return message
