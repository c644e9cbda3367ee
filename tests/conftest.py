"""What tests share: real captures, unpacked once, and a Postgres of their own.

Both are made at most once for all of pytest-xdist's workers, which find them under a name that the run gives them.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegauge import postgres
from tidegauge.archive import unpack

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str], Path]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Golden:
    """`golden("healthy")`: the directory of an unpacked capture. Shared by every test: read only."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent

    def unpacked(name: str) -> Path:
        return unpack(GOLDEN / f"{name}.tar.gz", shared / "golden" / name)

    return unpacked


@pytest.fixture(scope="session")
def postgres_server(testrun_uid: str) -> Iterator[postgres.EmbeddedPostgres]:
    """An embedded Postgres for this test run; the last worker to leave stops it and removes its data."""
    directory = Path(tempfile.gettempdir()) / f"tidegauge-test-{testrun_uid[:12]}"
    with postgres.running(directory, remove=True) as server:
        yield server


@pytest.fixture(scope="session")
def store_url(postgres_server: postgres.EmbeddedPostgres, worker_id: str) -> str:
    """The SQLAlchemy URL of an empty database; one for each worker and session."""
    return postgres_server.fresh_database(f"test_{worker_id}")
