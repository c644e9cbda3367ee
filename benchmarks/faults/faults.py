"""The faults: an audit in a place of its own and a random generator in, how the disturbed audit ended out.

Each fault is lifted again before it returns, for the same command is given again afterwards. What a fault chooses (an
instant, a place, a kind) comes from the generator alone, so that a seed and a number tell an attempt. Instants are
shares of an undisturbed audit's phases, so that they hit the same work on a busy machine.
"""

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import psutil

from benchmarks.faults.place import NOBODY, Ended, Place, Running, taken
from benchmarks.faults.place import ROOT as REPOSITORY
from benchmarks.faults.shifted import LIBRARIES, shifting
from tidegauge.embedded import postgres
from tidegauge.embedded.postgres_place import known_place

PHASES: Final = ("index:", "derive:", "evaluate:", "publish:")
"""What an audit says when it begins with each; what comes before the first is Postgres's and Spark's start."""
GOLDEN: Final = REPOSITORY / "tests" / "golden"
LOST: Final = GOLDEN / "deaf-unclean.tar.gz"
ENVIRONMENT: Final = 3
_SHIFTED: Final = "import runpy; runpy.run_module('benchmarks.faults.shifted', run_name='__main__', alter_sys=True)"
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """An undisturbed audit: its exit code, what the store holds then, how many seconds each phase took."""

    code: int
    found: Mapping[str, object]
    opened: list[str]
    seconds: tuple[float, ...]


@dataclass(slots=True, kw_only=True)
class Met:
    """What happened to one attempt. `how` tells the kind that was chosen; `more` what ran beside the audit."""

    ended: list[Ended]
    how: str = ""
    more: dict[Path, Path] = field(default_factory=dict)
    """Further run directories that were to be published, and their snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row. `codes` the disturbed audit may end with, besides that of an undisturbed one, as the documents say;
    `unavoidable` may be left until the next run. `impossible` says why it cannot be done here, None if it can.
    """

    name: str
    what: str
    meet: Callable[[Place, Random, Calm], Met]
    codes: frozenset[int]
    unavoidable: frozenset[str] = frozenset()
    user: int | None = None
    of_spark: bool = False
    """It takes Spark."""
    impossible: Callable[[], str | None] = lambda: None


# ------------------------------------------------------------------------------------------------- instants and mounts


def _at_an_instant(running: Running, rng: Random, calm: Calm) -> tuple[bool, str]:
    """Waits until a random instant of the audit; whether it still runs, and in which phase that was. On a machine that
    is quieter than it was for `calm` the phase may be over sooner: then its end is the instant.
    """
    at = rng.random() * sum(calm.seconds)
    phase = 0
    while phase < len(PHASES) and at > calm.seconds[phase]:
        at -= calm.seconds[phase]
        phase += 1
    name = PHASES[phase - 1].rstrip(":") if phase else "start"
    if phase and not running.until(lambda: PHASES[phase - 1] in running.said):
        return False, name
    until = time.monotonic() + at
    following = PHASES[phase : phase + 1]
    return running.until(lambda: time.monotonic() >= until or any(mark in running.said for mark in following)), name


def no_root() -> str | None:
    """Why nothing can be mounted here."""
    if os.geteuid() != 0:
        return "only root may mount a small disk or a read-only one"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return f"mounts are refused: {done.stderr.decode().strip()}" if done.returncode else None


@contextmanager
def _disk(directory: Path, megabytes: int) -> Iterator[None]:
    """A disk of its own at a directory, in the mount namespace of this process."""
    found = directory.stat()
    options = f"size={megabytes}m,mode={found.st_mode & 0o7777:o},uid={found.st_uid},gid={found.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tidegauge-faults", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


@contextmanager
def _full(directory: Path, leaving: int) -> Iterator[None]:
    """A disk without room, but for some bytes. It may have none before."""
    filler = directory / "filler"
    filler.touch()
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    os.truncate(filler, max(0, filler.stat().st_size - leaving))
    try:
        yield
    finally:
        filler.unlink()


# ---------------------------------------------------------------------------------------------------------- the faults


def _signalled(number: signal.Signals) -> Callable[[Place, Random, Calm], Met]:
    def meet(place: Place, rng: Random, calm: Calm) -> Met:
        running = place.audit()
        alive, phase = _at_an_instant(running, rng, calm)
        if alive:
            running.send(number)
        return Met(ended=[running.ended()], how=phase)

    return meet


def _killed(kind: str) -> Callable[[Place, Random, Calm], Met]:
    """The main process of a kind, with SIGKILL, at an instant at which there is one."""

    def meet(place: Place, rng: Random, calm: Calm) -> Met:
        running = place.audit()
        alive, phase = _at_an_instant(running, rng, calm)
        found: list[psutil.Process] = []

        def there() -> bool:
            found[:] = _main_processes(place, kind)
            return bool(found)

        if alive and running.until(there):
            with suppress(psutil.NoSuchProcess):
                found[0].kill()
        return Met(ended=[running.ended()], how=phase)

    return meet


def _main_processes(place: Place, kind: str) -> list[psutil.Process]:
    """The oldest first: of a server's processes the one that started the others."""
    found = [process for process in place.processes().get(kind, []) if process.is_running()]
    return sorted(found, key=lambda process: (process.create_time(), process.pid))


def _disk_full(place: Place, rng: Random, calm: Calm) -> Met:
    """Of the home and the store, the run directory, or the temporary directory."""
    place.out.mkdir()
    (place.root / "postgres").mkdir(exist_ok=True)
    where = rng.choice((place.postgres, place.out, place.tmp))
    with _disk(where, 400):
        running = place.audit()
        alive, phase = _at_an_instant(running, rng, calm)
        with _full(where, rng.randrange(0, 1 << 20)):
            ended = running.ended()
        kept = place.root / "kept"
        subprocess.run(["cp", "-a", where, kept], check=True)
    _put_back(kept, where)
    return Met(ended=[ended], how=f"{where.name}, {phase}" if alive else where.name)


def _put_back(kept: Path, where: Path) -> None:
    """What was on the disk lies in the directory now: the next command finds what the first left."""
    for path in kept.iterdir():
        shutil.move(path, where / path.name)
    kept.rmdir()


def _small_files(place: Place, rng: Random, calm: Calm) -> Met:
    """No file may grow beyond a limit: what can be had of a full disk without mounting one."""
    limit = rng.choice((1 << 12, 1 << 16, 1 << 20, 1 << 24))
    running = place.audit(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    return Met(ended=[running.ended()], how=f"RLIMIT_FSIZE {limit:,}")


def _postgres_gone(place: Place, rng: Random, calm: Calm) -> Met:
    """A store of the user's own, stopped in the middle and started again."""
    server = place.root / "server"
    with postgres.running(server) as embedded:
        place.more["TIDEGAUGE_STORE_URL"] = embedded.ensure_database("tidegauge")
        running = place.audit()
        alive, phase = _at_an_instant(running, rng, calm)
        how = rng.choice(("fast", "immediate"))
        known = known_place(server)
        assert known is not None, "it runs"
        known.run("pg_ctl", "stop", "-w", "-s", "-m", how, "-D", str(known.data))
        ended = running.ended()
    again = place.until_its_end.enter_context(postgres.running(server))
    place.more["TIDEGAUGE_STORE_URL"] = again.url("tidegauge")
    return Met(ended=[ended], how=f"{how}, {phase}" if alive else how)


def _faketime() -> str | None:
    return next((library for library in LIBRARIES if os.path.exists(library)), None)


def _no_faketime() -> str | None:
    return None if _faketime() else "libfaketime is not installed (on Debian and Ubuntu: apt install faketime)"


def _clock(days: int) -> Callable[[Place, Random, Calm], Met]:
    def meet(place: Place, rng: Random, calm: Calm) -> Met:
        seconds = (1 if days > 0 else -1) * rng.randrange(2 * _DAY_S, abs(days) * _DAY_S)
        library = _faketime()
        assert library is not None, "else it is impossible here"
        before = shifting(library, seconds)
        running = place.started(_SHIFTED, "audit", place.snapshot, "--out", place.out, before=before)
        return Met(ended=[running.ended()], how="ahead" if days > 0 else "back")

    return meet


def _read_only(place: Place, rng: Random, calm: Calm) -> Met:
    """The home and the store, the run directory, or the snapshot, mounted read-only for one command."""
    place.out.mkdir()
    (place.root / "postgres").mkdir(exist_ok=True)
    for directory in (place.out,):
        if place.user is not None:
            os.chown(directory, place.user, place.user)
    where = rng.choice((place.home, place.postgres, place.out, place.snapshot))
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    running = place.audit(before=("unshare", "--mount", "sh", "-c", script, str(where)))
    return Met(ended=[running.ended()], how=where.name)


def _another_owner(place: Place, rng: Random, calm: Calm) -> Met:
    """Closed files of root where `nobody` audits: the snapshot's logs, the run directory, the home's server."""
    place.out.mkdir()
    (place.home / "postgres").mkdir(exist_ok=True)
    os.chown(place.out, NOBODY, NOBODY)
    logs = [path for path in place.snapshot.rglob("*.log") if path.is_file()]
    where = {"out": [place.out], "home": [place.home / "postgres"], "snapshot": logs}
    name = rng.choice(sorted(where))
    before = {path: path.stat() for path in where[name]}
    for path in before:
        os.chown(path, 0, 0)
        path.chmod(0o700 if path.is_dir() else 0o600)
    if name != "home":
        os.chown(place.home / "postgres", NOBODY, NOBODY)
    ended = place.audit().ended()
    for path, was in before.items():
        os.chown(path, *((NOBODY, NOBODY) if name != "snapshot" else (was.st_uid, was.st_gid)))
        path.chmod(was.st_mode & 0o7777)
    return Met(ended=[ended], how=name)


def _undisturbed(place: Place, rng: Random, calm: Calm) -> Met:
    """That it is not root is all."""
    return Met(ended=[place.audit().ended()])


def _three_at_once(place: Place, rng: Random, calm: Calm) -> Met:
    """Two of one snapshot and one of another, of the same cluster, at the same instant into one home and store."""
    other = taken(LOST, place.root / "other", snapshot_id="other")
    asked = [(place.snapshot, place.out), (place.snapshot, place.root / "out2"), (other, place.root / "out3")]
    rng.shuffle(asked)
    running = []
    for snapshot, out in asked:
        running.append(place.audit(snapshot=snapshot, out=out))
        time.sleep(rng.choice((0.0, rng.random())))
    return Met(ended=[one.ended() for one in running], more={place.root / "out2": place.snapshot})


@cache
def cannot_become_nobody() -> str | None:
    """Why the audit cannot be run as `nobody`."""
    if os.geteuid() != 0:
        return "only root may become another user"
    import sys

    probe = "import pyspark, psycopg2, tidegauge.cli.main"
    try:
        done = subprocess.run(
            [sys.executable, "-c", probe], user=NOBODY, group=NOBODY, extra_groups=(), cwd="/", check=False,
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": "/nonexistent"},
        )  # fmt: skip
    except PermissionError as error:  # An interpreter below a home that is closed.
        return f"user nobody cannot run {error.filename}: take a Python outside of closed directories"
    return f"user nobody cannot run this Python: {done.stderr.strip().splitlines()[-1]}" if done.returncode else None


_JUDGED: Final = ".report.json.judged in the run directory"
"""The report of a run that is judged and not yet published."""
_FACTS_BEGUN: Final = ".part-*.partial in the run directory"
"""A file of facts that was written when the process was killed. The next command begins them anew."""


def faults() -> tuple[Fault, ...]:
    """All of them, in the table's order."""
    environment = frozenset({ENVIRONMENT})
    by_kill = frozenset({"process postgres", "temporary tidegauge-postgres-*", "temporary tidegauge-spark-*",
                         "temporary tmp*", "work in the run directory", _FACTS_BEGUN, _JUDGED})  # fmt: skip
    tries = frozenset({"work in the run directory", _JUDGED})
    """A run that was broken off may be gone on with, step by step: its work and verdict stay until it is published."""
    mounted = no_root() is None
    return (
        Fault(name="kill -9", what="the command is killed", meet=_signalled(signal.SIGKILL),
              codes=frozenset({-signal.SIGKILL}), unavoidable=by_kill),
        Fault(name="kill -9 of Postgres", what="its embedded Postgres is killed", meet=_killed("postgres"),
              codes=environment, unavoidable=tries),
        Fault(name="kill -9 of the JVM", what="Spark's JVM is killed", meet=_killed("java"), codes=environment,
              of_spark=True,
              unavoidable=tries | {"temporary tidegauge-spark-*", _FACTS_BEGUN}),
        Fault(name="kill -9 of the validation", what="the process in which Great Expectations runs is killed",
              meet=_killed("validation"), codes=environment, unavoidable=tries),
        Fault(name="SIGTERM", what="the command is told to end", meet=_signalled(signal.SIGTERM),
              codes=frozenset({143, -signal.SIGTERM}), unavoidable=tries),
        Fault(name="SIGHUP", what="its terminal goes away", meet=_signalled(signal.SIGHUP),
              codes=frozenset({129, -signal.SIGHUP}), unavoidable=tries),
        Fault(name="SIGINT", what="Ctrl-C", meet=_signalled(signal.SIGINT), codes=frozenset({130, -signal.SIGINT}),
              unavoidable=tries),
        Fault(name="disk full", what="a disk of 400 MB is filled: of the store, of the run or of temporary files"
              if mounted else "no file may grow (RLIMIT_FSIZE; a small disk takes root)",
              meet=_disk_full if mounted else _small_files, codes=environment, unavoidable=tries | {"filler"}),
        Fault(name="Postgres gone", what="a store of the user's own is stopped, fast or at once", meet=_postgres_gone,
              codes=environment, unavoidable=tries),
        Fault(name="clock ahead", what="the command's clock is up to 400 days ahead", meet=_clock(400),
              codes=frozenset(), unavoidable=tries, impossible=_no_faketime),
        Fault(name="clock back", what="the command's clock is up to 4000 days behind", meet=_clock(-4000),
              codes=frozenset({2}), unavoidable=tries, impossible=_no_faketime),
        Fault(name="read-only", what="the home, the store's data, the run directory or the snapshot is read-only",
              meet=_read_only, codes=environment, impossible=no_root, unavoidable=tries),
        Fault(name="another owner", what="the run directory, the server's directory or the logs are closed to who asks",
              meet=_another_owner, codes=frozenset({2, ENVIRONMENT}), user=NOBODY, impossible=cannot_become_nobody,
              unavoidable=tries),
        Fault(name="not root", what="user nobody audits", meet=_undisturbed, codes=frozenset(), user=NOBODY,
              impossible=cannot_become_nobody),
        Fault(name="three at once", what="two audits of one snapshot and one of another, in one home and store",
              meet=_three_at_once, codes=frozenset()),
    )  # fmt: skip
