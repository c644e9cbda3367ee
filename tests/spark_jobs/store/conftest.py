"""A migrated store for each module, and a cluster of its own for each test."""

import pytest

from spark_jobs import store


@pytest.fixture(scope="module")
def url(store_url: str) -> str:
    with store.connect(store_url, "begin anew") as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS tidegauge CASCADE")
    store.migrate(store_url)
    return store_url


@pytest.fixture(autouse=True)
def cluster(request: pytest.FixtureRequest) -> str:
    """Each test has a cluster of its own, so that none sees another's runs."""
    return f"c-{request.node.name}"[:80]
