"""Fixtures for tests that run a real Kafka: every cluster is stopped when the module that started it is done."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.real_kafka.class_archive import shared
from tests.real_kafka.cluster import DEFAULT_VERSION, KafkaCluster
from tests.real_kafka.ledger import Ledger
from tests.real_kafka.settings import JVM
from tests.resources import starts

StartCluster = Callable[..., KafkaCluster]


@pytest.fixture(scope="module")
@starts("jvm", "kafka")
def start_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartCluster]:
    """`start_cluster(version=…, topology=…, settings={…})`: a running cluster, stopped after the module's tests."""
    with ExitStack() as stack:

        def start(**options: Any) -> KafkaCluster:
            jvm = (*JVM, *shared(options.get("version", DEFAULT_VERSION)))
            return stack.enter_context(KafkaCluster(tmp_path_factory.mktemp("kafka"), jvm=jvm, **options))

        yield start


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> KafkaCluster:
    """Three brokers of the newest version, shared by a module's tests."""
    return start_cluster()


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    """What the shared cluster acknowledged."""
    return Ledger()
