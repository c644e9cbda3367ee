"""The embedded Postgres lets nobody in but its owner, opens nothing that was closed, and minds who died."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from tests.security.embedded import connected, programs, use
from tidegauge.embedded import postgres, postgres_place
from tidegauge.runs.errors import StoreError

pytestmark = pytest.mark.postgres


@pytest.mark.slow
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


@pytest.mark.parametrize("how", ["anybody may write", "a group may write", "it is another user's"])
def test_a_directory_where_others_may_lay_files_is_refused(private: Path, how: str) -> None:
    directory = private / "postgres"
    directory.mkdir(mode=0o700)
    if how == "anybody may write":
        directory.chmod(0o777)
    elif how == "a group may write":
        directory.chmod(0o770)
    elif os.geteuid() == 0:
        os.chown(directory, 65534, 65534)
    else:
        directory = Path("/")
    with pytest.raises(StoreError, match="does not use"), postgres.running(directory):
        pass
    assert directory == Path("/") or list(directory.iterdir()) == [], "it was looked at before anything was made in it"


@pytest.mark.parametrize("name", ["users.lock", "start.lock", "initdb.running"])
@pytest.mark.parametrize("laid", ["a link", "a link to nothing", "a pipe"])
def test_a_lock_that_is_no_file_of_ours_is_neither_followed_nor_emptied(private: Path, name: str, laid: str) -> None:
    directory, victim = private / "postgres", private / "victim"
    directory.mkdir(mode=0o700)
    if laid == "a pipe":
        os.mkfifo(directory / name)
    else:
        (directory / name).symlink_to(victim)
    if laid == "a link":
        victim.write_text("precious")
    with pytest.raises(StoreError, match=name), postgres.running(directory):
        pass
    assert victim.read_text() == "precious" if laid == "a link" else not victim.exists()


def test_a_lock_keeps_what_is_in_it(private: Path) -> None:
    directory = private / "postgres"
    directory.mkdir(mode=0o700)
    (directory / "start.lock").write_text("kept")
    with postgres.running(directory):
        assert (directory / "start.lock").read_text() == "kept"


def test_only_the_directory_in_which_it_was_begun_is_emptied(private: Path) -> None:
    directory, precious = private / "postgres", private / "precious"
    directory.mkdir(mode=0o700)
    precious.mkdir(mode=0o700)
    (precious / "letters").write_text("kept")
    (directory / "data").symlink_to(precious)
    (directory / "initdb.running").touch()
    with pytest.raises(StoreError, match=r"does not (empty|follow)"), postgres.running(directory):
        pass
    assert (precious / "letters").read_text() == "kept"


def test_a_data_directory_that_is_exchanged_for_a_link_is_not_emptied(private: Path) -> None:
    (private / "precious").mkdir()
    (private / "precious" / "letters").write_text("kept")
    (private / "data").symlink_to(private / "precious")
    place = postgres_place.PostgresPlace(data=private / "data", account=None, programs=programs())
    with pytest.raises(OSError, match="data"):
        place.empty()
    assert (private / "precious" / "letters").read_text() == "kept"


@pytest.mark.parametrize("laid", ["a link", "a pipe"])
def test_what_a_server_says_of_itself_is_read_through_no_link(private: Path, laid: str) -> None:
    with postgres.running(private / "postgres") as server:
        data = (server.directory / "data").resolve()
    for name in ("postmaster.pid", "log"):
        (data / name).unlink(missing_ok=True)
        if laid == "a link":
            (private / "secret").write_text("a secret\n" * 9)
            (data / name).symlink_to(private / "secret")
        else:
            os.mkfifo(data / name)
    with pytest.raises(StoreError) as refused, postgres.running(private / "postgres"):
        pass
    assert "a secret" not in str(refused.value)


@pytest.mark.slow
def test_what_a_killed_initdb_left_is_made_anew(private: Path) -> None:
    with postgres.running(private / "postgres") as server:
        data = server.directory / "data"
    shutil.rmtree(data / "base")
    (private / "postgres" / "initdb.running").write_text(str(data.stat().st_ino))
    with postgres.running(private / "postgres") as server:
        assert server.ensure_database()


@pytest.mark.slow
def test_a_server_that_died_is_no_server_that_did_not_stop(private: Path) -> None:
    with postgres.running(private / "postgres") as server:
        use(server.ensure_database())
        _kill(server.directory)
    with postgres.running(private / "postgres") as server:
        use(server.url())


@pytest.mark.slow
def test_a_server_that_cannot_finish_its_last_checkpoint_is_stopped_and_keeps_what_was_committed(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_PATIENCE_S", 8)
    with postgres.running(private / "postgres") as server:
        with connected(server.ensure_database()) as connection:
            connection.execute(sa.text("CREATE TABLE kept AS SELECT 7 AS of_it"))
            connection.commit()
        postmaster = psutil.Process(_pid(server.directory))
        (checkpointer,) = (child for child in postmaster.children() if "checkpointer" in _told_by(child))
        checkpointer.suspend()
    for process in (checkpointer, postmaster):  # Who adopted them may not have heard of their end yet.
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    with postgres.running(private / "postgres") as server, connected(server.url()) as connection:
        assert connection.scalar(sa.text("SELECT of_it FROM kept")) == 7


def _told_by(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # One that served a connection, and ends.
        return ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("when", ["initdb.running", "data/PG_VERSION", "data/postmaster.pid"])
def test_one_who_is_ended_while_it_starts_leaves_nothing_in_the_way(
    private: Path, number: signal.Signals, when: str
) -> None:
    """Killed, it leaves an initdb or a server that goes on: the next waits for the one and takes the other over."""
    directory = private / "postgres"
    starting = subprocess.Popen([sys.executable, "-c", USES_IT, directory], stderr=subprocess.PIPE, text=True)
    while not (directory / when).exists():
        assert starting.poll() is None, starting.stderr.read() if starting.stderr else None
    starting.send_signal(number)
    starting.communicate()
    if number != signal.SIGKILL:
        assert starting.returncode == 128 + number
        assert _processes_in(private.parent) == []
    with postgres.running(directory) as server:
        use(server.ensure_database())
    assert _processes_in(private.parent) == []


def test_the_port_of_the_environment_is_not_the_servers(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "5999")
    with postgres.running(private / "postgres") as server:
        monkeypatch.setenv("PGPORT", "5998")
        use(server.ensure_database())


USES_IT = """
import sys, time
from pathlib import Path
import click
from tidegauge import endings
from tidegauge.embedded import postgres
endings.ends_by_signal()
@click.command()
@endings.told
def command():
    with postgres.running(Path(sys.argv[1])):
        time.sleep(600)
command(args=[])
"""


def _processes_in(place: Path) -> list[str]:
    """Programs of Postgres that work below a directory. One that was told to end has a moment for it."""
    for _ in range(100):
        found = [
            " ".join(process.info["cmdline"] or ())
            for process in psutil.process_iter(["name", "cmdline", "status"])
            if process.info["name"] in ("postgres", "initdb", "pg_ctl")
            and process.info["status"] != psutil.STATUS_ZOMBIE
            and str(place) in " ".join(process.info["cmdline"] or ())
        ]
        if not found:
            break
        time.sleep(0.1)
    return found


def _pid(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])


def _kill(directory: Path) -> None:
    """Kills the server, and waits until it is gone."""
    pid = _pid(directory)
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [])
