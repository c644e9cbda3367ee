"""Airflow for tests: a home of its own, before anything imports it, and no import before a test asks for it."""

import atexit
import os
import shutil
import tempfile
from types import ModuleType

import pytest

from tests.resources import starts

_HOME = tempfile.mkdtemp(prefix="tidegauge-airflow-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ["AIRFLOW_HOME"] = _HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"
os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"


@pytest.fixture(scope="session", autouse=True)
@starts("airflow")
def installed() -> None:
    """What is tested here are Airflow's files: each needs the package, and none is worth a machine without it."""


@pytest.fixture(scope="session")
def job() -> ModuleType:
    """The DAGs' factory of tasks. Its import is Airflow's, which takes seconds."""
    import tidegauge_job

    return tidegauge_job
