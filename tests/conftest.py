"""What tests share: real captures, unpacked once, a Postgres of their own, an S3 server of their own.

Captures and Postgres are made at most once for all of pytest-xdist's workers, which find them under a name that the run
gives them; a worker that needs an S3 server starts one.
"""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from hypothesis import settings

from tests import resources
from tests.object_store import s3_server as s3_servers
from tests.resources import starts
from tidegauge.embedded import postgres
from tidegauge.embedded.archive import unpack

if TYPE_CHECKING:
    from tests.derivation.judging import Judge

# A machine that forbids Python to write bytecode would have every process of every run rewrite the assertions of all
# test files, which takes longer than all else before the first test. They are kept beside the files, as elsewhere.
sys.dont_write_bytecode = False

# No test is held against a clock: on a busy machine a sound example takes as long as it takes.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str], Path]

LONGEST_FIRST = (
    "tests/tidegauge/test_everyday_dag.py",
    "tests/derivation/test_each_evidence_removed.py",
    "tests/helm/test_image.py",
    "tests/spark_jobs/test_cluster.py",
    "tests/tidegauge/test_demo.py",
    "tests/real_kafka/test_soak.py",
    "tests/sim_engine/test_worlds.py",
    "tests/security/test_faults.py",
    "tests/real_kafka/test_faults.py",
    "tests/judges/test_spark_judge.py",
    "tests/tidegauge/test_score_dag.py",
    "tests/security/test_claims.py",
    "tests/real_kafka/test_two_log_dirs.py",
    "tests/expectations/gx/test_project.py",
    "tests/tidegauge/test_capture_dag.py",
    "tests/object_store/test_audit_from_url.py",
    "tests/real_kafka/test_cluster_answers.py",
    "tests/tidegauge/scoring/test_explored.py",
    "tests/security/test_standalone_spark.py",
    "tests/security/test_snapshots_that_attack.py",
    "tests/real_kafka/test_unclean_election.py",
    "tests/tidegauge/test_audit.py",
    "tests/object_store/test_run_by_url.py",
    "tests/judges/test_second_judge.py",
    "tests/expectations/incidents/test_golden_incidents.py",
    "tests/oracle/test_replicas.py",
    "tests/derivation/test_kept_summaries.py",
    "tests/tidegauge/test_up.py",
    "tests/sim_engine/explore/test_explore.py",
    "tests/security/test_ends.py",
    "tests/sim_engine/test_worlds_accepted_by_kafka.py",
    "tests/spark_jobs/test_whole_snapshots.py",
    "tests/sim_engine/test_accepted_by_kafka.py",
    "tests/real_kafka/test_transactions_by_hand.py",
    "tests/security/test_embedded_postgres.py",
)
"""Files that take most of a minute of the whole suite. Roughly by length; one that mostly waits (Kafka, Airflow) beside
one that computes.
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays to the end: nobody looks whether it is garbage, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files begin first, then what else is slow: a long one that began last would run alone, for minutes.

    For pytest-xdist's workers, with `--dist loadfile --no-loadscope-reorder`: it would begin with the files of which
    the tests are many, and those are the short ones. Within a file nothing moves.
    """
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        return
    rank = {name: number for number, name in enumerate(LONGEST_FIRST)}
    slow = {item.nodeid.split("::")[0] for item in items if item.get_closest_marker("slow")}

    def begins(item: pytest.Item) -> int:
        name = item.nodeid.split("::")[0]
        return rank.get(name, len(rank) + (name not in slow))

    items.sort(key=begins)


def pytest_configure(config: pytest.Config) -> None:
    """No test uses the home of who runs it; root's servers have their data in a directory of this run, whatever home a
    test gives them. Every test gets the markers of what it needs.
    """
    config.pluginmanager.register(resources)
    if not hasattr(config, "workerinput"):  # pytest-xdist's workers have it from who started them
        place = Path(tempfile.mkdtemp(prefix="tidegauge-tests-"))
        place.chmod(0o755)
        os.environ["TIDEGAUGE_ROOT_POSTGRES"] = str(place / "root")
        os.environ["TIDEGAUGE_HOME"] = str(place / "home")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Nothing stays."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(Path(os.environ["TIDEGAUGE_HOME"]).parent, ignore_errors=True)


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Golden:
    """`golden("healthy")`: the directory of an unpacked capture. Shared by every test: read only."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent

    def unpacked(name: str) -> Path:
        return unpack(GOLDEN / f"{name}.tar.gz", shared / "golden" / name)

    return unpacked


@pytest.fixture(scope="session")
@starts("postgres")
def postgres_server(testrun_uid: str) -> Iterator[postgres.EmbeddedPostgres]:
    """An embedded Postgres for this test run; the last worker to leave stops it and removes its data."""
    directory = Path(tempfile.gettempdir()) / f"tidegauge-test-{testrun_uid[:12]}"
    with postgres.running(directory, remove=True) as server:
        yield server


@pytest.fixture(scope="module")
def store_url(postgres_server: postgres.EmbeddedPostgres, worker_id: str) -> str:
    """The SQLAlchemy URL of a database that is empty when a file's first test asks for it: what another file published
    would be told beside what this one does.
    """
    return postgres_server.fresh_database(f"test_{worker_id}")


@pytest.fixture(scope="module")
def empty_store(store_url: str) -> str:
    """The URL of a store without a run, for one file of tests."""
    from tidegauge import store

    with store.connect(store_url, "begin anew") as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS tidegauge CASCADE")
    store.migrate(store_url)
    return store_url


@pytest.fixture(scope="module")
@starts("postgres")
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
    from tests.derivation.judging import Judge

    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        yield Judge(connection)
    engine.dispose()


@pytest.fixture(scope="session")
@starts("jvm")
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
