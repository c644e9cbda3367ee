"""Connections to the console: bytes of whoever reaches the port in, requests that are worth an answer out.

In: a connection, as uvicorn hands it over. Out: its requests. The rules that must hold: what is kept of a request
before anybody has asked who sent it is bounded, in bytes, in time and in how many; and whoever holds connections
without asking anything keeps nobody else out.

h11 ends a request whose line and headers have more than 64 KiB. httptools, which uvicorn would take where it is
installed, keeps whatever comes, and takes time that grows with the square of it.
"""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS: Final = 400
"""At once. A process has room for 1,024 files on most systems; what lies open for the store needs some of them."""
WHOLE_WITHIN_S: Final = 20.0
"""So long may a request take to arrive whole, headers and form."""
TAKEN_WITHIN_S: Final = 300.0
"""So long may an answer take to be taken: a list for a spreadsheet has megabytes."""


class Connection(H11Protocol):
    """One connection. Of too many, the one is closed that has been waited for longest."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waited_since = 0.0
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn; and somebody else may have to go."""
        super().connection_made(transport)
        self._waited_since = self.loop.time()
        self._patience = self.loop.call_later(WHOLE_WITHIN_S, self._late)
        if len(self.connections) > MOST_CONNECTIONS:
            waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_waited_for]
            if waiting:
                min(waiting, key=lambda each: each._waited_since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn."""
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """As uvicorn; the next request has its own time."""
        self._waited_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_waited_for(self) -> bool:
        """Whether it is the other side's turn: it has not sent a whole request, or has not taken the answer."""
        return self.conn.their_state is not h11.DONE or self.cycle.response_complete

    def _late(self) -> None:
        waited_s = self.loop.time() - self._waited_since if self.is_waited_for else 0.0
        left_s = (TAKEN_WITHIN_S if self.transport.get_write_buffer_size() else WHOLE_WITHIN_S) - waited_s
        if left_s <= 0:
            self.transport.abort()
        else:
            self._patience = self.loop.call_later(min(left_s, WHOLE_WITHIN_S), self._late)
