"""An API server for the tests of the chart: at most one for each of pytest-xdist's workers."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.helm import api_server
from tests.helm.go_modules import PROMETHEUS_OPERATOR, SPARK_OPERATOR, VOLUME_SNAPSHOTS, definitions
from tests.resources import starts


@pytest.fixture(scope="session")
@starts("kubernetes")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[api_server.ApiServer]:
    """A server that knows what the operators of Spark and Prometheus take."""
    with api_server.running(tmp_path_factory.mktemp("kubernetes")) as server:
        server.define([d for of in (SPARK_OPERATOR, PROMETHEUS_OPERATOR, VOLUME_SNAPSHOTS) for d in definitions(of)])
        yield server


@pytest.fixture(scope="session")
def new_namespace(kubernetes: api_server.ApiServer) -> Callable[[], str]:
    """`new_namespace()`: the name of one that takes restricted pods only."""
    numbers = itertools.count(1)
    return lambda: kubernetes.namespace(f"confined-{next(numbers)}")
