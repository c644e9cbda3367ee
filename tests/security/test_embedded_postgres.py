"""The embedded Postgres lets nobody in but its owner, opens nothing that was closed, and minds who died."""

import os
import shutil
import signal
import stat
from pathlib import Path

import psutil
import pytest

from spark_jobs.errors import StoreError
from tests.security.embedded import programs, use
from tidegauge import postgres


def test_a_private_tree_stays_private(private: Path) -> None:
    home = private / "home"
    home.mkdir(mode=0o700)
    above = [home, *home.parents, *programs().parents]
    before = [p.stat().st_mode for p in above]
    with postgres.running(home / "postgres") as server:
        use(server.ensure_database())
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
        use(server.ensure_database())
        _kill(server.directory)
    with postgres.running(private / "postgres") as server:
        use(server.url())


def test_the_port_of_the_environment_is_not_the_servers(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "5999")
    with postgres.running(private / "postgres") as server:
        monkeypatch.setenv("PGPORT", "5998")
        use(server.ensure_database())


def _kill(directory: Path) -> None:
    """Kills the server, and waits until it is gone."""
    pid = int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [])
