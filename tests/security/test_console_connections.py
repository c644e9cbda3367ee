"""Whoever reaches the console's port: nobody fills its memory, keeps it busy, or keeps others out."""

import resource
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.store.helpers import audit, breach
from tidegauge import store
from tidegauge.console import connections, server
from tidegauge.console.callers import Trust
from tidegauge.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.slow

PLACE = "/clusters/c/breaches/b1"
MIB = 1 << 20


@pytest.fixture
def port(postgres_server: EmbeddedPostgres, worker_id: str) -> Iterator[int]:
    url = postgres_server.fresh_database(f"connections_{worker_id}")
    store.migrate(url)
    audit(url, "c", "s1", breach("b1"))
    with server.running(url, host="127.0.0.1", port=0, docs=[], trust=Trust()) as address:
        yield int(address.rsplit(":", 1)[1])


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answer(port: int, head: bytes, pieces: Iterable[bytes] = ()) -> bytes:
    """The first bytes of the answer; none where the console hung up."""
    with connected(port) as asking:
        with suppress(OSError):  # It answered before all was sent, or hung up.
            asking.sendall(head)
            for piece in pieces:
                asking.sendall(piece)
        try:
            return asking.recv(200)
        except OSError:
            return b""


def send_on(asking: socket.socket, piece: bytes) -> None:
    for _ in range(64):
        asking.sendall(piece)
        time.sleep(0.01)


def asked(port: int) -> bytes:
    return answer(port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")[:12]


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"GET /", b"a" * MIB),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"a" * MIB),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-a: b\r\n" * (MIB // 8)),
    ],
    ids=["address", "header", "headers"],
)
def test_a_request_line_or_headers_without_end_are_given_up(port: int, head: bytes, piece: bytes) -> None:
    begun = time.monotonic()
    with connected(port) as asking:
        asking.sendall(head)
        with pytest.raises(OSError, match=r"reset|pipe"):
            send_on(asking, piece)
    assert time.monotonic() - begun < 10
    assert asked(port) == b"HTTP/1.1 200"


@pytest.mark.parametrize("length", [b"", b"Content-Length: 10\r\n"])
def test_a_form_is_counted_and_not_believed(port: int, length: bytes) -> None:
    head = (
        f"POST {PLACE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n".encode()
        + length
        + b"Transfer-Encoding: chunked\r\n\r\n"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = answer(port, head, (b"100000\r\n" + b"a" * MIB + b"\r\n" for _ in range(64)))
    assert said[9:12] in (b"413", b"400", b"")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def test_who_asks_for_nothing_keeps_nobody_out_and_is_not_waited_for(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    monkeypatch.setattr(connections, "WHOLE_WITHIN_S", 2.0)
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(port)) for _ in range(60)]
        for each in idle[-10:]:
            each.sendall(f"POST {PLACE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n".encode())
        assert asked(port) == b"HTTP/1.1 200"
        for each in idle:
            with suppress(ConnectionError):
                assert each.recv(1) == b""
        assert asked(port) == b"HTTP/1.1 200"
