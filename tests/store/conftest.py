"""A migrated store for each module, and a cluster of its own for each test."""

import pytest


@pytest.fixture(scope="module")
def url(empty_store: str) -> str:
    return empty_store


@pytest.fixture(autouse=True)
def cluster(request: pytest.FixtureRequest) -> str:
    """Each test has a cluster of its own, so that none sees another's runs."""
    return f"c-{request.node.name}"[:80]
