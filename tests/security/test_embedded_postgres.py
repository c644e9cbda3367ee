"""The embedded Postgres lets nobody in but its owner, opens nothing that was closed, and minds who died."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from spark_jobs.errors import StoreError
from tidegauge import postgres, postgres_place, settings

AS_NOBODY = """
import os, sys, psycopg2
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
psycopg2.connect(host=sys.argv[1], port=5432, user="postgres", dbname="postgres")
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is closed to everybody else, in one that is not; what root's servers keep lies there, too."""
    outer = Path(tempfile.mkdtemp(prefix="tidegauge-own-"))
    outer.chmod(0o755)
    monkeypatch.setenv("TIDEGAUGE_ROOT_POSTGRES", str(outer / "state"))
    inner = outer / "private"
    inner.mkdir(mode=0o700)
    yield inner
    shutil.rmtree(outer)


def test_a_private_tree_stays_private(private: Path) -> None:
    home = private / "home"
    home.mkdir(mode=0o700)
    above = [home, *home.parents, *_programs().parents]
    before = [p.stat().st_mode for p in above]
    with postgres.running(home / "postgres") as server:
        _use(server.ensure_database())
        data = (home / "postgres" / "data").resolve()
        assert [stat.S_IMODE(p.stat().st_mode) for p in (home / "postgres", data)] == [0o700, 0o700]
        assert stat.S_IMODE(server.socket_directory.stat().st_mode) == 0o700
    assert [p.stat().st_mode for p in above] == before


def test_a_path_too_long_for_a_socket_has_one_in_a_directory_of_its_own(private: Path) -> None:
    long = private / ("x" * 120)
    long.mkdir()
    with postgres.running(long / "postgres") as server:
        assert len(str(server.socket_directory)) < 100
        assert stat.S_IMODE(server.socket_directory.stat().st_mode) == 0o700
        assert server.ensure_database()
        passing = server.socket_directory
    if os.geteuid() != 0:  # Root's data lie at a path that is never too long.
        assert not passing.exists()


@as_root
def test_nobody_gets_in_even_where_the_way_is_open(private: Path) -> None:
    with postgres.running(private / "postgres") as server:
        assert "Permission denied" in _asked_as_nobody(server.socket_directory)
        for path in (server.socket_directory, *server.socket_directory.parents):
            path.chmod(path.stat().st_mode | 0o011)
        (server.socket_directory / postgres_place.SOCKET_NAME).chmod(0o777)
        assert "Peer authentication failed" in _asked_as_nobody(server.socket_directory)


@as_root
def test_a_server_has_no_group_of_roots(private: Path) -> None:
    with postgres.store(private / "postgres") as url, _connected(url) as connection:
        connection.execute(sa.text("CREATE TEMPORARY TABLE said (line text)"))
        connection.execute(sa.text("COPY said FROM PROGRAM 'id -u; id -G'"))
        ids = " ".join(connection.scalars(sa.text("SELECT line FROM said")))
    account = pwd.getpwnam(postgres_place.ACCOUNT_FOR_ROOT)
    assert ids == f"{account.pw_uid} {account.pw_gid}"


@as_root
def test_programs_that_the_account_cannot_reach_are_copied(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, package = _programs().parent, _programs().parent.parent
    closed = private / "venv" / package.name
    shutil.copytree(server, closed / server.name, symlinks=True)
    if package.with_name(f"{package.name}.libs").exists():
        shutil.copytree(package.with_name(f"{package.name}.libs"), closed.with_name(f"{package.name}.libs"))
    monkeypatch.setattr(postgres_place, "_programs", lambda: closed / server.name / "bin")
    with postgres.running(private / "postgres") as embedded:
        assert embedded.ensure_database()
    (copied,) = settings.root_postgres().glob("programs-*")
    assert stat.S_IMODE(copied.stat().st_mode) == 0o755
    assert copied.stat().st_uid == 0
    with postgres.running(private / "other") as embedded:
        assert embedded.ensure_database()
    assert list(settings.root_postgres().glob("programs-*")) == [copied]


@as_root
def test_data_of_before_are_used_where_the_account_reaches_them_and_never_opened(private: Path) -> None:
    with postgres.running(private / "postgres") as server:
        server.ensure_database("kept")
    data = private / "postgres" / "data"
    data_at = data.resolve()
    data.unlink()
    data_at.rename(data)  # as an earlier version left them
    with pytest.raises(StoreError, match=f"mv {data} "), postgres.running(private / "postgres"):
        pass
    reachable = private.parent / "reachable"
    (private / "postgres").rename(reachable)
    reachable.chmod(0o711)
    with postgres.running(reachable) as server:
        _use(server.url("kept"))


@pytest.mark.parametrize("how", ["anybody may write", "it is another user's"])
def test_a_directory_where_others_may_lay_files_is_refused(private: Path, how: str) -> None:
    directory = private / "postgres"
    directory.mkdir()
    if how == "anybody may write":
        directory.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(directory, 65534, 65534)
    else:
        directory = Path("/")
    refused = "does not use" if directory != Path("/") else "cannot use"
    with pytest.raises(StoreError, match=refused), postgres.running(directory):
        pass


def test_what_a_killed_initdb_left_is_made_anew(private: Path) -> None:
    with postgres.running(private / "postgres") as server:
        data = server.directory / "data"
    shutil.rmtree(data / "base")
    (private / "postgres" / "initdb.running").touch()
    with postgres.running(private / "postgres") as server:
        assert server.ensure_database()


def test_a_server_that_died_is_no_server_that_did_not_stop(private: Path) -> None:
    with postgres.running(private / "postgres") as server:
        _use(server.ensure_database())
        _kill(server.directory)
    with postgres.running(private / "postgres") as server:
        _use(server.url())


def test_the_port_of_the_environment_is_not_the_servers(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "5999")
    with postgres.running(private / "postgres") as server:
        monkeypatch.setenv("PGPORT", "5998")
        _use(server.ensure_database())


def _use(url: str) -> None:
    with _connected(url) as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


def _connected(url: str) -> sa.Connection:
    """A connection that is gone when it is closed: a server that was killed has nobody to end it later."""
    return sa.create_engine(url, poolclass=sa.NullPool).connect()


def _programs() -> Path:
    return postgres_place._programs()


def _kill(directory: Path) -> None:
    """Kills the server, and waits until it is gone."""
    pid = int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [])


def _asked_as_nobody(sockets: Path) -> str:
    """What the server says to another user of the machine who would be its superuser."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(sockets)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0, "let in"
    return done.stderr
