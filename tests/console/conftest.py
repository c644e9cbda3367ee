"""A store of real captures and of hostile names, the console over it as a server, a real browser."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.browser import chromium
from tests.conftest import Golden
from tests.console.filling import publish_capture
from tests.console.hostile import publish_hostile
from tests.resources import starts
from tidegauge import store
from tidegauge.console import server
from tidegauge.embedded.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DAY = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def filled_store(postgres_server: EmbeddedPostgres, worker_id: str, golden: Golden) -> str:
    """Cluster `production`: sound for two days, then an unclean election; `payments`: a hanging transaction."""
    url = postgres_server.fresh_database(f"console_{worker_id}")
    store.migrate(url)
    story = (
        ("production", "healthy"),
        ("production", "healthy"),
        ("production", "unclean-before"),
        ("payments", "hanging-txn"),
    )
    for number, (cluster, capture) in enumerate(story):
        captured_at = DAY + timedelta(days=number)
        publish_capture(
            url, golden(capture), cluster=cluster, snapshot_id=f"{captured_at:%Y-%m-%d}", captured_at=captured_at
        )
    publish_hostile(url)
    return url


@pytest.fixture(scope="session")
def docs_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def address(filled_store: str, docs_root: Path) -> Iterator[str]:
    """The console as a server."""
    with server.running(filled_store, host="127.0.0.1", port=0, docs=[docs_root]) as where:
        yield where


@pytest.fixture(scope="session")
def console(address: str) -> Iterator[httpx.Client]:
    """The same, asked as a browser would ask."""
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
@starts("browser")
def browser() -> Iterator["Browser"]:
    """A real browser; slow tests only. It keeps an event loop in this thread, so it ends with its module."""
    with chromium() as running:
        yield running
