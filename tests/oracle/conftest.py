"""What the tests of this directory share: one running program that asks Kafka's own classes."""

from collections.abc import Iterator

import pytest

from tests.oracle.kafka import Oracle, running
from tests.resources import starts


@pytest.fixture(scope="session")
@starts("jvm")
def oracle() -> Iterator[Oracle]:
    """Kafka's classes, one process for all tests of a worker."""
    with running() as asked:
        yield asked
