"""By which names the console may be asked: a page that lets its own name lead here reads nothing (DNS rebinding)."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tidegauge.console import server

NOWHERE = "postgresql+psycopg2://someone@127.0.0.1:1/nowhere"
REFUSED = 421


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_URL", "https://audits.example.com/")
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_HOSTS", "audits tidegauge-console.kafka.svc")
    with server.running(NOWHERE, host="127.0.0.1", port=0, docs=[]) as where:
        yield where


def status(address: str, host: str, path: str = "/", method: str = "GET") -> int:
    with httpx.Client(base_url=address, trust_env=False) as client:
        return client.request(method, path, headers={"Host": host}).status_code


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8137", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1", "a b"]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/metrics"), ("POST", "/clusters/c/breaches/b")])
def test_a_strangers_name_is_refused(address: str, host: str, method: str, path: str) -> None:
    assert status(address, host, path, method) in (400, REFUSED)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        "10.1.2.3:8080",
        "[::1]:8137",
        "audits.example.com",
        "audits",
        "tidegauge-console.kafka.svc:80",
        socket.gethostname(),
    ],
)
def test_its_own_names_and_addresses_are_answered(address: str, host: str) -> None:
    assert status(address, host) == 503, "the store is away, which is the console's own answer"


def test_probes_are_answered_by_any_name(address: str) -> None:
    assert status(address, "pod-7.evil.example", "/healthz") == 200
    assert status(address, urlsplit(address).netloc, "/healthz") == 200
