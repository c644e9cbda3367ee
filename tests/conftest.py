"""What tests share: real captures, unpacked once, a Postgres of their own, an S3 server of their own.

Captures and Postgres are made at most once for all of pytest-xdist's workers, which find them under a name that the run
gives them; a worker that needs an S3 server starts one.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from tests.object_store import s3_server as s3_servers
from tidegauge import postgres
from tidegauge.archive import unpack

if TYPE_CHECKING:
    from tests.spark_jobs.judging import Judge

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


@pytest.fixture(scope="module")
def empty_store(store_url: str) -> str:
    """The URL of a store without a run, for one file of tests."""
    from spark_jobs import store

    with store.connect(store_url, "begin anew") as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS tidegauge CASCADE")
    store.migrate(store_url)
    return store_url


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres.EmbeddedPostgres]:
    """A server of this file's own. Roles belong to a whole server: who makes and drops them shares it with nobody."""
    # Not below pytest's own directory, which another session of pytest makes unreadable to who runs Postgres.
    directory = Path(tempfile.mkdtemp(prefix="tidegauge-own-"))
    with postgres.running(directory, remove=True) as server:
        yield server


@pytest.fixture(scope="module")
def judge(store_url: str) -> "Iterator[Judge]":
    """The catalogue's own queries on this test run's Postgres, over facts that a test derives in its process."""
    # The catalogue is only loaded where it is used: most test files need none of it.
    from tests.spark_jobs.judging import Judge

    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        yield Judge(connection)
    engine.dispose()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_servers.S3Server]:
    """A real S3 server with the empty bucket `snapshots`; slow tests only."""
    with s3_servers.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(s3_server: s3_servers.S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3_servers.S3Server]:
    """That server, reached by `s3://snapshots/...` in this process and in those that it starts."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environ.items():
        monkeypatch.setenv(name, value)
    s3_servers.forget_connections()
    yield s3_server
    s3_servers.forget_connections()
