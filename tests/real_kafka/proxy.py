"""A TCP proxy in front of one broker's INTERNAL listener, which can cut the broker off without touching its disk.

In: the port of the broker. Out: a port of our own, which the broker advertises to the other brokers. Only replication
passes here (controllers talk over a listener of their own, clients over another), so that a broker that is cut off
stays alive for the quorum, and keeps its leadership until the controller takes it away.

Who fetches is told by the first request of a connection: its header carries the client id `broker-<id>-fetcher-<n>`
(Kafka ReplicaFetcherBlockingSend), after size, api key, version and correlation id. In front of a controller that is no
broker another one stands: who fetches the metadata log there is `raft-client-<id>` (KafkaRaftManager), and heartbeats
are not of its connection.
"""

import asyncio
import re
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

_CHUNK: Final = 1 << 16
FETCHERS: Final = re.compile(rb"^broker-(\d+)-fetcher-")
METADATA_FETCHERS: Final = re.compile(rb"^raft-client-(\d+)$")


@dataclass(eq=False, slots=True)
class _Connection:
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    fetcher_id: int | None = None

    def abort(self) -> None:
        for writer in self.writers:
            with suppress(RuntimeError, OSError):
                writer.transport.abort()


class Proxy:
    """Forwards to `target_port` on this machine. Use as a context manager, or `close()` it."""

    def __init__(self, target_port: int, *, fetchers: re.Pattern[bytes] = FETCHERS) -> None:
        self._target_port, self._fetchers = target_port, fetchers
        self._connections: set[_Connection] = set()
        self._cut = False
        self._cut_fetchers: frozenset[int] = frozenset()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{target_port}", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Nobody reaches the broker any more; what was open is reset."""
        self._on_loop(self._set, True, self._cut_fetchers)

    def cut_fetcher(self, broker_id: int) -> None:
        """One follower no longer reaches the broker."""
        self._on_loop(self._set, self._cut, self._cut_fetchers | {broker_id})

    def heal(self, broker_id: int | None = None) -> None:
        """All reach the broker again; or, given a follower, that one does."""
        if broker_id is None:
            self._on_loop(self._set, False, self._cut_fetchers)
        else:
            self._on_loop(self._set, self._cut, self._cut_fetchers - {broker_id})

    def close(self) -> None:
        """Stops listening and drops what is open."""
        if self._loop.is_closed():
            return
        self._on_loop(self._server.close)
        self._on_loop(self._set, True, frozenset())
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result(timeout=60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=60)
        self._loop.close()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_loop(self, function: object, *arguments: object) -> None:
        async def call() -> None:
            function(*arguments)  # type: ignore[operator]

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(timeout=60)

    def _set(self, cut: bool, fetchers: frozenset[int]) -> None:
        self._cut, self._cut_fetchers = cut, fetchers
        for connection in tuple(self._connections):
            if self._refused(connection):
                connection.abort()

    def _refused(self, connection: _Connection) -> bool:
        return self._cut or connection.fetcher_id in self._cut_fetchers

    async def _finish(self) -> None:
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writers=[writer])
        self._connections.add(connection)
        try:
            if self._cut:
                return
            begin = await reader.readexactly(14)
            name = await reader.readexactly(max(struct.unpack_from(">h", begin, 12)[0], 0))
            matched = self._fetchers.match(name)
            connection.fetcher_id = int(matched[1]) if matched else None
            if self._refused(connection):
                return
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            connection.writers.append(broker_writer)
            if self._refused(connection):
                return
            broker_writer.write(begin + name)
            await asyncio.gather(_pump(reader, broker_writer), _pump(broker_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            return  # One side went away: so does the other.
        finally:
            connection.abort()
            self._connections.discard(connection)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    raise ConnectionResetError("one side closed")
