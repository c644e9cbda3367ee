"""The store as pages read it: queries over views in, rows out.

The rules that must hold: a page reads one state of the store, however many queries it takes, and writes nothing; no
query runs longer than a page may take; what goes wrong is a `StoreError` without a password.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, Connection, Engine

from tidegauge import store
from tidegauge.runs.store_address import normalised
from tidegauge.store import incident_word
from tidegauge.store.connection import CONNECT_TIMEOUT_SECONDS, store_errors
from tidegauge.store.incident_word import Speaker, Word
from tidegauge.store.loss_decision import Action

Row = Mapping[str, Any]

STATEMENT_TIMEOUT_MS: Final = 10_000
"""A page's query that takes longer is given up: it would hold a connection that other pages wait for."""

_POOL: Final = 8
_OPTIONS: Final = f"-c default_transaction_read_only=on -c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC"


class Reader:
    """One reading of the store: connects when first asked, and sees one state from then on."""

    def __init__(self, engine: Engine, where: URL) -> None:
        self._engine, self._where = engine, where
        self._connection: Connection | None = None

    def rows(self, query: str, **values: object) -> Sequence[Row]:
        """All rows of a query, by column. Raises `StoreError`."""
        with store_errors(self._where, "be read"):
            if self._connection is None:
                self._connection = self._engine.connect()
            return [dict(row) for row in self._connection.execute(text(query), values).mappings()]

    def row(self, query: str, **values: object) -> Row | None:
        """The first row, or None."""
        found = self.rows(query, **values)
        return found[0] if found else None

    def close(self) -> None:
        """Gives the connection back."""
        if self._connection is not None:
            with store_errors(self._where, "be read"):
                self._connection.close()


class Store:
    """A pool of reading connections to one store, and what may be written to it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._where = normalised(url)
        given = self._where.query.get("options")
        options = f"{given} {_OPTIONS}" if isinstance(given, str) else _OPTIONS
        self._engine: Engine = create_engine(
            self._where.difference_update_query(["options"]),
            pool_size=_POOL,
            max_overflow=_POOL,
            pool_timeout=CONNECT_TIMEOUT_SECONDS,
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_SECONDS,
                "application_name": "tidegauge console",
                "options": options,
            },
        )

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """One reading, for as long as the block lasts."""
        reader = Reader(self._engine, self._where)
        try:
            yield reader
        finally:
            reader.close()

    def acknowledge(
        self,
        cluster: str,
        breach_id: str,
        *,
        by: str,
        until: datetime | None,
        note: str,
        verification: store.Verification,
        address: str | None,
    ) -> store.Acknowledgement:
        """Written by a function of the store, as all that is written from here. Raises `StoreError`."""
        return store.acknowledge(
            self._url,
            cluster,
            breach_id,
            by=by,
            until=until,
            note=note,
            verification=verification,
            address=address,
        )

    def withdraw(
        self, cluster: str, breach_id: str, *, by: str, verification: store.Verification, address: str | None
    ) -> bool:
        """Takes an acknowledgement back. Raises `StoreError`."""
        return store.withdraw(self._url, cluster, breach_id, by=by, verification=verification, address=address)

    def decide(
        self,
        loss_id: str,
        action: Action,
        *,
        by: str,
        note: str,
        seen_records: int | None,
        verification: store.Verification,
        address: str | None,
    ) -> store.Decision:
        """Decides a loss, by a function of the store, too. Raises `StoreError`."""
        return store.decide(
            self._url,
            loss_id,
            action,
            by=by,
            note=note,
            seen_records=seen_records,
            verification=verification,
            address=address,
        )

    def split_incident(self, incident_id: str, members: Sequence[str], speaker: Speaker, note: str) -> Word:
        """Makes another incident of some of its members. Raises `StoreError`."""
        return incident_word.split(self._url, incident_id, members, speaker=speaker, note=note)

    def merge_incident(self, incident_id: str, into: str, speaker: Speaker, note: str) -> Word:
        """Puts all of one into another one. Raises `StoreError`."""
        return incident_word.merge(self._url, incident_id, into, speaker=speaker, note=note)

    def acknowledge_incident(self, incident_id: str, speaker: Speaker, until: datetime | None, note: str) -> Word:
        """Acknowledges all its open breaches. Raises `StoreError`."""
        return incident_word.acknowledge_incident(self._url, incident_id, speaker=speaker, until=until, note=note)

    def note_step(self, incident_id: str, step: str, is_done: bool, speaker: Speaker, note: str) -> Word:
        """Ticks a step off, or takes that back. Raises `StoreError`."""
        return incident_word.note_step(self._url, incident_id, step, is_done=is_done, speaker=speaker, note=note)

    def close(self) -> None:
        """Lets go of every connection."""
        self._engine.dispose()
