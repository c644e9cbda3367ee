"""The console as a server: where to listen in, a running server out.

A signal ends the command once the server has stopped, outside of its event loop. Whatever a handler raises within a
loop comes out of it as tracebacks.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

from tidegauge import settings
from tidegauge.console.callers import Trust, trust_of_settings
from tidegauge.console.connections import Connection
from tidegauge.embedded.announced import RunningProcess, announced
from tidegauge.runs.errors import UnavailableError

STOP_PATIENCE_S: Final = 5
DEFAULT_PORT: Final = 8137


def serve(
    url: str,
    *,
    host: str,
    port: int,
    docs: Sequence[Path],
    framed_by: Sequence[str],
    root_path: str,
    say: Callable[[str], None],
) -> None:
    """Serves until it is told to stop (SIGINT, SIGTERM, SIGHUP); says where. Raises `UnavailableError`."""
    server, listening = _server(url, host, port, docs, framed_by, root_path, None)
    with listening:
        try:
            address = f"{_address(host, listening)}{root_path}/"
            own = RunningProcess(name="console", pid=os.getpid(), address=address)
            with _told_by_signals(server), announced(settings.home(), [own]):
                say(f"console    {address}  Ctrl-C stops it")
                server.run(sockets=[listening])
        except KeyboardInterrupt:
            say("stopped")


@contextmanager
def running(
    url: str,
    *,
    host: str,
    port: int,
    docs: Sequence[Path],
    framed_by: Sequence[str] = (),
    trust: Trust | None = None,
) -> Iterator[str]:
    """A server in a thread of this process while the block lasts; its address. Port 0 takes a free one; without `trust`
    the environment says who is believed. Raises `UnavailableError`.
    """
    server, listening = _server(url, host, port, docs, framed_by, "", trust)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="console", daemon=True)
    with listening:
        thread.start()
        try:
            yield _address(host, listening)
        finally:
            server.should_exit = True
            thread.join(STOP_PATIENCE_S + 5)


def _server(
    url: str,
    host: str,
    port: int,
    docs: Sequence[Path],
    framed_by: Sequence[str],
    root_path: str,
    trust: Trust | None,
) -> tuple["_Server", socket.socket]:
    from tidegauge.console.app import create_app
    from tidegauge.console.watched import Watched

    names = {host, "localhost", socket.gethostname(), socket.getfqdn(), *settings.console_hosts()}
    directory = settings.console_watched()
    watched = Watched(directory) if directory is not None else None
    believed = trust or trust_of_settings()
    app = create_app(url, docs=docs, framed_by=framed_by, hosts=names, trust=believed, watched=watched)
    configuration = uvicorn.Config(
        app,
        root_path=root_path,
        log_level="warning",
        server_header=False,
        http=Connection,
        ws="none",
        timeout_graceful_shutdown=STOP_PATIENCE_S,
        proxy_headers=False,  # who is believed about that, `callers` knows
    )
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UnavailableError(
            f"The console cannot listen at {host}:{port}: {error.strerror or error}. Name another port (--port), or "
            "end what listens there."
        ) from None
    return _Server(configuration), listening


class _Server(uvicorn.Server):
    """One that leaves signals to us: uvicorn knows nothing of SIGHUP, and raises the others within its loop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield


@contextmanager
def _told_by_signals(server: _Server) -> Iterator[None]:
    """A signal stops the server, and is heard after the block by whoever heard it before. In the main thread alone; one
    that was to be ignored (nohup) still is. A second Ctrl-C waits for no answer that is still being given.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        server.force_exit = server.force_exit or (server.should_exit and number == signal.SIGINT)
        server.should_exit = True
        heard.append(number)

    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before = {number: handler for number, handler in found.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if heard:
        signal.raise_signal(heard[0])


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"http://{shown}:{listening.getsockname()[1]}"
