"""An embedded Postgres as its owner uses it."""

from pathlib import Path

import sqlalchemy as sa

from tidegauge.embedded import postgres_place


def use(url: str) -> None:
    with connected(url) as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


def connected(url: str) -> sa.Connection:
    """A connection that is gone when it is closed: a server that was killed has nobody to end it later."""
    return sa.create_engine(url, poolclass=sa.NullPool).connect()


def programs() -> Path:
    return postgres_place._programs()
