"""The console as a server: where to listen in, a running server out."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn

from spark_jobs.errors import UnavailableError
from tidegauge import settings
from tidegauge.console.callers import Trust, trust_of_settings

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
    """Serves until it is told to stop (SIGINT, SIGTERM); says where. Raises `UnavailableError`."""
    server, listening = _server(url, host, port, docs, framed_by, root_path, None)
    with listening:
        say(f"console    {_address(host, listening)}{root_path}/  Ctrl-C stops it")
        try:
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
) -> tuple[uvicorn.Server, socket.socket]:
    from tidegauge.console.app import create_app

    names = {host, "localhost", socket.gethostname(), socket.getfqdn(), *settings.console_hosts()}
    app = create_app(url, docs=docs, framed_by=framed_by, hosts=names, trust=trust or trust_of_settings())
    configuration = uvicorn.Config(
        app,
        root_path=root_path,
        log_level="warning",
        server_header=False,
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
    return uvicorn.Server(configuration), listening


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"http://{shown}:{listening.getsockname()[1]}"
