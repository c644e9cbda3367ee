"""A store's address: read, and kept or shown without what is secret in it. Nothing here connects.

The rule that must hold: a message, a file and a log get an address without a password.
"""

from typing import Final

from sqlalchemy.dialects.postgresql import psycopg2 as dialect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from tidegauge.runs.errors import AddressError

_SECRETS: Final = frozenset({"password", "sslpassword", "passfile"})


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


def secrets_of(url: URL) -> tuple[str, ...]:
    """What no message may repeat."""
    values = (url.password, *(value for name, value in url.query.items() if name in _SECRETS))
    return tuple(value for value in values if isinstance(value, str) and value)
