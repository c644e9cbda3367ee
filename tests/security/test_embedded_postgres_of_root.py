"""Root's embedded Postgres: who runs it, who gets in, where it lies."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.security.embedded import connected, programs, use
from tidegauge import settings
from tidegauge.embedded import postgres, postgres_place
from tidegauge.runs.errors import StoreError

pytestmark = pytest.mark.postgres

AS_NOBODY = """
import os, sys, psycopg2
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
psycopg2.connect(host=sys.argv[1], port=5432, user="postgres", dbname="postgres")
"""


@pytest.mark.slow
def test_nobody_gets_in_even_where_the_way_is_open(private: Path) -> None:
    with postgres.running(private / "postgres") as server:
        assert "Permission denied" in _asked_as_nobody(server.socket_directory)
        for path in (server.socket_directory, *server.socket_directory.parents):
            path.chmod(path.stat().st_mode | 0o011)
        (server.socket_directory / postgres_place.SOCKET_NAME).chmod(0o777)
        assert "Peer authentication failed" in _asked_as_nobody(server.socket_directory)


@pytest.mark.slow
def test_a_server_has_no_group_of_roots(private: Path) -> None:
    with postgres.store(private / "postgres") as url, connected(url) as connection:
        connection.execute(sa.text("CREATE TEMPORARY TABLE said (line text)"))
        connection.execute(sa.text("COPY said FROM PROGRAM 'id -u; id -G'"))
        ids = " ".join(connection.scalars(sa.text("SELECT line FROM said")))
    account = pwd.getpwnam(postgres_place.ACCOUNT_FOR_ROOT)
    assert ids == f"{account.pw_uid} {account.pw_gid}"


@pytest.mark.slow
def test_a_server_and_what_it_starts_know_no_secret_of_roots(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "TIDEGAUGE_CONSOLE_TOKENS", "TIDEGAUGE_STORE_URL", "OF_ANOTHER")
    for name in secrets:
        monkeypatch.setenv(name, "a-secret-of-roots")
    with postgres.store(private / "postgres") as url, connected(url) as connection:
        connection.execute(sa.text("CREATE TEMPORARY TABLE said (line text)"))
        connection.execute(sa.text("COPY said FROM PROGRAM 'env'"))
        told = list(connection.scalars(sa.text("SELECT line FROM said")))
    assert any(line.startswith("PATH=") for line in told)
    assert [line for line in told if line.endswith("a-secret-of-roots") or line.partition("=")[0] in secrets] == []


@pytest.mark.slow
def test_programs_that_the_account_cannot_reach_are_copied(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, package = programs().parent, programs().parent.parent
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


@pytest.mark.slow
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
        use(server.url("kept"))


@pytest.mark.parametrize("by", ["root", "another user"])
def test_data_that_a_link_leads_to_elsewhere_are_refused_and_kept(private: Path, by: str) -> None:
    directory, precious = private / "postgres", private / "precious"
    directory.mkdir(mode=0o700)
    precious.mkdir(mode=0o700)
    (precious / "letters").write_text("kept")
    account = pwd.getpwnam(postgres_place.ACCOUNT_FOR_ROOT)
    os.chown(precious, account.pw_uid, account.pw_gid)
    (directory / "data").symlink_to(precious)
    (directory / "initdb.running").write_text(str(precious.stat().st_ino))
    if by == "another user":
        os.chown(directory / "data", 65534, 65534, follow_symlinks=False)
    with pytest.raises(StoreError, match="does not follow"), postgres.running(directory):
        pass
    with pytest.raises(StoreError, match="does not follow"):
        postgres_place.removed(directory)
    assert (precious / "letters").read_text() == "kept"


@pytest.mark.slow
def test_data_of_another_user_below_roots_own_directory_are_refused(private: Path) -> None:
    with postgres.running(private / "postgres"):
        pass
    os.chown((private / "postgres" / "data").resolve(), 65534, 65534)
    with pytest.raises(StoreError, match="belongs to user 65534"), postgres.running(private / "postgres"):
        pass


def test_a_link_of_another_user_is_no_directory_of_roots(private: Path) -> None:
    (private / "own").mkdir(mode=0o700)
    (private / "postgres").symlink_to(private / "own")
    os.chown(private / "postgres", 65534, 65534, follow_symlinks=False)
    with pytest.raises(StoreError, match="a link of user 65534"), postgres.running(private / "postgres"):
        pass
    assert list((private / "own").iterdir()) == []


def _asked_as_nobody(sockets: Path) -> str:
    """What the server says to another user of the machine who would be its superuser."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(sockets)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0, "let in"
    return done.stderr
