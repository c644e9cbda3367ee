"""A database for each test of the schema."""

import pytest

from tidegauge.embedded.postgres import EmbeddedPostgres


@pytest.fixture
def empty(postgres_server: EmbeddedPostgres, worker_id: str) -> str:
    return postgres_server.fresh_database(f"schema_{worker_id}")
