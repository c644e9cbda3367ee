"""Services of other people's, played on this machine: an HTTP server and a mail server that keep what came."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Web:
    """What was posted, and how it is answered."""

    port: int = 0
    posted: list[tuple[str, Any]] = field(default_factory=list)
    status: int = 200
    answer: bytes = b"ok"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def web() -> Iterator[Web]:
    """Takes whatever is posted."""
    told = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if told.status < 300:
                told.posted.append((self.path, json.loads(body)))
            self.send_response(told.status)
            self.end_headers()
            self.wfile.write(told.answer)

        def log_message(self, format: str, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Mail:
    """What was sent: the letters as they came."""

    port: int = 0
    letters: list[str] = field(default_factory=list)


@contextmanager
def mail() -> Iterator[Mail]:
    """An SMTP server that takes every letter."""
    told = Mail()
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(line: str) -> None:
            writer.write(f"{line}\r\n".encode())

        say("220 receiver")
        while line := (await reader.readline()).decode().strip():
            match line.split()[0].upper():
                case "EHLO" | "HELO":
                    say("250 receiver")
                case "DATA":
                    say("354 go on")
                    letter = (await reader.readuntil(b"\r\n.\r\n")).decode()
                    told.letters.append(letter)
                    say("250 taken")
                case "QUIT":
                    say("221 bye")
                    break
                case _:
                    say("250 ok")
            await writer.drain()
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        told.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield told
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
