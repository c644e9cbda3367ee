"""The embedded Postgres: shared, stopped by the last, started again after a killed user."""

import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import create_engine, text

from tidegauge.embedded import postgres, postgres_place
from tidegauge.runs.errors import StoreError

pytestmark = pytest.mark.postgres

USES_IT_FOREVER = """
import sys, time
from pathlib import Path
from tidegauge.embedded import postgres
with postgres.running(Path(sys.argv[1])) as server:
    print(server.socket_directory, flush=True)
    time.sleep(600)
"""


def test_a_database_is_made_once_and_kept(postgres_server):
    url = postgres_server.ensure_database("kept")
    with create_engine(url).begin() as connection:
        connection.execute(text("CREATE TABLE facts (n bigint)"))
    assert postgres_server.ensure_database("kept") == url
    with create_engine(url).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM facts")).scalar_one() == 0


def test_a_fresh_database_is_empty(postgres_server):
    with create_engine(postgres_server.fresh_database("anew")).begin() as connection:
        connection.execute(text("CREATE TABLE facts (n bigint)"))
    with create_engine(postgres_server.fresh_database("anew")).connect() as connection:
        assert connection.execute(text("SELECT to_regclass('facts')")).scalar_one() is None


def test_it_listens_on_a_socket_only(postgres_server):
    with create_engine(postgres_server.ensure_database()).connect() as connection:
        assert connection.execute(text("SHOW listen_addresses")).scalar_one() == ""


@pytest.mark.slow
def test_the_last_user_stops_it_and_what_it_held_is_there_again(short_directory):
    with postgres.store(short_directory) as url, create_engine(url).begin() as connection:
        connection.execute(text("CREATE TABLE facts (n bigint)"))
    assert not is_up(short_directory)
    with postgres.store(short_directory) as url, create_engine(url).connect() as connection:
        assert connection.execute(text("SELECT to_regclass('facts')")).scalar_one() == "facts"


@pytest.mark.slow
def test_a_second_user_keeps_it_up(short_directory):
    with postgres.running(short_directory):
        with postgres.running(short_directory):
            pass
        assert is_up(short_directory)
    assert not is_up(short_directory)


@pytest.mark.slow
def test_threads_may_start_it_at_once(short_directory):
    def use(number: int) -> str:
        with postgres.running(short_directory) as server:
            return server.ensure_database(f"number{number}")

    with postgres.running(short_directory), ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(use, range(4)))) == 4
    assert not is_up(short_directory)


@pytest.mark.slow
def test_a_killed_user_keeps_nobody_from_starting_or_stopping_it(short_directory):
    user = subprocess.Popen([sys.executable, "-c", USES_IT_FOREVER, short_directory], stdout=subprocess.PIPE, text=True)
    assert user.stdout is not None
    assert user.stdout.readline()
    user.send_signal(signal.SIGKILL)
    user.wait()
    assert is_up(short_directory)
    with postgres.running(short_directory):
        pass
    assert not is_up(short_directory)


def test_a_directory_that_cannot_be_used_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with (
        pytest.raises(StoreError, match="cannot use the directory"),
        postgres.running(tmp_path / "file" / "postgres"),
    ):
        pass


@pytest.mark.slow
def test_data_that_no_postgres_wrote_is_a_store_error(short_directory):
    with postgres.running(short_directory):
        pass
    data = (short_directory / "data").resolve()
    for path in list(data.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (data / "PG_VERSION").write_text("18\n")
    with pytest.raises(StoreError, match="did not start"), postgres.running(short_directory):
        pass
    assert (data / "PG_VERSION").read_text() == "18\n", "what is not ours stays"


@pytest.fixture
def short_directory():
    """A path short enough for a Unix socket."""
    directory = Path(tempfile.mkdtemp(prefix="tidegauge-pg-"))
    yield directory
    postgres_place.removed(directory)


def is_up(directory: Path) -> bool:
    try:
        psycopg2.connect(host=str(directory / "data"), user="postgres", dbname="postgres").close()
    except psycopg2.OperationalError:
        return False
    return True
