"""Below another path: the header that says so is believed only if it is a plain path."""

import asyncio

import pytest

from tidegauge.console.mounted import Mounted


def seen(prefix: str | None, **scope: object) -> tuple[str, str]:
    """The root path and the path that the console works with."""
    found = []

    async def app(scope, receive, send):
        found.append((scope.get("root_path", ""), scope["path"]))

    headers = [] if prefix is None else [(b"x-forwarded-prefix", prefix.encode())]
    asyncio.run(Mounted(app)({"type": "http", "path": "/runs", "headers": headers, **scope}, None, None))
    return found[0]


@pytest.mark.parametrize("prefix", ["/tidegauge", "/airflow/tidegauge", "/a.b/c_d-e"])
def test_a_plain_path_becomes_the_root_path(prefix):
    assert seen(prefix) == (prefix, f"{prefix}/runs")


@pytest.mark.parametrize(
    "prefix",
    [
        *(None, "", "/", "tidegauge", "//evil.example", "/a/..", "/../a", '/a"><script>', "https://evil.example"),
        *("/a/", "/" + "a" * 300),
    ],
)
def test_nothing_else_does(prefix):
    assert seen(prefix) == ("", "/runs")


@pytest.mark.parametrize(
    ("forwarded", "scheme"), [("https", "https"), ("http", "http"), ("gopher", "http"), ("", "http")]
)
def test_behind_tls_its_cookie_is_for_tls(forwarded, scheme):
    found = []

    async def app(scope, receive, send):
        found.append(scope["scheme"])

    scope = {"type": "http", "scheme": "http", "path": "/", "headers": [(b"x-forwarded-proto", forwarded.encode())]}
    asyncio.run(Mounted(app)(scope, None, None))
    assert found == [scheme]


def test_a_root_path_of_the_server_s_own_stays():
    assert seen("/tidegauge", root_path="/console", path="/console/runs") == ("/console", "/console/runs")
